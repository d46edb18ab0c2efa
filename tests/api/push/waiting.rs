//! What the database cannot do for now: what came before holds, and the rest may be pushed again.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Connection as _;

use super::{CLIENT, follow, notes, patch, push, results, send, statuses};

#[tokio::test]
async fn what_comes_before_a_row_that_somebody_holds_is_kept() {
    let server = notes().await;
    let mut holder = server.connect().await;
    let mut held = holder.begin().await.unwrap();
    sqlx::query("SELECT FROM notes WHERE id = 180 FOR UPDATE").execute(&mut *held).await.unwrap();
    let mut mutations: Vec<_> =
        (1..=200).map(|id| patch(id, i32::try_from(id).unwrap(), 1, &json!({"n": 1}))).collect();
    mutations.push(follow(201, 180, 180, &json!({"n": 2})));
    let begun = Instant::now();
    let reply = push(&server, &json!(mutations)).await;
    // The time to wait is spent once, not for every part of the push.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let lines = results(&reply);
    assert!(lines[..179].iter().all(|line| line["status"] == "applied"), "{}", reply.text);
    assert!(lines[179..].iter().all(|line| line["status"] == "retry"), "{}", reply.text);
    assert_eq!(lines[179]["error"]["code"], "LOCK_TIMEOUT");
    assert_eq!(reply.data()["last_mutation_id"], 179);
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(server.value("SELECT sum(n) FROM notes").await.as_deref(), Some("179"));
    // As a whole, nothing is kept.
    let whole = json!({"client_id": CLIENT, "atomic": true, "mutations": &mutations[179..]});
    send(&server, &whole).await.expect_error(503, "LOCK_TIMEOUT");
    held.rollback().await.unwrap();
    let again = push(&server, &json!(mutations)).await;
    assert_eq!(statuses(&again), vec!["applied"; 201]);
    let replayed = results(&again).iter().filter(|line| line["replayed"] == true).count();
    assert_eq!(replayed, 179);
    assert_eq!(server.value("SELECT sum(n) FROM notes").await.as_deref(), Some("201"));
}

#[tokio::test]
async fn pushes_that_cross_each_other_end() {
    let server = notes().await;
    let clients = (0..6_u32).map(|client| {
        let server = &server;
        async move {
            for round in 0..5_i64 {
                let record = |i: i64| if client % 2 == 0 { i + 1 } else { 30 - i };
                let mutations: Vec<_> = (0..30)
                    .map(|i| {
                        json!({"id": round * 30 + i + 1, "op": "increment", "resource": "notes",
                            "record_id": record(i), "data": {"field": "n"}})
                    })
                    .collect();
                let client = format!("0193aaaa-0000-7000-8000-00000000000{client}");
                let body = json!({"client_id": client, "mutations": mutations});
                loop {
                    let reply = send(server, &body).await;
                    if reply.status == 200 && statuses(&reply) == vec!["applied"; 30] {
                        break;
                    }
                    assert!(matches!(reply.status, 200 | 409 | 503), "{}", reply.text);
                }
            }
        }
    });
    futures_util::future::join_all(clients).await;
    let sums = "SELECT string_agg(DISTINCT n::text, ',') FROM notes WHERE id <= 30";
    assert_eq!(server.value(sums).await.as_deref(), Some("30"));
}
