//! What waits is bounded: locks, slow statements.

use std::time::{Duration, Instant};

use sqlx::Executor as _;

use crate::support::Server;

const TABLE: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n int, slow boolean);
    INSERT INTO t VALUES (1, 1), (2, 1);
    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_sleep(120); RETURN new; END $$;
    CREATE TRIGGER dawdle BEFORE INSERT OR UPDATE ON t FOR EACH ROW WHEN (new.slow) EXECUTE FUNCTION dawdle();";

#[tokio::test]
async fn a_row_that_somebody_holds_is_waited_for_within_bounds() {
    let server = Server::start(TABLE, &["t"]).await;
    let mut other = server.connect().await;
    other.execute("BEGIN; UPDATE t SET n = 2 WHERE id = 1").await.unwrap();
    let begun = Instant::now();
    let (put, patch, delete, increment) = tokio::join!(
        server.put("/t/1", Some("\"1\""), r#"{"n": 3}"#),
        server.patch("/t/1", None, r#"{"n": 3}"#),
        server.delete("/t/1", None),
        server.post("/t/1/increment", r#"{"field": "n"}"#),
    );
    for reply in [put, patch, delete, increment] {
        reply.expect_error(503, "LOCK_TIMEOUT");
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "it did wait");
    assert!(begun.elapsed() < Duration::from_secs(10), "and not for ever: {:?}", begun.elapsed());
    // Readers and other rows are not concerned.
    assert_eq!(server.get("/t/1").await.expect(200).data()["version"], 1);
    server.patch("/t/2", None, r#"{"n": 3}"#).await.expect(200);
    other.execute("COMMIT").await.unwrap();
    server.put("/t/1", Some("\"1\""), r#"{"n": 3}"#).await.expect_error(409, "WRITE_CONFLICT");
    server.patch("/t/1", Some("\"2\""), r#"{"n": 3}"#).await.expect(200);
}

#[tokio::test]
async fn a_key_that_somebody_is_about_to_insert_is_waited_for_within_bounds() {
    let server = Server::start(TABLE, &["t"]).await;
    let mut other = server.connect().await;
    other.execute("BEGIN; INSERT INTO t VALUES (3, 1)").await.unwrap();
    server.post("/t", r#"{"id": 3}"#).await.expect_error(503, "LOCK_TIMEOUT");
    other.execute("ROLLBACK").await.unwrap();
    server.post("/t", r#"{"id": 3}"#).await.expect(201);
}

#[tokio::test]
async fn a_table_that_is_locked_whole_is_waited_for_within_bounds() {
    let server = Server::start(TABLE, &["t"]).await;
    let mut other = server.connect().await;
    other.execute("BEGIN; LOCK TABLE t").await.unwrap();
    let (read, list, write) = tokio::join!(
        server.get("/t/1"),
        server.get("/t"),
        server.patch("/t/1", None, r#"{"n": 3}"#)
    );
    for reply in [read, list, write] {
        reply.expect_error(503, "LOCK_TIMEOUT");
    }
    other.execute("ROLLBACK").await.unwrap();
    server.get("/t/1").await.expect(200);
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_ended_and_leaves_nothing() {
    let server = Server::start(TABLE, &["t"]).await;
    let begun = Instant::now();
    let (post, patch) = tokio::join!(
        server.post("/t", r#"{"id": 3, "slow": true}"#),
        server.patch("/t/1", None, r#"{"slow": true}"#)
    );
    post.expect_error(503, "OVERLOADED");
    patch.expect_error(503, "OVERLOADED");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(
        server.value("SELECT count(*) || '/' || sum(version) FROM t").await.as_deref(),
        Some("2/2")
    );
    server.patch("/t/1", None, r#"{"n": 3}"#).await.expect(200);
}
