//! How many statements a batch costs. PostgreSQL counts them.

use serde_json::{Value, json};

use super::{NOTES, delete, increment, patch, send};
use crate::support::Server;

/// The statements that change or lock rows, and all of them.
async fn cost(server: &Server, operations: &[Value]) -> (i64, i64) {
    let mut conn = server.connect().await;
    let reset = "SELECT pg_stat_statements_reset(0, \
                 (SELECT oid FROM pg_database WHERE datname = current_database()), 0)";
    sqlx::query(reset).execute(&mut conn).await.unwrap();
    send(server, &json!(operations)).await.expect(200);
    sqlx::query_as(
        "SELECT coalesce(sum(calls) FILTER (WHERE query LIKE 'WITH actor%' OR query LIKE '%FOR NO KEY UPDATE%' \
             OR query LIKE '%FOR UPDATE%'), 0)::bigint, sum(calls)::bigint FROM pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%counterfoil.fingerprint%' \
             AND query NOT LIKE '%pg_backend_pid%' AND query NOT LIKE '%counterfoil.feed%'",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap()
}

#[tokio::test]
async fn operations_that_are_alike_are_one_statement() {
    let sql = format!("{NOTES} CREATE EXTENSION pg_stat_statements;");
    let server = Server::start(&sql, &["notes"]).await;
    let patches: Vec<_> = (1..=500).map(|id| patch(id, Some("\"1\""), &json!({"n": id}))).collect();
    let (writes, all) = cost(&server, &patches).await;
    println!("500 patches: {writes} statements on rows, {all} in all");
    // The rows are locked by one and written by one.
    assert_eq!(writes, 2);
    assert!(all <= 12, "{all}");

    let mut mixed: Vec<_> = (1..=100).map(|id| increment(id, 1)).collect();
    mixed.extend((101..=200).map(delete));
    let create = |id: i32| json!({"method": "POST", "resource": "notes", "body": {"id": id}});
    mixed.extend((2000..2100).map(create));
    mixed.extend((201..=300).map(|id| patch(id, None, &json!({"n": 1}))));
    let (writes, _) = cost(&server, &mixed).await;
    assert_eq!(writes, 5);

    // A row that stands in it twice begins a new one.
    let twice: Vec<_> = (1..=10).chain(1..=10).map(|id| increment(id, 1)).collect();
    assert_eq!(cost(&server, &twice).await.0, 3);
}

/// The statements on rows.
const OF_NOTES: &str = "SELECT sum(calls)::bigint FROM pg_stat_statements \
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND query LIKE '%notes%' AND query NOT LIKE '%pg_stat_statements%'";

#[tokio::test]
async fn conflicts_that_are_alike_are_explained_by_one_statement() {
    let sql = format!("{NOTES} CREATE EXTENSION pg_stat_statements;");
    let server = Server::start(&sql, &["notes"]).await;
    server.sql("UPDATE notes SET n = 1").await;
    let mut conn = server.connect().await;
    let reset = "SELECT pg_stat_statements_reset(0, \
                 (SELECT oid FROM pg_database WHERE datname = current_database()), 0)";
    sqlx::query(reset).execute(&mut conn).await.unwrap();
    let stale: Vec<_> = (1..=500).map(|id| patch(id, Some("\"1\""), &json!({"n": 7}))).collect();
    let reply = send(&server, &json!(stale)).await.expect(409);
    let of_notes: i64 = sqlx::query_scalar(OF_NOTES).fetch_one(&mut conn).await.unwrap();
    let refused = reply.details()["operations"].as_array().unwrap();
    assert_eq!(refused.len(), 500);
    for (place, refusal) in refused.iter().enumerate() {
        assert_eq!((&refusal["index"], &refusal["status"]), (&json!(place), &json!(409)));
        assert_eq!(refusal["data"]["id"], json!(place + 1));
        let fields = json!([{"field": "n", "verdict": "both", "base": 0, "yours": 7, "theirs": 1}]);
        assert_eq!(refusal["error"]["details"]["fields"], fields);
    }
    // Alone, the same refusal is told in the same words.
    let alone = server.patch("/notes/1", Some("\"1\""), r#"{"n": 7}"#).await.expect(409);
    assert_eq!(refused[0]["error"]["details"], *alone.details());
    println!("500 conflicts: {of_notes} statements on rows");
    // One locks them, one misses, one explains.
    assert_eq!(of_notes, 3);

    // The same beside as many that would hold: nothing is judged again.
    sqlx::query(reset).execute(&mut conn).await.unwrap();
    let mixed: Vec<_> = (1..=500)
        .map(|id| patch(id, Some(if id % 2 == 0 { "\"1\"" } else { "\"2\"" }), &json!({"n": 7})))
        .collect();
    let reply = send(&server, &json!(mixed)).await.expect(409);
    let of_mixed: i64 = sqlx::query_scalar(OF_NOTES).fetch_one(&mut conn).await.unwrap();
    println!("250 conflicts among 500: {of_mixed} statements on rows");
    assert_eq!(of_mixed, 3);
    let refused = reply.details()["operations"].as_array().unwrap();
    assert_eq!(refused.len(), 250);
    assert!(refused.iter().all(|refusal| refusal["data"]["n"] == 1));
}
