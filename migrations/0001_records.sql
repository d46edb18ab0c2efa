-- Versioned records: adoption of tables, the guard that raises versions, and the change log.
--
-- Who may do what. Nothing here is open to PUBLIC: without USAGE on schema counterfoil none of it can be
-- reached, and roles that merely write to an adopted table need no right on it at all, because the trigger
-- functions run as their owner. A table owner becomes able to adopt by `select counterfoil.entrust('role')`,
-- run by the owner of this schema. Entrusted roles share one log and can read and write all of it, so entrust
-- roles, not strangers. The trigger functions belong to the table's owner wherever possible: turning a row into
-- JSON can run casts which that owner wrote, and they must not run with anybody else's rights.
create schema if not exists counterfoil;

create table counterfoil.resource (
    name text primary key,
    relation regclass not null unique,
    version_column text not null default 'version',
    history boolean not null,
    version_added boolean not null,
    adopted_at timestamptz not null default now()
);

-- History, merge base, tombstones and feed in one. Readers page by (xid, seq) below pg_snapshot_xmin().
-- A feed page is complete, but two versions of one record may stand in it in either order, because a transaction
-- takes its xid before it waits for a row: the higher version wins.
create table counterfoil.change (
    resource text collate "C" not null,
    id text collate "C" not null,
    version integer not null,
    -- baseline, create, update or delete. No constraint says so: parsing it took 3 µs of every write.
    op text not null,
    doc json not null,
    -- Empty for a baseline, which has no origin either: nobody knows who wrote the row.
    "by" text not null,
    origin text,
    -- The two versions that a merge was made of; said by the statement that writes it.
    merged_from integer[] default nullif(current_setting('counterfoil.merged_from', true), '')::integer[],
    xid xid8 not null default pg_current_xact_id(),
    -- Each session draws 32 numbers at a time: order matters only within a transaction.
    seq bigint not null generated always as identity (cache 32),
    at timestamptz not null default clock_timestamp(),
    -- The operation that the change was made by; said by whoever writes it.
    operation uuid default nullif(current_setting('counterfoil.operation', true), '')::uuid,
    primary key (resource, id, version)
);
create index change_feed on counterfoil.change (xid, seq);

create function counterfoil.entrust(adopter regrole) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
    execute format('grant usage, create on schema counterfoil to %s', adopter);
    execute format('grant select, insert, update, delete on counterfoil.resource, counterfoil.change to %s', adopter);
end $fn$;

create function counterfoil.refuse(message text, hint text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
    raise exception using errcode = 'CF001', message = message, hint = hint;
end $fn$;

-- The name of a generated function. After the resource, not the table's oid: oids change on restore, and a stale
-- guard_16400() would then belong to whatever table has that oid now. Long names keep a digest, to stay distinct.
create function counterfoil.part_name(prefix text, resource text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $fn$
    select case when length(prefix || resource) <= 63 then prefix || resource
                else prefix || left(resource, 40) || '_' || left(md5(resource), 12) end
$fn$;

-- An insert found its id in the log at its own version or above. Either another session removed the record while
-- this insert waited for it (try again: the guard will then see the tombstone), or this very transaction logged
-- ahead, from a trigger that wrote the row again before the statement ended.
create function counterfoil.settle(relation regclass, res text, rec text, ver integer, op text, doc json) returns text
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $fn$
declare
    newest record;
    same_key text;
    live boolean := false;
begin
    if exists (select from counterfoil.change c
               where c.resource = res and c.id = rec and c.version >= ver and c.xid <> pg_current_xact_id()) then
        raise exception using errcode = '40001',
            message = format('record %s of %s was deleted by another transaction meanwhile', rec, res),
            hint = 'Run the transaction again.';
    end if;
    select c.version, c.op into newest from counterfoil.change c
        where c.resource = res and c.id = rec order by c.version desc limit 1;
    if newest.op = 'delete' and (newest.version > ver or op is null) then
        -- Deleted after this insert, or before it by the same statement? Only the table can tell.
        relation := coalesce(pg_partition_root(relation), relation);
        -- The equality of the key's own index, which may live in any schema.
        select string_agg(format('t.%1$I operator(%2$I.%3$s) d.%1$I', a.attname, s.nspname, o.oprname), ' and ')
            into same_key
            from pg_index i
            join unnest(i.indkey::int2[], i.indclass::oid[]) k(num, class) on true
            join pg_attribute a on a.attrelid = relation and a.attnum = k.num
            join pg_opclass p on p.oid = k.class
            join pg_amop m on m.amopfamily = p.opcfamily and m.amoplefttype = p.opcintype and m.amoprighttype = p.opcintype and m.amopstrategy = 3
            join pg_operator o on o.oid = m.amopopr
            join pg_namespace s on s.oid = o.oprnamespace
            where i.indrelid = relation and i.indisprimary;
        execute format('select exists (select from json_populate_record(null::%1$s, $1) d join %1$s t on %2$s)', relation, same_key)
            into live using doc;
    end if;
    if live then
        raise exception using errcode = 'CF002',
            message = format('record %s of %s is deleted and inserted in one statement', rec, res),
            hint = 'Use UPDATE, or two statements.';
    end if;
    return op;
end $fn$;

-- A log row is written twice for one version: see settle().
create function counterfoil.merge_op(old counterfoil.change, new_op text) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
    if old.xid = pg_current_xact_id() then
        if old.op = 'baseline' then return new_op; end if;
        if new_op = 'baseline' then return old.op; end if;
        if (old.op = 'delete') <> (new_op = 'delete') then return 'update'; end if;
    elsif new_op = 'baseline' then
        return old.op;
    elsif new_op = 'create' then
        raise exception using errcode = '40001',
            message = format('record %s of %s was written by another transaction meanwhile', old.id, old.resource),
            hint = 'Run the transaction again.';
    end if;
    raise exception using errcode = 'CF002',
        message = format('the change log already holds version %s of record %s of %s', old.version, old.id, old.resource),
        hint = 'counterfoil audit shows what went wrong; adopting the table again installs its triggers anew.';
end $fn$;

create function counterfoil.key_columns(relation regclass) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $fn$
    select array_agg(a.attname::text order by k.n)
    from pg_index i, unnest(i.indkey::int2[]) with ordinality k(num, n)
    join pg_attribute a on a.attnum = k.num
    where i.indrelid = relation and i.indisprimary and a.attrelid = relation and k.n <= i.indnkeyatts
$fn$;

-- The text of a value by which its record is known: one text for all spellings that are equal to it, so that a version cannot
-- begin anew under another one (1.0 and 1.00, -0 and 0, 24 hours and a day, A and a where case says nothing). As an SQL expression.
create function counterfoil.canonical(type oid, value text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $fn$
    with recursive base(oid, base) as (
        select t.oid, t.typbasetype from pg_type t where t.oid = type
        union all
        select t.oid, t.typbasetype from base b join pg_type t on t.oid = b.base
    )
    select case b.oid
           when 'numeric'::regtype then format('pg_catalog.trim_scale(%s)::text', value)
           when 'float4'::regtype then format('(%s operator(pg_catalog.+) 0::float4)::text', value)
           when 'float8'::regtype then format('(%s operator(pg_catalog.+) 0::float8)::text', value)
           when 'interval'::regtype then format('pg_catalog.justify_interval(%s)::text', value)
           else case when t.typname = 'citext' then format('pg_catalog.lower(%s::text)', value) else value || '::text' end end
      from base b join pg_type t on t.oid = b.oid where b.base = 0
$fn$;

-- Whether equal values of a type have one canonical text. Those inside of arrays, ranges, rows and jsonb have the one
-- that they were written with.
create function counterfoil.has_canonical(type oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $fn$
    with recursive inner_type(oid, within) as (
        select type, false
        union
        select part.oid, i.within or t.typtype <> 'd'
          from inner_type i join pg_type t on t.oid = i.oid, lateral (
              select t.typbasetype as oid where t.typtype = 'd'
              union all select t.typelem where t.typcategory = 'A'
              union all select r.rngsubtype from pg_range r where t.oid in (r.rngtypid, r.rngmultitypid)
              union all select a.atttypid from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
          ) part
    )
    select not exists (
        select from inner_type i join pg_type t on t.oid = i.oid
         where t.oid = 'jsonb'::regtype
            or i.within and (t.oid in ('numeric'::regtype, 'float4'::regtype, 'float8'::regtype, 'interval'::regtype) or t.typname = 'citext'))
$fn$;

-- SQL for the record id of the row called `row_name`. One column: its text. Several: joined by commas, with % and
-- the comma escaped inside the parts.

create function counterfoil.key_text(relation regclass, row_name text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $fn$
    select case when count(*) = 1 then min(part) else
        '(' || string_agg(case when plain then part
                          else format($$replace(replace(%s, '%%', '%%25'), ',', '%%2C')$$, part) end, $$ || ',' || $$ order by n)
            || ')' end
    from (select k.n, format('(%s collate "C")', counterfoil.canonical(a.atttypid, format('%s.%I', row_name, k.name))) as part,
                 a.atttypid in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype, 'bool'::regtype) as plain
          from unnest(counterfoil.key_columns(relation)) with ordinality k(name, n)
          join pg_attribute a on a.attrelid = relation and a.attname = k.name) p
$fn$;

-- Everything that adoption installs, as it should be now. adopt() runs it, audit() compares with it.
create function counterfoil.parts(relation regclass, resource text, history boolean, version_column text)
returns table (kind text, target regclass, name text, func text, body text, ddl text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $fn$
declare
    partitioned boolean := (select relkind = 'p' from pg_class where oid = relation);
    keys text[] := counterfoil.key_columns(relation);
    guard text := counterfoil.part_name('guard_', resource);
    bump text := counterfoil.part_name('bump_', resource);
    log text := counterfoil.part_name('log_', resource);
    moved text := counterfoil.part_name('move_', resource);
    v text := quote_ident(version_column);
    -- Plans are kept for the session. One made while the log was small, or for a bulk statement, must still suit a
    -- single row and a large log: no sequential scan, and no JIT.
    pinned text := 'set search_path = pg_catalog, pg_temp set enable_seqscan = off';
    -- What a row looks like as text must not depend on the session that writes it. All of these together cost
    -- about 1 microsecond a call, and a column added later may need any of them, so the log pins them always.
    -- The guard runs once per row and sees only the key, whose type cannot change while its triggers stand.
    styles text := ' set timezone = ''UTC'' set datestyle = ''ISO'' set intervalstyle = ''postgres'''
        ' set bytea_output = ''hex'' set extra_float_digits = 1';
    money text := '';
    guard_settings text;
    log_settings text;
    key_changed text;
    setup text;
    fields text := 'resource, id, version, op, doc, "by", origin, operation';
    -- One statement may carry the writes of several requests: writers then says, by record or for new records by
    -- their order, [actor, operation].
    actor text := 'case when writers is not null then coalesce(writers -> %1$s ->> 0, who)'
        ' when actors is not null then coalesce(actors ->> %1$s, who) else who end';
    deed text := 'case when writers is null then operation else (writers -> %s ->> 1)::uuid end';
    nth text := '(row_number() over ())::integer - 1';
    conflict text := ' on conflict (resource, id, version) do update set op = counterfoil.merge_op(c, excluded.op),'
        ' doc = case when excluded.op in (''baseline'', ''delete'') then c.doc else excluded.doc end';
    last_of text := '(select l.version from counterfoil.change l where l.resource = %s and l.id = %s order by l.version desc limit 1)';
    b text;
    trg record;
begin
    if exists (select from pg_attribute a where a.attrelid = relation and a.atttypid in ('money'::regtype, 'money[]'::regtype)) then
        money := ' set lc_monetary = ''C''';
    end if;
    log_settings := pinned || ' set jit = off' || styles || money;
    -- enum and text keys and the like need no styles; whatever is not known to be plain gets them.
    select pinned || case when bool_and(t.typtype = 'e' or a.atttypid = any ('{int2,int4,int8,text,varchar,bpchar,uuid,bool,numeric,name,oid,char}'::regtype[]))
                          then '' else styles || money end,
           string_agg(case
               when a.atttypid = any ('{text,varchar,bpchar}'::regtype[])
                   then format('(new.%1$I collate "C") operator(pg_catalog.<>) (old.%1$I collate "C")', a.attname)
               when a.atttypid = any ('{int2,int4,int8,float4,float8,uuid,bool,date,timestamp,timestamptz}'::regtype[])
                   then format('new.%1$I operator(pg_catalog.<>) old.%1$I', a.attname)
               -- Equal values may still read differently (1.0 and 1.00), and ids are text.
               else format('(new.%1$I::text collate "C") operator(pg_catalog.<>) (old.%1$I::text collate "C")', a.attname) end, ' or ' order by k.n)
        into guard_settings, key_changed
        from unnest(keys) with ordinality k(name, n)
        join pg_attribute a on a.attrelid = relation and a.attname = k.name
        join pg_type t on t.oid = a.atttypid;

    -- The column was set to something other than old + 1. Runs with the writer's own rights and search path, hence
    -- the qualified operator.
    kind := 'function';
    name := bump; func := null; target := null;
    body := format(E'\nbegin\n    new.%1$s := old.%1$s operator(pg_catalog.+) 1;\n    return new;\nend ', v);
    ddl := format('create or replace function counterfoil.%I() returns trigger language plpgsql as %L', name, body);
    return next;

    name := guard;
    body := format(E'%3$s\nbegin\n    new.%1$s := 1 + coalesce(%2$s, 0);\n', v,
                   format(last_of, quote_literal(resource), counterfoil.key_text(relation, 'new')),
                   case when partitioned then E'\ndeclare\n    moved text := current_setting(''counterfoil.moved'', true);' else '' end);
    -- rekeyed tells the log to pair old and new rows, which other updates need not pay for. moved carries the
    -- version over to the INSERT guard of another partition.
    body := body || format(E'    if tg_op = ''UPDATE'' then\n        new.%1$s := greatest(new.%1$s, old.%1$s + 1);\n'
        '        perform set_config(''counterfoil.rekeyed'', ''on'', true);\n', v);
    if partitioned then
        body := body || format(E'        perform set_config(''counterfoil.moved'', new.%1$s || %2$L || %3$s, true);\n'
            '    elsif substr(moved, strpos(moved, '':'')) = %2$L || %3$s then\n'
            '        new.%1$s := greatest(new.%1$s, split_part(moved, '':'', 1)::integer);\n',
            v, ':' || resource || ':', counterfoil.key_text(relation, 'new'));
    end if;
    body := body || E'    end if;\n    return new;\nend ';
    ddl := format('create or replace function counterfoil.%I() returns trigger language plpgsql security definer %s as %L',
                  name, guard_settings, body);
    return next;

    -- The table may have columns called like these variables.
    setup := $b$
#variable_conflict use_variable
declare
    who text := coalesce(nullif(current_setting('counterfoil.actor', true), ''), nullif(current_setting('role'), 'none'), session_user);
    actors jsonb := nullif(current_setting('counterfoil.actors', true), '');
    writers jsonb := nullif(current_setting('counterfoil.writers', true), '');
    operation uuid := nullif(current_setting('counterfoil.operation', true), '')::uuid;
    source text := nullif(current_setting('counterfoil.origin', true), '');
$b$;

    -- Row by row: for partitioned tables, whose partitions inherit only such triggers, and for changed keys of
    -- tables without history.
    if partitioned or not history then
        name := case when partitioned then log else moved end;
        b := setup || E'    old_id text;\n    new_id text;\n    kind text := ''create'';\nbegin\n';
        if partitioned then
            b := b || E'    if tg_op = ''TRUNCATE'' then\n%TRUNCATE%        return null;\n    end if;\n';
        end if;
        b := b || format(E'    if tg_op <> ''INSERT'' then\n        old_id := %s;\n    end if;\n    if tg_op <> ''DELETE'' then\n        new_id := %s;\n    end if;\n',
                    counterfoil.key_text(relation, 'old'), counterfoil.key_text(relation, 'new'));
        if history then
            b := b || format($b$    if tg_op <> 'INSERT' and not exists (
        select from counterfoil.change l where l.resource = %1$L and l.id = old_id and l.version = old.%2$s) then
        insert into counterfoil.change as c (%3$s)
        values (%1$L, old_id, old.%2$s, 'baseline', row_to_json(old), '', null, null)%5$s;
    end if;
    if old_id = new_id then
        insert into counterfoil.change as c (%3$s)
        values (%1$L, new_id, new.%2$s, 'update', row_to_json(new), %6$s, source, %7$s)%5$s;
        return null;
    end if;
$b$, resource, v, fields, format(actor, 'old_id'), conflict, format(actor, 'new_id'), format(deed, 'new_id'));
        else
            b := b || E'    if old_id = new_id then\n        return null;\n    end if;\n';
        end if;
        b := b || format($b$    if old_id is not null then
        insert into counterfoil.change as c (%3$s)
        values (%1$L, old_id, old.%2$s + 1, 'delete', row_to_json(old), %4$s, source, %8$s)%5$s;
    end if;
    if new_id is not null then
        if %6$s >= new.%2$s then
            kind := counterfoil.settle(tg_relid, %1$L, new_id, new.%2$s, %7$s, row_to_json(new));
        end if;
$b$, resource, v, fields, format(actor, 'old_id'), conflict, format(last_of, quote_literal(resource), 'new_id'),
            case when history then 'kind' else 'null' end, format(deed, 'old_id'));
        if history then
            b := b || format($b$        insert into counterfoil.change as c (%3$s)
        values (%1$L, new_id, new.%2$s, kind, row_to_json(new), %4$s, source, %6$s)%5$s;
$b$, resource, v, fields, format(actor, 'new_id'), conflict, format(deed, 'new_id'));
        end if;
        b := b || E'    end if;\n    return null;\nend ';
        body := b;
        if not partitioned then
            ddl := format('create or replace function counterfoil.%I() returns trigger language plpgsql security definer %s as %L',
                          name, log_settings, body);
            return next;
        end if;
    end if;

    -- Statement by statement: a group of rows is one insert.
    if not partitioned then
        b := setup || E'begin\n    if tg_op = ''TRUNCATE'' then\n%TRUNCATE%';
        if history then
            b := b || format($b$    elsif tg_op = 'INSERT' then
        insert into counterfoil.change as c (%1$s)
        select %2$L, %6$s, n.%4$s,
            case when %5$s >= n.%4$s then counterfoil.settle(tg_relid, %2$L, %6$s, n.%4$s, 'create', row_to_json(n.*)) else 'create' end,
            row_to_json(n.*), %3$s, source, %11$s
        from new_rows n%7$s;
    elsif tg_op = 'DELETE' then
        insert into counterfoil.change as c (%1$s)
        select %2$L, x.id, x.version, x.op, x.doc, case when x.op = 'baseline' then '' else %8$s end, case when x.op <> 'baseline' then source end, %12$s
        from (select %9$s as id, o.%4$s as version, 'baseline' as op, row_to_json(o.*) as doc
              from old_rows o
              where (select l.version from counterfoil.change l where l.resource = %2$L and l.id = %9$s and l.version = o.%4$s) is null
              union all
              select %9$s, o.%4$s + 1, 'delete', row_to_json(o.*) from old_rows o) x%7$s;
    elsif current_setting('counterfoil.rekeyed', true) = 'on' then
        insert into counterfoil.change as c (%1$s)
        with pair as materialized (
            select o.id as old_id, o.version as old_version, o.doc as old_doc, n.id as new_id, n.version as new_version, n.doc as new_doc
            from (select %9$s as id, o.%4$s as version, row_to_json(o.*) as doc from old_rows o) o
            full join (select %6$s as id, n.%4$s as version, row_to_json(n.*) as doc from new_rows n) n on n.id = o.id)
        select %2$L, x.id, x.version,
            case when x.op = 'create' and %10$s >= x.version then counterfoil.settle(tg_relid, %2$L, x.id, x.version, x.op, x.doc) else x.op end,
            x.doc, case when x.op = 'baseline' then '' else %8$s end, case when x.op <> 'baseline' then source end, %12$s
        from (select p.old_id as id, p.old_version as version, 'baseline' as op, p.old_doc as doc
              from pair p
              where p.old_id is not null
                and (select l.version from counterfoil.change l where l.resource = %2$L and l.id = p.old_id and l.version = p.old_version) is null
              union all
              select p.old_id, p.old_version + 1, 'delete', p.old_doc from pair p where p.new_id is null
              union all
              select p.new_id, p.new_version, case when p.old_id is null then 'create' else 'update' end, p.new_doc
              from pair p where p.new_id is not null) x%7$s;
    else
        insert into counterfoil.change as c (%1$s)
        select %2$L, x.id, x.version, x.op, x.doc, case when x.op = 'baseline' then '' else %8$s end, case when x.op <> 'baseline' then source end, %12$s
        from (select %9$s as id, o.%4$s as version, 'baseline' as op, row_to_json(o.*) as doc
              from old_rows o
              where (select l.version from counterfoil.change l where l.resource = %2$L and l.id = %9$s and l.version = o.%4$s) is null
              union all
              select %6$s, n.%4$s, 'update', row_to_json(n.*) from new_rows n) x%7$s;
$b$, fields, resource, format(actor, nth), v,
                format(last_of, quote_literal(resource), counterfoil.key_text(relation, 'n')), counterfoil.key_text(relation, 'n'),
                conflict, format(actor, 'x.id'), counterfoil.key_text(relation, 'o'), format(last_of, quote_literal(resource), 'x.id'),
                format(deed, nth), format(deed, 'x.id'));
        else
            b := b || format($b$    elsif tg_op = 'INSERT' then
        perform counterfoil.settle(tg_relid, %2$L, %5$s, n.%3$s, null, row_to_json(n.*)) from new_rows n where %4$s >= n.%3$s;
    else
        insert into counterfoil.change as c (%1$s)
        select %2$L, %6$s, o.%3$s + 1, 'delete', row_to_json(o.*), %7$s, source, %9$s from old_rows o%8$s;
$b$, fields, resource, v, format(last_of, quote_literal(resource), counterfoil.key_text(relation, 'n')),
                counterfoil.key_text(relation, 'n'), counterfoil.key_text(relation, 'o'),
                format(actor, counterfoil.key_text(relation, 'o')), conflict, format(deed, counterfoil.key_text(relation, 'o')));
        end if;
        b := b || E'    end if;\n    return null;\nend ';
        name := log;
    end if;
    -- Truncating a partitioned table fires this for the parent and for each partition.
    body := replace(b, '%TRUNCATE%', format(
        E'        execute format(%1$L, tg_relid::regclass) using who, actors, source, operation;\n',
        format('insert into counterfoil.change (%1$s) select %2$L, %3$s, o.%4$s + 1, ''delete'', row_to_json(o.*),'
               ' case when $2 is null then $1 else coalesce($2 ->> %3$s, $1) end, $3, $4 from %%s o on conflict do nothing',
               fields, resource, replace(counterfoil.key_text(relation, 'o'), '%', '%%'), replace(v, '%', '%%'))));
    ddl := format('create or replace function counterfoil.%I() returns trigger language plpgsql security definer %s as %L',
                  name, log_settings, body);
    return next;

    -- zz: triggers fire in order of name, and the guard must have the last word. update_key must follow update.
    kind := 'trigger';
    for trg in
        select * from (values
            ('zz_counterfoil_insert', 'before insert', 'for each row', guard, true),
            ('zz_counterfoil_update', 'before update',
                format('for each row when (new.%1$s is distinct from old.%1$s operator(pg_catalog.+) 1)', v), bump, true),
            ('zz_counterfoil_update_key', 'before update', format('for each row when (%s)', key_changed), guard, true),
            ('zz_counterfoil_log_row', 'after insert or update or delete', 'for each row', log, partitioned and history),
            ('zz_counterfoil_log_row', 'after insert or delete', 'for each row', log, partitioned and not history),
            ('zz_counterfoil_log_key', 'after update', format('for each row when (%s)', key_changed),
                case when partitioned then log else moved end, not history),
            ('zz_counterfoil_log_insert', 'after insert', 'referencing new table as new_rows for each statement', log, not partitioned),
            ('zz_counterfoil_log_update', 'after update',
                'referencing old table as old_rows new table as new_rows for each statement', log, not partitioned and history),
            ('zz_counterfoil_log_delete', 'after delete', 'referencing old table as old_rows for each statement', log, not partitioned),
            ('zz_counterfoil_truncate', 'before truncate', 'for each statement', log, true)
        ) x(name, event, rest, func, wanted) where wanted
    loop
        name := trg.name; func := trg.func; body := null;
        for target in
            select relation
            union all
            select p.relid from pg_partition_tree(relation) p join pg_class c on c.oid = p.relid
            where trg.event = 'before truncate' and p.level > 0 and c.relkind in ('r', 'p')
        loop
            ddl := format('create or replace trigger %I %s on %s %s execute function counterfoil.%I()',
                          trg.name, trg.event, target, trg.rest, trg.func);
            return next;
        end loop;
    end loop;
end $fn$;

create function counterfoil.drop_parts(resource text, keep text[]) returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
    old record;
    dropped integer := 0;
begin
    for old in
        select p.oid, p.proname from pg_proc p
        where p.pronamespace = 'counterfoil'::regnamespace and p.pronargs = 0 and p.prorettype = 'trigger'::regtype
          and p.proname = any (array[counterfoil.part_name('guard_', resource), counterfoil.part_name('bump_', resource),
                                     counterfoil.part_name('log_', resource), counterfoil.part_name('move_', resource)])
    loop
        declare
            trg record;
        begin
            for trg in select t.tgname, t.tgrelid::regclass as rel from pg_trigger t
                       where t.tgfoid = old.oid and t.tgparentid = 0
                         and not format('%s.%s', t.tgrelid, t.tgname) = any (keep)
            loop
                execute format('drop trigger %I on %s', trg.tgname, trg.rel);
                dropped := dropped + 1;
            end loop;
        end;
        if not exists (select from pg_trigger t where t.tgfoid = old.oid) then
            execute format('drop function counterfoil.%I()', old.proname);
        end if;
    end loop;
    return dropped;
end $fn$;

-- The log knows this resource from earlier: from before a release, or from before history was switched off. Bring
-- both together, so that no version goes back and the log's newest row is the row.
create function counterfoil.reconcile(relation regclass, resource text, history boolean, version_column text, unguarded boolean)
returns text language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
    key text := counterfoil.key_text(relation, 't');
    newest text := format('(select distinct on (id) id, version, op, doc from counterfoil.change where resource = %L order by id, version desc)', resource);
    who text := coalesce(nullif(current_setting('counterfoil.actor', true), ''), nullif(current_setting('role'), 'none'), session_user);
    raised bigint := 0;
    gone bigint := 0;
    noted bigint := 0;
begin
    if not exists (select from counterfoil.change c where c.resource = reconcile.resource) then
        return null;
    end if;
    if unguarded then
        execute format('update %1$s t set %2$I = l.version + 1 from %3$s l where %4$s = l.id and (t.%2$I < l.version'
                       ' or t.%2$I = l.version and (l.op = ''delete'' or row_to_json(t.*)::text <> l.doc::text))',
                       relation, version_column, newest, key);
        get diagnostics raised = row_count;
    end if;
    execute format('insert into counterfoil.change (resource, id, version, op, doc, "by") select %1$L, l.id, l.version + 1, ''delete'', l.doc, $1'
                   ' from %2$s l where l.op <> ''delete'' and not exists (select from %3$s t where %4$s = l.id)',
                   resource, newest, relation, key) using who;
    get diagnostics gone = row_count;
    if history then
        execute format('insert into counterfoil.change (resource, id, version, op, doc, "by") select %1$L, l.id, t.%5$I, ''baseline'', row_to_json(t.*), $1'
                       ' from %2$s l join %3$s t on %4$s = l.id where t.%5$I > l.version',
                       resource, newest, relation, key, version_column) using who;
        get diagnostics noted = row_count;
    end if;
    return format('log: known from earlier; %s versions raised, %s missing rows marked deleted, %s rows noted', raised, gone, noted);
end $fn$;

-- Makes a table a resource. May be repeated: that changes the history flag and renews what the columns require.
create function counterfoil.adopt(relation regclass, name text default null, history boolean default true, version_column text default 'version')
returns setof text language plpgsql
set search_path = pg_catalog, pg_temp set lock_timeout = '3s'
set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'postgres' set bytea_output = 'hex' set extra_float_digits = 1
as $fn$
#variable_conflict use_variable
declare
    rel record;
    known record;
    col record;
    part record;
    parent regclass;
    added boolean := false;
    keep text[] := '{}';
    step text;
    give_away boolean;
begin
    history := coalesce(history, true);
    version_column := coalesce(version_column, 'version');
    select c.oid, c.relname, c.relkind, c.relpersistence, c.relispartition, c.relowner, n.nspname,
           format('%I.%I', n.nspname, c.relname) as shown
        into rel from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
    if not found then
        perform counterfoil.refuse('there is no such table', 'Name an existing table, as schema.table.');
    end if;
    if rel.nspname in ('counterfoil', 'information_schema') or rel.nspname like 'pg\_%' and rel.relpersistence <> 't' then
        perform counterfoil.refuse(format('%s belongs to the system', rel.shown), 'Adopt tables of your own schemas.');
    elsif rel.relkind not in ('r', 'p') then
        perform counterfoil.refuse(
            format('%s is a %s, not a table', rel.shown,
                   case rel.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' when 'S' then 'sequence'
                       when 'i' then 'index' when 'I' then 'index' when 'c' then 'composite type' else 'relation of another kind' end),
            'Adopt the table that holds the rows.');
    elsif rel.relpersistence = 't' then
        perform counterfoil.refuse(format('%s is a temporary table', rel.shown), 'Only lasting tables can be resources.');
    end if;
    if not pg_has_role(current_user, rel.relowner, 'usage') then
        perform counterfoil.refuse(format('only the owner of %s may adopt it', rel.shown),
            format('Run this as role %s.', pg_get_userbyid(rel.relowner)));
    elsif not (has_table_privilege('counterfoil.resource', 'insert') and has_table_privilege('counterfoil.change', 'insert')
               and has_schema_privilege('counterfoil', 'create')) then
        perform counterfoil.refuse(format('role %s has not been entrusted with adoption', current_user),
            format('The owner of schema counterfoil runs: select counterfoil.entrust(%L)', current_user));
    end if;

    -- One adoption at a time. Two at once would both find the name free, and would get into each other's way over the functions and
    -- the grants that they make, in words that nobody understands. Ahead of the table's own lock everywhere, so that there is no deadlock.
    lock table counterfoil.resource in share row exclusive mode;
    -- One strong lock at once where the column is missing: a weaker one first would invite a deadlock.
    if exists (select from pg_attribute a where a.attrelid = relation and a.attname = version_column) then
        execute format('lock table only %s in share row exclusive mode', relation);
    else
        execute format('lock table only %s in access exclusive mode', relation);
    end if;

    if rel.relispartition then
        parent := pg_partition_root(relation);
        perform counterfoil.refuse(format('%s is a partition of %s', rel.shown, parent), format('Adopt the parent, %s.', parent));
    elsif exists (select from pg_inherits i join pg_class c on c.oid = i.inhrelid
                  where i.inhrelid = relation or i.inhparent = relation and not c.relispartition) then
        perform counterfoil.refuse(format('%s takes part in table inheritance', rel.shown),
            'Inherited tables share no primary key, so their rows have no one identity. Use declarative partitioning.');
    end if;

    select r.name, r.version_column, r.history, r.version_added into known from counterfoil.resource r where r.relation = relation;
    if found then
        if name is not null and name <> known.name then
            perform counterfoil.refuse(format('%s is already adopted as %s', rel.shown, known.name),
                format('Release %s first, or leave the name out.', known.name));
        elsif version_column <> known.version_column then
            perform counterfoil.refuse(format('%s is already adopted with the version column %I', rel.shown, known.version_column),
                format('Name that column (--version-column), or release %s first.', known.name));
        end if;
        name := known.name;
    else
        name := coalesce(name, rel.relname);
    end if;
    if name !~ '^[a-z][a-z0-9_]{0,62}$' then
        perform counterfoil.refuse(format('"%s" cannot be the name of a resource', name),
            'Give one of lower-case letters, digits and underscores that starts with a letter (--name).');
    elsif name in ('batch', 'sync', 'leases', 'runs', 'operations', 'effects', 'hooks', 'steps', 'receipts', 'timers', 'healthz') then
        perform counterfoil.refuse(format('the name "%s" is taken by the service itself', name), 'Give another name (--name).');
    end if;
    if known is null then
        select r.relation, c.oid into part from counterfoil.resource r left join pg_class c on c.oid = r.relation where r.name = name;
        if found and part.oid is not null then
            perform counterfoil.refuse(format('the name "%s" is already used by %s', name, part.relation), 'Give another name (--name).');
        elsif found then
            delete from counterfoil.resource r where r.name = name;
            return next 'registration: replaced that of a dropped table';
        end if;
    end if;

    if counterfoil.key_columns(relation) is null then
        perform counterfoil.refuse(format('%s has no primary key', rel.shown), 'Add one: it is what names a record.');
    elsif version_column = any (counterfoil.key_columns(relation)) then
        perform counterfoil.refuse(format('column %I is part of the primary key of %s', version_column, rel.shown),
            'Name another column for the version (--version-column).');
    elsif exists (select from unnest(counterfoil.key_columns(relation)) k(name)
                  join pg_attribute a on a.attrelid = relation and a.attname = k.name
                  join pg_collation l on l.oid = a.attcollation and not l.collisdeterministic) then
        perform counterfoil.refuse(format('the primary key of %s has a nondeterministic collation', rel.shown),
            'Texts that differ would name the same record, and its versions could not be told from another''s. Use a deterministic collation.');
    elsif exists (select from unnest(counterfoil.key_columns(relation)) k(name)
                  join pg_attribute a on a.attrelid = relation and a.attname = k.name and not counterfoil.has_canonical(a.atttypid)) then
        perform counterfoil.refuse(format('the primary key of %s is of a type whose equal values can be written in several ways', rel.shown),
            'One record would be known by several texts, and its versions could begin anew under another. Make the key of plain columns.');
    elsif exists (select from pg_attribute a where a.attrelid = relation and a.attgenerated <> '' and a.attname = any (counterfoil.key_columns(relation))) then
        perform counterfoil.refuse(format('the primary key of %s is a generated column', rel.shown),
            'The key must be known before the row is stored. Fill the column with a default or a trigger instead.');
    elsif version_column = '' or octet_length(version_column) > 63 then
        perform counterfoil.refuse('the name of the version column must have 1 to 63 bytes', 'Name another column (--version-column).');
    end if;

    select a.attnum, a.atttypid, a.attnotnull, a.atthasdef, a.attidentity, a.attgenerated, format_type(a.atttypid, a.atttypmod) as type
        into col from pg_attribute a where a.attrelid = relation and a.attname = version_column and not a.attisdropped;
    if not found then
        execute format('alter table %s add column %I integer not null default 1', relation, version_column);
        added := true;
        return next format('column %I: added', version_column);
    elsif col.attnum < 0 or col.atttypid <> 'int4'::regtype or not col.attnotnull or col.attidentity <> '' or col.attgenerated <> '' then
        perform counterfoil.refuse(
            format('column %I of %s has another meaning: it is %s', version_column, rel.shown,
                   case when col.attnum < 0 then 'a system column' when col.attgenerated <> '' then 'generated' when col.attidentity <> '' then 'an identity column'
                        else col.type || case when col.attnotnull then ' not null' else '' end || ', not integer not null' end),
            'Name another column for the version (--version-column).');
    elsif not col.atthasdef then
        execute format('alter table %s alter column %I set default 1', relation, version_column);
        return next format('column %I: found, default 1 set', version_column);
    else
        return next format('column %I: found', version_column);
    end if;

    if known is null or history and not known.history then
        step := counterfoil.reconcile(relation, name, history, version_column,
            not exists (select from pg_trigger t where t.tgrelid = relation and t.tgname = 'zz_counterfoil_update'));
        if step is not null then
            return next step;
        end if;
    end if;

    give_away := (select s.rolsuper and not o.rolsuper from pg_roles s, pg_roles o where s.rolname = current_user and o.oid = rel.relowner);
    if give_away then
        perform counterfoil.entrust(rel.relowner::regrole);
        return next format('owner %s: entrusted with the log', pg_get_userbyid(rel.relowner));
    end if;
    for part in select * from counterfoil.parts(relation, name, history, version_column) loop
        execute part.ddl;
        if part.kind = 'trigger' then
            keep := keep || format('%s.%s', part.target::oid, part.name);
        else
            -- Whoever could put a log function on a table of his own would write the log in its owner's name.
            execute format('revoke all on function counterfoil.%I() from public', part.name);
            if give_away then
                execute format('alter function counterfoil.%I() owner to %I', part.name, pg_get_userbyid(rel.relowner));
            end if;
        end if;
    end loop;
    perform counterfoil.drop_parts(name, keep);
    return next 'guard: installed';
    return next case when history then 'log: installed, with history' else 'log: installed, deletions only' end;

    if known is null then
        insert into counterfoil.resource (name, relation, version_column, history, version_added)
        values (name, relation, version_column, history, added);
        return next format('resource %s: registered for %s', name, rel.shown);
    else
        update counterfoil.resource r set history = adopt.history, version_added = known.version_added or added where r.name = adopt.name;
        return next format('resource %s: already registered for %s', name, rel.shown);
    end if;
end $fn$;

-- Undoes adoption. The version column and the log stay, so that a later adoption can continue the versions.
-- drop_version removes both, where it was adoption that added the column.
create function counterfoil.release(name text, drop_version boolean default false)
returns setof text language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $fn$
declare
    known record;
begin
    select r.name, r.relation, r.version_column, r.version_added, c.oid, c.relowner
        into known from counterfoil.resource r left join pg_class c on c.oid = r.relation where r.name = release.name;
    if not found then
        perform counterfoil.refuse(format('there is no resource named "%s"', name), 'counterfoil.resource lists those there are.');
    elsif known.oid is not null and not pg_has_role(current_user, known.relowner, 'usage') then
        perform counterfoil.refuse(format('only the owner of %s may release it', known.relation),
            format('Run this as role %s.', pg_get_userbyid(known.relowner)));
    end if;
    lock table counterfoil.resource in share row exclusive mode;
    if known.oid is not null then
        execute format('lock table only %s in access exclusive mode', known.relation);
    end if;
    perform counterfoil.drop_parts(known.name, '{}');
    return next 'triggers and functions: removed';
    delete from counterfoil.resource r where r.name = known.name;
    return next format('resource %s: no longer registered', known.name);
    if drop_version and known.version_added then
        if known.oid is not null then
            execute format('alter table %s drop column if exists %I', known.relation, known.version_column);
            return next format('column %I: dropped', known.version_column);
        end if;
        -- Without the column every version would start again, and the log would contradict it.
        delete from counterfoil.change c where c.resource = known.name;
        return next 'log: removed';
    elsif drop_version then
        return next format('column %I and log: kept, because the column was there before adoption', known.version_column);
    else
        return next format('column %I and log: kept', known.version_column);
    end if;
end $fn$;

create function counterfoil.release(relation regclass, drop_version boolean default false)
returns setof text language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
    found_name text := (select r.name from counterfoil.resource r where r.relation = release.relation);
begin
    if found_name is null then
        perform counterfoil.refuse(format('%s is not adopted', relation), 'counterfoil.resource lists the tables that are.');
    end if;
    return query select * from counterfoil.release(found_name, drop_version);
end $fn$;

-- RFC 7396.
create function counterfoil.json_merge_patch(target jsonb, patch jsonb) returns jsonb
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $fn$
begin
    if patch is null then
        return target;
    elsif jsonb_typeof(patch) <> 'object' then
        return patch;
    elsif target is null or jsonb_typeof(target) <> 'object' then
        target := '{}';
    end if;
    return coalesce((
        select jsonb_object_agg(m.key, m.value) from (
            select t.key, t.value from jsonb_each(target) t where not patch ? t.key
            union all
            select p.key, case when jsonb_typeof(p.value) = 'object' then counterfoil.json_merge_patch(target -> p.key, p.value) else p.value end
            from jsonb_each(patch) p where jsonb_typeof(p.value) <> 'null') m), '{}');
end $fn$;

-- The first key of body whose value its column cannot hold. Asked only after a write failed, so it may be slow.
create function counterfoil.invalid_field(relation regclass, body json) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
    field record;
    has_nul boolean := body::text like '%\u0000%';
begin
    if json_typeof(body) is distinct from 'object' then
        return null;
    end if;
    -- No text can hold U+0000, and json_each() would stumble over it: a stand-in marks the place.
    if has_nul then
        body := regexp_replace(body::text, '(?<!\\)((?:\\\\)*)\\u0000', '\1\uE000\uE001\uE000', 'g')::json;
    end if;
    for field in
        select b.key, b.value, a.attnotnull, format_type(a.atttypid, a.atttypmod) as type
        from json_each(body) with ordinality b(key, value, n)
        join pg_attribute a on a.attrelid = relation and a.attname::text = b.key and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        order by b.n
    loop
        if field.attnotnull and json_typeof(field.value) = 'null' then
            return field.key;
        elsif has_nul and field.value::text like '%\\uE000\\uE001\\uE000%' and field.type <> 'json' then
            return field.key;
        end if;
        begin
            execute format('select x from json_to_record($1) as x(%I %s)', field.key, field.type)
                using json_build_object(field.key, field.value);
        exception when others then
            return field.key;
        end;
    end loop;
    return null;
end $fn$;

-- What must hold, as questions. No rows means that all of it does.
create function counterfoil.audit() returns table (resource text, id text, problem text)
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'postgres' set bytea_output = 'hex' set extra_float_digits = 1
as $fn$
#variable_conflict use_column
declare
    known record;
begin
    for known in select r.*, c.oid from counterfoil.resource r left join pg_class c on c.oid = r.relation order by r.name loop
        if known.oid is null then
            return query select known.name, null::text, 'the table is gone'::text;
            continue;
        elsif counterfoil.key_columns(known.relation) is null then
            return query select known.name, null::text, 'the table has lost its primary key'::text;
            continue;
        elsif not exists (select from pg_attribute a where a.attrelid = known.relation and a.attname = known.version_column and not a.attisdropped) then
            return query select known.name, null::text, 'the table has lost its version column'::text;
            continue;
        end if;

        return query
            with parts as materialized (
                select * from counterfoil.parts(known.relation, known.name, known.history, known.version_column)),
            functions as (
                select p.name, p.body, f.oid, f.prosrc
                from parts p
                left join pg_proc f on f.pronamespace = 'counterfoil'::regnamespace and f.proname = p.name and f.pronargs = 0
                where p.kind = 'function'),
            -- Row triggers have a twin on every partition, and each can be disabled by itself.
            triggers as (
                select t.rel, p.name, p.func
                from parts p, lateral (
                    select p.target as rel
                    union
                    select tree.relid from pg_partition_tree(p.target) tree where p.ddl like '% for each row %') t
                where p.kind = 'trigger'
                  -- A partition attached later has none for TRUNCATE; what that lost shows among the rows.
                  and (p.ddl not like '% before truncate %' or p.target = known.relation))
            select known.name, null::text, case when f.oid is null then format('function %s is missing', f.name)
                                                else format('function %s is out of date: adopt the table again', f.name) end
            from functions f where f.prosrc is distinct from f.body
            union all
            select known.name, null::text,
                   case when g.oid is null then format('trigger %s is missing on %s', t.name, t.rel)
                        when g.tgenabled not in ('O', 'A') then format('trigger %s is disabled on %s', t.name, t.rel)
                        else format('trigger %s on %s calls another function', t.name, t.rel) end
            from triggers t
            left join functions f on f.name = t.func
            left join pg_trigger g on g.tgrelid = t.rel and g.tgname = t.name
            where g.oid is null or g.tgenabled not in ('O', 'A') or g.tgfoid is distinct from f.oid;

        return query execute format($q$
            with newest as (
                select distinct on (c.id) c.id, c.version, c.op from counterfoil.change c where c.resource = %1$L order by c.id, c.version desc),
            live as (select %2$s as id, t.%3$I as version from %4$s t)
            select %1$L::text, coalesce(l.id, n.id), case
                when l.id is null then format('the row is gone, but its newest log entry is the %%s of version %%s', n.op, n.version)
                when l.version <= 0 then format('version %%s is not above zero', l.version)
                when n.op = 'delete' and l.version <= n.version then format('the row exists at version %%s, but the log has it deleted at %%s', l.version, n.version)
                else format('the row is at version %%s, its newest log entry at %%s', l.version, n.version) end
            from live l full join newest n on n.id = l.id
            where l.id is null and n.op <> 'delete'
               or l.version <= 0
               or n.op = 'delete' and l.version <= n.version
               or l.version < n.version
               or %5$L::boolean and l.version <> n.version
            order by 2$q$,
            known.name, counterfoil.key_text(known.relation, 't'), known.version_column, known.relation, known.history);

        return query
            select known.name, c.id,
                   case when c.xid = c.before_xid and c.seq < c.before_seq and c.xid > '2'
                        then format('versions %s and %s stand in the log in the wrong order', c.before, c.version)
                        else format('the log has version %s after %s, and nothing between', c.version, c.before) end
            from (select l.id, l.version, l.op, l.xid, l.seq,
                         lag(l.version) over w as before, lag(l.op) over w as before_op, lag(l.xid) over w as before_xid, lag(l.seq) over w as before_seq
                  from counterfoil.change l where l.resource = known.name
                  window w as (partition by l.id order by l.version)) c
            -- Without history, and before a baseline, versions pass unlogged; a pruned log keeps its tombstones. Changes of a
            -- restored log may share the number 2, which no transaction has.
            where c.op = 'update' and c.version <> c.before + 1 and c.before_op <> 'delete'
               or c.xid = c.before_xid and c.seq < c.before_seq and c.xid > '2'
            order by c.id, c.version;
    end loop;
end $fn$;

-- A text that changes with anything a server has learned about the adopted tables. Per catalogue it is the number of
-- rows and the sum of their xmin. That cannot repeat: a new row has a higher xmin than any row it could replace.
-- PL/pgSQL because its plans are kept: a server asks every second.
create function counterfoil.fingerprint() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $fn$
declare
    rels oid[];
    types oid[];
    schemas oid[];
    answer text;
begin
    select array_agg(r.relation::oid) into rels from counterfoil.resource r;
    select array_agg(distinct c.relnamespace) into schemas from pg_class c where c.oid = any (rels);
    select array_agg(r.oid) into types from (
        with recursive t(oid) as (
            select distinct a.atttypid from pg_attribute a where a.attrelid = any (rels) and a.attnum > 0 and not a.attisdropped
            union
            select x.oid from t join pg_type p on p.oid = t.oid, lateral (
                select p.typelem union all select p.typbasetype
                union all select a.atttypid from pg_attribute a where p.typrelid <> 0 and a.attrelid = p.typrelid and a.attnum > 0
                union all select g.rngsubtype from pg_range g where g.rngtypid = p.oid or g.rngmultitypid = p.oid) x(oid)
            where t.oid >= 16384 or p.typelem >= 16384)
        select t.oid from t where t.oid >= 16384) r;
    select string_agg(s.part, ' ') into answer from (
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) as part from counterfoil.resource
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_class where oid = any (rels)
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_namespace where oid = any (schemas)
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_attribute where attrelid = any (rels) and attnum > 0
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_attrdef where adrelid = any (rels)
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_constraint where conrelid = any (rels)
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_index where indrelid = any (rels)
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_trigger where tgrelid = any (rels)
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_inherits where inhparent = any (rels)
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_description
        where objoid = any (rels || types) and classoid in ('pg_class'::regclass, 'pg_type'::regclass)
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_type where oid = any (types)
        union all
        select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from pg_enum where enumtypid = any (types)
        union all
        select count(*) || ':' || coalesce(sum(c.xmin::text::bigint), 0) from pg_constraint c where c.contypid = any (types)
        union all
        select count(*) || ':' || coalesce(sum(a.xmin::text::bigint), 0) from pg_attribute a
        where a.attnum > 0 and a.attrelid in (select t.typrelid from pg_type t where t.oid = any (types) and t.typrelid <> 0)
    ) s;
    return md5(answer);
end $fn$;
