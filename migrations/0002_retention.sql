-- Up to which place changes were let go: what reads from before it would miss some.
create table counterfoil.feed_floor (
    resource text collate "C" primary key,
    xid xid8 not null,
    seq bigint not null
);

-- Purges what a resource's history need not keep: one bounded step through its log, from one place on. It deletes rows that no
-- writer touches again, so it never makes one wait; several purges at once pass each other by. The newest entry of every record
-- stays, and so does every deletion, for they carry the versions that must never come back. What a reader of the log in the order of
-- its transactions has yet to come to is left for a later sweep, and how far the purge came is written down.
create function counterfoil.purge(
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
