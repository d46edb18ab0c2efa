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

-- Up to which place changes were let go: what reads from before it would miss some.
create table counterfoil.feed_floor (
    resource text collate "C" primary key,
    xid xid8 not null,
    seq bigint not null
);

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

-- As before, but what a reader of the feed has yet to come to is left for a later sweep, and how far the purge came is written down.
create or replace function counterfoil.purge(
    resource text, keep_for interval, keep_versions integer, after_id text, after_version integer, batch integer,
    out next_id text, out next_version integer, out purged integer)
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
    with page as materialized (
        select c.id, c.version, c.op, c.at
          from counterfoil.change c
         where c.resource = purge.resource and (c.id, c.version) > (coalesce(after_id, ''), coalesce(after_version, -1))
         order by c.id, c.version
         limit batch
    ), expired as materialized (
        select c.id, c.version
          from page p
          join counterfoil.change c on c.resource = purge.resource and c.id = p.id and c.version = p.version
         where p.op <> 'delete'
           and c.xid < pg_snapshot_xmin(pg_current_snapshot())
           and exists (select from counterfoil.change n
                        where n.resource = purge.resource and n.id = p.id and n.version > p.version)
           and (p.at < statement_timestamp() - keep_for
                or keep_versions is not null and exists (select from counterfoil.change n
                            where n.resource = purge.resource and n.id = p.id and n.version > p.version
                            order by n.version offset greatest(keep_versions, 1) - 1 limit 1))
           for update of c skip locked
    ), gone as (
        delete from counterfoil.change c using expired e
         where c.resource = purge.resource and c.id = e.id and c.version = e.version
        returning c.xid, c.seq
    ), floor as (
        insert into counterfoil.feed_floor as f (resource, xid, seq)
        select purge.resource, g.xid, g.seq from gone g order by g.xid desc, g.seq desc limit 1
        on conflict on constraint feed_floor_pkey do update set xid = excluded.xid, seq = excluded.seq
        where (f.xid, f.seq) < (excluded.xid, excluded.seq)
    )
    select l.id, l.version, (select count(*) from gone)
      into next_id, next_version, purged
      from (select 1) one
      left join (select p.id, p.version from page p order by p.id desc, p.version desc limit 1) l on true;
end $fn$;
