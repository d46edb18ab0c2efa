//! How many statements a request costs: one where it applies, exactly one more where it does not.
//! PostgreSQL counts them.

use reqwest::{Method, RequestBuilder};
use sqlx::{Connection as _, PgConnection};

use crate::support::{Reply, Server, json};

const ITEMS: &str = "
    CREATE TABLE items (id integer PRIMARY KEY, name text NOT NULL, n integer NOT NULL DEFAULT 0);
    INSERT INTO items SELECT id, 'old' FROM generate_series(1, 20) AS id;
    CREATE EXTENSION pg_stat_statements;";

/// Counts what a server's sessions run.
struct Counter {
    conn: PgConnection,
}

impl Counter {
    async fn new(server: &Server) -> Self {
        Self { conn: PgConnection::connect(&server.database_url).await.unwrap() }
    }

    /// Sends a request and gives its answer with what it cost, our own looks and those at the
    /// catalogue and the feed left out.
    async fn count(&mut self, request: RequestBuilder) -> (Reply, i64) {
        let reset = "SELECT pg_stat_statements_reset(0, \
                     (SELECT oid FROM pg_database WHERE datname = current_database()), 0)";
        sqlx::query(reset).execute(&mut self.conn).await.unwrap();
        let reply = Reply::of(request).await;
        let calls = sqlx::query_scalar(
            "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements \
             WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%counterfoil.fingerprint%' \
             AND query NOT LIKE '%pg_backend_pid%' AND query NOT LIKE '%counterfoil.feed%'",
        );
        (reply, calls.fetch_one(&mut self.conn).await.unwrap())
    }
}

fn patch(server: &Server, id: i32, media_type: &str, body: &str) -> RequestBuilder {
    let request = server.request(Method::PATCH, &format!("/items/{id}"));
    request.header("content-type", media_type).body(body.to_owned())
}

fn put(server: &Server, id: i32, name: &str) -> RequestBuilder {
    let request = server.request(Method::PUT, &format!("/items/{id}"));
    json(request, &format!(r#"{{"name":"{name}"}}"#))
}

fn delete(server: &Server, id: i32) -> RequestBuilder {
    server.request(Method::DELETE, &format!("/items/{id}"))
}

fn increment(server: &Server, id: i32) -> RequestBuilder {
    json(server.request(Method::POST, &format!("/items/{id}/increment")), r#"{"field":"n"}"#)
}

/// Every kind of write that changes the row `id`, to something that no other of them makes it.
fn writes(server: &Server, id: i32) -> [(&'static str, RequestBuilder); 5] {
    [
        ("PUT", put(server, id, "put")),
        ("PATCH", patch(server, id, "application/json", r#"{"name":"patched"}"#)),
        ("merge patch", patch(server, id, "application/merge-patch+json", r#"{"name":"merged"}"#)),
        ("increment", increment(server, id)),
        ("DELETE", delete(server, id)),
    ]
}

#[tokio::test]
async fn a_write_that_applies_is_one_statement_with_and_without_if_match() {
    let server = Server::start(ITEMS, &["items"]).await;
    let mut counter = Counter::new(&server).await;
    for (id, guarded) in [(1, false), (2, true)] {
        for (version, (kind, request)) in (1..).zip(writes(&server, id)) {
            let request = if guarded {
                request.header("if-match", format!("\"{version}\""))
            } else {
                request
            };
            let (reply, statements) = counter.count(request).await;
            reply.expect(if kind == "DELETE" { 204 } else { 200 });
            assert_eq!(statements, 1, "{kind}, guarded: {guarded}");
        }
    }
    for body in [r#"{"id":100,"name":"new"}"#, r#"{"id":101,"name":"new"}"#] {
        let request = json(server.request(Method::POST, "/items"), body);
        let (reply, statements) = counter.count(request).await;
        reply.expect(201);
        assert_eq!(statements, 1, "POST");
    }
    let (reply, statements) =
        counter.count(put(&server, 102, "new").header("if-none-match", "*")).await;
    reply.expect(201);
    assert_eq!(statements, 1, "PUT that creates");
}

#[tokio::test]
async fn a_json_patch_is_a_read_and_one_write() {
    let server = Server::start(ITEMS, &["items"]).await;
    let mut counter = Counter::new(&server).await;
    let body = r#"[{"op":"replace","path":"/name","value":"patched"}]"#;
    for (id, tag) in [(1, None), (2, Some("\"1\""))] {
        let mut request = patch(&server, id, "application/json-patch+json", body);
        if let Some(tag) = tag {
            request = request.header("if-match", tag);
        }
        let (reply, statements) = counter.count(request).await;
        reply.expect(200);
        assert_eq!(statements, 2);
    }
}

#[tokio::test]
async fn a_conflict_is_two_statements() {
    let server = Server::start(ITEMS, &["items"]).await;
    let mut counter = Counter::new(&server).await;
    server.sql("UPDATE items SET name = 'theirs' WHERE id = 1").await;
    for (kind, request) in writes(&server, 1) {
        let (reply, statements) = counter.count(request.header("if-match", "\"1\"")).await;
        reply.expect(409);
        assert_eq!(statements, 2, "{kind}");
    }
    let body = r#"[{"op":"replace","path":"/name","value":"patched"}]"#;
    let request = patch(&server, 1, "application/json-patch+json", body);
    let (reply, statements) = counter.count(request.header("if-match", "\"1\"")).await;
    reply.expect(409);
    assert_eq!(statements, 2, "JSON patch");
    let request = put(&server, 1, "mine").header("if-none-match", "*");
    let (reply, statements) = counter.count(request).await;
    reply.expect(412);
    // PostgreSQL counts only what ended well, and the INSERT did not.
    assert_eq!(statements, 1, "PUT that was to create");
}

#[tokio::test]
async fn a_write_that_was_made_already_is_two_statements() {
    let server = Server::start(ITEMS, &["items"]).await;
    let mut counter = Counter::new(&server).await;
    Reply::of(put(&server, 1, "mine").header("if-match", "\"1\"")).await.expect(200);
    let (reply, statements) =
        counter.count(put(&server, 1, "mine").header("if-match", "\"1\"")).await;
    let reply = reply.expect(200);
    assert_eq!(reply.header("counterfoil-result"), "already-applied");
    assert_eq!(statements, 2);
}

#[tokio::test]
async fn a_read_is_one_statement_and_a_second_one_explains_what_is_not_there() {
    let server = Server::start(ITEMS, &["items"]).await;
    let mut counter = Counter::new(&server).await;
    server.delete("/items/2", None).await.expect(204);
    let mut get = async |path: &str, tag: Option<&str>| {
        let mut request = server.request(Method::GET, path);
        if let Some(tag) = tag {
            request = request.header("if-none-match", tag);
        }
        let (reply, statements) = counter.count(request).await;
        (reply.status, statements)
    };
    assert_eq!(get("/items/1", None).await, (200, 1));
    assert_eq!(get("/items/1?select=name", None).await, (200, 1));
    assert_eq!(get("/items/1", Some("\"1\"")).await, (304, 1));
    assert_eq!(get("/items", None).await, (200, 1));
    assert_eq!(get("/items/2", None).await, (410, 2));
    assert_eq!(get("/items/3000", None).await, (404, 2));
    for (id, status) in [(2, 410), (3000, 404)] {
        for (kind, request) in writes(&server, id) {
            let (reply, statements) = counter.count(request).await;
            reply.expect(status);
            assert_eq!(statements, 2, "{kind} of {id}");
        }
    }
}
