//! A refused batch tells of nothing that its own operations wrote: none of it holds.

use serde_json::{Value, json};

use super::{create, delete, increment, notes, patch, refused, send, send_loose};
use crate::support::{Reply, Server};

/// The refusals of a batch, of whose rows none may say a version that was never committed.
async fn refuse(server: &Server, operations: &Value) -> (Reply, Vec<Value>) {
    let reply = send(server, operations).await;
    let lines = reply.details()["operations"].as_array().unwrap().clone();
    assert_eq!(server.value("SELECT max(version) FROM notes").await.as_deref(), Some("1"));
    for line in &lines {
        let version = line["data"].get("version").cloned().unwrap_or(json!(1));
        let current = line["error"]["details"].get("current_version").cloned().unwrap_or(json!(1));
        assert_eq!((version, current), (json!(1), json!(1)), "{line}");
    }
    (reply, lines)
}

/// That a refusal says which operation it comes of, and nothing of the row.
#[track_caller]
fn assert_untold(line: &Value, earlier: i64) {
    assert_eq!(line["data"], Value::Null, "{line}");
    let details = line["error"]["details"].as_object().unwrap();
    assert_eq!(details["earlier_operation"], earlier, "{line}");
    for name in ["current_version", "fields", "changed_by", "changed_at", "mergeable"] {
        assert!(!details.contains_key(name), "{name}: {line}");
    }
    let message = line["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("operation {earlier}")), "{message}");
}

#[tokio::test]
async fn what_an_earlier_operation_made_of_a_row_is_not_told() {
    let server = notes().await;
    let stale = json!([
        patch(1, None, &json!({"n": 77})),
        patch(1, Some("\"1\""), &json!({"n": 88})),
        patch(2, Some("\"7\""), &json!({"n": 1})),
    ]);
    let (reply, lines) = refuse(&server, &stale).await;
    let reply = reply.expect_error(409, "WRITE_CONFLICT");
    assert_eq!(reply.details()["index"], 1);
    assert_untold(&lines[0], 0);
    assert_eq!(lines[0]["error"]["details"]["your_version"], 1);
    // What others wrote is told as ever.
    assert_eq!(lines[1]["data"]["version"], 1);
    assert_eq!(lines[1]["error"]["details"]["fields"][0]["theirs"], 0);

    // The latest of those ahead of it is named.
    let twice = json!([
        increment(1, 1),
        increment(1, 1),
        patch(1, Some("\"1\""), &json!({"n": 5})),
        increment(1, 1),
    ]);
    let (_, lines) = refuse(&server, &twice).await;
    assert_untold(&lines[0], 1);

    let gone = json!([delete(1), patch(1, None, &json!({"n": 1}))]);
    let (reply, lines) = refuse(&server, &gone).await;
    reply.expect_error(410, "RECORD_DELETED");
    assert_untold(&lines[0], 0);

    // Deleted once more, it is as if nothing of it had been.
    let (reply, lines) = refuse(&server, &json!([delete(1), delete(1), increment(2, 1)])).await;
    reply.expect_error(410, "RECORD_DELETED");
    assert_untold(&lines[0], 0);

    // Each for itself, the earlier one holds, and so does what is told of it.
    let loose = send_loose(&server, &stale).await.expect(200);
    assert_eq!(loose.data()[1]["error"]["details"]["current_version"], 2);
    assert_eq!(loose.data()[1]["data"]["n"], 77);
}

#[tokio::test]
async fn a_record_that_the_batch_itself_made_is_no_winner() {
    let server = notes().await;
    let made = json!([
        create(&json!({"id": 2000, "text": "new"})),
        create(&json!({"id": 2000, "text": "other"})),
        create(&json!({"id": 2001, "text": "new"})),
        create(&json!({"id": 3})),
    ]);
    let (reply, lines) = refuse(&server, &made).await;
    reply.expect_error(409, "ALREADY_EXISTS");
    assert_untold(&lines[0], 0);
    assert_eq!(lines[0]["error"]["details"]["field"], "id");
    assert_untold(&lines[1], 0);
    assert_eq!(lines[1]["error"]["details"]["field"], "text");
    assert_eq!(lines[2]["data"]["text"], "note 3");

    // A value that was moved away and one that was moved to.
    let moved = json!([
        patch(1, None, &json!({"text": "moved"})),
        patch(2, None, &json!({"text": "moved"})),
        patch(4, None, &json!({"text": "note 5"})),
    ]);
    let (_, lines) = refuse(&server, &moved).await;
    assert_untold(&lines[0], 0);
    assert_eq!(lines[1]["data"]["text"], "note 5");
}

#[tokio::test]
async fn a_refusal_that_stands_by_itself_shows_the_row_as_it_is() {
    let server = notes().await;
    let operations = json!([
        patch(1, None, &json!({"n": 5})),
        patch(1, Some("\"9\""), &json!({"n": 6})),
        patch(1, None, &json!({"n": -1})),
        create(&json!({"id": 2000})),
        patch(2000, None, &json!({"n": -1})),
    ]);
    let (reply, lines) = refuse(&server, &operations).await;
    let codes = ["WRITE_CONFLICT", "CHECK_FAILED", "CHECK_FAILED"];
    assert_eq!(refused(&reply).iter().map(|(_, code)| code.as_str()).collect::<Vec<_>>(), codes);
    let alone = server.patch("/notes/1", Some("\"9\""), r#"{"n": 6}"#).await.expect(409);
    assert_eq!(lines[0]["error"]["details"], *alone.details());
    assert_eq!(lines[0]["data"], *alone.data());
    let alone = server.patch("/notes/1", None, r#"{"n": -1}"#).await.expect(422);
    assert_eq!(lines[1]["error"]["details"], *alone.details());
    assert_eq!(lines[1]["data"], *alone.data());
    // By itself it would meet no record at all: the rule stands against it, and there is no row to show.
    assert_untold(&lines[2], 3);
    assert_eq!(lines[2]["error"]["details"]["field"], "n");
}

#[tokio::test]
async fn what_triggers_and_cascades_did_is_not_told_either() {
    let server = Server::start(
        "CREATE TABLE lists (id integer PRIMARY KEY, items integer NOT NULL DEFAULT 0);
         CREATE TABLE items (id integer PRIMARY KEY, list integer NOT NULL REFERENCES lists ON DELETE CASCADE, done boolean);
         CREATE TABLE marks (id integer PRIMARY KEY, list integer NOT NULL REFERENCES lists);
         CREATE FUNCTION count_items() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN UPDATE lists SET items = items + 1 WHERE id = NEW.list; RETURN NULL; END $$;
         CREATE TRIGGER count_items AFTER INSERT ON items FOR EACH ROW EXECUTE FUNCTION count_items();
         INSERT INTO lists VALUES (1), (2); INSERT INTO items VALUES (10, 2, false);",
        &["lists", "items", "marks"],
    )
    .await;
    let of = |method: &str, resource: &str, more: Value| {
        let mut operation = json!({"method": method, "resource": resource});
        operation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        operation
    };
    let operations = json!([
        of("POST", "items", json!({"body": {"id": 11, "list": 1}})),
        of("PATCH", "lists", json!({"id": 1, "if_match": 1, "body": {"items": 9}})),
        of("POST", "marks", json!({"body": {"id": 20, "list": 1}})),
        of("DELETE", "lists", json!({"id": 1})),
        of("DELETE", "lists", json!({"id": 2})),
        of("PATCH", "items", json!({"id": 10, "if_match": 1, "body": {"done": true}})),
    ]);
    let reply = send(&server, &operations).await.expect_error(409, "WRITE_CONFLICT");
    let codes = [(1, "WRITE_CONFLICT"), (3, "REFERENCED"), (5, "RECORD_DELETED")];
    assert_eq!(refused(&reply), codes.map(|(index, code)| (index, code.to_owned())));
    for line in reply.details()["operations"].as_array().unwrap() {
        assert_eq!(line["data"], Value::Null, "{line}");
        assert_eq!(line["error"]["details"].get("current_version"), None, "{line}");
        let message = line["error"]["message"].as_str().unwrap();
        assert!(message.contains("another operation of the same request"), "{message}");
    }
}
