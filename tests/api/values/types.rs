//! The column types that PostgreSQL ships, in groups, with values that are hard to keep.

/// A table of one group: each column's type and its values as SQL, one per row.
pub(super) struct Group {
    /// What must be there before the table.
    pub(super) before: &'static str,
    pub(super) columns: &'static [(&'static str, &'static [&'static str])],
}

pub(super) const NUMBERS: Group = Group {
    before: "",
    columns: &[
        ("smallint", &["-32768", "32767", "0"]),
        ("integer", &["-2147483648", "2147483647"]),
        ("bigint", &["-9223372036854775808", "9223372036854775807", "9007199254740993"]),
        (
            "numeric",
            &[
                "123456789012345678901234567890.123456789012345678901234567890",
                "'NaN'",
                "'Infinity'",
                "'-Infinity'",
                "1.50",
                "0.00",
                "10::numeric ^ 1000",
                "'1e-1000'",
            ],
        ),
        ("numeric(10,2)", &["12.30", "-99999999.99", "'NaN'"]),
        ("numeric(3,3)", &["0.999", "-0.100"]),
        (
            "real",
            &["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "0.1", "'1e-45'", "'3.4028235e38'"],
        ),
        (
            "double precision",
            &[
                "'NaN'",
                "'Infinity'",
                "'-Infinity'",
                "'-0'",
                "0.1",
                "'5e-324'",
                "'1.7976931348623157e308'",
                "0.30000000000000004",
            ],
        ),
        ("money", &["'-92233720368547758.08'", "'1234.50'", "0"]),
        ("boolean", &["true", "false"]),
    ],
};

pub(super) const TEXTS: Group = Group {
    before: "",
    columns: &[
        (
            "text",
            &[
                "''",
                "'ä€𝄞\u{10ffff}\u{feff}\u{2028}'",
                "E'\\\\ \" / \\b\\f\\n\\r\\t\\x01\\x1f\\x7f'",
                "'null'",
                "'{\"a\":1}'",
                "'e\u{301}'",
                "repeat('x', 70000)",
                "'\\u0041 \\\\u0000'",
                "' padded '",
            ],
        ),
        ("varchar", &["''", "'äöü'"]),
        ("varchar(5)", &["'abcde'", "'äöü€𝄞'", "'a    '"]),
        ("char(5)", &["'ab'", "''", "'äöü€𝄞'"]),
        ("char", &["'x'", "''", "' '"]),
        ("\"char\"", &["'x'", "''", "'\\377'", "'\"'"]),
        ("name", &["'a name'", "''", "repeat('n', 63)"]),
        ("bytea", &["'\\x'", "'\\x00ff5c27'", "'\\xdeadbeef'"]),
        (
            "uuid",
            &["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "'00000000-0000-0000-0000-000000000000'"],
        ),
        ("xml", &["'<a b=\"1\">x &amp; y</a>'", "''"]),
        ("refcursor", &["'c1'"]),
    ],
};

pub(super) const TIMES: Group = Group {
    before: "",
    columns: &[
        (
            "date",
            &[
                "'2026-11-30'",
                "'infinity'",
                "'-infinity'",
                "'0044-03-15 BC'",
                "'4713-01-01 BC'",
                "'5874897-12-31'",
                "'0001-01-01'",
            ],
        ),
        ("time", &["'00:00'", "'24:00'", "'23:59:59.999999'"]),
        ("time(0)", &["'12:30:15'"]),
        ("timetz", &["'12:00:00.000001+05:30'", "'24:00-15:59'", "'00:00+15:59:59'"]),
        (
            "timestamp",
            &[
                "'2026-11-30 09:12:44.120031'",
                "'infinity'",
                "'-infinity'",
                "'294276-12-31 23:59:59.999999'",
                "'4713-01-01 00:00 BC'",
                "'0044-03-15 12:00 BC'",
            ],
        ),
        ("timestamp(3)", &["'2026-11-30 09:12:44.120'"]),
        (
            "timestamptz",
            &[
                "'2026-11-30 09:12:44.000001+13:45'",
                "'infinity'",
                "'-infinity'",
                "'294276-12-31 23:59:59.999999+00'",
                "'4713-01-01 00:00+00 BC'",
            ],
        ),
        (
            "interval",
            &[
                "'1 year -2 mons 3 days -04:05:06.000007'",
                "'0'",
                "'178000000 years'",
                "'-0.000001 s'",
                "'999999999 days 2562047788:00:54.775807'",
            ],
        ),
        ("interval day to second(3)", &["'3 days 04:05:06.789'"]),
    ],
};

pub(super) const SYSTEM: Group = Group {
    before: "",
    columns: &[
        ("inet", &["'192.168.0.1'", "'192.168.0.1/24'", "'::ffff:1.2.3.4/96'", "'fe80::1'"]),
        ("cidr", &["'10.0.0.0/8'", "'2001:db8::/32'"]),
        ("macaddr", &["'08:00:2b:01:02:03'"]),
        ("macaddr8", &["'08:00:2b:01:02:03:04:05'"]),
        ("bit", &["B'1'"]),
        ("bit(8)", &["B'10101010'"]),
        ("varbit", &["B''", "B'1010101010101'"]),
        ("varbit(5)", &["B'101'"]),
        ("tsvector", &["'a:1A fat:2B,4C ''it''''s'':5'", "''"]),
        ("tsquery", &["'fat & (rat | !cat:AB*) <-> dog'", "''"]),
        ("pg_lsn", &["'16/B374D848'", "'FFFFFFFF/FFFFFFFF'"]),
        ("oid", &["4294967295", "0"]),
        ("xid", &["'4294967295'"]),
        ("xid8", &["'18446744073709551615'"]),
        ("cid", &["'7'"]),
        ("tid", &["'(4294967295,65535)'"]),
        ("pg_snapshot", &["'10:20:10,14,15'"]),
        ("txid_snapshot", &["'10:20:10,14,15'"]),
        ("regclass", &["'pg_class'", "0", "4294967295"]),
        ("regtype", &["'timestamptz'", "0"]),
        ("regproc", &["'now'", "0"]),
        ("regprocedure", &["'sum(int8)'"]),
        ("regoper", &["'||/'"]),
        ("regoperator", &["'+(int4,int4)'"]),
        ("regrole", &["0"]),
        ("regnamespace", &["'pg_catalog'"]),
        ("regconfig", &["'english'"]),
        ("regdictionary", &["'simple'"]),
        ("regcollation", &["'\"C\"'"]),
        ("jsonpath", &["'$.a[*] ? (@.b > 1.5 && @.c like_regex \"^x\")'"]),
        ("oidvector", &["'1 2 4294967295'", "''"]),
        ("int2vector", &["'-1 2'"]),
    ],
};

pub(super) const SHAPES: Group = Group {
    before: "",
    columns: &[
        ("point", &["'(1e300,-0)'", "'(NaN,Infinity)'", "'(0.1,0.30000000000000004)'"]),
        ("line", &["'{1,-1,0}'"]),
        ("lseg", &["'[(1,2),(3,4)]'"]),
        ("box", &["'(3,4),(1,2)'"]),
        ("path", &["'[(1,2),(3,4)]'", "'((1,2),(3,4))'"]),
        ("polygon", &["'((0,0),(0,1),(1,0))'"]),
        ("circle", &["'<(1,2),3.5>'"]),
        ("box[]", &["array['(3,4),(1,2)'::box, '(1,1),(0,0)'::box]"]),
    ],
};

pub(super) const RANGES: Group = Group {
    before: "
        CREATE TYPE span AS RANGE (subtype = float8, subtype_diff = float8mi);
        CREATE TYPE words AS RANGE (subtype = text);",
    columns: &[
        ("int4range", &["'empty'", "'[1,10)'", "'(,)'", "'(,5]'"]),
        ("int8range", &["'[-9223372036854775808,9223372036854775807)'"]),
        ("numrange", &["'[1.10,2.200]'", "'(1e50,)'", "'[-Infinity,Infinity]'"]),
        ("daterange", &["'[2026-01-01,infinity)'", "'[0044-03-15 BC,2026-01-01)'"]),
        ("tsrange", &["'[2026-01-01 00:00:00.000001,infinity]'"]),
        ("tstzrange", &["'(2026-01-01 00:00+02,)'", "'empty'"]),
        ("span", &["'[0.1,0.30000000000000004)'"]),
        ("words", &["'[\"a,b\",\"c\"\"d\")'", "'[,z]'", "'[\"\",x]'"]),
        ("int4multirange", &["'{}'", "'{[1,3),[5,)}'"]),
        ("int8multirange", &["'{[1,3)}'"]),
        ("nummultirange", &["'{[1.10,2.20),(3,4]}'"]),
        ("datemultirange", &["'{[2026-01-01,2026-02-01)}'"]),
        ("tsmultirange", &["'{[2026-01-01 00:00,2026-02-01 00:00)}'"]),
        ("tstzmultirange", &["'{[2026-01-01 00:00+00,)}'"]),
        ("int4range[]", &["array['[1,2)', 'empty', null]::int4range[]"]),
    ],
};

pub(super) const ARRAYS: Group = Group {
    before: "CREATE TYPE mood AS ENUM ('', 'in review', 'it''s \"so\"', 'a,b');",
    columns: &[
        ("integer[]", &["'{}'", "'{1,NULL,3}'", "'{{1,2},{3,4}}'", "'{{{1},{NULL}}}'"]),
        ("bigint[]", &["'{9223372036854775807,-9223372036854775808}'"]),
        ("numeric(6,2)[]", &["'{1.10,NaN,9999.99}'"]),
        ("float8[]", &["'{NaN,Infinity,-0,0.1}'"]),
        ("text[]", &["array['', 'NULL', null, E'a\"b\\\\c,{}', 'ä\u{1d11e}']", "'{{a,b},{c,d}}'"]),
        ("varchar(3)[]", &["'{abc,d}'"]),
        ("boolean[]", &["'{t,f,NULL}'"]),
        ("bytea[]", &["array['\\x00ff'::bytea, '\\x']"]),
        ("uuid[]", &["'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'"]),
        ("date[]", &["'{2026-11-30,infinity,NULL,0044-03-15 BC}'"]),
        ("timestamptz[]", &["array['2026-11-30 09:12:44.000001+02'::timestamptz, 'infinity']"]),
        ("interval[]", &["array['1 year -2 mons'::interval]"]),
        ("mood[]", &["array['', 'in review', 'it''s \"so\"', 'a,b', null]::mood[]"]),
        ("inet[]", &["'{10.0.0.1/8,::1}'"]),
        ("point[]", &["array['(1,2)'::point]"]),
        ("jsonb[]", &["array['{\"a\":1.50}', '\"x\"', '7', 'true']::jsonb[]"]),
        ("json[]", &["array['{\"a\":1.50}', '\"x\"', '7']::json[]"]),
        ("mood", &["''", "'it''s \"so\"'"]),
    ],
};

pub(super) const DECLARED: Group = Group {
    before: "
        CREATE DOMAIN cents AS integer CHECK (value >= 0);
        CREATE DOMAIN few AS cents CHECK (value < 100);
        CREATE DOMAIN tags AS text[] CHECK (array_length(value, 1) < 5);
        CREATE DOMAIN price AS numeric(8,2);
        CREATE TYPE pair AS (a integer, b text);
        CREATE TYPE nest AS (p pair, q pair[], n numeric, at timestamptz, d few, f float8, big bigint);
        CREATE DOMAIN whole_pair AS pair CHECK (value IS NULL OR (value).a IS NOT NULL);",
    columns: &[
        ("cents", &["0", "2147483647"]),
        ("few", &["99"]),
        ("tags", &["'{a,NULL}'", "'{}'"]),
        ("price", &["12.30"]),
        ("pair", &["row(1, 'x,\"y\"')", "row(null, '')", "row(null, null)"]),
        ("pair[]", &["array[row(1, 'a')::pair, null, row(null, 'b,c')::pair]"]),
        ("whole_pair", &["row(7, null)"]),
        ("price[]", &["'{1.50,NULL}'"]),
        ("cents[]", &["'{1,2}'"]),
        ("nest", &[
            "row(row(1, 'a'), array[row(2, 'b'), null]::pair[], 1.10, '2026-01-01 00:00:00.000001+00', 7, 'NaN', 9223372036854775807)",
            "row(null, '{}', 'Infinity', 'infinity', null, '-0', null)",
        ]),
    ],
};

pub(super) const JSON: Group = Group {
    before: "",
    columns: &[
        (
            "jsonb",
            &[
                "'{\"n\": 1234567890123456789012345678901234567890.50, \"e\": 1e40, \"z\": [1.0, -0.10, 1.00]}'",
                "'\"text\"'",
                "'[]'",
                "'{}'",
                "'true'",
                "'0.10'",
                "'[null, {\"a\": null}]'",
                "'{\"é\": 1, \"e\u{301}\": 2, \"a\": 3, \"A\": 4, \"\": 5, \"a \": 6, \"$serde_json::private::Number\": \"7\"}'",
            ],
        ),
        (
            "json",
            &[
                "'{\"n\": 1234567890123456789012345678901234567890.50,  \"z\":[1.0 ,1e400, -0.10 ] }'",
                "'\"text\"'",
                "'[ ]'",
                "'{}'",
                "'false'",
                "'0.10'",
                "E'{\"a\":\\n1}'",
                "'{\"b\": 1, \"a\": 2, \"B\": 3, \"b \": 4, \"$serde_json::private::RawValue\": \"7\"}'",
            ],
        ),
    ],
};

/// Values that JSON does not tell apart from others: they survive being sent back, and nothing more.
pub(super) const AMBIGUOUS: Group = Group {
    before: "CREATE TYPE boxed AS (j jsonb, a integer[]);",
    columns: &[
        ("jsonb", &["'null'", "NULL"]),
        ("json", &["'null'", "NULL", "E' {\"a\": 1}\\n'", "'\"te\\u0041xt\"'"]),
        ("integer[]", &["'[0:1]={1,2}'", "'[-3:-2][5:5]={{1},{2}}'", "'{}'"]),
        (
            "jsonb[]",
            &[
                "array['null', null]::jsonb[]",
                "array['[1]', '[2]']::jsonb[]",
                "array['[1]', '[2,3]', '5']::jsonb[]",
            ],
        ),
        ("json[]", &["array['null', null]::json[]", "array['[ 1]', '[2,3]']::json[]"]),
        ("boxed", &["row('null', '[0:0]={1}')", "row(null, '{}')"]),
        ("boxed[]", &["array[row('null', '[0:0]={1}'), row(null, '{}')]::boxed[]"]),
    ],
};
