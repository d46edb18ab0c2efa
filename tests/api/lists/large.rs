//! A page of large rows ends where it is full, and loses none.

use serde_json::Value;

use super::{list, walk};
use crate::support::Server;

/// What the rows of one answer may hold, about.
const BYTES: usize = 8 << 20;

/// Rows of about 250 kB: such as PostgreSQL cannot compress, such as it can to next to nothing, and some small.
const ROWS: &str = "
    CREATE TABLE t (id int PRIMARY KEY, tie int, body text, more jsonb, small text DEFAULT 's');
    INSERT INTO t SELECT n, nullif(n % 3, 0), CASE n % 5 WHEN 0 THEN repeat('ab', 125000) WHEN 1 THEN 'x' ELSE
        (SELECT string_agg(md5((n * 10000 + i)::text), '') FROM generate_series(1, 8000) AS i) END,
        CASE n % 5 WHEN 1 THEN jsonb_build_array(repeat('cd', 120000)) END
    FROM generate_series(1, 60) AS n;";

fn ids(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["id"].to_string()).collect()
}

#[tokio::test]
async fn a_page_ends_where_it_is_full() {
    let server = Server::start(ROWS, &["t"]).await;
    for (query, sql) in [
        ("limit=1000", "id"),
        ("order=id.desc&limit=59", "id DESC"),
        ("order=tie.desc.nullslast,id.desc&limit=200", "tie DESC NULLS LAST, id DESC"),
        ("order=tie,small,id&limit=60", "tie, id"),
        ("order=small,tie.desc&select=id,more,body&limit=51", "tie DESC, id"),
    ] {
        let wanted = server
            .value(&format!("SELECT string_agg(id::text, ',' ORDER BY {sql}) FROM t"))
            .await
            .unwrap();
        // Once without and once with a guess from the page before.
        for _ in 0..2 {
            let rows = walk(&server, "t", query, async |_| {}).await;
            assert_eq!(ids(&rows).join(","), wanted, "{query}");
        }
        let first = list(&server, "t", query).await.expect(200);
        assert!(first.json["page"]["next"].is_string(), "{query}");
        // Full, and by no more than the row that filled it.
        assert!((BYTES..BYTES + 300_000).contains(&first.text.len()), "{}", first.text.len());
    }
    // What does not come does not count, and no page is cut without need.
    let rows = list(&server, "t", "select=id,small&limit=1000").await.expect(200);
    assert_eq!((rows.data().as_array().unwrap().len(), rows.header("link")), (60, ""));
    let rows = list(&server, "t", "limit=30").await.expect(200);
    assert_eq!(rows.data().as_array().unwrap().len(), 30);
}

#[tokio::test]
async fn the_range_is_that_of_the_shortened_page() {
    let server = Server::start(ROWS, &["t"]).await;
    for _ in 0..2 {
        let path = "/t?limit=1000&tie=not.is.null";
        let request = server.request(reqwest::Method::GET, path).header("prefer", "count=exact");
        let page = crate::support::Reply::of(request).await.expect(200);
        let last = page.data().as_array().unwrap().len() - 1;
        assert!((30..39).contains(&last), "{last}");
        assert_eq!(page.header("content-range"), format!("0-{last}/40"));
    }
}

#[tokio::test]
async fn a_first_row_that_fills_the_page_comes() {
    let rows = "CREATE TABLE t (id int PRIMARY KEY, body text);
        INSERT INTO t SELECT n, repeat('a', 9000000) FROM generate_series(1, 3) AS n;
        INSERT INTO t VALUES (4, 'small');";
    let server = Server::start(rows, &["t"]).await;
    for limit in [1, 2, 1000] {
        let rows = walk(&server, "t", &format!("limit={limit}"), async |_| {}).await;
        assert_eq!(ids(&rows), ["1", "2", "3", "4"], "{limit}");
    }
}

#[tokio::test]
async fn a_page_of_history_ends_where_it_is_full() {
    let server = Server::start("CREATE TABLE t (id int PRIMARY KEY, body text);", &["t"]).await;
    server.post("/t", r#"{"id": 1, "body": "first"}"#).await.expect(201);
    server
        .sql(
            "DO $$ BEGIN FOR n IN 1 .. 45 LOOP UPDATE t SET body = CASE n % 3 WHEN 0 THEN repeat(n::text, 150000) ELSE
            (SELECT string_agg(md5((n * 10000 + i)::text), '') FROM generate_series(1, 8000) AS i) END; COMMIT; END LOOP; END $$",
        )
        .await;
    let (mut path, mut found, mut pages) = ("/t/1/history?limit=1000".to_owned(), Vec::new(), 0);
    loop {
        let page = server.get(&path).await.expect(200);
        let entries = page.data().as_array().unwrap();
        for entry in entries {
            assert_eq!(entry["version"], entry["data"]["version"]);
            let changed = if entry["version"] == 1 { ["id", "body"].as_slice() } else { &["body"] };
            assert_eq!(entry["changed"], serde_json::json!(changed));
        }
        found.extend(entries.iter().map(|entry| entry["version"].as_i64().unwrap()));
        pages += 1;
        let Some(next) = page.json["page"]["next"].as_str() else { break };
        assert!((BYTES..BYTES + 320_000).contains(&page.text.len()), "{}", page.text.len());
        assert!(page.header("link").contains(&format!("after={next}")));
        path = format!("/t/1/history?limit=1000&after={next}");
    }
    assert_eq!((found, pages), ((1..=46).rev().collect(), 2));
}
