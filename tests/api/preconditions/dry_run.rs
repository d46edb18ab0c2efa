//! `?dry_run=true` where the write would fail: the answer is the one that the write itself would
//! get, also where a constraint has its say only at the end of the transaction.

use reqwest::{Method, RequestBuilder};

use crate::support::{Reply, Server};

const PARTS: &str = "
    CREATE TABLE makers (id integer PRIMARY KEY);
    CREATE TABLE parts (
        id integer PRIMARY KEY,
        amount integer NOT NULL CHECK (amount >= 0),
        code text UNIQUE DEFERRABLE INITIALLY DEFERRED,
        maker integer REFERENCES makers DEFERRABLE INITIALLY DEFERRED,
        doubled integer GENERATED ALWAYS AS (amount * 2) STORED);
    CREATE TABLE uses (part integer REFERENCES parts DEFERRABLE INITIALLY DEFERRED);";

const RECORDS: &str = "INSERT INTO parts VALUES (1, 5, 'one'), (2, 5, 'two'), (3, 5, 'three');
    INSERT INTO uses VALUES (3);";

const ALL: &str = "SELECT (SELECT json_agg(t ORDER BY id) FROM parts t)::text || \
    (SELECT count(*) FROM counterfoil.change)::text";

/// Method, path, media type, body, and what both answers must be.
#[rustfmt::skip]
const REFUSED: &[(Method, &str, &str, &str, u16, &str)] = &[
    (Method::POST, "", "json", r#"{"id":9,"amount":1,"maker":404}"#, 422, "REFERENCE_NOT_FOUND"),
    (Method::POST, "", "json", r#"{"id":9,"amount":1,"code":"two"}"#, 409, "ALREADY_EXISTS"),
    (Method::POST, "", "json", r#"{"id":2,"amount":1}"#, 409, "ALREADY_EXISTS"),
    (Method::POST, "", "json", r#"{"id":9,"amount":-1}"#, 422, "CHECK_FAILED"),
    (Method::PUT, "/1", "json", r#"{"amount":1,"maker":404}"#, 422, "REFERENCE_NOT_FOUND"),
    (Method::PUT, "/1", "json", r#"{"amount":1,"code":"two"}"#, 409, "ALREADY_EXISTS"),
    (Method::PUT, "/1", "json", r#"{"amount":-1}"#, 422, "CHECK_FAILED"),
    (Method::PATCH, "/1", "json", r#"{"maker":404}"#, 422, "REFERENCE_NOT_FOUND"),
    (Method::PATCH, "/1", "json", r#"{"code":"two"}"#, 409, "ALREADY_EXISTS"),
    (Method::PATCH, "/1", "merge-patch+json", r#"{"code":"two"}"#, 409, "ALREADY_EXISTS"),
    (Method::PATCH, "/1", "merge-patch+json", r#"{"amount":-1}"#, 422, "CHECK_FAILED"),
    (Method::PATCH, "/1", "json-patch+json", r#"[{"op":"replace","path":"/code","value":"two"}]"#, 409, "ALREADY_EXISTS"),
    (Method::PATCH, "/1", "json-patch+json", r#"[{"op":"add","path":"/maker","value":404}]"#, 422, "REFERENCE_NOT_FOUND"),
    (Method::PATCH, "/1", "json-patch+json", r#"[{"op":"test","path":"/amount","value":6}]"#, 409, "WRITE_CONFLICT"),
    (Method::POST, "/1/increment", "json", r#"{"field":"amount","by":-6}"#, 422, "CHECK_FAILED"),
    (Method::POST, "/1/increment", "json", r#"{"field":"amount","by":2147483647}"#, 422, "INVALID_VALUE"),
    (Method::DELETE, "/3", "json", "", 409, "REFERENCED"),
];

fn request(server: &Server, method: &Method, path: &str, query: &str) -> RequestBuilder {
    server.request(method.clone(), &format!("/parts{path}{query}"))
}

#[tokio::test]
async fn a_dry_run_is_refused_as_the_write_itself_would_be() {
    let server = Server::start(PARTS, &["parts"]).await;
    server.sql(RECORDS).await;
    let before = server.value(ALL).await;
    for (method, path, media_type, body, status, code) in REFUSED {
        let [dry, wet] = ["?dry_run=true", ""].map(|query| {
            request(&server, method, path, query)
                .header("content-type", format!("application/{media_type}"))
                .body(*body)
        });
        let (dry, wet) = (Reply::of(dry).await, Reply::of(wet).await);
        assert_eq!(
            (wet.status, wet.code()),
            (*status, *code),
            "{method} {path} {body}: {}",
            wet.text
        );
        assert_eq!(
            (dry.status, dry.code()),
            (*status, *code),
            "{method} {path} {body}: {}",
            dry.text
        );
        assert_eq!(dry.details(), wet.details(), "{method} {path} {body}");
        assert_eq!(dry.data(), wet.data(), "{method} {path} {body}");
        assert_eq!(dry.header("etag"), wet.header("etag"), "{method} {path} {body}");
    }
    assert_eq!(server.value(ALL).await, before, "nothing was written");
    no_transaction_is_left(&server).await;
}

#[tokio::test]
async fn a_dry_run_shows_what_the_database_would_make_of_the_row() {
    let server = Server::start(PARTS, &["parts"]).await;
    server.sql(RECORDS).await;
    let before = server.value(ALL).await;
    let put = |query| {
        let request = request(&server, &Method::PUT, "/1", query).header("if-match", "\"1\"");
        request.header("content-type", "application/json").body(r#"{"amount":7}"#)
    };
    let dry = Reply::of(put("?dry_run=true")).await.expect(200);
    assert_eq!(dry.data()["doubled"], 14);
    assert_eq!(dry.data()["version"], 2);
    assert_eq!(server.value(ALL).await, before, "nothing was written");
    no_transaction_is_left(&server).await;
    let wet = Reply::of(put("")).await.expect(200);
    assert_eq!(wet.text, dry.text);
    // What was true of the row when it was asked need not be true any more.
    let late = Reply::of(put("?dry_run=true")).await;
    assert_eq!(late.header("counterfoil-result"), "already-applied");
}

async fn no_transaction_is_left(server: &Server) {
    let open = "SELECT count(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    assert_eq!(server.value(open).await.as_deref(), Some("0"));
}
