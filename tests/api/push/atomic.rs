//! All of a push or nothing.

use serde_json::{Value, json};

use super::{CLIENT, delete, follow, notes, patch, push, results, send, statuses};
use crate::support::{Reply, Server};

async fn atomic(server: &Server, mutations: &Value) -> Reply {
    send(server, &json!({"client_id": CLIENT, "atomic": true, "mutations": mutations})).await
}

#[tokio::test]
async fn a_refusal_refuses_all_and_uses_no_id_up() {
    let server = notes().await;
    server.patch("/notes/2", None, r#"{"n": 9}"#).await.expect(200);
    let mutations = json!([
        patch(1, 1, 1, &json!({"n": 1})),
        patch(2, 2, 1, &json!({"n": 2})),
        follow(3, 2, 2, &json!({"n": 3})),
        patch(4, 3, 1, &json!({"n": -1})),
        delete(5, 4, 1),
    ]);
    let reply = atomic(&server, &mutations).await.expect_error(409, "WRITE_CONFLICT");
    assert_eq!(reply.details()["id"], 2);
    let refused = reply.details()["results"].as_array().unwrap();
    let refused: Vec<_> = refused.iter().map(|line| json!([line["id"], line["status"]])).collect();
    assert_eq!(json!(refused), json!([[2, "conflict"], [3, "blocked"], [4, "rejected"]]));
    assert_eq!(reply.details()["results"][0]["data"]["n"], 9);
    assert_eq!(reply.header("cache-control"), "no-store");
    for nothing in [
        "SELECT count(*) FROM counterfoil.sync_client",
        "SELECT count(*) FROM counterfoil.sync_mutation",
        "SELECT count(*) FROM counterfoil.change WHERE origin IS NOT NULL",
    ] {
        assert_eq!(server.value(nothing).await.as_deref(), Some("0"), "{nothing}");
    }
    // The ids may be used for something else, and what holds is as without `atomic`.
    let mutations = json!([
        patch(1, 1, 1, &json!({"n": 1})),
        patch(2, 2, 2, &json!({"n": 2})),
        follow(3, 2, 2, &json!({"n": 3})),
        delete(4, 4, 1),
        delete(5, 4, 1),
    ]);
    let reply = atomic(&server, &mutations).await;
    assert_eq!(statuses(&reply), ["applied", "applied", "applied", "applied", "noop"]);
    assert_eq!(statuses(&push(&server, &mutations).await), statuses(&reply));
    assert!(results(&push(&server, &mutations).await).iter().all(|line| line["replayed"] == true));
}

#[tokio::test]
async fn a_rule_that_may_wait_is_held_against_the_whole() {
    let sql =
        "CREATE TABLE places (id integer PRIMARY KEY, seat integer, UNIQUE (seat) DEFERRABLE);
        INSERT INTO places VALUES (1, 1), (2, 2);";
    let server = Server::start(sql, &["places"]).await;
    let sit = |id: i64, place: i32, seat: i32| json!({"id": id, "op": "patch", "resource": "places", "record_id": place, "base_version": 1, "data": {"seat": seat}});
    let reply = atomic(&server, &json!([sit(1, 1, 2), sit(2, 2, 1)])).await;
    assert_eq!(statuses(&reply), ["applied", "applied"]);
    let taken = json!([{"id": 3, "op": "patch", "resource": "places", "record_id": 1, "base_version": 2, "data": {"seat": 1}}]);
    atomic(&server, &taken).await.expect_error(409, "ALREADY_EXISTS");
}

#[tokio::test]
async fn what_was_blocked_before_refuses_all() {
    let server = notes().await;
    assert_eq!(
        statuses(&push(&server, &json!([patch(1, 1, 7, &json!({"n": 1}))])).await),
        ["conflict"]
    );
    let mutations = json!([patch(2, 2, 1, &json!({"n": 2})), follow(3, 1, 1, &json!({"n": 3}))]);
    let reply = atomic(&server, &mutations).await.expect_error(412, "PRECONDITION_FAILED");
    assert_eq!(reply.details()["results"][0]["blocked_by"], 1);
    assert_eq!(server.value("SELECT sum(n) FROM notes").await.as_deref(), Some("0"));
}
