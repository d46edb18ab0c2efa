//! Cursors that are no good, and why.

use counterfoil::catalog::Retention;
use counterfoil::db::{Db, connect};
use counterfoil::record::retention::sweep;

use super::{Copy, settled, start};
use crate::support::{Reply, Server, wait_until};

fn expired(reply: Reply, reason: &str) {
    let reply = reply.expect_error(410, "CURSOR_EXPIRED");
    assert_eq!(reply.details()["reason"], reason, "{}", reply.text);
    assert!(reply.details()["snapshot"].as_str().unwrap().starts_with("/api/v1/sync/snapshot"));
}

async fn with_cursor(server: &Server) -> Copy {
    server.sql("INSERT INTO notes SELECT i FROM generate_series(1, 3) i").await;
    let mut copy = Copy::default();
    settled(server).await;
    copy.pull(server, "&limit=2").await;
    copy
}

#[tokio::test]
async fn forged_cursors_are_refused() {
    let server = start().await;
    let copy = with_cursor(&server).await;
    let mut forged = copy.cursor.clone().into_bytes();
    let last = forged.len() - 2;
    forged[last] = if forged[last] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    let cut = copy.cursor[..20].to_owned();
    let long = "A".repeat(20_000);
    for wrong in ["x", "%00", "AAAA", "0", "-1", "%F0%9F%98%80", &forged, &cut, &long] {
        let reply = server.get(&format!("/sync/pull?cursor={wrong}")).await;
        reply.expect_error(400, "INVALID_CURSOR").expect_field("cursor");
    }
    let other = server.get(&format!("/sync/pull?cursor={}&resources=notes", copy.cursor)).await;
    other.expect_error(400, "INVALID_CURSOR");
}

#[tokio::test]
async fn cursors_of_another_database_and_of_a_restored_one_have_ended() {
    let (server, other) = (start().await, start().await);
    let copy = with_cursor(&server).await;
    let path = format!("/sync/pull?cursor={}", copy.cursor);
    expired(other.get(&path).await, "database");
    // A second process serves the same cursor.
    let twin = Server::on(&server.database_url, "").await;
    assert_eq!(twin.get(&path).await.expect(200).data()["changes"][0]["id"], "3");
    // An operator says that the database is another; nobody has to be started anew.
    server.sql("SELECT counterfoil.new_epoch()").await;
    expired(server.get(&path).await, "database");
    expired(twin.get(&path).await, "database");
    let mut anew = Copy::default();
    anew.catch_up(&server, "").await;
    assert_eq!(anew.seen.len(), 3);
}

#[tokio::test]
async fn a_restored_log_neither_hides_what_is_new_nor_is_lost() {
    let server = start().await;
    let copy = with_cursor(&server).await;
    server.sql("UPDATE notes SET text = 'b' WHERE id = 1").await;
    // As restored from a cluster that had come much further, by way of pg_dump.
    server
        .sql(
            "UPDATE counterfoil.change SET xid = (xid::text::bigint + 1000000000)::text::xid8;
              INSERT INTO counterfoil.feed_floor VALUES ('notes', '1000000000000', 1);
              UPDATE counterfoil.feed SET place = 'elsewhere'",
        )
        .await;
    let path = format!("/sync/pull?cursor={}", copy.cursor);
    wait_until("the cursor has ended", async || server.get(&path).await.status == 410).await;
    wait_until("the restored changes are settled", async || {
        server.value("SELECT max(xid) = '2' FROM counterfoil.change").await.as_deref()
            == Some("true")
    })
    .await;
    // Nobody can read it whole from the beginning any more: some of it was let go.
    expired(server.get("/sync/pull").await, "retention");
    server.sql("DELETE FROM counterfoil.feed_floor").await;
    let mut anew = Copy::default();
    anew.catch_up(&server, "").await;
    assert_eq!(anew.seen.len(), 4);
    server.sql("UPDATE notes SET text = 'new' WHERE id = 2").await;
    anew.catch_up(&server, "").await;
    assert_eq!(anew.versions()[4..], ["notes/2@2"]);
    let problems = server.value("SELECT count(*) FROM counterfoil.audit()").await;
    assert_eq!(problems.as_deref(), Some("0"));
}

#[tokio::test]
async fn what_retention_let_go_ends_the_cursors_before_it() {
    let server = start().await;
    let early = with_cursor(&server).await;
    for text in ["a", "b", "c"] {
        server.sql(&format!("UPDATE notes SET text = '{text}' WHERE id = 3")).await;
    }
    let mut late = Copy::default();
    late.catch_up(&server, "").await;
    let mut tasks = Copy::default();
    tasks.pull(&server, "&resources=tasks&limit=1").await;

    let db = Db::start(&connect::options(&server.database_url).unwrap(), 1);
    let two = Retention { days: None, versions: Some(2) };
    // What some reader has yet to come to is kept: a transaction is open since before it.
    let mut open = server.connect().await;
    sqlx::raw_sql("BEGIN; SELECT pg_current_xact_id()").execute(&mut open).await.unwrap();
    server
        .sql("UPDATE notes SET text = 'd' WHERE id = 3; UPDATE notes SET text = 'e' WHERE id = 3")
        .await;
    sweep(&db, "notes", two).await.unwrap();
    let kept = server.value("SELECT string_agg(version::text, ' ' ORDER BY version) FROM counterfoil.change WHERE id = '3'").await;
    let kept = kept.unwrap();
    assert!(kept.ends_with("5 6"), "{kept}");
    sqlx::raw_sql("ROLLBACK").execute(&mut open).await.unwrap();

    settled(&server).await;
    sweep(&db, "notes", two).await.unwrap();
    expired(server.get(&format!("/sync/pull?cursor={}", early.cursor)).await, "retention");
    expired(server.get("/sync/pull").await, "retention");
    // A cursor past it goes on, and so does one of other resources.
    late.catch_up(&server, "").await;
    tasks.catch_up(&server, "&resources=tasks").await;
    server.get("/sync/pull?resources=tasks").await.expect(200);
}

#[tokio::test]
async fn a_resource_that_comes_or_goes_ends_the_cursors_of_all() {
    let server = start().await;
    let mut copy = with_cursor(&server).await;
    let mut notes = Copy::default();
    notes.pull(&server, "&resources=notes").await;
    server.sql("INSERT INTO quiet VALUES (1)").await;
    server.sql("SELECT counterfoil.adopt('quiet')").await;
    let path = format!("/sync/pull?cursor={}", copy.cursor);
    wait_until("the cursor has ended", async || server.get(&path).await.status == 410).await;
    expired(server.get(&path).await, "resources");
    notes.pull(&server, "&resources=notes").await;

    copy = Copy::default();
    copy.catch_up(&server, "").await;
    // Changes of a resource that was released are not told.
    server.sql("SELECT counterfoil.release('notes'::text)").await;
    let path = format!("/sync/pull?cursor={}&resources=notes", notes.cursor);
    wait_until("notes is gone", async || server.get(&path).await.status == 400).await;
    let mut anew = Copy::default();
    anew.catch_up(&server, "").await;
    assert_eq!(anew.versions(), Vec::<String>::new());
    // Adopted again, it is another log: what happened in between is in none.
    server.sql("INSERT INTO notes VALUES (9); SELECT counterfoil.adopt('notes')").await;
    wait_until("notes is back", async || server.get(&path).await.status == 410).await;
    expired(server.get(&path).await, "resources");
}
