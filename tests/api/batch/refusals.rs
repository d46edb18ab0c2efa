//! What a batch refuses, and what that leaves.

use serde_json::{Value, json};

use super::{create, delete, increment, notes, patch, refused, send, send_loose, statuses};
use crate::support::Server;

async fn untouched(server: &Server) {
    let written = "SELECT count(*) FROM counterfoil.change WHERE version > 1";
    assert_eq!(server.value(written).await.as_deref(), Some("0"));
}

#[tokio::test]
async fn a_refusal_refuses_all_and_every_refusal_is_told() {
    let server = notes().await;
    let operations = json!([
        patch(1, None, &json!({"n": 1})),
        patch(2, Some("\"5\""), &json!({"n": 1})),
        patch(3, None, &json!({"n": -1})),
        create(&json!({"id": 4, "text": "x"})),
        delete(5000),
        patch(6, None, &json!({"colour": 1})),
        {"method": "PATCH", "resource": "nothing", "id": "1", "body": {}},
        {"method": "PATCH", "resource": "notes", "id": "x", "body": {}},
        patch(7, Some("\"open"), &json!({"n": 1})),
        patch(8, None, &json!({"n": 1})),
    ]);
    let reply = send(&server, &operations).await.expect_error(409, "WRITE_CONFLICT");
    let expected = [
        (1, "WRITE_CONFLICT"),
        (2, "CHECK_FAILED"),
        (3, "ALREADY_EXISTS"),
        (4, "NOT_FOUND"),
        (5, "UNKNOWN_FIELD"),
        (6, "NOT_FOUND"),
        (7, "INVALID_ID"),
        (8, "INVALID_IF_MATCH"),
    ];
    assert_eq!(refused(&reply), expected.map(|(index, code)| (index, code.to_owned())));
    assert_eq!(reply.data(), &Value::Null);
    assert_eq!(reply.details()["index"], 1);
    let first = &reply.details()["operations"][0];
    assert_eq!((&first["status"], &first["data"]["version"]), (&json!(409), &json!(1)));
    assert_eq!(first["error"]["details"]["your_version"], 5);
    assert_eq!(first["error"]["details"]["kind"], "update_update");
    assert_eq!(first["error"]["request_id"], reply.header("x-request-id"));
    untouched(&server).await;

    // Each for itself: the same refusals, and the others hold.
    let loose = send_loose(&server, &operations).await.expect(200);
    assert_eq!(statuses(&loose), [200, 409, 422, 409, 404, 422, 404, 400, 400, 200]);
    assert_eq!(loose.data()[1]["error"]["details"]["your_version"], 5);
    assert_eq!(loose.data()[1]["data"]["id"], 2);
    let versions = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM notes WHERE version = 2";
    assert_eq!(server.value(versions).await.as_deref(), Some("1 8"));
}

#[tokio::test]
async fn a_broken_tag_is_never_taken_as_absent() {
    let server = notes().await;
    for tag in [
        json!(null),
        json!(""),
        json!("*, \"1\""),
        json!(true),
        json!(["\"1\""]),
        json!({}),
        json!(-1),
    ] {
        let mut operation = patch(1, None, &json!({"n": 1}));
        for name in ["if_match", "if_none_match"] {
            operation[name] = tag.clone();
            send(&server, &json!([operation])).await.expect_error(400, "INVALID_IF_MATCH");
            let loose = send_loose(&server, &json!([operation])).await.expect(200);
            assert_eq!(loose.data()[0]["error"]["code"], "INVALID_IF_MATCH");
            operation.as_object_mut().unwrap().remove(name);
        }
    }
    untouched(&server).await;
}

#[tokio::test]
async fn what_is_no_batch_is_refused_whole() {
    let server = notes().await;
    for (body, status, code) in [
        ("", 400, "INVALID_JSON"),
        ("[]", 400, "INVALID_JSON"),
        ("{}", 422, "MISSING_FIELD"),
        (r#"{"operations": {}}"#, 422, "INVALID_VALUE"),
        (r#"{"operations": [], "atomic": "yes"}"#, 422, "INVALID_VALUE"),
        (r#"{"operations": [], "colour": 1}"#, 422, "UNKNOWN_FIELD"),
        (r#"{"operations": [1]}"#, 422, "INVALID_VALUE"),
        (r#"{"operations": [{}]}"#, 422, "MISSING_FIELD"),
        (
            r#"{"operations": [{"method": "GET", "resource": "notes", "id": "1"}]}"#,
            422,
            "INVALID_VALUE",
        ),
        (
            r#"{"operations": [{"method": "PATCH", "resource": "notes", "body": {}}]}"#,
            422,
            "MISSING_FIELD",
        ),
        (
            r#"{"operations": [{"method": "POST", "resource": "notes", "id": "1", "body": {}}]}"#,
            422,
            "INVALID_VALUE",
        ),
        (
            r#"{"operations": [{"method": "PATCH", "resource": "notes", "id": "1", "if-match": "\"1\"", "body": {}}]}"#,
            422,
            "UNKNOWN_FIELD",
        ),
        (
            r#"{"operations": [{"method": "PATCH", "resource": "notes", "id": "1", "media_type": "text/plain", "body": {}}]}"#,
            415,
            "UNSUPPORTED_MEDIA_TYPE",
        ),
        (
            r#"{"operations": [{"method": "PATCH", "resource": "notes", "id": "1", "on_conflict": "win", "body": {}}]}"#,
            422,
            "INVALID_VALUE",
        ),
        (
            r#"{"operations": [{"method": "PATCH", "resource": "notes", "id": "1"}]}"#,
            400,
            "INVALID_JSON",
        ),
    ] {
        server.post("/batch", body).await.expect_error(status, code);
    }
    server.get("/batch").await.expect_error(405, "METHOD_NOT_ALLOWED");
    untouched(&server).await;
}

#[tokio::test]
async fn a_batch_holds_five_hundred_operations() {
    let server = notes().await;
    let operations: Vec<_> = (1..=501).map(|id| increment(id, 1)).collect();
    let reply = send(&server, &json!(operations)).await.expect_error(422, "INVALID_VALUE");
    assert_eq!(reply.details()["max_operations"], 500);
    untouched(&server).await;
    let reply = send(&server, &json!(operations[..500])).await.expect(200);
    assert_eq!(statuses(&reply), [200; 500]);
    assert_eq!(server.value("SELECT sum(n) FROM notes").await.as_deref(), Some("500"));
}

#[tokio::test]
async fn one_bad_row_does_not_fail_its_neighbours() {
    let server = notes().await;
    let body = |id: i32| json!({"n": if id == 50 { -1 } else { id }});
    let operations: Vec<_> = (1..=100).map(|id| patch(id, Some("\"1\""), &body(id))).collect();
    let reply = send_loose(&server, &json!(operations)).await.expect(200);
    assert_eq!(reply.data()[49]["error"]["code"], "CHECK_FAILED");
    assert_eq!(statuses(&reply).iter().filter(|status| **status == 200).count(), 99);
    let written = "SELECT count(*) FROM counterfoil.change WHERE version = 2";
    assert_eq!(server.value(written).await.as_deref(), Some("99"));
}

#[tokio::test]
async fn a_row_that_somebody_holds_is_its_own_operations_trouble() {
    use sqlx::Connection as _;
    let server = notes().await;
    let mut holder = server.connect().await;
    let mut held = holder.begin().await.unwrap();
    sqlx::query("SELECT FROM notes WHERE id = 2 FOR UPDATE").execute(&mut *held).await.unwrap();
    let operations = json!([increment(1, 1), increment(2, 1), increment(3, 1)]);
    let (whole, loose) = tokio::join!(send(&server, &operations), send_loose(&server, &operations));
    whole.expect_error(503, "LOCK_TIMEOUT");
    assert_eq!(statuses(&loose.expect(200)), [200, 503, 200]);
    held.rollback().await.unwrap();
    let sum = "SELECT string_agg(n::text, ' ' ORDER BY id) FROM notes WHERE id < 4";
    assert_eq!(server.value(sum).await.as_deref(), Some("1 0 1"));
}
