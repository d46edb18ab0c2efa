-- What was done under an Idempotency-Key: one row per key, written in the transaction of the write itself, so that neither can be
-- without the other. A repeat waits on the primary key until the first is decided, and is then given its answer.
create table counterfoil.operation (
    tenant text collate "C" not null default '',
    key text collate "C" not null check (length(key) between 1 and 255),
    id uuid not null,
    -- Of the request: method, address, preconditions and canonical body.
    fingerprint bytea not null,
    status text not null default 'running' check (status in ('running', 'retryable', 'completed', 'rejected', 'blocked')),
    kind text not null,
    method text not null,
    path text not null,
    actor text not null,
    attempts integer not null default 1,
    -- What shows that it was done, or why it was not.
    evidence jsonb not null default '{}',
    response_status integer,
    response_headers jsonb,
    response_body bytea,
    created_at timestamptz not null default clock_timestamp(),
    completed_at timestamptz,
    expires_at timestamptz not null,
    primary key (tenant, key),
    unique (tenant, id),
    check (status not in ('completed', 'rejected') or response_status is not null)
) with (fillfactor = 80);
-- What may be purged, oldest first. Operations that wait for somebody are kept until they are settled.
create index operation_expired on counterfoil.operation (expires_at) where status in ('completed', 'rejected');
create index operation_blocked on counterfoil.operation (tenant, id) where status in ('retryable', 'blocked');

-- One small step of the purge. It passes by what somebody else holds; gives how many it let go.
create function counterfoil.purge_operations(batch integer) returns integer
language sql set search_path = pg_catalog, pg_temp as $fn$
    with expired as materialized (
        select o.tenant, o.key from counterfoil.operation o
         where o.expires_at < statement_timestamp() and o.status in ('completed', 'rejected')
         order by o.expires_at limit batch for update skip locked
    ), gone as (
        delete from counterfoil.operation o using expired e where o.tenant = e.tenant and o.key = e.key returning 1
    )
    select count(*)::integer from gone
$fn$;
