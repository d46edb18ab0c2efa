//! What a batch is answered.

use reqwest::Method;
use serde_json::{Value, json};

use super::{create, delete, increment, notes, patch, send, send_loose, statuses};
use crate::support::{Reply, json as with_json};

#[tokio::test]
async fn every_operation_has_its_answer_at_its_place() {
    let server = notes().await;
    let operations = json!([
        patch(1, Some("\"1\""), &json!({"n": 1})),
        patch(2, Some("1"), &json!({"n": 2})),
        delete(3),
        create(&json!({"id": 2000, "text": "new"})),
        create(&json!({"id": 2001, "text": "newer"})),
        {"method": "PUT", "resource": "notes", "id": 4, "if_match": 1, "body": {"text": "put"}},
        increment(5, 7),
        increment(6, 8),
        {"method": "PATCH", "resource": "notes", "id": "7", "media_type": "application/json-patch+json",
         "body": [{"op": "replace", "path": "/n", "value": 9}]},
        {"method": "PUT", "resource": "notes", "id": "2002", "if_none_match": "*", "body": {"text": "x"}},
    ]);
    let reply = send(&server, &operations).await.expect(200);
    assert_eq!(statuses(&reply), [200, 200, 204, 201, 201, 200, 200, 200, 200, 201]);
    let lines = reply.data().as_array().unwrap();
    let ids: Vec<_> = lines.iter().map(|line| line["data"]["id"].as_i64()).collect();
    let expected = [1, 2, 0, 2000, 2001, 4, 5, 6, 7, 2002].map(|id| (id > 0).then_some(id));
    assert_eq!(ids, expected);
    assert_eq!((&lines[0]["etag"], &lines[3]["etag"]), (&json!("\"2\""), &json!("\"1\"")));
    assert_eq!(lines[2], json!({"status": 204, "etag": null, "data": null}));
    assert_eq!(lines[3]["location"], "/api/v1/notes/2000");
    let numbers: Vec<_> = lines.iter().map(|line| line["data"]["n"].as_i64()).collect();
    assert_eq!(numbers[5..9], [Some(0), Some(7), Some(8), Some(9)]);
    // Rows are as PostgreSQL writes them.
    assert!(reply.text.contains(r#"{"id":2000,"text":"new","n":0,"version":1}"#), "{}", reply.text);
}

#[tokio::test]
async fn the_change_log_knows_who_wrote_each_row() {
    let server = notes().await;
    let operations: Vec<Value> = (1..=20).map(|id| patch(id, None, &json!({"n": id}))).collect();
    let request = server.request(Method::POST, "/batch").header("x-actor", "mina");
    let body = json!({ "operations": operations }).to_string();
    Reply::of(with_json(request, &body)).await.expect(200);
    let by = "SELECT count(*) FROM counterfoil.change WHERE op = 'update' AND \"by\" = 'mina' AND version = 2";
    assert_eq!(server.value(by).await.as_deref(), Some("20"));
    assert_eq!(server.value("SELECT sum(n) FROM notes").await.as_deref(), Some("210"));
}

#[tokio::test]
async fn a_dry_run_and_a_minimal_answer() {
    let server = notes().await;
    let body = json!({ "operations": [patch(1, None, &json!({"n": 1})), increment(2, 1)] });
    let dry = server.post("/batch?dry_run=true", &body.to_string()).await.expect(200);
    assert_eq!(dry.data()[0]["etag"], "\"2\"");
    assert_eq!(server.value("SELECT max(version) FROM notes").await.as_deref(), Some("1"));
    server.post("/batch?colour=red", &body.to_string()).await.expect_error(400, "INVALID_QUERY");

    let request = server.request(Method::POST, "/batch").header("prefer", "return=minimal");
    let minimal = Reply::of(with_json(request, &body.to_string())).await.expect(200);
    assert_eq!(minimal.data()[0], json!({"status": 204, "etag": "\"2\"", "data": null}));
}

#[tokio::test]
async fn a_retry_is_no_conflict_and_a_merge_is_of_its_own_record() {
    let server = notes().await;
    server.patch("/notes/1", None, r#"{"text": "theirs"}"#).await.expect(200);
    server.patch("/notes/2", None, r#"{"n": 5}"#).await.expect(200);
    let mut merge = patch(1, Some("\"1\""), &json!({"n": 7}));
    merge["on_conflict"] = json!("merge");
    let operations =
        json!([merge, patch(2, Some("\"1\""), &json!({"n": 5})), patch(3, None, &json!({"n": 3}))]);
    let reply = send(&server, &operations).await.expect(200);
    assert_eq!(reply.data()[0]["result"], "merged");
    assert_eq!(reply.data()[0]["merged"]["onto"], 2);
    assert_eq!(reply.data()[1]["result"], "already-applied");
    let parents = "SELECT string_agg(id || merged_from::text, ' ') FROM counterfoil.change";
    assert_eq!(server.value(parents).await.as_deref(), Some("1{1,2}"));
}

#[tokio::test]
async fn a_key_makes_a_batch_one_operation() {
    let server = notes().await;
    let send = |operations: &Value, atomic: bool| {
        let body = json!({ "atomic": atomic, "operations": operations }).to_string();
        let request = server.request(Method::POST, "/batch").header("idempotency-key", "k");
        Reply::of(with_json(request, &body))
    };
    let refused = json!([increment(1, 1), patch(2, Some("\"9\""), &json!({"n": 5}))]);
    send(&refused, true).await.expect_error(409, "WRITE_CONFLICT");
    let nothing = json!([patch(2, Some("\"9\""), &json!({"n": 5}))]);
    send(&nothing, false).await.expect(200);
    // Neither wrote anything, so the key is still free.
    let first = send(&refused, false).await.expect(200);
    assert_eq!(statuses(&first), [200, 409]);
    let again = send(&refused, false).await.expect(200);
    assert_eq!(again.text, first.text);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(server.value("SELECT n FROM notes WHERE id = 1").await.as_deref(), Some("1"));
    send(&json!([increment(1, 2)]), false).await.expect_error(422, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn an_empty_batch_is_answered_with_nothing() {
    let server = notes().await;
    assert_eq!(send(&server, &json!([])).await.expect(200).text, r#"{"data":[]}"#);
    assert_eq!(send_loose(&server, &json!([])).await.expect(200).text, r#"{"data":[]}"#);
}
