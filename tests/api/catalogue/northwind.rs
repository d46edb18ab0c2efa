//! A schema that was not made for us comes through whole: Northwind, where its file is at hand.

use std::path::PathBuf;

use futures_util::{StreamExt as _, stream};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::support::Server;

/// How many rows are written at once.
const WRITERS: usize = 8;

/// The file that `NORTHWIND_SQL` names, or the one that lies beside the checkout.
fn sample() -> Option<String> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data/northwind.sql");
    let file = std::env::var_os("NORTHWIND_SQL").map_or(beside, PathBuf::from);
    let sql = std::fs::read_to_string(&file).ok()?;
    // A setting that PostgreSQL has had none of since version 12.
    Some(sql.replace("SET default_with_oids = false;", ""))
}

/// The address of a row: the parts of its key, percent-encoded.
fn address(table: &str, key: &[String], row: &Value) -> String {
    let part = |name: &String| match &row[name] {
        Value::String(text) => utf8_percent_encode(text, NON_ALPHANUMERIC).to_string(),
        other => other.to_string(),
    };
    format!("/{table}/{}", key.iter().map(part).collect::<Vec<_>>().join(","))
}

/// All rows of a table in order, without their versions.
async fn rows(server: &Server, table: &str) -> Option<String> {
    server
        .value(&format!(
            "SELECT string_agg(row, E'\\n' ORDER BY row) FROM (SELECT regexp_replace(t::text, ',\\d+\\)$', '') AS row FROM {table} AS t) AS r"
        ))
        .await
}

async fn sends_every_row_back(server: &Server, table: &str) -> usize {
    let key = server
        .value(&format!("SELECT array_to_string(counterfoil.key_columns('{table}'), ',')"))
        .await;
    let key: Vec<String> = key.unwrap().split(',').map(str::to_owned).collect();
    let before = rows(server, table).await;
    let mut path = format!("/{table}?limit=500");
    let mut addresses = Vec::new();
    loop {
        let page = server.get(&path).await.expect(200);
        addresses
            .extend(page.data().as_array().unwrap().iter().map(|row| address(table, &key, row)));
        match page.json["page"]["next"].as_str() {
            Some(next) => path = format!("/{table}?limit=500&after={next}"),
            None => break,
        }
    }
    stream::iter(&addresses)
        .for_each_concurrent(WRITERS, async |path| {
            let read = server.get(path).await.expect(200);
            let written = server.put(path, Some("\"1\""), read.raw_data()).await.expect(200);
            let wanted = read.raw_data().replace("\"version\":1}", "\"version\":2}");
            assert_eq!(written.raw_data(), wanted, "{path}");
        })
        .await;
    assert_eq!(rows(server, table).await, before, "{table}");
    let raised = format!("SELECT count(*) FROM {table} WHERE version = 2");
    assert_eq!(server.value(&raised).await, Some(addresses.len().to_string()), "{table}");
    addresses.len()
}

#[tokio::test]
async fn every_row_of_northwind_survives_being_sent_back() {
    let Some(sql) = sample() else {
        println!("skipped: no northwind.sql at hand; NORTHWIND_SQL may name one");
        return;
    };
    let server = Server::start(&sql, &[]).await;
    let tables = server.value("SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'").await.unwrap();
    let tables: Vec<&str> = tables.split(' ').collect();
    for table in &tables {
        server.sql(&format!("SELECT counterfoil.adopt('{table}')")).await;
    }
    let server = Server::on(&server.database_url, "").await;
    let mut count = 0;
    for table in &tables {
        count += sends_every_row_back(&server, table).await;
    }
    assert!(tables.len() >= 13 && count > 3000, "{} tables, {count} rows", tables.len());
    assert_eq!(
        server.value("SELECT count(*) FROM counterfoil.audit()").await.as_deref(),
        Some("0")
    );
    // A composite key, and a reference that holds against deletion.
    let detail = server.get("/order_details/10248,11").await.expect(200);
    assert_eq!(detail.data()["order_id"], 10248);
    server.get("/order_details/10248").await.expect_error(400, "INVALID_ID");
    server.delete("/orders/10248", None).await.expect_error(409, "REFERENCED");
    server
        .patch("/orders/10248", None, r#"{"customer_id": "NOONE"}"#)
        .await
        .expect_error(422, "REFERENCE_NOT_FOUND")
        .expect_field("customer_id");
}
