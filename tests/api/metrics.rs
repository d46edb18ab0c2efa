//! What `/metrics` says after known requests.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::json;

use crate::support::{Reply, Server, json as with_body};

const NOTES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, text text, n integer NOT NULL DEFAULT 0 CHECK (n < 100));
    INSERT INTO notes (id) SELECT i FROM generate_series(1, 20) AS i;";

/// Every sample by its name and labels.
async fn scrape(server: &Server) -> BTreeMap<String, u64> {
    let reply = reqwest::Client::builder().no_proxy().build().unwrap();
    let reply = reply.get(format!("{}/metrics", server.url)).send().await.unwrap();
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = reply.text().await.unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            // Sums stand with a decimal point.
            (name.to_owned(), value.trim_end_matches(".0").parse().unwrap())
        })
        .collect()
}

/// What rose between two scrapes.
fn risen(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let rise = |(name, value): (&String, &u64)| {
        let rise = value.wrapping_sub(*before.get(name).unwrap_or(&0));
        (rise != 0).then(|| (name.clone(), rise))
    };
    after.iter().filter_map(rise).collect()
}

fn writes(risen: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let prefix = "counterfoil_writes_total{resource=\"notes\",outcome=\"";
    let found = risen.iter().filter_map(|(name, value)| {
        let outcome = name.strip_prefix(prefix)?.strip_suffix("\"}")?;
        Some((outcome.to_owned(), *value))
    });
    found.collect()
}

fn pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}

#[tokio::test]
async fn writes_are_counted_by_what_became_of_them() {
    let server = Server::start(NOTES, &["notes"]).await;
    let before = scrape(&server).await;
    server.put("/notes/1", Some("\"1\""), r#"{"text":"a"}"#).await.expect(200);
    server.put("/notes/1", Some("\"1\""), r#"{"text":"a"}"#).await.expect(200);
    server.patch("/notes/1", Some("\"1\""), r#"{"text":"b"}"#).await.expect(409);
    server.patch("/notes/1?on_conflict=merge", Some("\"1\""), r#"{"n":7}"#).await.expect(200);
    server.patch("/notes/1?dry_run=true", None, r#"{"n":8}"#).await.expect(200);
    server.patch("/notes/1", None, r#"{"n":100}"#).await.expect(422);
    server.delete("/notes/2", None).await.expect(204);
    server.delete("/notes/2", None).await.expect(410);
    server.delete("/notes/99", None).await.expect(404);
    server.get("/notes/made-up").await.expect(400);
    let after = scrape(&server).await;
    let risen = risen(&before, &after);
    let expected = [
        ("already_applied", 1),
        ("applied", 2),
        ("conflict", 1),
        ("gone", 1),
        ("merged", 1),
        ("missing", 1),
        ("refused", 1),
    ];
    assert_eq!(writes(&risen), pairs(&expected));
    let route = "counterfoil_requests_total{route=\"/api/v1/{resource}/{id}\",method=";
    assert_eq!(risen[&format!("{route}\"PUT\",status=\"2xx\"}}")], 2);
    assert_eq!(risen[&format!("{route}\"DELETE\",status=\"4xx\"}}")], 2);
    assert_eq!(after["counterfoil_database_up"], 1);
    assert!(after["counterfoil_database_connections_open{queue=\"writes\"}"] >= 1);
    assert!(after["counterfoil_client_connections"] >= 1);
    assert!(!after.keys().any(|name| name.contains("made-up")), "a label that a client made up");
}

#[tokio::test]
async fn operations_of_a_batch_are_counted_where_they_hold() {
    let server = Server::start(NOTES, &["notes"]).await;
    let raise = |id: i32, by: i32| json!({"method": "INCREMENT", "resource": "notes", "id": id, "body": {"field": "n", "by": by}});
    let mut operations: Vec<_> = (1..=6).map(|id| raise(id, 1)).collect();
    let send = async |atomic: bool, operations: &[serde_json::Value]| {
        let body = json!({"atomic": atomic, "operations": operations}).to_string();
        let before = scrape(&server).await;
        server.post("/batch", &body).await;
        risen(&before, &scrape(&server).await)
    };
    let risen = send(true, &operations).await;
    assert_eq!(writes(&risen), pairs(&[("applied", 6)]));
    assert_eq!(risen["counterfoil_batch_operations_sum"], 6);
    operations.push(raise(7, 500));
    operations.push(raise(99, 1));
    let refused = [("missing", 1), ("refused", 1)];
    assert_eq!(writes(&send(true, &operations).await), pairs(&refused));
    let each = [&[("applied", 6)], &refused[..]].concat();
    assert_eq!(writes(&send(false, &operations).await), pairs(&each));
}

#[tokio::test]
async fn keys_and_operations_that_wait_are_counted() {
    let server = Server::start(NOTES, &["notes"]).await;
    let send = async |key: &str, body: &str| {
        let request = server.request(Method::POST, "/notes/1/increment");
        Reply::of(with_body(request.header("idempotency-key", key), body)).await
    };
    let before = scrape(&server).await;
    assert_eq!(before["counterfoil_idempotency_total{outcome=\"in_progress\"}"], 0);
    send("a", r#"{"field":"n"}"#).await.expect(200);
    send("a", r#"{"field":"n"}"#).await.expect(200);
    send("b", r#"{"field":"n"}"#).await.expect(200);
    send("b", r#"{"field":"n","by":2}"#).await.expect(422);
    server.sql("UPDATE counterfoil.operation SET status = 'blocked' WHERE key = 'a'").await;
    send("a", r#"{"field":"n"}"#).await.expect(409);
    let after = scrape(&server).await;
    let risen = risen(&before, &after);
    for (outcome, count) in [("first", 2), ("replayed", 1), ("reused", 1), ("in_progress", 1)] {
        let name = format!("counterfoil_idempotency_total{{outcome=\"{outcome}\"}}");
        assert_eq!(risen[&name], count, "{outcome}");
    }
    assert_eq!(writes(&risen), pairs(&[("applied", 2)]));
    assert_eq!(after["counterfoil_operations{status=\"blocked\"}"], 1);
    assert_eq!(after["counterfoil_operations{status=\"retryable\"}"], 0);
}
