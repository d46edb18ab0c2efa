//! Mutations that are based on mutations.

use serde_json::{Value, json};

use super::{delete, follow, notes, patch, push, results, statuses};

#[tokio::test]
async fn a_chain_goes_on_over_several_requests() {
    let server = notes().await;
    let first = json!([patch(1, 1, 1, &json!({"n": 1})), follow(2, 1, 1, &json!({"n": 2}))]);
    assert_eq!(statuses(&push(&server, &first).await), ["applied", "applied"]);
    // Two at once on two records, and one more behind.
    let second = json!([
        follow(3, 1, 2, &json!({"n": 3})),
        patch(4, 2, 1, &json!({"n": 4})),
        follow(5, 1, 3, &json!({"n": 5})),
        follow(6, 2, 4, &json!({"n": 6})),
    ]);
    let reply = push(&server, &second).await;
    assert_eq!(statuses(&reply), ["applied"; 4]);
    let versions: Vec<_> = results(&reply).iter().map(|line| line["version"].clone()).collect();
    assert_eq!(json!(versions), json!([4, 2, 5, 3]));
    // Somebody writes in between: what follows conflicts with that, and blocks what follows it.
    server.patch("/notes/1", None, r#"{"n": 99}"#).await.expect(200);
    let third = json!([follow(7, 1, 5, &json!({"n": 7})), follow(8, 1, 7, &json!({"n": 8}))]);
    let reply = push(&server, &third).await;
    assert_eq!(statuses(&reply), ["conflict", "blocked"]);
    let lines = results(&reply);
    assert_eq!(lines[0]["error"]["details"]["your_version"], 5);
    assert_eq!(
        (&lines[1]["blocked_by"], &lines[1]["error"]["code"]),
        (&json!(7), &json!("PRECONDITION_FAILED"))
    );
    // Also in the next request, and for ever.
    let reply = push(
        &server,
        &json!([follow(9, 1, 8, &json!({"n": 9})), follow(10, 1, 7, &json!({"n": 9}))]),
    )
    .await;
    assert_eq!(statuses(&reply), ["blocked", "blocked"]);
    assert_eq!(server.value("SELECT n FROM notes WHERE id = 1").await.as_deref(), Some("99"));
}

#[tokio::test]
async fn a_life_from_creation_to_deletion_is_one_push() {
    let server = notes().await;
    let reply = push(
        &server,
        &json!([
            {"id": 1, "op": "create", "resource": "notes", "data": {"id": 5000, "n": 1}},
            follow(2, 5000, 1, &json!({"n": 2})),
            {"id": 3, "op": "put", "resource": "notes", "record_id": 5000, "base_mutation": 2, "data": {"n": 3}},
            {"id": 4, "op": "increment", "resource": "notes", "record_id": 5000, "base_mutation": 3, "data": {"field": "n"}},
            {"id": 5, "op": "delete", "resource": "notes", "record_id": 5000, "base_mutation": 4},
            {"id": 6, "op": "create", "resource": "notes", "record_id": 5000, "base_mutation": 5, "data": {"n": 6}},
            follow(7, 5000, 6, &json!({"n": 7})),
            follow(8, 5000, 5, &json!({"n": 8})),
            follow(9, 1, 7, &json!({"n": 9})),
        ]),
    )
    .await;
    let lines = results(&reply);
    let shown: Vec<_> = lines.iter().map(|line| json!([line["status"], line["version"]])).collect();
    let applied = |version: i32| json!(["applied", version]);
    let mut expected: Vec<Value> = (1..=7).map(applied).collect();
    expected.extend([json!(["conflict", null]), json!(["rejected", null])]);
    assert_eq!(shown, expected, "{}", reply.text);
    assert_eq!(lines[8]["error"]["details"]["field"], "base_mutation");
}

#[tokio::test]
async fn a_chain_waits_with_its_beginning_for_a_unique_value() {
    let server = notes().await;
    // The value that 1 wants is given up by 2, further on.
    let reply = push(
        &server,
        &json!([
            patch(1, 1, 1, &json!({"text": "note 2"})),
            follow(2, 1, 1, &json!({"n": 2})),
            patch(3, 2, 1, &json!({"text": "free"})),
            patch(4, 3, 1, &json!({"text": "note 4"})),
            follow(5, 3, 4, &json!({"n": 5})),
        ]),
    )
    .await;
    assert_eq!(statuses(&reply), ["applied", "applied", "applied", "conflict", "blocked"]);
    assert_eq!(results(&reply)[3]["error"]["code"], "ALREADY_EXISTS");
    assert_eq!(results(&reply)[1]["version"], 3);
}

/// What others changed and a merge took in, the client has not seen: what it did next, offline, must not
/// write over that.
#[tokio::test]
async fn what_follows_a_merge_does_not_write_over_what_the_client_never_saw() {
    let server = notes().await;
    let merging = |id: i64, data: &Value| {
        let mut mutation = patch(id, 1, 1, data);
        mutation["on_conflict"] = json!("merge");
        mutation
    };
    server.patch("/notes/1", None, r#"{"memo": "theirs"}"#).await.expect(200);
    let queue = json!([
        merging(1, &json!({"n": 1})),
        // Its own field again: the client knows what stands there.
        follow(2, 1, 1, &json!({"n": 2})),
        // Theirs: it does not.
        follow(3, 1, 2, &json!({"memo": "mine"})),
    ]);
    let reply = push(&server, &queue).await;
    assert_eq!(statuses(&reply), ["merged", "merged", "conflict"], "{}", reply.text);
    let clash = &results(&reply)[2]["error"]["details"]["fields"];
    let both: Vec<_> =
        clash.as_array().unwrap().iter().filter(|f| f["verdict"] == "both").collect();
    assert_eq!(both.len(), 1, "{clash}");
    assert_eq!((&both[0]["field"], &both[0]["theirs"]), (&json!("memo"), &json!("theirs")));
    // In a request of its own it is no different: a whole replacement does not undo theirs, and a
    // deletion meets a row that the client never saw.
    let later = json!([
        {"id": 4, "op": "put", "resource": "notes", "record_id": 1, "base_mutation": 2, "data": {"text": "note 1", "n": 4}},
        {"id": 5, "op": "delete", "resource": "notes", "record_id": 1, "base_mutation": 4},
        {"id": 6, "op": "increment", "resource": "notes", "record_id": 1, "base_mutation": 4, "data": {"field": "n"}},
    ]);
    let reply = push(&server, &later).await;
    assert_eq!(statuses(&reply), ["merged", "conflict", "applied"], "{}", reply.text);
    assert_eq!(results(&reply)[1]["error"]["details"]["kind"], "delete_update");
    let row = "SELECT concat_ws(' ', text, n, memo) FROM notes WHERE id = 1";
    assert_eq!(server.value(row).await.as_deref(), Some("note 1 5 theirs"));
}

#[tokio::test]
async fn what_follows_a_noop_does_not_write_over_what_the_client_never_saw() {
    let server = notes().await;
    server.patch("/notes/1", None, r#"{"n": 1, "memo": "theirs"}"#).await.expect(200);
    let reply = push(
        &server,
        &json!([
            patch(1, 1, 1, &json!({"n": 1})),
            follow(2, 1, 1, &json!({"memo": "mine"})),
            follow(3, 1, 1, &json!({"text": "mine"})),
            delete(4, 2, 1),
            delete(5, 2, 1),
            {"id": 6, "op": "delete", "resource": "notes", "record_id": 2, "base_mutation": 5},
        ]),
    )
    .await;
    assert_eq!(statuses(&reply), ["noop", "conflict", "merged", "applied", "noop", "noop"]);
    let row = "SELECT concat_ws(' ', text, n, memo) FROM notes WHERE id = 1";
    assert_eq!(server.value(row).await.as_deref(), Some("mine 1 theirs"));
}
