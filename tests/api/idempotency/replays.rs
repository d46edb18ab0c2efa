//! One client and its repeats.

use reqwest::Method;

use super::{content, is_replay, keyed, notes};
use crate::support::Reply;

#[tokio::test]
async fn every_kind_of_write_is_answered_again_and_done_once() {
    let server = notes().await;
    let writes = [
        (Method::POST, "/notes", r#"{"id": 100, "text": "new"}"#),
        (Method::PUT, "/notes/1", r#"{"text": "replaced"}"#),
        (Method::PATCH, "/notes/2", r#"{"text": "patched"}"#),
        (Method::POST, "/notes/3/increment", r#"{"field": "n", "by": 5}"#),
        (Method::DELETE, "/notes/4", ""),
    ];
    for (place, (method, path, body)) in writes.into_iter().enumerate() {
        let key = format!("key-{place}");
        let first = Reply::of(keyed(&server, method.clone(), path, &key, body)).await;
        assert!(first.status < 300 && !is_replay(&first), "{}", first.text);
        let logged = server.value("SELECT count(*) FROM counterfoil.change").await;
        for _ in 0..2 {
            // The same key in quotes is the same key.
            let quoted = format!("\"{key}\"");
            let again = Reply::of(keyed(&server, method.clone(), path, &quoted, body)).await;
            assert_eq!(content(&again), content(&first), "{method} {path}");
            assert!(is_replay(&again), "{method} {path}");
        }
        assert_eq!(server.value("SELECT count(*) FROM counterfoil.change").await, logged);
    }
    assert_eq!(server.value("SELECT n FROM notes WHERE id = 3").await.as_deref(), Some("5"));
    let named = "SELECT count(*) FROM counterfoil.change c \
                 JOIN counterfoil.operation o ON o.id = c.operation";
    // With every first change of a record comes the row as it was before.
    assert_eq!(server.value(named).await.as_deref(), Some("9"));
}

#[tokio::test]
async fn a_body_written_otherwise_is_a_repeat_and_another_request_is_not() {
    let server = notes().await;
    let put = async |path: &str, tag: &str, body: &str| {
        let request = keyed(&server, Method::PUT, path, "k", body).header("if-match", tag);
        Reply::of(request).await
    };
    put("/notes/1", "\"1\"", r#"{"text": "a", "n": 10}"#).await.expect(200);
    let again = put("/notes/1", "\"1\"", r#" { "n": 1.0e1, "text": "\u0061" } "#).await;
    assert!(is_replay(&again.expect(200)));
    put("/notes/1", "\"1\"", r#"{"text": "b", "n": 10}"#)
        .await
        .expect_error(422, "IDEMPOTENCY_KEY_REUSED");
    put("/notes/1", "\"2\"", r#"{"text": "a", "n": 10}"#)
        .await
        .expect_error(422, "IDEMPOTENCY_KEY_REUSED");
    put("/notes/2", "\"1\"", r#"{"text": "a", "n": 10}"#)
        .await
        .expect_error(422, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn a_request_that_was_refused_does_not_use_its_key_up() {
    let server = notes().await;
    let put = async |tag: &str, body: &str| {
        let request = keyed(&server, Method::PUT, "/notes/1", "k", body).header("if-match", tag);
        Reply::of(request).await
    };
    put("\"9\"", r#"{"text": "a"}"#).await.expect_error(409, "WRITE_CONFLICT");
    put("\"1\"", r#"{"text": "a"}"#).await.expect(200);

    let post = async |key: &str, body: &str| {
        Reply::of(keyed(&server, Method::POST, "/notes", key, body)).await
    };
    post("l", r#"{"id": 2, "text": "x"}"#).await.expect_error(409, "ALREADY_EXISTS");
    post("l", r#"{"id": 200, "text": "note 3"}"#).await.expect_error(409, "ALREADY_EXISTS");
    post("l", r#"{"id": 200, "colour": 1}"#).await.expect_error(422, "UNKNOWN_FIELD");
    let missing = keyed(&server, Method::DELETE, "/notes/999", "l", "");
    Reply::of(missing).await.expect_error(404, "NOT_FOUND");
    post("l", r#"{"id": 200, "text": "x"}"#).await.expect(201);
    assert_eq!(server.value("SELECT count(*) FROM counterfoil.operation").await.unwrap(), "2");
}

#[tokio::test]
async fn a_dry_run_leaves_the_key_unused() {
    let server = notes().await;
    let body = r#"{"field": "n"}"#;
    for _ in 0..2 {
        let path = "/notes/1/increment?dry_run=true";
        let reply = Reply::of(keyed(&server, Method::POST, path, "k", body)).await.expect(200);
        assert!(!is_replay(&reply));
    }
    let real = Reply::of(keyed(&server, Method::POST, "/notes/1/increment", "k", body)).await;
    assert!(!is_replay(&real.expect(200)));
}

#[tokio::test]
async fn a_key_that_cannot_be_read_is_refused() {
    let server = notes().await;
    for key in ["", "\"open", "a b", &"k".repeat(256)] {
        let path = "/notes/1/increment?dry_run=true";
        for path in ["/notes/1/increment", path] {
            Reply::of(keyed(&server, Method::POST, path, key, r#"{"field": "n"}"#))
                .await
                .expect_error(400, "INVALID_IDEMPOTENCY_KEY");
        }
    }
    let twice = keyed(&server, Method::DELETE, "/notes/1", "a", "").header("idempotency-key", "b");
    Reply::of(twice).await.expect_error(400, "INVALID_IDEMPOTENCY_KEY");
    assert_eq!(server.value("SELECT sum(version) FROM notes").await.unwrap(), "20");
}

#[tokio::test]
async fn a_merge_under_a_key_is_a_merge_of_that_record_alone() {
    let server = notes().await;
    server.patch("/notes/1", None, r#"{"text": "theirs"}"#).await.expect(200);
    let path = "/notes/1?on_conflict=merge";
    let merge =
        || keyed(&server, Method::PATCH, path, "k", r#"{"n": 7}"#).header("if-match", "\"1\"");
    let first = Reply::of(merge()).await.expect(200);
    assert_eq!(first.header("counterfoil-result"), "merged");
    let again = Reply::of(merge()).await;
    assert_eq!(content(&again), content(&first));
    let parents = "SELECT merged_from FROM counterfoil.change WHERE id = '1' AND version = 3";
    assert_eq!(server.value(parents).await.as_deref(), Some("{1,2}"));
}

#[tokio::test]
async fn a_constraint_that_is_checked_late_refuses_in_time() {
    let late = "
        CREATE TABLE notes (id integer PRIMARY KEY,
            text text UNIQUE DEFERRABLE INITIALLY DEFERRED, n integer NOT NULL DEFAULT 0);
        INSERT INTO notes VALUES (1, 'a'), (2, 'b');";
    let server = crate::support::Server::start(late, &["notes"]).await;
    let patch = |text: &str| {
        let body = format!(r#"{{"text": "{text}"}}"#);
        keyed(&server, Method::PATCH, "/notes/1", "k", &body)
    };
    Reply::of(patch("b")).await.expect_error(409, "ALREADY_EXISTS");
    Reply::of(patch("c")).await.expect(200);
}
