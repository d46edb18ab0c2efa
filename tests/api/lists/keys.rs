//! Keys of every type address their rows, order their lists and divide their pages.

use std::fmt::Write as _;

use super::{encode, walk};
use crate::support::Server;

/// A type and keys of it, in its order.
const KEYS: &[(&str, &[&str])] = &[
    ("smallint", &["-32768", "0", "7"]),
    ("integer", &["-1", "1", "2147483647"]),
    ("bigint", &["-9223372036854775808", "9007199254740993", "9223372036854775807"]),
    ("numeric", &["-1.50", "0.0", "1e30", "'NaN'"]),
    ("numeric(6,2)", &["-1.50", "1", "2"]),
    ("real", &["'-Infinity'", "0.1", "'NaN'"]),
    ("float8", &["-1e-300", "0.30000000000000004", "'Infinity'"]),
    ("text collate \"C\"", &["' '", "'a%2Fb'", "'a,b'", "'a/b?c#d'", "'x''y\"z\\'", "'ä €'"]),
    ("varchar(4) collate \"C\"", &["'.'", "'..'", "'ab'", "'äöü€'"]),
    ("char(4) collate \"C\"", &["'a'", "'ab'", "'abcd'"]),
    ("name", &["'a b'", "'x'"]),
    ("uuid", &["'00000000-0000-0000-0000-000000000001'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"]),
    ("date", &["'0044-03-15 BC'", "'2026-11-30'", "'infinity'"]),
    ("time", &["'00:00'", "'23:59:59.000001'", "'24:00'"]),
    ("timetz", &["'12:00+02'", "'12:00+00'"]),
    ("timestamp", &["'2026-11-30 09:00'", "'2026-11-30 09:00:00.000001'"]),
    ("timestamptz", &["'-infinity'", "'2026-11-30 09:00:00.120+02'", "'2026-11-30 09:00+00'"]),
    ("interval", &["'-1 day'", "'1 mon 00:00:00.000001'"]),
    ("boolean", &["false", "true"]),
    ("bytea", &["'\\x'", "'\\x00ff'", "'\\xff'"]),
    ("inet", &["'10.0.0.1/8'", "'10.0.0.1'", "'::1'"]),
    ("macaddr", &["'08:00:2b:01:02:03'", "'08:00:2b:01:02:04'"]),
    ("bit(4)", &["B'0001'", "B'1010'"]),
    ("varbit", &["B'1'", "B'1010'"]),
    ("oid", &["0", "4294967295"]),
    ("money", &["'-1.50'", "'1234567.89'"]),
    ("pg_lsn", &["'0/1'", "'16/B374D848'"]),
    ("\"char\"", &["'a'", "'b'"]),
    ("mood", &["'sad, very'", "'happy/now'"]),
    ("cents", &["1", "2"]),
    ("int4range", &["'[1,5)'", "'[2,)'"]),
    ("tsvector", &["'a:1'", "'b:2'"]),
    ("integer[]", &["'{}'", "'{1,2}'"]),
    ("tstzrange", &["'[2026-11-30 09:00+00,2026-12-01 09:00+00)'"]),
    ("whole", &["'(1,x)'", "'(2,\"y,z\")'"]),
    ("citext", &["'Abc'", "'xyz'"]),
];

const TYPES: &str = "
    CREATE EXTENSION citext;
    CREATE TYPE whole AS (a integer, b text);
    CREATE TYPE mood AS ENUM ('sad, very', 'happy/now');
    CREATE DOMAIN cents AS integer CHECK (value > 0);";

#[tokio::test]
async fn every_type_of_key_addresses_orders_and_pages() {
    let mut sql = TYPES.to_owned();
    for (place, (kind, keys)) in KEYS.iter().enumerate() {
        let _ = write!(sql, "CREATE TABLE s{place} (k {kind} PRIMARY KEY, v int);");
        let _ = write!(
            sql,
            "CREATE TABLE m{place} (a {kind}, b text collate \"C\", v int, PRIMARY KEY (b, a));"
        );
        for (rank, key) in keys.iter().enumerate() {
            let _ = write!(
                sql,
                "INSERT INTO s{place} VALUES ({key}, {rank}); INSERT INTO m{place} SELECT {key}, b, {rank} FROM unnest(ARRAY['x,y', '%']) b;"
            );
        }
    }
    let tables: Vec<_> = (0..KEYS.len()).flat_map(|n| [format!("s{n}"), format!("m{n}")]).collect();
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    let server = Server::start(&sql, &tables).await;
    for (place, (kind, keys)) in KEYS.iter().enumerate() {
        let single = format!("s{place}");
        for (order, descending) in [("k", false), ("k.desc", true)] {
            let rows =
                walk(&server, &single, &format!("order={order}&limit=1"), async |_| {}).await;
            let mut ranks: Vec<_> = rows.iter().map(|row| row["v"].as_u64().unwrap()).collect();
            if descending {
                ranks.reverse();
            }
            assert_eq!(ranks, (0..keys.len() as u64).collect::<Vec<_>>(), "{kind} {order}");
        }
        let multiple = format!("m{place}");
        let rows = walk(&server, &multiple, "limit=2", async |_| {}).await;
        assert_eq!(rows.len(), 2 * keys.len(), "{kind}");
        let rows = walk(&server, &multiple, "order=a.desc&limit=3", async |_| {}).await;
        assert_eq!(rows.len(), 2 * keys.len(), "{kind}");
        for rank in 0..keys.len() {
            let text = format!("SELECT k::text FROM {single} WHERE v = {rank}");
            let text = server.value(&text).await.unwrap();
            if text == "." || text == ".." {
                continue; // Every client takes such a path for another one.
            }
            if !text.is_empty() {
                addresses(&server, &single, &encode(&text)).await;
            }
            addresses(&server, &multiple, &format!("{},{}", encode("x,y"), encode(&text))).await;
        }
    }
}

/// Reads, writes back, makes conflict and deletes the row at this address.
async fn addresses(server: &Server, resource: &str, segment: &str) {
    let path = format!("/{resource}/{segment}");
    let read = server.get(&path).await.expect(200);
    let put = server.put(&path, Some("\"1\""), read.raw_data()).await.expect(200);
    assert_eq!(put.header("content-location").split('/').nth(3), Some(resource));
    let located = put.header("content-location").strip_prefix("/api/v1").unwrap();
    server.get(located).await.expect(200);
    let stale = server
        .patch(&path, Some("\"1\""), r#"{"v": -1}"#)
        .await
        .expect_error(409, "WRITE_CONFLICT");
    assert_eq!(stale.details()["changed_by"], "anonymous", "{path}: {}", stale.text);
    server.delete(&path, Some("\"2\"")).await.expect(204);
    server.get(&path).await.expect_error(410, "RECORD_DELETED");
    let request = server.request(reqwest::Method::PUT, &path).header("if-none-match", "*");
    let created =
        crate::support::Reply::of(crate::support::json(request, read.raw_data())).await.expect(201);
    assert_eq!(created.data()["version"], 4, "{}", created.text);
    let other = r#"{"v": 99}"#;
    server.patch(&path, None, other).await.expect(200);
}

#[tokio::test]
async fn a_key_that_is_spelled_otherwise_is_the_same_key() {
    let server = Server::start(
        "CREATE TABLE a (k timestamptz PRIMARY KEY, v int); INSERT INTO a VALUES ('2026-11-30 09:00+00', 1);
         CREATE TABLE u (k uuid PRIMARY KEY, v int); INSERT INTO u VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 1);
         CREATE TABLE i (k bigint PRIMARY KEY, v int); INSERT INTO i VALUES (7, 1);
         CREATE TABLE n (k numeric(8,2) PRIMARY KEY, v int); INSERT INTO n VALUES (1.5, 1);
         CREATE TABLE b (k bytea PRIMARY KEY, v int); INSERT INTO b VALUES ('\\xabcd', 1);
         CREATE EXTENSION citext;
         CREATE TABLE c (k citext PRIMARY KEY, v int); INSERT INTO c VALUES ('Abc', 1)",
        &["a", "u", "i", "n", "b", "c"],
    )
    .await;
    for (table, spellings, wrong) in [
        (
            "a",
            &["2026-11-30T09:00:00Z", "2026-11-30%2010:00%2B01", "2026-11-30T09:00:00%2B00:00"][..],
            "\"2026-11-30T09:00:01Z\"",
        ),
        (
            "u",
            &["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc999c0b4ef8bb6d6bb9bd380a11"],
            "\"00000000-0000-0000-0000-000000000000\"",
        ),
        ("i", &["7", "07", "%2B7"], "8"),
        ("n", &["1.5", "1.50", "01.500"], "1.51"),
        ("b", &["%5Cxabcd", "%5CxABCD"], "\"\\\\xab\""),
        ("c", &["Abc", "abc", "ABC"], "\"abd\""),
    ] {
        for spelling in spellings {
            let path = format!("/{table}/{spelling}");
            let read = server.get(&path).await.expect(200);
            server.put(&path, None, read.raw_data()).await.expect(200);
            let body = format!("{{\"k\": {wrong}, \"v\": 3}}");
            server
                .put(&path, None, &body)
                .await
                .expect_error(422, "INVALID_VALUE")
                .expect_field("k");
            let operations = format!("[{{\"op\":\"replace\",\"path\":\"/k\",\"value\":{wrong}}}]");
            server
                .patch_as("application/json-patch+json", &path, &operations)
                .await
                .expect_error(422, "INVALID_VALUE")
                .expect_field("k");
            server.patch(&path, Some("\"1\""), "{\"v\": 9}").await.expect(409);
        }
        server.delete(&format!("/{table}/{}", spellings[0]), None).await.expect(204);
        for spelling in spellings {
            server.get(&format!("/{table}/{spelling}")).await.expect(410);
        }
    }
}

#[tokio::test]
async fn what_cannot_be_a_key_is_an_invalid_id() {
    let mut sql = TYPES.to_owned();
    for (place, (kind, _)) in KEYS.iter().enumerate() {
        let _ = write!(sql, "CREATE TABLE s{place} (k {kind} PRIMARY KEY, v int);");
    }
    let tables: Vec<_> = (0..KEYS.len()).map(|n| format!("s{n}")).collect();
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    let server = Server::start(&sql, &tables).await;
    for (place, (kind, _)) in KEYS.iter().enumerate() {
        for wrong in [
            "no%20such%20thing",
            "%00",
            "%ff",
            "1,2",
            "-0",
            "99999999999999999999999",
            "%27",
            "{}",
            "[]",
        ] {
            let path = format!("/s{place}/{wrong}");
            for reply in [
                server.get(&path).await,
                server.delete(&path, None).await,
                server.patch(&path, None, r#"{"v": 1}"#).await,
                server.put(&path, Some("\"1\""), r#"{"v": 1}"#).await,
            ] {
                assert!(
                    matches!(reply.code(), "INVALID_ID" | "NOT_FOUND"),
                    "{kind} {wrong}: {} {}",
                    reply.status,
                    reply.text
                );
            }
        }
    }
    // An id that no key column could hold, where a record is to be created.
    let request = server.request(reqwest::Method::PUT, "/s8/abcde").header("if-none-match", "*");
    crate::support::Reply::of(crate::support::json(request, "{}"))
        .await
        .expect_error(422, "INVALID_VALUE")
        .expect_field("k");
}
