//! What is no push.

use serde_json::json;

use super::{CLIENT, notes, patch, push, results, send, statuses};
use crate::support::{Reply, json as with_json};

#[tokio::test]
async fn what_is_no_push_is_refused_whole() {
    let server = notes().await;
    let own = patch(1, 1, 1, &json!({"n": 1}));
    for (body, status, code, field) in [
        (json!([]), 400, "INVALID_JSON", ""),
        (json!({}), 422, "MISSING_FIELD", "client_id"),
        (json!({"client_id": CLIENT}), 422, "MISSING_FIELD", "mutations"),
        (json!({"client_id": "me", "mutations": []}), 422, "INVALID_VALUE", "client_id"),
        (json!({"client_id": null, "mutations": []}), 422, "INVALID_VALUE", "client_id"),
        (json!({"client_id": CLIENT, "mutations": {}}), 422, "INVALID_VALUE", "mutations"),
        (json!({"client_id": CLIENT, "mutations": [1]}), 422, "INVALID_VALUE", "mutations"),
        (json!({"client_id": CLIENT, "mutations": [{}]}), 422, "MISSING_FIELD", "id"),
        (
            json!({"client_id": CLIENT, "mutations": [own], "atomic": 1}),
            422,
            "INVALID_VALUE",
            "atomic",
        ),
        (
            json!({"client_id": CLIENT, "mutations": [own], "ack_through": -1}),
            422,
            "INVALID_VALUE",
            "ack_through",
        ),
        (
            json!({"client_id": CLIENT, "mutations": [own], "colour": 1}),
            422,
            "UNKNOWN_FIELD",
            "colour",
        ),
    ] {
        let reply = send(&server, &body).await.expect_error(status, code);
        assert_eq!(reply.details()["field"].as_str().unwrap_or_default(), field, "{}", reply.text);
    }
    for id in [
        json!(0),
        json!(-1),
        json!(1.5),
        json!("1"),
        json!(null),
        json!(9_007_199_254_740_992_i64),
        json!([1]),
    ] {
        let mut mutation = own.clone();
        mutation["id"] = id;
        let reply = push(&server, &json!([mutation])).await;
        reply.expect_error(422, "INVALID_VALUE").expect_field("id");
    }
    let text = format!(r#"{{"client_id": "{CLIENT}", "client_id": "{CLIENT}", "mutations": []}}"#);
    server.post("/sync/push", &text).await.expect_error(400, "DUPLICATE_KEY");
    server.get("/sync/push").await.expect_error(405, "METHOD_NOT_ALLOWED");
    server.post("/sync/push?dry_run=true", "{}").await.expect_error(400, "INVALID_QUERY");
    let keyed = server.request(reqwest::Method::POST, "/sync/push").header("idempotency-key", "k");
    let keyed = Reply::of(with_json(keyed, "{}")).await;
    keyed.expect_error(400, "INVALID_IDEMPOTENCY_KEY");
    assert_eq!(
        server.value("SELECT count(*) FROM counterfoil.sync_client").await.as_deref(),
        Some("0")
    );
    // One is one, also where a language writes all numbers with a point.
    let mut mutation = own.clone();
    mutation["id"] = json!(1.0);
    push(&server, &json!([mutation])).await.expect(200);
}

#[tokio::test]
async fn what_is_wrong_with_one_mutation_is_its_own_and_uses_its_id_up() {
    let server = notes().await;
    let cases = [
        (json!({}), "MISSING_FIELD", "op"),
        (json!({"op": "patch"}), "MISSING_FIELD", "resource"),
        (json!({"op": 1}), "INVALID_VALUE", "op"),
        (json!({"op": "patch", "resource": "notes", "data": {}}), "MISSING_FIELD", "record_id"),
        (json!({"op": "patch", "resource": "notes", "record_id": "1"}), "MISSING_FIELD", "data"),
        (
            json!({"op": "patch", "resource": "notes", "record_id": "x", "data": {}}),
            "INVALID_ID",
            "id",
        ),
        (
            json!({"op": "patch", "resource": "notes", "record_id": {}, "data": {}}),
            "INVALID_ID",
            "record_id",
        ),
        (
            json!({"op": "patch", "resource": "notes", "record_id": "1", "data": []}),
            "INVALID_JSON",
            "",
        ),
        (
            json!({"op": "patch", "resource": "notes", "record_id": "1", "data": {"id": 2}}),
            "INVALID_VALUE",
            "id",
        ),
        (
            json!({"op": "patch", "resource": "notes", "record_id": "1", "data": {"n": "many"}}),
            "INVALID_VALUE",
            "n",
        ),
        (json!({"op": "create", "resource": "notes", "data": {"n": 1}}), "MISSING_FIELD", "id"),
        (json!({"colour": 1}), "UNKNOWN_FIELD", "colour"),
        (json!({"on_conflict": "win"}), "INVALID_VALUE", "on_conflict"),
        (json!({"base_mutation": 99}), "INVALID_VALUE", "base_mutation"),
        (json!({"base_mutation": 0}), "INVALID_VALUE", "base_mutation"),
        (json!({"base_mutation": 1, "base_version": 1}), "INVALID_VALUE", "base_mutation"),
    ];
    let mut mutations: Vec<_> = cases.iter().map(|(mutation, ..)| mutation.clone()).collect();
    // A base that cannot be read is never taken as none.
    for base in
        [json!(null), json!("1"), json!(-1), json!(1.5), json!(2_147_483_648_i64), json!([1])]
    {
        let mut mutation = patch(1, 1, 1, &json!({"n": 1}));
        mutation["base_version"] = base;
        mutations.push(mutation);
    }
    // 0 stands for a record that is not there.
    for op in ["patch", "delete", "increment"] {
        mutations.push(json!({"op": op, "resource": "notes", "record_id": 1, "base_version": 0, "data": {"n": 1}}));
    }
    mutations.push(json!({"op": "create", "resource": "notes", "record_id": 3000, "base_version": 3, "data": {"n": 1}}));
    for (mutation, id) in mutations.iter_mut().zip(1..) {
        mutation["id"] = json!(id);
    }
    let reply = push(&server, &json!(mutations)).await;
    assert_eq!(statuses(&reply), vec!["rejected"; mutations.len()]);
    let lines = results(&reply);
    for ((_, code, field), line) in cases.iter().zip(&lines) {
        assert_eq!(line["error"]["code"], *code, "{line}");
        assert_eq!(
            line["error"]["details"]["field"].as_str().unwrap_or_default(),
            *field,
            "{line}"
        );
    }
    for line in &lines[cases.len()..] {
        assert_eq!(
            (&line["error"]["code"], &line["error"]["details"]["field"]),
            (&json!("INVALID_VALUE"), &json!("base_version")),
            "{line}"
        );
    }
    assert_eq!(reply.data()["last_mutation_id"], mutations.len());
    assert_eq!(server.value("SELECT sum(n) FROM notes").await.as_deref(), Some("0"));
}

#[tokio::test]
async fn a_push_holds_five_hundred_mutations() {
    let server = notes().await;
    let mutations: Vec<_> =
        (1..=501).map(|id| patch(id, i32::try_from(id).unwrap(), 1, &json!({"n": 1}))).collect();
    let reply = push(&server, &json!(mutations)).await.expect_error(422, "INVALID_VALUE");
    assert_eq!(
        (&reply.details()["field"], &reply.details()["max_mutations"]),
        (&json!("mutations"), &json!(500))
    );
    assert_eq!(statuses(&push(&server, &json!(mutations[..500])).await), vec!["applied"; 500]);
    let padding = " ".repeat((1 << 20) + 1);
    server.post("/sync/push", &padding).await.expect_error(413, "BODY_TOO_LARGE");
}

#[tokio::test]
async fn a_resource_may_insist_on_a_base() {
    let config = "[resource.notes]\nrequire_if_match = true";
    let server = crate::support::Server::configured(super::NOTES, &["notes"], config).await;
    let mut blind = patch(1, 1, 1, &json!({"n": 1}));
    blind.as_object_mut().unwrap().remove("base_version");
    let reply = push(
        &server,
        &json!([blind, patch(2, 1, 1, &json!({"n": 1})), super::follow(3, 1, 2, &json!({"n": 2}))]),
    )
    .await;
    assert_eq!(statuses(&reply), ["rejected", "applied", "applied"]);
    assert_eq!(results(&reply)[0]["error"]["code"], "PRECONDITION_REQUIRED");
}
