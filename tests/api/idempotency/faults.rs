//! Repeats while connections break and servers are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use tokio::sync::RwLock;

use super::{NOTES, content, is_replay, keyed};
use crate::support::process::{Program, signal};
use crate::support::wire::{Cut, Wire};
use crate::support::{Door, Reply, Server, database, json, prepare, scale, wait_until};

/// How long an answer may take while the database is there.
const PROMPT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_connection_cut_around_commit_is_answered_with_what_happened() {
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let wire = Wire::to(&database_url).await;
    let server = Server::on(&wire.url, "").await;
    let (mut rounds, mut slowest) = (0, Duration::ZERO);
    for round in 0..scale(8, 250) {
        for cut in [Cut::Statement, Cut::Torn, Cut::Answer, Cut::Answer] {
            // The last time it is the write ahead of COMMIT whose answer is lost.
            let within = rounds % 4 == 3;
            wire.cut(cut, if within { "by0" } else { "COMMIT" }, 1);
            rounds += 1;
            let key = format!("{round}-{rounds}");
            let path = "/notes/1/increment";
            let send = || Reply::of(keyed(&server, Method::POST, path, &key, r#"{"field":"n"}"#));
            let begun = Instant::now();
            let first = send().await;
            slowest = slowest.max(begun.elapsed());
            let stored = server.value("SELECT n FROM notes WHERE id = 1").await.unwrap();
            if within {
                // Nothing was to be committed yet, and the client is told so.
                first.expect_error(503, "DATABASE_UNAVAILABLE");
                assert_eq!(stored, (rounds - 1).to_string());
                assert_eq!(send().await.expect(200).data()["n"], rounds);
                continue;
            }
            let first = first.expect(200);
            assert_eq!(first.data()["n"], rounds, "{cut:?}");
            assert_eq!(stored, rounds.to_string(), "{cut:?}");
            // It was there already where only the answer to COMMIT was lost.
            assert_eq!(is_replay(&first), cut == Cut::Answer);
            assert_eq!(content(&send().await), content(&first));
        }
    }
    println!("{rounds} cuts, the slowest answer took {slowest:?}");
    assert!(slowest < PROMPT, "{slowest:?}");
    let stored = Server::on(&database_url, "").await.get("/notes/1").await;
    assert_eq!(stored.data()["n"], rounds);
}

/// What a client is told when the database stays away after COMMIT was sent, and what it finds once
/// the database is back.
async fn away_after_commit(cut: Cut, found: &str) {
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let wire = Wire::to(&database_url).await;
    let server = Server::on(&wire.url, "[server]\nconnections = 1").await;
    let path = "/notes/1/increment";
    let send = || Reply::of(keyed(&server, Method::POST, path, "k", r#"{"field":"n"}"#));
    server.post(path, r#"{"field":"n"}"#).await.expect(200);
    // The connection that is there will do until it is cut.
    wire.away(true);
    wire.cut(cut, "COMMIT", 1);
    let told = send().await.expect_error(503, "OUTCOME_UNKNOWN");
    let id = told.details()["operation"].as_str().unwrap().to_owned();
    wire.away(false);
    let back = Instant::now();
    let operation = format!("/operations/{id}");
    wait_until("the operation can be asked for", async || {
        server.get(&operation).await.status == 200
    })
    .await;
    assert!(back.elapsed() < PROMPT, "{:?}", back.elapsed());
    let shown = server.get(&operation).await;
    assert_eq!(shown.data()["status"], found, "{cut:?}");
    let failures = &shown.data()["evidence"]["failures"];
    if found == "retryable" {
        assert_eq!(failures[0]["code"], "OUTCOME_UNKNOWN");
        assert_eq!(failures[0]["request_id"], told.header("x-request-id"));
    }
    let repeat = send().await.expect(200);
    assert_eq!(repeat.data()["n"], 2);
    assert_eq!(is_replay(&repeat), found == "completed");
    assert_eq!(server.get(&operation).await.data()["status"], "completed");
    assert_eq!(server.value("SELECT n FROM notes WHERE id = 1").await.as_deref(), Some("2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_of_unknown_outcome_can_be_asked_for_once_the_database_is_back() {
    tokio::join!(
        away_after_commit(Cut::Answer, "completed"),
        away_after_commit(Cut::Statement, "retryable"),
    );
}

/// How many at once under each key.
const COPIES: usize = 8;
/// How many keys are under way at once.
const LANES: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_has_done_each_request_once() {
    let (keys, kills) = (scale(400, 10_000), scale(12, 100));
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let mut program = Program::serve(&database_url).await;
    let place = Arc::new(RwLock::new(Door::to(&program.url)));
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let begun = Instant::now();
    let lanes: Vec<_> = (0..LANES)
        .map(|_| {
            let (place, next, done) = (place.clone(), next.clone(), done.clone());
            tokio::spawn(async move {
                loop {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    if key >= keys {
                        return;
                    }
                    let copies = (0..COPIES).map(|_| until_answered(&place, key));
                    let answers = futures_util::future::join_all(copies).await;
                    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for kill in 1..=kills {
        // Somewhere within its share of the work.
        let at = (keys * kill - kill * 7919 % keys) / (kills + 1);
        wait_until("it came so far", async || done.load(Ordering::Relaxed) >= at).await;
        signal("KILL", &[program.pid]);
        program.ended().await;
        program = Program::serve(&database_url).await;
        *place.write().await = Door::to(&program.url);
    }
    for lane in lanes {
        lane.await.unwrap();
    }
    println!("{kills} kills, {keys} keys x {COPIES} in {:?}", begun.elapsed());
    let server = Server::on(&database_url, "").await;
    assert_eq!(server.value("SELECT sum(n) FROM notes").await, Some(keys.to_string()));
    let kept = "SELECT count(*) FROM counterfoil.operation WHERE status = 'completed'";
    assert_eq!(server.value(kept).await, Some(keys.to_string()));
}

/// Sends an operation until it is answered.
async fn until_answered(place: &RwLock<Door>, key: usize) -> String {
    loop {
        let door = place.read().await.clone();
        let request = door
            .request(Method::POST, &format!("/notes/{}/increment", key % 20 + 1))
            .header("idempotency-key", format!("key-{key}"));
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
