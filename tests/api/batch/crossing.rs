//! Batches that cross: many clients over the same few rows.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::support::{Door, Reply, Server, json as with_json, scale};

const CLIENTS: usize = 16;
const ACCOUNTS: u64 = 8;

const SQL: &str = "
    CREATE TABLE accounts (id integer PRIMARY KEY, amount integer NOT NULL CHECK (amount >= 0));
    INSERT INTO accounts SELECT i, 1000 FROM generate_series(1, 8) AS i;";

/// For how long. Longer where a variable says so.
fn duration() -> Duration {
    let seconds = std::env::var("COUNTERFOIL_CROSSING_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(scale(4, 60) as u64))
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

async fn transfer(door: Door, client: usize, until: Instant) -> (usize, usize) {
    let mut dice = Dice(client as u64);
    let (mut held, mut refused) = (0, 0);
    while Instant::now() < until {
        let mut operations = Vec::new();
        // Several moves from one account to another, in any order.
        for _ in 0..=dice.below(3) {
            let amount = i64::try_from(dice.below(50)).unwrap();
            for by in [-amount, amount] {
                let id = dice.below(ACCOUNTS) + 1;
                let body = json!({"field": "amount", "by": by});
                operations.push(
                    json!({"method": "INCREMENT", "resource": "accounts", "id": id, "body": body}),
                );
            }
        }
        let request = door.request(Method::POST, "/batch");
        let reply = Reply::of(with_json(request, &json!({"operations": operations}).to_string()));
        match reply.await {
            reply if reply.status == 200 => held += 1,
            reply => {
                reply.expect_error(422, "CHECK_FAILED");
                refused += 1;
            }
        }
    }
    (held, refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn crossing_batches_keep_the_sum_and_never_deadlock() {
    let server = Server::start(SQL, &["accounts"]).await;
    let until = Instant::now() + duration();
    let clients =
        (0..CLIENTS).map(|client| tokio::spawn(transfer(Door::to(&server.url), client, until)));
    let (mut held, mut refused) = (0, 0);
    for client in join_all(clients).await {
        let (h, r) = client.unwrap();
        (held, refused) = (held + h, refused + r);
    }
    println!("{CLIENTS} clients, {:?}: {held} batches held, {refused} refused", duration());
    assert!(held > CLIENTS);
    assert_eq!(server.value("SELECT sum(amount) FROM accounts").await.as_deref(), Some("8000"));
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    println!("deadlocks: {}", server.value(deadlocks).await.unwrap());
    let findings = server.value("SELECT string_agg(a::text, '; ') FROM counterfoil.audit() AS a");
    assert_eq!(findings.await, None);
}
