//! Increments: numbers raised in place, several at once and within bounds, by one statement.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::support::{Reply, Server, json as body};

const COUNTERS: &str = "
    CREATE TABLE counters (id integer PRIMARY KEY, views bigint, stock integer NOT NULL DEFAULT 0,
        price numeric(10,2), label text);
    INSERT INTO counters VALUES (1, NULL, 10, 5.00, 'a'), (2, 0, 0, 0, 'b');";

async fn counters() -> Server {
    Server::start(COUNTERS, &["counters"]).await
}

async fn raise(server: &Server, body: &str) -> Reply {
    server.post("/counters/1/increment", body).await
}

#[tokio::test]
async fn several_fields_are_raised_as_one_version() {
    let server = counters().await;
    let reply = raise(&server, r#"{"fields": {"views": 1, "stock": -2, "price": 0.25}}"#).await;
    let row = reply.expect(200).data().clone();
    assert_eq!((&row["views"], &row["stock"]), (&json!(1), &json!(8)));
    assert_eq!(row["price"].to_string(), "5.25");
    assert_eq!(row["version"], 2);
    let one = raise(&server, r#"{"field": "stock"}"#).await.expect(200);
    assert_eq!(one.data()["stock"], 9);
    let mixed = r#"{"fields": {"views": {"by": 9223372036854775806}, "stock": {}}}"#;
    let row = raise(&server, mixed).await.expect(200).data().clone();
    assert_eq!(row["views"].to_string(), "9223372036854775807");
    assert_eq!(row["stock"], 10);
}

#[tokio::test]
async fn a_bound_is_held_by_the_statement_itself() {
    let server = counters().await;
    let reply = raise(&server, r#"{"field": "stock", "by": -10, "min": 0}"#).await.expect(200);
    assert_eq!(reply.data()["stock"], 0);
    let low = raise(&server, r#"{"field": "stock", "by": -1, "min": 0}"#).await;
    let low = low.expect_error(422, "CHECK_FAILED").expect_field("stock");
    assert_eq!((low.header("etag"), &low.data()["stock"]), ("\"2\"", &json!(0)));
    raise(&server, r#"{"field": "stock", "by": 6, "min": 0, "max": 5}"#)
        .await
        .expect_error(422, "CHECK_FAILED");
    raise(&server, r#"{"field": "stock", "by": 5, "min": 0, "max": 5}"#).await.expect(200);
    let both = r#"{"fields": {"views": 1, "price": {"by": 0.01, "max": 5}}}"#;
    raise(&server, both).await.expect_error(422, "CHECK_FAILED").expect_field("price");
    // A stale tag comes before a bound.
    let request = server.request(Method::POST, "/counters/1/increment").header("if-match", "\"1\"");
    Reply::of(body(request, r#"{"field": "stock", "by": 9, "max": 5}"#))
        .await
        .expect_error(409, "WRITE_CONFLICT");
    assert_eq!(server.value("SELECT version FROM counters WHERE id = 1").await.unwrap(), "3");
}

#[tokio::test]
async fn what_cannot_be_raised_is_refused_with_its_field() {
    let server = counters().await;
    for (body, code, field) in [
        ("{}", "MISSING_FIELD", "field"),
        (r#"{"field": "label"}"#, "INVALID_VALUE", "label"),
        (r#"{"field": "id"}"#, "INVALID_VALUE", "id"),
        (r#"{"field": "version"}"#, "INVALID_VALUE", "version"),
        (r#"{"field": "colour"}"#, "UNKNOWN_FIELD", "colour"),
        (r#"{"field": "stock", "by": "x"}"#, "INVALID_VALUE", "by"),
        (r#"{"field": "stock", "by": 1.5}"#, "INVALID_VALUE", "by"),
        (r#"{"field": "stock", "by": null}"#, "INVALID_VALUE", "by"),
        (r#"{"field": "stock", "min": "x"}"#, "INVALID_VALUE", "min"),
        (r#"{"field": "stock", "until": 1}"#, "UNKNOWN_FIELD", "until"),
        (r#"{"fields": {}}"#, "INVALID_VALUE", "fields"),
        (r#"{"fields": 1}"#, "INVALID_VALUE", "fields"),
        (r#"{"fields": {"stock": 1}, "by": 1}"#, "INVALID_VALUE", "fields"),
        (r#"{"fields": {"stock": 1}, "field": "stock"}"#, "INVALID_VALUE", "fields"),
        (r#"{"fields": {"stock": {"until": 1}}}"#, "UNKNOWN_FIELD", "stock"),
        (r#"{"fields": {"stock": "x"}}"#, "INVALID_VALUE", "stock"),
        (r#"{"fields": {"stock": 2147483647}}"#, "INVALID_VALUE", "stock"),
    ] {
        raise(&server, body).await.expect_error(422, code).expect_field(field);
    }
    assert_eq!(server.value("SELECT version FROM counters WHERE id = 1").await.unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_that_many_take_at_once_is_sold_once_each() {
    let server = counters().await;
    server.sql("UPDATE counters SET stock = 50 WHERE id = 2").await;
    let take = || server.post("/counters/2/increment", r#"{"field":"stock","by":-1,"min":0}"#);
    let replies = join_all((0..80).map(|_| take())).await;
    let sold = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(sold, 50);
    assert!(replies.iter().all(|r| r.status == 200 || r.code() == "CHECK_FAILED"));
    assert_eq!(server.value("SELECT stock FROM counters WHERE id = 2").await.unwrap(), "0");
}

/// How many writers meet on one row in the comparison below, and how many times each writes.
const WRITERS: usize = 16;
const TIMES: usize = 10;

/// The figure for the documentation: the same work by increments and by reading, adding and writing
/// back under `If-Match` until it holds.
#[tokio::test(flavor = "multi_thread")]
async fn on_a_hot_row_increments_need_one_request_each() {
    let server = counters().await;
    let begun = std::time::Instant::now();
    let raise = async || {
        for _ in 0..TIMES {
            server.post("/counters/1/increment", r#"{"field":"views"}"#).await.expect(200);
        }
    };
    join_all((0..WRITERS).map(|_| raise())).await;
    let raised = begun.elapsed();

    let begun = std::time::Instant::now();
    let insist = async || {
        let mut requests = 0;
        for _ in 0..TIMES {
            loop {
                let read = server.get("/counters/2").await.expect(200);
                let body = json!({"views": read.data()["views"].as_i64().unwrap() + 1}).to_string();
                requests += 2;
                let written = server.patch("/counters/2", Some(read.header("etag")), &body).await;
                // The row may hold that value by another's hand; that is no write of ours.
                if written.status == 200 && written.header("counterfoil-result").is_empty() {
                    break;
                }
            }
        }
        requests
    };
    let requests: usize = join_all((0..WRITERS).map(|_| insist())).await.into_iter().sum();
    let (wanted, insisted) = (WRITERS * TIMES, begun.elapsed());
    println!(
        "{wanted} increments: {wanted} requests in {raised:?}; read and write: {requests} in {insisted:?}"
    );
    let views = "SELECT string_agg(views::text, ' ' ORDER BY id) FROM counters";
    assert_eq!(server.value(views).await, Some(format!("{wanted} {wanted}")));
    assert!(requests > 2 * wanted, "nobody met anybody");
}
