//! A running server notices what becomes of its tables, and no request fails meanwhile.

use std::time::{Duration, Instant};

use crate::support::{Reply, Server};

/// The promise is two seconds; a busy machine gets as much again.
const NOTICED: Duration = Duration::from_secs(4);

const TABLE: &str = "
    CREATE TYPE mood AS ENUM ('calm');
    CREATE TABLE t (id int PRIMARY KEY, a int, b text, m mood, v varchar(3));
    INSERT INTO t SELECT n, n, 'b', 'calm', 'v' FROM generate_series(1, 20) n;
    CREATE TABLE later (id int PRIMARY KEY, a int);
    INSERT INTO later VALUES (1, 1);";

/// Changes the tables and waits until an answer is as it should be, asking other things all the while.
async fn noticed(
    server: &Server,
    sql: &str,
    asked: impl AsyncFn(&Server) -> Reply,
    wanted: impl Fn(&Reply) -> bool,
) {
    server.sql(sql).await;
    let changed = Instant::now();
    loop {
        let reply = asked(server).await;
        bearable(&reply);
        if wanted(&reply) {
            return;
        }
        assert!(changed.elapsed() < NOTICED, "not noticed: {sql}: {} {}", reply.status, reply.text);
        for path in ["/t/2", "/t?limit=3&order=id.desc", "/t?b=eq.b", "/later/1"] {
            bearable(&server.get(path).await);
        }
        bearable(&server.patch("/t/2", None, r#"{"b": "c"}"#).await);
        bearable(&server.put("/t/3", None, r#"{"a": 1}"#).await);
        let post = server.post("/later", r#"{"id": 9}"#).await;
        bearable(&post);
        if post.status == 201 {
            bearable(&server.delete("/later/9", None).await);
        }
    }
}

/// What a client may be told while a table changes under it.
fn bearable(reply: &Reply) {
    let known = [200, 201, 204, 400, 404, 409, 410, 422, 503];
    assert!(known.contains(&reply.status), "{} {}", reply.status, reply.text);
}

fn has_status(status: u16) -> impl Fn(&Reply) -> bool {
    move |reply| reply.status == status
}

#[tokio::test]
async fn adoption_and_release_are_noticed() {
    let server = Server::start(TABLE, &["t"]).await;
    server.get("/later/1").await.expect_error(404, "NOT_FOUND");
    let read = async |server: &Server| server.get("/later/1").await;
    noticed(&server, "SELECT counterfoil.adopt('later')", read, has_status(200)).await;
    noticed(&server, "SELECT counterfoil.release('later')", read, has_status(404)).await;
    let renamed = async |server: &Server| server.get("/others/1").await;
    noticed(&server, "SELECT counterfoil.adopt('later', 'others')", renamed, has_status(200)).await;
    noticed(&server, "ALTER TABLE later RENAME TO latest", renamed, has_status(200)).await;
    server.patch("/others/1", None, r#"{"a": 2}"#).await.expect(200);
    noticed(&server, "CREATE SCHEMA s; ALTER TABLE latest SET SCHEMA s", renamed, has_status(200))
        .await;
    noticed(&server, "DROP TABLE s.latest", renamed, has_status(404)).await;
    noticed(
        &server,
        "SELECT counterfoil.release('t', true)",
        async |server| server.get("/t/1").await,
        has_status(404),
    )
    .await;
}

#[tokio::test]
async fn changed_columns_are_noticed() {
    let server = Server::start(TABLE, &["t", "later"]).await;
    let patch =
        |body: &'static str| async move |server: &Server| server.patch("/t/1", None, body).await;
    noticed(&server, "ALTER TABLE t ADD fresh int", patch(r#"{"fresh": 1}"#), has_status(200))
        .await;
    noticed(
        &server,
        "ALTER TABLE t ALTER a TYPE text USING a::text",
        patch(r#"{"a": "words"}"#),
        has_status(200),
    )
    .await;
    noticed(
        &server,
        "ALTER TABLE t ALTER v TYPE varchar(9)",
        patch(r#"{"v": "longer"}"#),
        has_status(200),
    )
    .await;
    noticed(&server, "ALTER TABLE t RENAME b TO c", patch(r#"{"c": "x"}"#), has_status(200)).await;
    noticed(&server, "ALTER TABLE t RENAME c TO b", patch(r#"{"b": "x"}"#), has_status(200)).await;
    noticed(
        &server,
        "ALTER TYPE mood ADD VALUE 'wild'",
        patch(r#"{"m": "wild"}"#),
        has_status(200),
    )
    .await;
    noticed(
        &server,
        "ALTER TYPE mood RENAME VALUE 'wild' TO 'tame'",
        patch(r#"{"m": "tame"}"#),
        has_status(200),
    )
    .await;
    noticed(&server, "ALTER TABLE t DROP fresh", patch(r#"{"fresh": 1}"#), |reply| {
        reply.code() == "UNKNOWN_FIELD"
    })
    .await;
    let replace = async |server: &Server| server.put("/t/1", None, r#"{"a": "x"}"#).await;
    noticed(&server, "ALTER TABLE t ALTER b SET DEFAULT 'new'", replace, |reply| {
        reply.data()["b"] == "new"
    })
    .await;
    noticed(
        &server,
        "UPDATE t SET m = 'calm'; ALTER TABLE t ALTER m SET NOT NULL",
        replace,
        |reply| reply.code() == "MISSING_FIELD",
    )
    .await;
    let listed = async |server: &Server| server.get("/t?n=gt.1&order=n.desc&limit=1").await;
    noticed(
        &server,
        "ALTER TABLE t ADD n numeric GENERATED ALWAYS AS (id * 1.5) STORED",
        listed,
        has_status(200),
    )
    .await;
    let reply = listed(&server).await;
    assert_eq!(reply.data()[0]["n"].to_string(), "30.0");
}

#[tokio::test]
async fn a_hidden_column_that_is_renamed_is_not_shown() {
    let server =
        Server::configured(TABLE, &["t", "later"], "[resource.t]\nhidden = [\"b\"]\n").await;
    server.sql("UPDATE t SET b = 'secret'").await;
    assert!(!server.get("/t/1").await.expect(200).text.contains("secret"));
    let read = async |server: &Server| {
        let reply = server.get("/t/1").await;
        assert!(!reply.text.contains("secret"), "{}", reply.text);
        reply
    };
    noticed(&server, "ALTER TABLE t RENAME b TO bb", read, has_status(404)).await;
    server.get("/later/1").await.expect(200);
    noticed(&server, "ALTER TABLE t RENAME bb TO b", read, has_status(200)).await;
}

#[tokio::test]
async fn requests_under_way_finish_on_what_they_began_with() {
    let server = Server::start(
        "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1);
         CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_advisory_xact_lock(1); RETURN new; END $$;
         CREATE TRIGGER wait BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION wait()",
        &["t"],
    )
    .await;
    let mut gate = server.connect().await;
    sqlx::query("SELECT pg_advisory_lock(1)").execute(&mut gate).await.unwrap();
    let change = async {
        // A column cannot be added while a write is under way: PostgreSQL makes the one wait.
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        crate::support::wait_until("the write waits", async || {
            server.value(waiting).await.as_deref() == Some("1")
        })
        .await;
        let adding = async { server.sql("ALTER TABLE t ADD b int").await };
        let opening = async {
            crate::support::wait_until("the change waits", async || {
                let queued = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted";
                server.value(queued).await.as_deref() == Some("1")
            })
            .await;
            sqlx::query("SELECT pg_advisory_unlock(1)").execute(&mut gate).await.unwrap();
        };
        tokio::join!(adding, opening);
    };
    let (reply, ()) = tokio::join!(server.patch("/t/1", Some("\"1\""), r#"{"a": 2}"#), change);
    assert_eq!(reply.expect(200).raw_data(), r#"{"id":1,"a":2,"version":2}"#);
    assert!(server.get("/t/1").await.expect(200).text.contains("\"b\":null"));
}
