//! A refused atomic push tells of nothing that its own mutations wrote: none of it holds.

use serde_json::{Value, json};

use super::{CLIENT, create, delete, follow, notes, patch, send};
use crate::support::Server;

/// The refused lines of an atomic push, after which every row is at its first version.
async fn refuse(server: &Server, mutations: &Value) -> Vec<Value> {
    let body = json!({"client_id": CLIENT, "atomic": true, "mutations": mutations});
    let reply = send(server, &body).await;
    let lines = reply.details()["results"].as_array();
    let lines = lines.unwrap_or_else(|| panic!("{}", reply.text)).clone();
    assert_eq!(server.value("SELECT max(version) FROM notes").await.as_deref(), Some("1"));
    lines
}

#[tokio::test]
async fn what_an_earlier_mutation_made_of_a_row_is_not_told() {
    let server = notes().await;
    let mut blind = patch(3, 3, 1, &json!({"n": 3}));
    blind.as_object_mut().unwrap().remove("base_version");
    let mutations = json!([
        patch(1, 1, 1, &json!({"n": 55})),
        patch(2, 1, 1, &json!({"n": 66})),
        blind,
        delete(4, 3, 1),
        delete(5, 4, 1),
        patch(6, 4, 1, &json!({"n": 1})),
        create(7, 2000, &json!({"text": "new"})),
        create(8, 2000, &json!({"text": "newer"})),
        create(9, 2001, &json!({"text": "new"})),
    ]);
    let lines = refuse(&server, &mutations).await;
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            assert_eq!(line["data"], Value::Null, "{line}");
            let details = &line["error"]["details"];
            for name in ["current_version", "fields", "changed_by", "changed_at"] {
                assert_eq!(details.get(name), None, "{line}");
            }
            let code = &line["error"]["code"];
            json!([line["id"], line["status"], code, details["earlier_mutation"]])
        })
        .collect();
    let expected = json!([
        [2, "conflict", "WRITE_CONFLICT", 1],
        [4, "conflict", "WRITE_CONFLICT", 3],
        [6, "conflict", "RECORD_DELETED", 5],
        [8, "conflict", "WRITE_CONFLICT", 7],
        [9, "conflict", "ALREADY_EXISTS", 7],
    ]);
    assert_eq!(json!(told), expected);
}

#[tokio::test]
async fn what_follows_a_mutation_is_judged_on_what_that_one_was_based_on() {
    let server = notes().await;
    let mut merged = patch(2, 2, 1, &json!({"memo": "mine"}));
    merged["on_conflict"] = json!("merge");
    let mutations = json!([
        patch(1, 1, 1, &json!({"n": 1})),
        follow(2, 1, 1, &json!({"n": 2})),
        follow(3, 1, 2, &json!({"n": -1})),
    ]);
    let lines = refuse(&server, &mutations).await;
    assert_eq!(lines[0]["error"]["code"], "CHECK_FAILED");
    assert_eq!((&lines[0]["data"]["n"], &lines[0]["data"]["version"]), (&json!(0), &json!(1)));
    assert_eq!(lines[0]["error"]["details"].get("earlier_mutation"), None);

    // What follows a merge is in conflict with what others wrote, over which the merge was written.
    server.patch("/notes/2", None, r#"{"n": 9}"#).await.expect(200);
    let mutations =
        json!([patch(1, 1, 1, &json!({"n": 1})), merged, follow(3, 2, 2, &json!({"n": 7}))]);
    let body = json!({"client_id": CLIENT, "atomic": true, "mutations": mutations});
    let reply = send(&server, &body).await.expect_error(409, "WRITE_CONFLICT");
    let line = &reply.details()["results"][0];
    assert_eq!((&line["id"], &line["data"]["version"]), (&json!(3), &json!(2)));
    assert_eq!(line["error"]["details"]["current_version"], 2);
    assert_eq!(line["data"]["memo"], Value::Null);
}
