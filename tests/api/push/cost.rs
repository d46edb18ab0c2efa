//! How many statements a push costs. PostgreSQL counts them.

use std::time::Instant;

use serde_json::{Value, json};

use super::{NOTES, create, delete, patch, push, statuses};
use crate::support::Server;

/// All statements of a push.
async fn cost(server: &Server, mutations: &[Value]) -> i64 {
    let mut conn = server.connect().await;
    let reset = "SELECT pg_stat_statements_reset(0, \
                 (SELECT oid FROM pg_database WHERE datname = current_database()), 0)";
    sqlx::query(reset).execute(&mut conn).await.unwrap();
    let begun = Instant::now();
    let reply = push(server, &json!(mutations)).await;
    println!("{} mutations in {:?}", mutations.len(), begun.elapsed());
    assert!(statuses(&reply).iter().all(|status| status == "applied"), "{}", reply.text);
    sqlx::query_scalar(
        "SELECT sum(calls)::bigint FROM pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%counterfoil.fingerprint%' \
         AND query NOT LIKE '%pg_backend_pid%'",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap()
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
    let all = cost(&server, &patches).await;
    println!("500 patches: {all} statements");
    // Among them BEGIN, COMMIT, three savepoints, and that no constraint waits. The client is new.
    assert!(all <= 12, "{all}");

    let mut mixed: Vec<_> = (2001..=2100).map(|n| create(next(), n, &json!({"n": 1}))).collect();
    mixed.extend((501..=600).map(|n| patch(next(), n, 1, &json!({"n": 1}))));
    mixed.extend((601..=700).map(|n| delete(next(), n, 1)));
    let all = cost(&server, &mixed).await;
    println!("100 creations, 100 patches, 100 deletions: {all} statements");
    assert!(all <= 18, "{all}");
}
