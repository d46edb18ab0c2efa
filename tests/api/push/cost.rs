//! How many statements a push costs. PostgreSQL counts them.

use std::future::Future;
use std::time::Instant;

use serde_json::{Value, json};

use super::{NOTES, create, delete, patch, push, statuses};
use crate::support::Server;

/// The statements that something took, and the milliseconds that PostgreSQL spent on them.
async fn cost(server: &Server, what: impl Future<Output = ()>) -> (i64, f64) {
    let mut conn = server.connect().await;
    let reset = "SELECT pg_stat_statements_reset(0, \
                 (SELECT oid FROM pg_database WHERE datname = current_database()), 0)";
    sqlx::query(reset).execute(&mut conn).await.unwrap();
    what.await;
    sqlx::query_as(
        "SELECT sum(calls)::bigint, sum(total_exec_time) FROM pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%counterfoil.fingerprint%' \
         AND query NOT LIKE '%pg_backend_pid%' AND query NOT LIKE '%counterfoil.feed%' \
         AND query NOT LIKE '%pg_snapshot_xmin%' AND query NOT LIKE '%settle_foreign%'",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap()
}

async fn apply(server: &Server, mutations: &[Value]) {
    let reply = push(server, &json!(mutations)).await;
    assert!(statuses(&reply).iter().all(|status| status == "applied"), "{}", reply.text);
}

#[tokio::test]
async fn mutations_that_are_alike_are_one_statement() {
    let sql = format!("{NOTES} CREATE EXTENSION pg_stat_statements;");
    let server = Server::start(&sql, &["notes"]).await;
    let mut id = 0_i64;
    let mut next = || {
        id += 1;
        id
    };
    let patches: Vec<_> = (1..=500).map(|n| patch(next(), n, 1, &json!({"n": n}))).collect();
    let begun = Instant::now();
    let (all, spent) = cost(&server, apply(&server, &patches)).await;
    println!("500 patches: {all} statements, {spent:.0} ms of PostgreSQL, {:?}", begun.elapsed());
    // Among them BEGIN, COMMIT, three savepoints, and that no constraint waits. The client is new.
    assert!(all <= 12, "{all}");

    let mut mixed: Vec<_> = (2001..=2100).map(|n| create(next(), n, &json!({"n": 1}))).collect();
    mixed.extend((501..=600).map(|n| patch(next(), n, 1, &json!({"n": 1}))));
    mixed.extend((601..=700).map(|n| delete(next(), n, 1)));
    let (all, _) = cost(&server, apply(&server, &mixed)).await;
    println!("100 creations, 100 patches, 100 deletions: {all} statements");
    assert!(all <= 18, "{all}");

    let begun = Instant::now();
    let singles = async {
        for n in 1..=500 {
            let body = json!({"text": format!("text {n}"), "n": n}).to_string();
            server.put(&format!("/notes/{n}"), Some("\"2\""), &body).await.expect(200);
        }
    };
    let (all, spent) = cost(&server, singles).await;
    println!("500 PUTs: {all} statements, {spent:.0} ms of PostgreSQL, {:?}", begun.elapsed());
    assert!(all >= 500);
}
