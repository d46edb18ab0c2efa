-- The feed: what a cursor over the change log needs to be told apart from one of another log.
create table counterfoil.feed (
    one boolean primary key default true check (one),
    -- Names the log as a whole. It changes when the database is restored, cloned or promoted, for from then on numbers of
    -- transactions may be given out a second time: every cursor ends.
    epoch bigint not null,
    -- With what cursors are signed; the same for all processes.
    secret bytea not null,
    -- Which database this was when the epoch began: cluster, timeline, database. NULL where the server does not tell.
    place text
);

create function counterfoil.random_bigint() returns bigint
language sql volatile set search_path = pg_catalog, pg_temp as $fn$
    select ('x' || right(replace(gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint
$fn$;

create function counterfoil.feed_place() returns text
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
    return (select c.system_identifier from pg_control_system() c)
        || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
        || '/' || (select d.oid from pg_database d where d.datname = current_database());
exception when others then
    -- A managed server may keep this to itself: then the operator says when a new epoch begins.
    return null;
end $fn$;

insert into counterfoil.feed (epoch, secret, place)
select counterfoil.random_bigint(),
       sha256(convert_to(string_agg(gen_random_uuid()::text, ''), 'UTF8')),
       counterfoil.feed_place()
from generate_series(1, 4);

-- Which log of its name a resource has: another one from when it is adopted anew or its history is switched on again, because
-- what was written in between is in none.
alter table counterfoil.resource add column log uuid not null default gen_random_uuid();

create function counterfoil.log_anew() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
    new.log := gen_random_uuid();
    return new;
end $fn$;

create trigger log_anew before update on counterfoil.resource
    for each row when (new.history and not old.history) execute function counterfoil.log_anew();

-- Ends every cursor that was given out. For operators, where a restored database cannot be told by itself.
create function counterfoil.new_epoch() returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
    fresh bigint := counterfoil.random_bigint();
begin
    update counterfoil.feed set epoch = fresh, place = counterfoil.feed_place();
    -- A place that this cluster has not come to yet is another cluster's. Nobody's cursor is older than the epoch, so all that is
    -- left to say is that the log is not whole.
    update counterfoil.feed_floor set xid = '1', seq = 0 where xid >= pg_snapshot_xmax(pg_current_snapshot());
    return fresh;
end $fn$;

-- The epoch; a new one where the database is not what it was when the last one began.
create function counterfoil.feed_epoch() returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
    here text := counterfoil.feed_place();
    known counterfoil.feed;
begin
    select * into known from counterfoil.feed;
    if here is null or here is not distinct from known.place then
        return known.epoch;
    end if;
    -- Several processes may find out at once.
    select * into known from counterfoil.feed for update;
    if known.place is null then
        update counterfoil.feed set place = here;
    elsif known.place <> here then
        return counterfoil.new_epoch();
    end if;
    return known.epoch;
end $fn$;

-- A restored log may hold numbers of transactions that this cluster has yet to give out. Such changes would come up among much
-- later ones; they are moved ahead of everything, to a number that no transaction has. One bounded step; gives how many it moved.
create function counterfoil.feed_settle(batch integer) returns integer
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $fn$
declare
    moved integer;
begin
    with alien as materialized (
        select c.resource, c.id, c.version from counterfoil.change c
         where c.xid >= pg_snapshot_xmax(pg_current_snapshot())
         order by c.xid desc, c.seq desc limit batch for update skip locked
    )
    update counterfoil.change c set xid = '2' from alien a
     where c.resource = a.resource and c.id = a.id and c.version = a.version;
    get diagnostics moved = row_count;
    return moved;
end $fn$;
