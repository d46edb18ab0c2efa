//! What became of a mutation, in the words of the contract.

use serde_json::json;

use super::{CLIENT, create, delete, follow, notes, patch, push, results, send, statuses};

#[expect(clippy::too_many_lines, reason = "one push with one of everything")]
#[tokio::test]
async fn every_mutation_is_answered_with_what_became_of_it() {
    let server = notes().await;
    server.patch("/notes/2", None, r#"{"n": 5}"#).await.expect(200);
    server.patch("/notes/3", None, r#"{"memo": "theirs"}"#).await.expect(200);
    server.delete("/notes/4", None).await;
    server.patch("/notes/5", None, r#"{"n": 7}"#).await.expect(200);
    let reply = push(
        &server,
        &json!([
            patch(1, 1, 1, &json!({"n": 1})),
            patch(2, 2, 1, &json!({"n": 6})),
            {"id": 3, "op": "patch", "resource": "notes", "record_id": 3, "base_version": 1,
                "data": {"n": 3}, "on_conflict": "merge"},
            patch(4, 4, 1, &json!({"n": 4})),
            patch(5, 5, 1, &json!({"n": 7})),
            delete(6, 4, 1),
            delete(7, 6, 1),
            create(8, 7, &json!({"n": 1})),
            create(9, 2000, &json!({"n": 9})),
            follow(10, 2000, 9, &json!({"n": 10})),
            follow(11, 2, 2, &json!({"n": 11})),
            follow(12, 2, 11, &json!({"n": 12})),
            patch(13, 8, 1, &json!({"n": -1})),
            patch(14, 8, 1, &json!({"colour": 1})),
            patch(15, 5000, 1, &json!({"n": 1})),
            {"id": 16, "op": "patch", "resource": "notes", "record_id": "9", "data": {"n": 16}},
            {"id": 17, "op": "increment", "resource": "notes", "record_id": "9", "base_version": 2,
                "data": {"field": "n", "by": 4}},
            {"id": 18, "op": "put", "resource": "notes", "record_id": "2001", "base_version": 0,
                "data": {"n": 18}},
            {"id": 19, "op": "patch", "resource": "nothing", "record_id": "1", "data": {}},
            {"id": 20, "op": "dance", "resource": "notes", "record_id": "1", "data": {}},
            {"id": 21, "op": "create", "resource": "notes", "data": {"id": 2002, "text": "note 1"}},
        ]),
    )
    .await;
    assert_eq!(
        statuses(&reply),
        [
            "applied", "conflict", "merged", "conflict", "noop", "noop", "applied", "conflict",
            "applied", "applied", "blocked", "blocked", "rejected", "rejected", "rejected",
            "applied", "applied", "applied", "rejected", "rejected", "conflict",
        ]
    );
    let lines = results(&reply);
    assert_eq!(reply.data()["last_mutation_id"], 21);
    assert_eq!((&lines[0]["version"], &lines[0]["data"]["n"]), (&json!(2), &json!(1)));
    let conflict = &lines[1];
    assert_eq!(conflict["error"]["code"], "WRITE_CONFLICT");
    assert_eq!(conflict["error"]["details"]["kind"], "update_update");
    assert_eq!(conflict["error"]["details"]["fields"][0]["verdict"], "both");
    assert_eq!(conflict["data"]["n"], 5);
    assert_eq!(lines[2]["data"]["memo"], "theirs");
    assert_eq!((&lines[2]["merged"]["base"], &lines[2]["merged"]["onto"]), (&json!(1), &json!(2)));
    assert_eq!(lines[3]["error"]["code"], "RECORD_DELETED");
    assert_eq!(lines[3]["error"]["details"]["kind"], "update_delete");
    assert_eq!((&lines[4]["version"], &lines[5]["version"]), (&json!(2), &json!(2)));
    assert_eq!((&lines[6]["version"], &lines[6]["data"]), (&json!(2), &json!(null)));
    assert_eq!(lines[7]["error"]["code"], "WRITE_CONFLICT");
    assert_eq!(lines[7]["error"]["details"]["kind"], "create_create");
    assert_eq!(lines[7]["data"]["id"], 7);
    assert_eq!((&lines[9]["version"], &lines[9]["data"]["n"]), (&json!(2), &json!(10)));
    assert_eq!((&lines[10]["blocked_by"], &lines[11]["blocked_by"]), (&json!(2), &json!(11)));
    let codes: Vec<_> = [12, 13, 14, 18, 19, 20].map(|i| lines[i]["error"]["code"].clone()).into();
    assert_eq!(
        json!(codes),
        json!([
            "CHECK_FAILED",
            "UNKNOWN_FIELD",
            "NOT_FOUND",
            "NOT_FOUND",
            "INVALID_VALUE",
            "ALREADY_EXISTS"
        ])
    );
    assert_eq!(lines[15]["unconditional"], true);
    assert_eq!(lines[0].get("unconditional"), None);
    assert_eq!(lines[16]["data"]["n"], 20);
    assert_eq!(lines[20]["data"]["id"], 1);
    assert_eq!(lines[1]["error"]["request_id"], reply.header("x-request-id"));
    // What was pushed bears the client's id, and nothing else does.
    let origins = "SELECT string_agg(DISTINCT coalesce(origin, 'none') || ' ' || (version > 1 AND id = '1'), ',')
        FROM counterfoil.change WHERE id IN ('1', '2') AND op <> 'baseline'";
    let origins = server.value(origins).await.unwrap();
    assert_eq!(origins, format!("{CLIENT} true,none false"));
    let again = send(&server, &json!({"client_id": CLIENT, "mutations": []})).await;
    assert_eq!(again.data(), &json!({"results": [], "last_mutation_id": 21}));
}
