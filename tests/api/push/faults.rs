//! Pushes while connections break and servers are killed.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::RwLock;

use super::{CLIENT, NOTES, follow, patch, push, results, statuses};
use crate::support::process::{Program, signal};
use crate::support::wire::{Cut, Wire};
use crate::support::{Door, Reply, Server, database, json as with_json, prepare, wait_until};

fn increment(id: i64, record: i64) -> Value {
    json!({"id": id, "op": "increment", "resource": "notes", "record_id": record,
        "data": {"field": "n"}})
}

/// The steps of a push: whichever is lost, the push is done once, and its answer is the same.
const STEPS: [&str; 7] = [
    "BEGIN",
    "counterfoil.sync_client WHERE",
    "SAVEPOINT",
    "UPDATE",
    "INSERT INTO counterfoil.sync_mutation",
    "COMMIT",
    "ROLLBACK",
];

#[tokio::test]
async fn a_push_that_is_cut_off_at_any_step_is_done_once() {
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let wire = Wire::to(&database_url).await;
    let server = Server::on(&wire.url, "").await;
    let truth = Server::on(&database_url, "").await;
    let mut id = 0;
    let mut lost_answers = 0;
    for step in STEPS {
        for cut in [Cut::Statement, Cut::Answer] {
            let mutations = json!([
                increment(id + 1, 1),
                patch(id + 2, 2, 7, &json!({"n": 1})),
                increment(id + 3, 3)
            ]);
            id += 3;
            wire.cut(cut, step, 1);
            let mut reply = push(&server, &mutations).await;
            if reply.status != 200 {
                // Nothing was done, and that was said.
                assert_eq!(reply.status, 503, "{step} {cut:?}: {}", reply.text);
                assert_ne!(reply.code(), "OUTCOME_UNKNOWN", "{step} {cut:?}");
                let last = "SELECT coalesce(max(last_mutation_id), 0) FROM counterfoil.sync_client";
                assert_eq!(truth.value(last).await, Some((id - 3).to_string()), "{step} {cut:?}");
                reply = push(&server, &mutations).await;
            }
            lost_answers += i32::from(results(&reply)[0].get("replayed").is_some());
            assert_eq!(statuses(&reply), ["applied", "conflict", "applied"], "{step} {cut:?}");
            assert_eq!(results(&reply)[0]["data"]["n"], id / 3, "{step} {cut:?}");
            let again = push(&truth, &mutations).await;
            let plain = |reply: &Reply| reply.text.replace(",\"replayed\":true", "");
            assert_eq!(plain(&again), plain(&reply));
            let sums = "SELECT concat_ws(' ', (SELECT n FROM notes WHERE id = 1), (SELECT n FROM notes WHERE id = 3))";
            assert_eq!(truth.value(sums).await, Some(format!("{0} {0}", id / 3)));
        }
    }
    println!("{lost_answers} pushes had been done when their answer was lost");
    assert!(lost_answers > 0);
}

/// How often the server is killed.
const KILLS: usize = 6;
const CLIENTS: usize = 4;
const PUSHES: i64 = 60;

/// Clients that push chains of mutations, each push until it is answered, while the server is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_has_applied_each_mutation_once() {
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let mut program = Program::serve(&database_url).await;
    let place = Arc::new(RwLock::new(program.url.clone()));
    let clients: Vec<_> =
        (0..CLIENTS).map(|client| tokio::spawn(insist(client, place.clone()))).collect();
    let truth = Server::on(&database_url, "").await;
    let total = i64::try_from(CLIENTS).unwrap() * PUSHES * 3;
    for kill in 1..=KILLS {
        let threshold = total * i64::try_from(kill).unwrap() / i64::try_from(KILLS + 2).unwrap();
        wait_until("some were pushed", async || pushed(&truth).await >= threshold).await;
        signal("KILL", &[program.pid]);
        program.ended().await;
        program = Program::serve(&database_url).await;
        place.write().await.clone_from(&program.url);
    }
    let mut replays = 0;
    for client in clients {
        replays += client.await.unwrap();
    }
    println!("{KILLS} kills, {total} mutations, {replays} answered from what was stored");
    assert_eq!(pushed(&truth).await, total);
    let versions =
        "SELECT string_agg(DISTINCT concat_ws(' ', n, version), ',') FROM notes WHERE id <= 4";
    assert_eq!(truth.value(versions).await, Some(format!("{} {}", PUSHES * 3, PUSHES * 3 + 1)));
    let kept = "SELECT count(*) FROM counterfoil.sync_mutation";
    assert_eq!(truth.value(kept).await, Some(total.to_string()));
}

async fn pushed(server: &Server) -> i64 {
    let sum = "SELECT coalesce(sum(last_mutation_id), 0) FROM counterfoil.sync_client";
    server.value(sum).await.unwrap().parse().unwrap()
}

async fn insist(client: usize, place: Arc<RwLock<String>>) -> usize {
    let record = i32::try_from(client).unwrap() + 1;
    let mut replays = 0;
    for round in 0..PUSHES {
        let (first, n) = (round * 3 + 1, round * 3);
        let begin = match round {
            0 => patch(first, record, 1, &json!({"n": n + 1})),
            _ => follow(first, record, first - 1, &json!({"n": n + 1})),
        };
        let mutations = json!([
            begin,
            follow(first + 1, record, first, &json!({"n": n + 2})),
            follow(first + 2, record, first + 1, &json!({"n": n + 3})),
        ]);
        let body = json!({"client_id": CLIENT.replace("aaaa", &format!("aaa{client}")), "mutations": mutations});
        let lines = until_answered(&place, &body.to_string()).await;
        for line in &lines {
            assert_eq!(line["status"], "applied", "{line}");
            replays += usize::from(line.get("replayed").is_some());
        }
    }
    replays
}

async fn until_answered(place: &RwLock<String>, body: &str) -> Vec<Value> {
    loop {
        let url = place.read().await.clone();
        let request = with_json(Door::to(&url).request(Method::POST, "/sync/push"), body);
        let Ok(response) = request.send().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let status = response.status().as_u16();
        if let (200, Ok(answer)) = (status, response.text().await) {
            let answer: Value = serde_json::from_str(&answer).unwrap();
            return answer["data"]["results"].as_array().unwrap().clone();
        }
        assert!(matches!(status, 200 | 409 | 503), "{status}");
    }
}
