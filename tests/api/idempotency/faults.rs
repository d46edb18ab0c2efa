//! Repeats while connections break and servers are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use tokio::sync::RwLock;

use super::{NOTES, content, is_replay, keyed};
use crate::support::process::{Program, signal};
use crate::support::wire::{Cut, Wire};
use crate::support::{Door, Reply, Server, database, json, prepare, wait_until};

#[tokio::test]
async fn a_connection_cut_around_commit_is_answered_with_what_happened() {
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let wire = Wire::to(&database_url).await;
    let server = Server::on(&wire.url, "").await;
    let mut rounds = 0;
    for round in 0..10 {
        for cut in [Cut::Statement, Cut::Answer] {
            wire.cut(cut, "COMMIT", 1);
            rounds += 1;
            let key = format!("{round}-{cut:?}");
            let path = "/notes/1/increment";
            let send = || Reply::of(keyed(&server, Method::POST, path, &key, r#"{"field":"n"}"#));
            let first = send().await.expect(200);
            assert_eq!(first.data()["n"], rounds, "{cut:?}");
            // It was there already where only the answer to COMMIT was lost.
            assert_eq!(is_replay(&first), cut == Cut::Answer);
            assert_eq!(content(&send().await), content(&first));
        }
    }
    let stored = Server::on(&database_url, "").await.get("/notes/1").await;
    assert_eq!(stored.data()["n"], rounds);
}

/// How often the server is killed.
const KILLS: usize = 12;
const CLIENTS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_has_done_each_request_once() {
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let program = Program::serve(&database_url).await;
    let place = Arc::new(RwLock::new(program.url.clone()));
    let done = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| tokio::spawn(insist(client, place.clone(), done.clone())))
        .collect();
    let mut program = program;
    for _ in 0..KILLS {
        let seen = changes(&database_url).await;
        wait_until("something was written", async || changes(&database_url).await > seen + 5).await;
        signal("KILL", &[program.pid]);
        program.ended().await;
        program = Program::serve(&database_url).await;
        place.write().await.clone_from(&program.url);
    }
    done.store(true, Ordering::Relaxed);
    let mut sent = 0;
    for client in clients {
        sent += client.await.unwrap();
    }
    println!("{KILLS} kills, {sent} operations");
    let server = Server::on(&database_url, "").await;
    assert_eq!(server.value("SELECT sum(n) FROM notes").await, Some(sent.to_string()));
    let kept = "SELECT count(*) FROM counterfoil.operation WHERE status = 'completed'";
    assert_eq!(server.value(kept).await, Some(sent.to_string()));
}

async fn changes(database_url: &str) -> i64 {
    let mut conn = <sqlx::PgConnection as sqlx::Connection>::connect(database_url).await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM counterfoil.operation")
        .fetch_one(&mut conn)
        .await
        .unwrap()
}

/// Sends one operation after another, each until it is answered and then once more.
async fn insist(client: usize, place: Arc<RwLock<String>>, done: Arc<AtomicBool>) -> usize {
    let mut sent = 0;
    while !done.load(Ordering::Relaxed) {
        let key = format!("{client}-{sent}");
        let first = until_answered(client, &place, &key).await;
        let again = until_answered(client, &place, &key).await;
        assert_eq!(again, first, "{key}");
        sent += 1;
    }
    sent
}

async fn until_answered(client: usize, place: &RwLock<String>, key: &str) -> String {
    loop {
        let url = place.read().await.clone();
        let request = Door::to(&url)
            .request(Method::POST, &format!("/notes/{}/increment", client + 1))
            .header("idempotency-key", key);
        let Ok(response) = json(request, r#"{"field":"n"}"#).send().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let status = response.status().as_u16();
        if let (200, Ok(body)) = (status, response.text().await) {
            return body;
        }
        assert!(matches!(status, 200 | 409 | 503), "{status}");
    }
}
