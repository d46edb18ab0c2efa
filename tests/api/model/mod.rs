//! A model of many clients that are offline at random, crash between any two steps, and send what they
//! send twice and late. Whatever they do: every edit is applied, merged, or reported with the row that
//! stands in its way; nobody writes over what he had not seen; all copies are equal in the end.

mod client;
mod judge;
mod random;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::json;

use crate::support::{Door, Reply, Server, json as with_json, wait_until};
use client::Client;
use random::Random;

/// How many records the clients share at first; as many ids are free for new ones.
const RECORDS: u64 = 60;

const CARDS: &str = "
    CREATE TABLE cards (id integer PRIMARY KEY, a text, b text, c text);
    INSERT INTO cards SELECT i, 'a', 'b', 'c' FROM generate_series(1, 60) AS i;";

/// The clients of a run in the suite, and how often each goes through its loop. The thousand:
/// `COUNTERFOIL_MODEL_CLIENTS=1000 cargo test --test api model::`.
const CLIENTS: u64 = 60;
const ROUNDS: usize = 14;

#[tokio::test(flavor = "multi_thread")]
async fn no_edit_of_many_offline_clients_is_lost_or_written_over_unseen() {
    let clients = std::env::var("COUNTERFOIL_MODEL_CLIENTS");
    let clients = clients.map_or(CLIENTS, |number| number.parse().unwrap());
    let server = Server::start(CARDS, &["cards"]).await;
    let begun = std::time::Instant::now();
    let done = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..2)
        .map(|seed| tokio::spawn(somebody_online(Door::to(&server.url), seed, done.clone())))
        .collect();
    let door = Door::to(&server.url);
    let running: Vec<_> = (0..clients)
        .map(|number| {
            let client = Client::new(door.clone(), number);
            tokio::spawn(client.live(ROUNDS))
        })
        .collect();
    let mut finished = Vec::new();
    for client in running {
        finished.push(client.await.unwrap());
    }
    done.store(true, Ordering::Relaxed);
    for other in others {
        other.await.unwrap();
    }
    settled(&server).await;
    let catching_up: Vec<_> =
        finished.into_iter().map(|client| tokio::spawn(client.catch_up())).collect();
    let mut finished = Vec::new();
    for client in catching_up {
        finished.push(client.await.unwrap());
    }
    println!("{clients} clients in {:?}", begun.elapsed());
    judge::judge(&server, &finished).await;
}

/// Waits until what was sent without waiting for an answer has ended, and all that is committed can be
/// pulled.
async fn settled(server: &Server) {
    let newest = server.value("SELECT pg_snapshot_xmax(pg_current_snapshot())").await.unwrap();
    let passed = format!("SELECT pg_snapshot_xmin(pg_current_snapshot()) >= '{newest}'::xid8");
    wait_until("the horizon has passed", async || {
        server.value(&passed).await.as_deref() == Some("true")
    })
    .await;
}

/// Somebody who is always online, and writes what he has just read.
async fn somebody_online(door: Door, seed: u64, done: Arc<AtomicBool>) {
    let mut random = Random::new(1_000_000 + seed);
    let mut number = 0;
    while !done.load(Ordering::Relaxed) {
        let path = format!("/cards/{}", random.below(RECORDS) + 1);
        let row = Reply::attempt(door.request(Method::GET, &path)).await;
        if let Ok(row) = row
            && row.status == 200
        {
            number += 1;
            let field = random.pick(&["a", "b", "c"]);
            let body = json!({ field: format!("online {seed}-{number}") }).to_string();
            let write = door.request(Method::PATCH, &path).header("if-match", row.header("etag"));
            drop(Reply::attempt(with_json(write, &body)).await);
        }
        tokio::time::sleep(std::time::Duration::from_millis(random.below(20))).await;
    }
}
