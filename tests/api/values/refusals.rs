//! Values that cannot be stored are refused by name: 422 with the field, never a defect of ours.

use super::types::{self, Group};
use super::{FREE, serve};
use crate::support::Server;

/// JSON that fits few types, and breaks the ones that are read carelessly.
const HOSTILE: [&str; 26] = [
    "true",
    "12",
    "-1",
    "1.5",
    "1e400",
    "99999999999999999999",
    r#""""#,
    r#""x""#,
    r#"" ""#,
    r#""\u0001""#,
    r#""NaN""#,
    r#""infinity""#,
    r#""2026-02-30""#,
    r#""2026-13-01T25:61:61Z""#,
    r#""{1,2""#,
    r#""[1,0)""#,
    r#""\\x0""#,
    r#""no_such.thing(x)""#,
    r#""$.a[""#,
    r#"{"a":1}"#,
    r#"{"zz":{"y":[1]}}"#,
    "[]",
    "[1]",
    "[[1],[2,3]]",
    r#"[[[["x"]]],{}]"#,
    r#"[{"a":"x"}, {"b":[]}]"#,
];

async fn takes_or_names(group: &Group) {
    let server = serve(group).await;
    let long = format!("\"{}\"", "9".repeat(300));
    for (place, (kind, _)) in group.columns.iter().enumerate() {
        for (turn, value) in HOSTILE.iter().copied().chain([long.as_str()]).enumerate() {
            let patch = format!("{{\"c{place}\": {value}}}");
            let id = FREE + 1 + place * 100 + turn;
            let post = format!("{{\"id\": {id}, \"c{place}\": {value}}}");
            let replies = [
                server.patch(&format!("/t/{FREE}"), None, &patch).await,
                server.put(&format!("/t/{FREE}"), None, &patch).await,
                server.post("/t", &post).await,
            ];
            for reply in replies {
                if reply.status < 300 {
                    continue;
                }
                assert_eq!(reply.status, 422, "{kind} {value}: {}", reply.text);
                assert!(matches!(reply.code(), "INVALID_VALUE" | "CHECK_FAILED"), "{}", reply.text);
                assert_eq!(
                    reply.details()["field"],
                    format!("c{place}"),
                    "{kind} {value}: {}",
                    reply.text
                );
            }
        }
    }
}

#[tokio::test]
async fn no_value_for_a_number_or_a_text_is_a_defect() {
    takes_or_names(&types::NUMBERS).await;
    takes_or_names(&types::TEXTS).await;
}

#[tokio::test]
async fn no_value_for_a_time_a_range_or_a_shape_is_a_defect() {
    takes_or_names(&types::TIMES).await;
    takes_or_names(&types::RANGES).await;
    takes_or_names(&types::SHAPES).await;
}

#[tokio::test]
async fn no_value_for_a_system_type_is_a_defect() {
    takes_or_names(&types::SYSTEM).await;
}

#[tokio::test]
async fn no_value_for_an_array_a_domain_or_json_is_a_defect() {
    takes_or_names(&types::ARRAYS).await;
    takes_or_names(&types::DECLARED).await;
    takes_or_names(&types::JSON).await;
}

/// Types and values that look right and are not.
const WRONG: &[(&str, &[&str])] = &[
    ("smallint", &["32768", "\"-32769\"", "1.5", "15e-1", "1e5", "true", "\"\""]),
    ("integer", &["2147483648", "\" 1\"", "[1]", "\"1_000\""]),
    ("bigint", &["9223372036854775808", "-9223372036854775809", "1e19", "1e-1", "1e99999999999"]),
    ("numeric(5,2)", &["1000", "999.995", "\"Infinity\"", "1e3", "\"x\"", "\"0x10\""]),
    ("numeric", &["1e200000", "\"1e200000\"", "\"\""]),
    ("real", &["1e39", "\"-1e39\"", "\"inf\"", "\"nan\""]),
    ("double precision", &["1e309", "\"1e309\"", "\"0x1p3\""]),
    ("boolean", &["1", "\"true\"", "\"t\""]),
    (
        "date",
        &["\"2026-02-30\"", "\"tomorrow\"", "\"now\"", "\"5874898-01-01\"", "20261130", "\"\""],
    ),
    ("time", &["\"24:00:01\"", "\"25:00\"", "\"allballs\""]),
    ("timestamp", &["\"294277-01-01T00:00:00\"", "\"today\"", "\"2026-11-30T24:00:01\""]),
    (
        "timestamptz",
        &["\"2026-11-30T09:00:00+99:00\"", "\"epoch\"", "\"2026-11-30 09:00 Nowhere/Land\""],
    ),
    ("interval", &["\"x\"", "5", "\"999999999999 years\""]),
    ("varchar(3)", &["\"abcd\"", "\"äöüß\"", "7"]),
    ("char(3)", &["\"abcd\""]),
    ("name", &["\"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\""]),
    ("uuid", &["\"x\"", "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1\""]),
    ("bytea", &["\"\\\\x0\"", "\"abc\"", "\"\\\\xzz\""]),
    ("inet", &["\"300.0.0.1\"", "\"10.0.0.1/33\""]),
    ("cidr", &["\"10.0.0.1/8\""]),
    ("macaddr", &["\"08:00:2b\""]),
    ("bit(3)", &["\"1111\"", "\"11\"", "\"abc\""]),
    ("varbit(3)", &["\"1111\""]),
    ("money", &["\"x\"", "\"99999999999999999999\""]),
    ("int4range", &["\"[5,1]\"", "\"[1,2147483648]\"", "{}"]),
    ("int4multirange", &["\"{[1,2\""]),
    ("point", &["\"(1)\"", "[1,2]"]),
    ("xml", &["\"<a>\""]),
    ("tsquery", &["\"a &\""]),
    ("pg_lsn", &["\"x\""]),
    ("regclass", &["\"no_such_table\"", "\"a.b.c.d\""]),
    ("regtype", &["\"no_such_type\""]),
    ("regnamespace", &["\"no_such_schema\""]),
    ("jsonpath", &["\"$.[\""]),
    ("oid", &["\"-1x\"", "\"4294967296\""]),
    ("jsonb", &["1e200000", "{\"a\":{\"b\":\"\\u0000\"}}", "{\"\\u0000\":1}"]),
    ("text", &["\"a\\u0000b\"", "1", "{}", "[]"]),
    ("text[]", &["[\"\\u0000\"]", "[1]", "\"{a}\"", "[[\"a\"],\"b\"]"]),
    ("integer[]", &["[1.5]", "[1e10]", "[[1],[2,3]]", "[2147483648]", "{}", "[\"x\"]"]),
    ("varchar(2)[]", &["[\"abc\"]"]),
    ("mood", &["\"angry\"", "\"Calm\"", "0"]),
    ("pair", &["{\"a\":\"x\"}", "\"(1,x)\"", "[]", "{\"b\":\"\\u0000\"}"]),
    ("pair[]", &["[{\"a\":2147483648}]", "[1]"]),
];

#[tokio::test]
async fn what_a_type_cannot_take_is_refused_with_the_fields_name() {
    let columns: Vec<_> =
        WRONG.iter().enumerate().map(|(place, (kind, _))| format!(", c{place} {kind}")).collect();
    let sql = format!(
        "CREATE TYPE mood AS ENUM ('calm'); CREATE TYPE pair AS (a integer, b text); \
         CREATE TABLE t (id integer PRIMARY KEY{}); INSERT INTO t VALUES (1);",
        columns.concat()
    );
    let server = Server::start(&sql, &["t"]).await;
    for (place, (kind, values)) in WRONG.iter().enumerate() {
        for value in *values {
            let field = format!("c{place}");
            let body = format!("{{\"{field}\": {value}}}");
            for reply in
                [server.patch("/t/1", None, &body).await, server.put("/t/1", None, &body).await]
            {
                assert_eq!(reply.code(), "INVALID_VALUE", "{kind} {value}: {}", reply.text);
                reply.expect(422).expect_field(&field);
            }
            let body = format!("{{\"id\": 2, \"{field}\": {value}}}");
            server.post("/t", &body).await.expect_error(422, "INVALID_VALUE").expect_field(&field);
        }
    }
    assert_eq!(server.value("SELECT version FROM t").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn numbers_may_come_as_texts() {
    let server = Server::start(
        "CREATE TABLE t (id bigint PRIMARY KEY, n numeric(40,10), f float8, i integer[], d float8[]);
         INSERT INTO t VALUES (1)",
        &["t"],
    )
    .await;
    let body = r#"{"id": "1", "n": "123456789012345678901234567890.0123456789", "f": "1e300", "i": ["1", 2], "d": ["NaN", 1e-3]}"#;
    let reply = server.put("/t/1", None, body).await.expect(200);
    let row = r#"{"id":1,"n":123456789012345678901234567890.0123456789,"f":1e+300,"i":[1,2],"d":["NaN",0.001],"version":2}"#;
    assert_eq!(reply.raw_data(), row);
}

/// What JSON takes for a whole number is one: of integers, arrays, keys, what increments add, and filters.
#[tokio::test]
async fn whole_numbers_may_have_a_point_and_an_exponent() {
    let server = Server::start(
        "CREATE TABLE t (id bigint PRIMARY KEY, s smallint, i integer, b bigint, a integer[], n numeric);
         INSERT INTO t VALUES (1000)",
        &["t"],
    )
    .await;
    let body = r#"{"id": 1e3, "s": -12.00e1, "i": 1000.0, "b": 9223372036854775.807E+3, "a": [1.0, 2e1], "n": 1.50}"#;
    let reply = server.put("/t/1000", None, body).await;
    let row =
        r#"{"id":1000,"s":-120,"i":1000,"b":9223372036854775807,"a":[1,20],"n":1.50,"version":2}"#;
    assert_eq!(reply.expect(200).raw_data(), row);
    server.post("/t", r#"{"id": 2000.0, "a": [[1e0],[-0.0]]}"#).await.expect(201);
    assert_eq!(server.value("SELECT a FROM t WHERE id = 2000").await.unwrap(), "{{1},{0}}");

    let by = r#"{"fields": {"i": 1e1, "s": {"by": -2.0, "min": -2e2}}}"#;
    let reply = server.post("/t/1000/increment", by).await.expect(200);
    assert_eq!((&reply.data()["i"], &reply.data()["s"]), (&1010.into(), &(-122).into()));
    let batch = r#"{"operations": [{"method": "PATCH", "resource": "t", "id": 1e3, "if_match": 3.0, "body": {"i": 2E2}}]}"#;
    assert_eq!(server.post("/batch", batch).await.expect(200).data()[0]["data"]["i"], 200);
    let push = r#"{"client_id": "01a11e82-d0bc-7367-9c39-5e9873953dde", "mutations": [
        {"id": 1e0, "op": "patch", "resource": "t", "record_id": 1000.0, "base_version": 40e-1, "data": {"i": 3e2}}]}"#;
    let reply = server.post("/sync/push", push).await.expect(200);
    assert_eq!(reply.data()["results"][0]["data"]["i"], 300, "{}", reply.text);
    let preview = r#"{"base_version": 5e0, "data": {"i": 4.0e2}}"#;
    let reply = server.post("/t/1000/merge", preview).await.expect(200);
    assert_eq!(reply.data()["merged"]["i"], 400, "{}", reply.text);
    for query in ["id=eq.1e3", "i=in.(3e2,7.0)", "i=gt.29.90e1", "s=isdistinct.1e0&i=neq.1e0"] {
        let found = server.get(&format!("/t?{query}")).await.expect(200);
        assert_eq!(found.data()[0]["id"], 1000, "{query}: {}", found.text);
    }

    for (field, value) in [("s", "1.5"), ("i", "1e-1"), ("b", "10000000000000000000.5")] {
        let reply = server.patch("/t/1000", None, &format!("{{\"{field}\": {value}}}")).await;
        let reply = reply.expect_error(422, "INVALID_VALUE");
        assert!(reply.text.contains("without a fraction"), "{}", reply.text);
        reply.expect_field(field);
        let reply = server.get(&format!("/t?{field}=lt.{value}")).await;
        let reply = reply.expect_error(400, "INVALID_QUERY");
        assert!(reply.text.contains("without a fraction"), "{}", reply.text);
        reply.expect_field(field);
    }
    let body = r#"{"field": "i", "by": 1.5}"#;
    let reply = server.post("/t/1000/increment", body).await.expect_error(422, "INVALID_VALUE");
    assert!(reply.text.contains("by must be a whole number"), "{}", reply.text);
}

#[tokio::test]
async fn broken_json_says_where() {
    let server = Server::start(
        "CREATE TABLE t (id int PRIMARY KEY, a text, j jsonb); INSERT INTO t VALUES (1)",
        &["t"],
    )
    .await;
    for (body, line, column) in [
        ("{\n  \"a\": \"\\ud800\"\n}", 2, 16),
        ("{\"a\": \"\\udc00 \"}", 1, 14),
        ("{\"a\":\n\n\"\\ud83d\\ud83d\"}", 3, 14),
        ("{\"a\":1,}", 1, 8),
        ("{\"a\" 1}", 1, 6),
        ("[1,\n2]", 1, 0),
    ] {
        for reply in [
            server.put("/t/1", None, body).await,
            server.patch("/t/1", None, body).await,
            server.post("/t", body).await,
        ] {
            let reply = reply.expect_error(400, "INVALID_JSON");
            assert_eq!(reply.details()["line"], line, "{body}: {}", reply.text);
            let near = reply.details()["column"].as_i64().unwrap();
            assert!((near - column).abs() <= 2, "{body}: {}", reply.text);
        }
    }
    for (body, field) in [
        (r#"{"a":"x","a":"y"}"#, "a"),
        (r#"{"a":"x","\u0061":"y"}"#, "a"),
        (r#"{"j":{"k":[{"deep":1,"deep":2}]}}"#, "deep"),
    ] {
        server
            .patch("/t/1", None, body)
            .await
            .expect_error(400, "DUPLICATE_KEY")
            .expect_field(field);
    }
    let deep =
        |levels: usize| format!("{{\"j\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
    server.patch("/t/1", None, &deep(64)).await.expect(200);
    server.patch("/t/1", None, &deep(65)).await.expect_error(400, "TOO_DEEP");
}

#[tokio::test]
async fn null_and_absence_are_refused_where_a_value_is_needed() {
    let server = Server::start(
        "CREATE DOMAIN word AS text NOT NULL;
         CREATE DOMAIN longer AS word;
         CREATE DOMAIN lucky AS integer NOT NULL DEFAULT 7;
         CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL, n integer NOT NULL DEFAULT 5, w word, l lucky, ll longer);
         INSERT INTO t VALUES (1, 'a', 1, 'w', 1, 'x')",
        &["t"],
    )
    .await;
    let full = r#"{"a": "b", "w": "v", "ll": "y"}"#;
    let reply = server.put("/t/1", None, full).await.expect(200);
    assert_eq!(reply.raw_data(), r#"{"id":1,"a":"b","n":5,"w":"v","l":7,"ll":"y","version":2}"#);
    for field in ["a", "n", "w", "l", "ll"] {
        let body = format!("{{\"{field}\": null}}");
        server
            .patch("/t/1", None, &body)
            .await
            .expect_error(422, "INVALID_VALUE")
            .expect_field(field);
    }
    for (body, field) in [
        (r#"{"w": "v", "ll": "y"}"#, "a"),
        (r#"{"a": "b", "ll": "y"}"#, "w"),
        (r#"{"a": "b", "w": "v"}"#, "ll"),
    ] {
        server.put("/t/1", None, body).await.expect_error(422, "MISSING_FIELD").expect_field(field);
        let body = body.replacen('{', r#"{"id": 2, "#, 1);
        server.post("/t", &body).await.expect_error(422, "MISSING_FIELD").expect_field(field);
    }
    server.post("/t", full).await.expect_error(422, "MISSING_FIELD").expect_field("id");
    let reply = server.post("/t", &full.replacen('{', r#"{"id": 2, "#, 1)).await.expect(201);
    assert_eq!(reply.raw_data(), r#"{"id":2,"a":"b","n":5,"w":"v","l":7,"ll":"y","version":1}"#);
}
