//! A stale tag is no conflict where the write would change nothing: the row holds every value that
//! it sets, as after a retry whose first answer was lost.
//!
//! What counts is the value that is stored, not how it is written: 1250 is 1250.00, a moment is the
//! same in every zone, and `jsonb` has no order of keys (`json` has). A column that PUT leaves out must hold its
//! default, where the default is a constant; one that differs each time cannot tell. It holds for
//! any tag that does not name the current version, never for DELETE and increment.

use reqwest::Method;
use serde_json::Value;

use crate::support::{Reply, Server};

const BILLS: &str = "
    CREATE TABLE bills (
        id integer PRIMARY KEY,
        price numeric(10,2) NOT NULL,
        due timestamptz,
        meta jsonb,
        raw json,
        tags text[],
        note text,
        rank integer NOT NULL DEFAULT 3,
        size numeric(6,1) DEFAULT 2,
        stamp timestamptz NOT NULL DEFAULT now(),
        token uuid NOT NULL DEFAULT gen_random_uuid());";

/// All at version 7. The record 2 has another rank than the default, the record 3 holds JSON that
/// `jsonb` cannot.
const RECORDS: &str = r#"
    INSERT INTO bills VALUES (1, 1250, '2026-11-30 09:00:00+00', '{"a":1,"b":{"c":[1,2]}}',
        '{"x": 1,  "y": 2}', '{a,b}', 'n');
    INSERT INTO bills SELECT 2, price, due, meta, raw, tags, note, 4 FROM bills;
    INSERT INTO bills SELECT 3, price, due, meta, '{"x":"\u0000"}', tags, note FROM bills WHERE id = 1;
    INSERT INTO bills SELECT 4, price, due, NULL, NULL, NULL, note FROM bills WHERE id = 1;
    "#;

const PUT: &str = "PUT";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// Writes that say what the row says, by record.
#[rustfmt::skip]
const NOTHING_NEW: &[(i32, &str, &str)] = &[
    // Order and space in a `json` are kept, but no client means them.
    (1, JSON, r#"{"raw":{"y": 2,  "x": 1}}"#),
    (1, PUT, r#"{"price":1250,"due":"2026-11-30T10:00:00+01:00","meta":{"b":{"c":[1,2]},"a":1},
        "raw":{"x": 1,  "y": 2},"tags":["a","b"],"note":"n"}"#),
    (1, PUT, r#"{"id":1,"version":3,"price":"1250.0","due":"2026-11-30 04:00:00-05","meta":{"a":1.0,"b":{"c":[1,2.0]}},
        "raw":{"x": 1,  "y": 2},"tags":["a","b"],"note":"n","rank":3,"size":2.0}"#),
    (2, PUT, r#"{"price":1250,"due":"2026-11-30T09:00:00Z","meta":{"a":1,"b":{"c":[1,2]}},
        "raw":{"x": 1,  "y": 2},"tags":["a","b"],"note":"n","rank":4}"#),
    (4, PUT, r#"{"price":1250,"due":"2026-11-30T09:00:00Z","note":"n"}"#),
    (1, JSON, r#"{"price":1250}"#),
    (1, JSON, r#"{"price":1.25e3}"#),
    (1, JSON, r#"{"price":1250.001}"#),
    (1, JSON, r#"{"due":"2026-11-30T14:30:00+05:30"}"#),
    (1, JSON, r#"{"meta":{"b":{"c":[1,2]},"a":1}}"#),
    (1, JSON, r#"{"raw":  {"x": 1,  "y": 2} }"#),
    (1, JSON, r#"{"id":1,"version":6}"#),
    (1, JSON, "{}"),
    (3, JSON, r#"{"note":"n"}"#),
    (4, JSON, r#"{"meta":null,"tags":null}"#),
    (1, MERGE, r#"{"price":1250.0,"due":"2026-11-30T10:00:00+01:00"}"#),
    (1, MERGE, r#"{"meta":{"b":{"c":[1,2]}}}"#),
    (1, MERGE, r#"{"meta":{"gone":null}}"#),
    (1, JSON_PATCH, "[]"),
    (1, JSON_PATCH, r#"[{"op":"test","path":"/note","value":"n"}]"#),
    (1, JSON_PATCH, r#"[{"op":"replace","path":"/price","value":1250}]"#),
    (1, JSON_PATCH, r#"[{"op":"replace","path":"/price","value":"1250.00"}]"#),
    (1, JSON_PATCH, r#"[{"op":"replace","path":"/due","value":"2026-11-30T10:00:00+01:00"}]"#),
    (1, JSON_PATCH, r#"[{"op":"replace","path":"/meta","value":{"b":{"c":[1,2]},"a":1}}]"#),
    (1, JSON_PATCH, r#"[{"op":"replace","path":"/meta/b/c/0","value":1.0}]"#),
    (4, JSON_PATCH, r#"[{"op":"remove","path":"/meta"}]"#),
];

/// Writes that say something else.
#[rustfmt::skip]
const SOMETHING_NEW: &[(i32, &str, &str)] = &[
    (1, PUT, r#"{"price":1250}"#),
    (1, PUT, r#"{"price":1250,"due":"2026-11-30T09:00:00Z","meta":{"a":1,"b":{"c":[1,2]}},
        "raw":{"x": 1,  "y": 2},"tags":["a","b"]}"#),
    // Left out, the rank would return to its default.
    (2, PUT, r#"{"price":1250,"due":"2026-11-30T09:00:00Z","meta":{"a":1,"b":{"c":[1,2]}},
        "raw":{"x": 1,  "y": 2},"tags":["a","b"],"note":"n"}"#),
    (4, PUT, r#"{"price":1250,"due":"2026-11-30T09:00:00Z","note":"n","meta":{}}"#),
    (1, JSON, r#"{"price":1250.01}"#),
    (1, JSON, r#"{"price":1250,"note":null}"#),
    (1, JSON, r#"{"due":"2026-11-30T09:00:00.000001Z"}"#),
    (1, JSON, r#"{"meta":{"a":1}}"#),
    (1, JSON, r#"{"meta":{"a":1,"b":{"c":[2,1]}}}"#),
    (1, JSON, r#"{"tags":["b","a"]}"#),
    (1, JSON, r#"{"stamp":"2020-01-01T00:00:00Z"}"#),
    (3, JSON, r#"{"raw":{"x":1}}"#),
    (1, MERGE, r#"{"meta":{"a":2}}"#),
    (1, MERGE, r#"{"meta":{"a":null}}"#),
    (1, JSON_PATCH, r#"[{"op":"add","path":"/meta/b/c/-","value":2}]"#),
    (1, JSON_PATCH, r#"[{"op":"test","path":"/note","value":"m"}]"#),
    (1, JSON_PATCH, r#"[{"op":"replace","path":"/due","value":"2026-11-30T10:00:00Z"}]"#),
    (1, JSON_PATCH, r#"[{"op":"remove","path":"/nope"}]"#),
];

const ALL: &str = "SELECT (SELECT json_agg(t ORDER BY id) FROM bills t)::text || \
    (SELECT count(*) FROM counterfoil.change)::text";

async fn start() -> Server {
    let server = Server::start(BILLS, &["bills"]).await;
    let raise = "UPDATE bills SET note = note;".repeat(6);
    server.sql(&format!("{RECORDS}{raise}")).await;
    server
}

async fn send(server: &Server, write: (i32, &str, &str), tag: &str, query: &str) -> Reply {
    let (id, how, body) = write;
    let path = format!("/bills/{id}{query}");
    let (method, media_type) = match how {
        PUT => (Method::PUT, JSON),
        media_type => (Method::PATCH, media_type),
    };
    let request = server.request(method, &path).header("if-match", tag);
    Reply::of(request.header("content-type", media_type).body(body.to_owned())).await
}

#[tokio::test]
async fn a_stale_write_that_changes_nothing_is_answered_with_the_row() {
    let server = start().await;
    let before = server.value(ALL).await;
    for write in NOTHING_NEW {
        for query in ["", "?dry_run=true"] {
            let path = format!("/bills/{}", write.0);
            let row = server.get(&path).await;
            let reply = send(&server, *write, "\"6\"", query).await;
            assert_eq!(reply.status, 200, "{write:?}: {}", reply.text);
            assert_eq!(reply.header("counterfoil-result"), "already-applied", "{write:?}");
            assert_eq!(reply.header("etag"), "\"7\"", "{write:?}");
            assert_eq!(reply.header("content-location"), format!("/api/v1{path}"));
            assert_eq!(reply.text, row.text, "{write:?}");
        }
    }
    assert_eq!(server.value(ALL).await, before, "nothing was written");
}

#[tokio::test]
async fn a_stale_write_that_changes_something_is_a_conflict() {
    let server = start().await;
    let before = server.value(ALL).await;
    for write in SOMETHING_NEW {
        let reply = send(&server, *write, "\"6\"", "").await;
        assert_eq!(
            (reply.status, reply.code()),
            (409, "WRITE_CONFLICT"),
            "{write:?}: {}",
            reply.text
        );
        assert_eq!(reply.header("counterfoil-result"), "", "{write:?}");
        assert_eq!(reply.data()["version"], 7, "{write:?}");
    }
    assert_eq!(server.value(ALL).await, before, "nothing was written");
}

#[tokio::test]
async fn any_tag_that_does_not_name_the_current_version_may_be_that_of_a_retry() {
    let server = start().await;
    let before = server.value(ALL).await;
    let write = (1, JSON, r#"{"price":1250}"#);
    for tag in ["\"6\"", "\"9\"", "\"5\", \"6\"", "W/\"6\"", "\"6-gzip\"", "6", "\"abc\"", "\"\""] {
        let reply = send(&server, write, tag, "").await.expect(200);
        assert_eq!(reply.header("counterfoil-result"), "already-applied", "{tag}");
    }
    assert_eq!(server.value(ALL).await, before, "nothing was written");
}

#[tokio::test]
async fn a_client_that_prefers_little_learns_that_its_write_was_applied_already() {
    let server = start().await;
    let request = server.request(Method::PATCH, "/bills/1").header("if-match", "\"6\"");
    let request = request.header("prefer", "return=minimal").header("content-type", JSON);
    let reply = Reply::of(request.body(r#"{"price":1250}"#)).await.expect(204);
    assert_eq!(reply.header("counterfoil-result"), "already-applied");
    assert_eq!(reply.header("etag"), "\"7\"");
    assert_eq!(reply.text, "");
}

#[tokio::test]
async fn a_write_that_changes_nothing_under_the_right_tag_raises_the_version() {
    let server = start().await;
    for (version, write) in NOTHING_NEW.iter().filter(|w| w.0 == 1).enumerate() {
        let tag = format!("\"{}\"", version + 7);
        let reply = send(&server, *write, &tag, "").await;
        assert_eq!(reply.status, 200, "{write:?}: {}", reply.text);
        assert_eq!(reply.header("counterfoil-result"), "", "{write:?}");
        assert_eq!(reply.header("etag"), format!("\"{}\"", version + 8), "{write:?}");
    }
}

#[tokio::test]
async fn an_increment_and_a_deletion_are_never_applied_already() {
    let server = start().await;
    let body = r#"{"field":"rank","by":0}"#;
    let request = server.request(Method::POST, "/bills/1/increment").header("if-match", "\"6\"");
    let reply = Reply::of(request.header("content-type", JSON).body(body)).await.expect(409);
    assert_eq!(reply.details()["kind"], "update_update");
    let reply = server.delete("/bills/1", Some("\"6\"")).await.expect(409);
    assert_eq!(reply.details()["kind"], "delete_update");
    // Deleted already is gone, not applied.
    server.delete("/bills/1", Some("\"7\"")).await.expect(204);
    let reply = server.delete("/bills/1", Some("\"7\"")).await.expect(410);
    assert_eq!(reply.header("counterfoil-result"), "");
    assert_eq!(reply.data()["price"].to_string(), "1250.00");
    assert_ne!(reply.details()["changed_at"], Value::Null);
}
