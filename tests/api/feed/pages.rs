//! What stands in a page, and where it ends.

use serde_json::{Value, json};

use super::{Copy, settled, start};
use crate::support::Server;

#[tokio::test]
async fn changes_come_in_order_with_all_that_a_copy_needs() {
    let server = start().await;
    server.post("/notes", r#"{"id": 1, "text": "a"}"#).await.expect(201);
    let patch = server.request(reqwest::Method::PATCH, "/notes/1").header("x-actor", "mina");
    crate::support::Reply::of(crate::support::json(patch, r#"{"text": "b"}"#)).await.expect(200);
    server.post("/tasks", r#"{"id": "a,%", "day": "2026-11-30"}"#).await.expect(201);
    server.delete("/notes/1", None).await.expect(204);
    server.put("/notes/1", None, r#"{"text": "again"}"#).await.expect(410);
    server.sql("INSERT INTO notes VALUES (1, 'again')").await;
    settled(&server).await;

    let page = server.get("/sync/pull").await.expect(200);
    let page = page.data();
    let changes = page["changes"].as_array().unwrap();
    let told: Vec<Value> = changes
        .iter()
        .map(|c| json!([c["resource"], c["id"], c["version"], c["op"], c["data"]]))
        .collect();
    let id = "a%2C%25,2026-11-30";
    assert_eq!(
        told,
        [
            json!(["notes", "1", 1, "upsert", {"id": 1, "text": "a", "version": 1}]),
            json!(["notes", "1", 2, "upsert", {"id": 1, "text": "b", "version": 2}]),
            json!(["tasks", id, 1, "upsert", {"id": "a,%", "day": "2026-11-30", "done": false, "version": 1}]),
            json!(["notes", "1", 3, "delete", null]),
            json!(["notes", "1", 4, "upsert", {"id": 1, "text": "again", "version": 4}]),
        ]
    );
    assert_eq!((&changes[1]["by"], &changes[1]["origin"]), (&json!("mina"), &Value::Null));
    assert!(changes[1]["at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(page["has_more"], false);
    assert!(page["lag_ms"].is_i64());
    // The id is the one in the record's address.
    server.get(&format!("/tasks/{id}")).await.expect(200);

    // Nothing more is there, and the cursor stands.
    let mut copy = Copy::default();
    copy.take(page);
    let stood = copy.cursor.clone();
    assert!(!copy.pull(&server, "").await);
    assert_eq!(copy.seen.len(), 5);
    assert_eq!(copy.cursor, stood);
}

#[tokio::test]
async fn pages_are_filled_and_end_where_they_are_told_to() {
    let server = start().await;
    // One row in forty is of the resource that is read.
    server
        .sql(
            "DO $$ BEGIN FOR i IN 1..2000 LOOP INSERT INTO notes VALUES (i, 'x');
             IF i % 40 = 0 THEN INSERT INTO tasks VALUES (i, '2026-01-01'); END IF; END LOOP; END $$",
        )
        .await;
    settled(&server).await;
    let mut sizes = Vec::new();
    let mut copy = Copy::default();
    loop {
        let before = copy.seen.len();
        let more = copy.pull(&server, "&resources=tasks&limit=20").await;
        sizes.push(copy.seen.len() - before);
        if !more {
            break;
        }
    }
    assert_eq!(sizes, [20, 20, 10]);
    // Having come to the end, the cursor is past what others wrote after its last change.
    let mut all = Copy::default();
    all.catch_up(&server, "&limit=1000").await;
    assert_eq!(all.seen.len(), 2050);
    let mut exact = Copy::default();
    assert!(exact.pull(&server, "&limit=1000").await);
    assert!(exact.pull(&server, "&limit=1000").await);
    assert!(!exact.pull(&server, "&limit=50").await, "exactly the rest");
    for wrong in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "page=2",
        "resources=nothing",
        "resources=quiet",
        "resources=,",
    ] {
        server.get(&format!("/sync/pull?{wrong}")).await.expect_error(400, "INVALID_QUERY");
    }
}

#[tokio::test]
async fn a_resource_without_history_is_named() {
    let server = start().await;
    server.sql("SELECT counterfoil.adopt('quiet', history => false)").await;
    crate::support::wait_until("quiet is served", async || {
        server.get("/quiet").await.status == 200
    })
    .await;
    let refused = server.get("/sync/pull?resources=notes,quiet").await;
    let refused = refused.expect_error(400, "INVALID_QUERY").expect_field("resources");
    assert_eq!(refused.details()["resource"], "quiet");
    // What it deletes is logged all the same, and is no change of those that are followed.
    server.sql("INSERT INTO quiet VALUES (1); DELETE FROM quiet").await;
    let mut copy = Copy::default();
    copy.catch_up(&server, "").await;
    assert_eq!(copy.versions(), Vec::<String>::new());
}

#[tokio::test]
async fn large_rows_make_short_pages() {
    let server = start().await;
    // As they lie in the table, some can be compressed and some cannot.
    server
        .sql(
            "INSERT INTO notes SELECT i, (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 10000 + 0 * i)) FROM generate_series(1, 30) i;
             INSERT INTO notes SELECT i, repeat('x', 1000000) FROM generate_series(31, 150) i",
        )
        .await;
    settled(&server).await;
    let mut copy = Copy::default();
    let mut pages = 0;
    loop {
        let reply =
            server.get(&format!("/sync/pull?limit=1000&cursor={}", copy.cursor)).await.expect(200);
        assert!(reply.text.len() < 64 << 20, "{}", reply.text.len());
        copy.take(reply.data());
        pages += 1;
        if reply.data()["has_more"] == false {
            break;
        }
    }
    assert_eq!(copy.seen.len(), 150);
    assert!(pages > 5, "{pages}");
}

#[tokio::test]
async fn hidden_columns_never_appear_under_whatever_name() {
    let sql = "CREATE TABLE people (id integer PRIMARY KEY, name text, was_pin text, pin text);
        CREATE TABLE notes (id integer PRIMARY KEY, pin text);";
    let config = "[resource.people]\nhidden = [\"pin\"]\n";
    let database_url = crate::support::database::create().await;
    crate::support::prepare(&database_url, sql, &["people", "notes"]).await;
    let insert = "INSERT INTO people VALUES (1, 'mina', 'SECRET', 'SECRET');
        INSERT INTO notes VALUES (1, 'shown');
        ALTER TABLE people DROP COLUMN was_pin;";
    crate::support::prepare(&database_url, insert, &[]).await;
    let server = Server::on(&database_url, config).await;
    server.sql("UPDATE people SET name = 'Mina'; DELETE FROM people").await;
    settled(&server).await;
    for path in ["/sync/pull", "/sync/pull?resources=people"] {
        let reply = server.get(path).await.expect(200);
        assert!(!reply.text.contains("SECRET"), "{}", reply.text);
        assert_eq!(
            reply.data()["changes"][0]["data"],
            json!({"id": 1, "name": "mina", "version": 1})
        );
    }
    let notes = server.get("/sync/pull?resources=notes").await;
    assert_eq!(notes.data()["changes"][0]["data"]["pin"], "shown");
}

#[tokio::test]
async fn a_row_that_was_there_before_adoption_is_told_once_it_is_written() {
    let sql = "CREATE TABLE old (id integer PRIMARY KEY, text text); INSERT INTO old VALUES (1, 'a'), (2, 'b')";
    let server = Server::start(sql, &["old"]).await;
    let mut copy = Copy::default();
    copy.catch_up(&server, "").await;
    assert_eq!(copy.seen.len(), 0);
    server.sql("UPDATE old SET text = 'c' WHERE id = 1").await;
    copy.catch_up(&server, "").await;
    // The log holds version 1, too, as the base of merges.
    assert_eq!(copy.versions(), ["old/1@2"]);

    // What was written while nothing was logged is noted when history is switched on again.
    server.sql("SELECT counterfoil.adopt('old', history => false)").await;
    server.sql("UPDATE old SET text = 'd' WHERE id = 1").await;
    server.sql("SELECT counterfoil.adopt('old')").await;
    crate::support::wait_until("the log is known to be another", async || {
        server.get(&format!("/sync/pull?cursor={}", copy.cursor)).await.status == 410
    })
    .await;
    let mut anew = Copy::default();
    anew.catch_up(&server, "").await;
    assert_eq!(anew.versions(), ["old/1@2", "old/1@3"]);
    assert_eq!(anew.records.values().next().unwrap().1.as_ref().unwrap()["text"], "d");
}
