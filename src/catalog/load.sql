WITH RECURSIVE used(relation, type) AS (
    SELECT a.attrelid, a.atttypid
      FROM counterfoil.resource AS r
      JOIN pg_attribute AS a ON a.attrelid = r.relation AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT used.relation, part.type
      FROM used
      JOIN pg_type AS t ON t.oid = used.type
     CROSS JOIN LATERAL (VALUES (t.typelem), (t.typbasetype)) AS part(type)
     WHERE part.type <> 0
)
SELECT counterfoil.fingerprint(), json_build_object(
    'types', (
        SELECT coalesce(json_agg(json_build_object(
            'oid', t.oid::int8,
            'name', t.typname,
            'builtin', t.typnamespace = 'pg_catalog'::regnamespace,
            'class', t.typtype,
            'category', t.typcategory,
            'element', t.typelem::int8,
            'base', t.typbasetype::int8,
            'modifier', t.typtypmod,
            'not_null', t.typnotnull,
            'labels', (
                SELECT coalesce(json_agg(e.enumlabel ORDER BY e.enumsortorder), '[]')
                  FROM pg_enum AS e WHERE e.enumtypid = t.oid)
        )), '[]')
          FROM (SELECT DISTINCT type FROM used) AS used JOIN pg_type AS t ON t.oid = used.type),
    'resources', (
        SELECT coalesce(json_agg(json_build_object(
            'name', r.name,
            'schema', n.nspname,
            'table', c.relname,
            'version_column', r.version_column,
            'history', r.history,
            'alone', c.relkind <> 'r' OR c.relhasrules OR c.relrowsecurity OR EXISTS (
                SELECT FROM pg_trigger AS t
                 WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'
                   AND t.tgname NOT LIKE 'zz\_counterfoil\_%')
                OR EXISTS (
                SELECT FROM pg_attrdef AS d
                 WHERE d.adrelid = c.oid AND pg_get_expr(d.adbin, d.adrelid) ~ 'current_setting')
                OR EXISTS (
                SELECT FROM pg_constraint AS k
                 WHERE k.contype = 'c' AND pg_get_expr(k.conbin, k.conrelid) ~ 'current_setting'
                   AND (k.conrelid = c.oid OR k.contypid IN (SELECT s.type FROM used AS s WHERE s.relation = c.oid)))
                OR EXISTS (
                -- A function of somebody's own may read one too.
                SELECT FROM pg_depend AS u
                  JOIN pg_proc AS p ON p.oid = u.refobjid
                  JOIN pg_language AS l ON l.oid = p.prolang AND l.lanname NOT IN ('internal', 'c')
                 WHERE u.refclassid = 'pg_proc'::regclass
                   AND (u.classid, u.objid) IN (
                        SELECT 'pg_attrdef'::regclass::oid, d.oid FROM pg_attrdef AS d WHERE d.adrelid = c.oid
                        UNION ALL
                        SELECT 'pg_constraint'::regclass::oid, k.oid FROM pg_constraint AS k
                         WHERE k.conrelid = c.oid OR k.contypid IN (SELECT s.type FROM used AS s WHERE s.relation = c.oid)))
                -- An update that takes rows of others along: their log knows the writers by the ids of this one.
                OR EXISTS (
                SELECT FROM pg_constraint AS f
                 WHERE f.confrelid = c.oid AND f.contype = 'f' AND f.confupdtype IN ('c', 'n', 'd')),
            'referred', EXISTS (
                SELECT FROM pg_constraint AS f
                 WHERE f.confrelid = c.oid AND f.contype = 'f' AND f.confdeltype IN ('c', 'n', 'd')),
            'log', r.log,
            'comment', obj_description(c.oid, 'pg_class'),
            'key', (
                SELECT json_agg(a.attname ORDER BY k.place)
                  FROM pg_index AS i
                 CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
                  JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.attnum
                 WHERE i.indrelid = c.oid AND i.indisprimary AND k.place <= i.indnkeyatts),
            'columns', (
                SELECT json_agg(json_build_object(
                    'name', a.attname,
                    'sql_type', format_type(a.atttypid, a.atttypmod),
                    'cast_type', format_type(a.atttypid, -1),
                    'canonical', counterfoil.canonical(a.atttypid, '{}'),
                    'type', a.atttypid::int8,
                    'modifier', a.atttypmod,
                    'not_null', a.attnotnull,
                    'default', CASE WHEN a.attgenerated <> '' THEN NULL
                                    WHEN a.attidentity <> '' THEN 'identity()'
                                    ELSE coalesce(pg_get_expr(d.adbin, d.adrelid), (
                                        SELECT t.typdefault FROM pg_type AS t
                                         WHERE t.oid = a.atttypid AND t.typtype = 'd')) END,
                    'managed', a.attgenerated <> '' OR a.attidentity = 'a',
                    'comment', col_description(c.oid, a.attnum)
                ) ORDER BY a.attnum)
                  FROM pg_attribute AS a
                  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
            'references', (
                SELECT coalesce(json_agg(json_build_object(
                    'columns', (
                        SELECT json_agg(a.attname ORDER BY k.place)
                          FROM unnest(f.conkey) WITH ORDINALITY AS k(attnum, place)
                          JOIN pg_attribute AS a ON a.attrelid = f.conrelid AND a.attnum = k.attnum),
                    'schema', fn.nspname,
                    'table', fc.relname,
                    'targets', (
                        SELECT json_agg(a.attname ORDER BY k.place)
                          FROM unnest(f.confkey) WITH ORDINALITY AS k(attnum, place)
                          JOIN pg_attribute AS a ON a.attrelid = f.confrelid AND a.attnum = k.attnum)
                ) ORDER BY f.conname), '[]')
                  FROM pg_constraint AS f
                  JOIN pg_class AS fc ON fc.oid = f.confrelid
                  JOIN pg_namespace AS fn ON fn.oid = fc.relnamespace
                 WHERE f.conrelid = c.oid AND f.contype = 'f' AND f.conparentid = 0)
        ) ORDER BY r.name), '[]')
          FROM counterfoil.resource AS r
          JOIN pg_class AS c ON c.oid = r.relation
          JOIN pg_namespace AS n ON n.oid = c.relnamespace)
)::text
