-- What offline clients push: exactly once for each client and mutation, because the result is written in the transaction of the
-- write itself. The client's line is kept for ever; whoever pushes for a client holds it, so that its queue is applied in order.
create table counterfoil.sync_client (
    tenant text collate "C" not null default '',
    client_id uuid not null,
    -- All up to this one are decided.
    last_mutation_id bigint not null check (last_mutation_id >= 0),
    -- The client has the results up to this one.
    acknowledged bigint not null default 0,
    created_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp(),
    primary key (tenant, client_id),
    check (acknowledged <= last_mutation_id)
) with (fillfactor = 80);

create table counterfoil.sync_mutation (
    tenant text collate "C" not null default '',
    client_id uuid not null,
    id bigint not null check (id > 0),
    -- Of the mutation in its canonical form.
    fingerprint bytea not null,
    -- The record, where the mutation names one that can be.
    resource text,
    record_id text,
    -- The version that it came to, where it holds.
    version integer,
    -- Where that version holds changes of others too, which the client had not seen: the newest version that it had seen, and the
    -- row as it had it, where that is no version of the change log.
    seen_version integer,
    seen_row text,
    -- Its line in the answer, until the client has it.
    result text,
    expires_at timestamptz not null,
    primary key (tenant, client_id, id)
) with (fillfactor = 90);
create index sync_mutation_expired on counterfoil.sync_mutation (expires_at);

-- One small step of the purge. It passes by what somebody else holds, and touches no client's line; gives how many it let go.
create function counterfoil.purge_mutations(batch integer) returns integer
language sql set search_path = pg_catalog, pg_temp as $fn$
    with expired as materialized (
        select m.tenant, m.client_id, m.id from counterfoil.sync_mutation m
         where m.expires_at < statement_timestamp()
         order by m.expires_at limit batch for update skip locked
    ), gone as (
        delete from counterfoil.sync_mutation m using expired e
         where m.tenant = e.tenant and m.client_id = e.client_id and m.id = e.id returning 1
    )
    select count(*)::integer from gone
$fn$;
