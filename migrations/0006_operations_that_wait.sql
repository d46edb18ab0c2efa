-- An operation is written down as `retryable` where an attempt came to nothing for a reason that is the service's or the database's own,
-- and as `blocked` once it did so too often. What is merely retryable left nothing behind, so it may be forgotten in time like one that is
-- completed; what is blocked waits for somebody.
drop index counterfoil.operation_expired;
create index operation_expired on counterfoil.operation (expires_at) where status in ('retryable', 'completed', 'rejected');

create or replace function counterfoil.purge_operations(batch integer) returns integer
language sql set search_path = pg_catalog, pg_temp as $fn$
    with expired as materialized (
        select o.tenant, o.key from counterfoil.operation o
         where o.expires_at < statement_timestamp() and o.status in ('retryable', 'completed', 'rejected')
         order by o.expires_at limit batch for update skip locked
    ), gone as (
        delete from counterfoil.operation o using expired e where o.tenant = e.tenant and o.key = e.key returning 1
    )
    select count(*)::integer from gone
$fn$;

-- For the role by which a server comes to its database: what whoever adopts may, and what the answers that are kept, the queues of
-- clients and the feed need. Table owners get none of this.
create function counterfoil.entrust_service(server regrole) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
    perform counterfoil.entrust(server);
    execute format('grant select, insert, update, delete on counterfoil.operation, counterfoil.sync_client, counterfoil.sync_mutation to %s', server);
    execute format('grant select, insert, update on counterfoil.feed, counterfoil.feed_floor to %s', server);
    execute format('grant select on counterfoil.migration to %s', server);
end $fn$;
