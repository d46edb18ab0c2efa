//! Exactly once: sent again, pushed by two at once, out of order, under a used id, and long after.

use serde_json::{Value, json};

use counterfoil::db::Db;
use counterfoil::db::connect;
use counterfoil::sync::purge::sweep;

use super::{CLIENT, follow, notes, patch, push, results, send, statuses};
use crate::support::{Door, Reply, Server};

async fn changes(server: &Server) -> Option<String> {
    server.value("SELECT count(*) FROM counterfoil.change WHERE op <> 'baseline'").await
}

/// An answer as it would have been the first time.
fn first(text: &str) -> String {
    text.replace(",\"replayed\":true", "")
}

#[tokio::test]
async fn what_was_pushed_before_is_answered_from_what_was_stored() {
    let server = notes().await;
    let mutations = json!([
        patch(1, 1, 1, &json!({"n": 1})),
        patch(2, 1, 1, &json!({"n": 2})),
        patch(3, 3, 1, &json!({"n": -3})),
        {"id": 4, "op": "increment", "resource": "notes", "record_id": "4", "data": {"field": "n"}},
    ]);
    let original = push(&server, &mutations).await;
    assert_eq!(statuses(&original), ["applied", "conflict", "rejected", "applied"]);
    assert!(!original.text.contains("replayed"));
    let before = changes(&server).await;
    server.delete("/notes/1", None).await.expect(204);
    let again = push(&server, &mutations).await;
    assert_eq!(first(&again.text), original.text);
    assert!(results(&again).iter().all(|line| line["replayed"] == true));
    // With more behind it, and with the beginning cut off; the same JSON written otherwise.
    let more = json!([
        {"data": {"n": -3.0}, "base_version": 1, "record_id": "3", "resource": "notes", "op": "patch", "id": 3},
        mutations[3],
        patch(5, 5, 1, &json!({"n": 5})),
    ]);
    let more = push(&server, &more).await;
    assert_eq!(statuses(&more), ["rejected", "applied", "applied"]);
    assert_eq!(results(&more)[0]["replayed"], true);
    assert_eq!(results(&more)[2].get("replayed"), None);
    assert_eq!(more.data()["last_mutation_id"], 5);
    let expected = before.unwrap().parse::<i64>().unwrap() + 2;
    assert_eq!(changes(&server).await, Some(expected.to_string()));
}

#[tokio::test]
async fn mutations_come_in_a_row() {
    let server = notes().await;
    let own = |id: i64| patch(id, 1, 1, &json!({"n": 1}));
    let unknown = push(&server, &json!([own(7)])).await.expect_error(409, "MUTATION_OUT_OF_ORDER");
    assert_eq!(
        (&unknown.details()["expected"], &unknown.details()["last_mutation_id"]),
        (&json!(1), &json!(0))
    );
    assert!(unknown.text.contains("new client_id"), "{}", unknown.text);
    assert_eq!(
        server.value("SELECT count(*) FROM counterfoil.sync_client").await.as_deref(),
        Some("0")
    );
    let gap = push(&server, &json!([own(1), own(99)])).await;
    let gap = gap.expect_error(409, "MUTATION_OUT_OF_ORDER");
    assert_eq!(*gap.details(), json!({"id": 99, "expected": 1, "last_mutation_id": 0}));
    let twice = push(&server, &json!([own(1), own(1)])).await;
    let said = twice.json["error"]["message"].as_str().unwrap();
    assert!(said.starts_with("Mutation 1 cannot follow 1"), "{said}");
    push(&server, &json!([own(1)])).await.expect(200);
    // Nothing of such a push is done, so the next one is the same each time, and pushing from there holds.
    for ids in [vec![3], vec![2, 4], vec![2, 2], vec![2, 1], vec![1, 3], vec![1, 2, 9]] {
        let mutations: Vec<_> = ids.into_iter().map(own).collect();
        let reply =
            push(&server, &json!(mutations)).await.expect_error(409, "MUTATION_OUT_OF_ORDER");
        assert_eq!(reply.details()["expected"], 2, "{}", reply.text);
        assert_eq!(reply.details()["last_mutation_id"], 1, "{}", reply.text);
    }
    let last = "SELECT last_mutation_id FROM counterfoil.sync_client";
    assert_eq!(server.value(last).await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_used_id_with_other_content_is_refused_and_nothing_is_done() {
    let server = notes().await;
    push(&server, &json!([patch(1, 1, 1, &json!({"n": 1}))])).await.expect(200);
    let before = changes(&server).await;
    for other in [
        patch(1, 1, 1, &json!({"n": 2})),
        patch(1, 2, 1, &json!({"n": 1})),
        patch(1, 1, 2, &json!({"n": 1})),
        json!({"id": 1}),
    ] {
        let reply = push(&server, &json!([other, patch(2, 2, 1, &json!({"n": 2}))])).await;
        let reply = reply.expect_error(422, "MUTATION_ID_REUSED");
        assert_eq!(
            (&reply.details()["id"], &reply.details()["last_mutation_id"]),
            (&json!(1), &json!(1))
        );
        assert!(reply.text.contains("new client_id"), "{}", reply.text);
    }
    assert_eq!(changes(&server).await, before);
    // Another client's ids are its own.
    let body = json!({"client_id": "0193aaaa-0000-7000-8000-000000000002", "mutations": [patch(1, 2, 1, &json!({"n": 1}))]});
    assert_eq!(statuses(&send(&server, &body).await), ["applied"]);
}

#[tokio::test]
async fn results_are_kept_until_the_client_has_them() {
    let server = notes().await;
    let mutations: Vec<_> =
        (1..=4).map(|id| patch(id, 1, i32::try_from(id).unwrap(), &json!({"n": id}))).collect();
    push(&server, &json!(mutations)).await.expect(200);
    let with = |mutations: &Value, ack: i64| json!({"client_id": CLIENT, "mutations": mutations, "ack_through": ack});
    let reply = send(&server, &with(&json!([]), 9)).await.expect_error(422, "INVALID_VALUE");
    assert_eq!(
        (&reply.details()["field"], &reply.details()["last_mutation_id"]),
        (&json!("ack_through"), &json!(4))
    );
    // What is acknowledged with it may still be a base.
    let reply = send(&server, &with(&json!([follow(5, 1, 4, &json!({"n": 5}))]), 4)).await;
    assert_eq!(statuses(&reply), ["applied"]);
    let kept = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM counterfoil.sync_mutation WHERE result IS NOT NULL";
    assert_eq!(server.value(kept).await.as_deref(), Some("5"));
    let reply = push(&server, &json!(mutations)).await.expect_error(410, "MUTATION_EXPIRED");
    assert_eq!(
        (&reply.details()["id"], &reply.details()["last_mutation_id"]),
        (&json!(1), &json!(5))
    );
    let reply = send(
        &server,
        &with(&json!([follow(6, 1, 4, &json!({"n": 6})), follow(7, 1, 5, &json!({"n": 7}))]), 2),
    )
    .await;
    // What a mutation came to is known also after its result was let go.
    assert_eq!(statuses(&reply), ["conflict", "applied"]);
    assert_eq!(results(&reply)[0]["error"]["details"]["your_version"], 5);
    // Nor are they kept for ever where the client never comes back for them; its line is.
    let days = "SELECT round(extract(epoch from min(expires_at) - now()) / 86400) FROM counterfoil.sync_mutation";
    assert_eq!(server.value(days).await.as_deref(), Some("30"));
    server.sql("UPDATE counterfoil.sync_mutation SET expires_at = now() WHERE id < 7").await;
    let db = Db::start(&connect::options(&server.database_url).unwrap(), 1);
    assert_eq!(sweep(&db).await.unwrap(), 6);
    assert_eq!(server.value(kept).await.as_deref(), Some("7"));
    push(&server, &json!([follow(6, 1, 4, &json!({"n": 6}))]))
        .await
        .expect_error(410, "MUTATION_EXPIRED");
    let next = json!([follow(8, 1, 6, &json!({"n": 8})), follow(9, 1, 7, &json!({"n": 9}))]);
    let reply = push(&server, &next).await;
    assert_eq!(statuses(&reply), ["rejected", "applied"]);
    assert_eq!(results(&reply)[0]["error"]["details"]["field"], "base_mutation");
    assert_eq!(results(&reply)[1]["version"], 8);
}

#[tokio::test]
async fn results_are_kept_for_as_long_as_is_configured() {
    let server =
        Server::configured(super::NOTES, &["notes"], "[server]\nkeep_mutations_days = 3").await;
    push(&server, &json!([patch(1, 1, 1, &json!({"n": 1}))])).await.expect(200);
    let days = "SELECT round(extract(epoch from expires_at - now()) / 86400) FROM counterfoil.sync_mutation";
    assert_eq!(server.value(days).await.as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tabs_that_push_one_queue_apply_it_once() {
    let server = notes().await;
    let second = Server::on(&server.database_url, "").await;
    for round in 0..10 {
        let first = round * 20 + 1;
        let mutations: Vec<_> = (first..first + 20)
            .map(|id| json!({"id": id, "op": "increment", "resource": "notes", "record_id": (id % 7 + 1).to_string(), "data": {"field": "n"}}))
            .collect();
        let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(4));
        let tabs: Vec<_> = (0..4_usize)
            .map(|tab| {
                let door = Door::to(if tab % 2 == 0 { &server.url } else { &second.url });
                // One of them has only a part of the queue yet.
                let part = if tab == 3 { &mutations[..7] } else { &mutations[..] };
                let body = json!({"client_id": CLIENT, "mutations": part}).to_string();
                let barrier = barrier.clone();
                tokio::spawn(async move {
                    barrier.wait().await;
                    let request = door.request(reqwest::Method::POST, "/sync/push");
                    Reply::of(crate::support::json(request, &body)).await
                })
            })
            .collect();
        let mut lines: Vec<Value> = Vec::new();
        let mut applied = 0;
        for tab in tabs {
            let tab = tab.await.unwrap();
            for (index, line) in results(&tab).iter().enumerate() {
                applied += i32::from(line.get("replayed").is_none());
                let mut line = line.clone();
                line.as_object_mut().unwrap().remove("replayed");
                match lines.get(index) {
                    Some(known) => assert_eq!(known, &line),
                    None => lines.push(line),
                }
            }
        }
        assert_eq!(applied, 20);
    }
    assert_eq!(server.value("SELECT sum(n) FROM notes").await.as_deref(), Some("200"));
}

#[tokio::test]
async fn who_holds_a_clients_line_for_long_is_told_to_others() {
    use sqlx::Connection as _;
    let server = notes().await;
    push(&server, &json!([patch(1, 1, 1, &json!({"n": 1}))])).await.expect(200);
    let mut holder = server.connect().await;
    let mut held = holder.begin().await.unwrap();
    sqlx::query("SELECT FROM counterfoil.sync_client FOR UPDATE")
        .execute(&mut *held)
        .await
        .unwrap();
    let reply = push(&server, &json!([patch(2, 2, 1, &json!({"n": 1}))])).await;
    let reply = reply.expect_error(409, "OPERATION_IN_PROGRESS");
    assert_eq!(reply.header("retry-after"), "1");
    held.rollback().await.unwrap();
    let reply = push(&server, &json!([patch(2, 2, 1, &json!({"n": 1}))])).await;
    assert_eq!(statuses(&reply), ["applied"]);
}

#[tokio::test]
async fn a_creation_without_an_id_is_made_once_and_may_be_followed() {
    let sql = "CREATE TABLE drafts (id serial PRIMARY KEY, text text);";
    let server = Server::start(sql, &["drafts"]).await;
    let made = json!([{"id": 1, "op": "create", "resource": "drafts", "data": {"text": "a"}}]);
    let lines = results(&push(&server, &made).await);
    assert_eq!((&lines[0]["status"], &lines[0]["data"]["id"]), (&json!("applied"), &json!(1)));
    assert_eq!(results(&push(&server, &made).await)[0]["data"]["id"], 1);
    let next = json!([{"id": 2, "op": "patch", "resource": "drafts", "record_id": 1, "base_mutation": 1, "data": {"text": "b"}}]);
    assert_eq!(results(&push(&server, &next).await)[0]["version"], 2);
}
