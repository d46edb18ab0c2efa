//! PostgreSQL goes away under load. Clients see success or 503; what was acknowledged is there,
//! what was refused is not, and the service recovers by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use counterfoil::postgres::{Options, Postgres};
use reqwest::{Method, RequestBuilder};
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinSet;

use super::{assert_sound, chain, sessions};
use crate::support::process::{children, signal};
use crate::support::scratch::Scratch;
use crate::support::wire::{Cut, Wire};
use crate::support::{Door, Reply, Server, database, json, prepare, wait_until};

const WRITERS: usize = 14;
const READERS: usize = 2;
const ROWS: usize = 4;

const COUNTERS: &str = "
    CREATE TABLE counters (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
    INSERT INTO counters SELECT id, 0 FROM generate_series(1, 4) AS id;";

const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE datname = current_database() AND application_name = 'counterfoil'";

/// Writers and readers that go on until they are stopped.
struct Load {
    done: Arc<AtomicBool>,
    seen: Arc<Seen>,
    writers: JoinSet<Vec<Written>>,
    readers: JoinSet<()>,
}

/// How many answers came so far.
#[derive(Default)]
struct Seen {
    acknowledged: AtomicUsize,
    refused: AtomicUsize,
}

/// What a client was told of one of its writes. Each has an actor of its own, so that the log tells
/// which of them happened.
struct Written {
    row: usize,
    actor: String,
    /// The version, where it was acknowledged.
    version: Option<i32>,
    /// Whether it was said to be unknown.
    unknown: bool,
}

impl Load {
    fn start(url: &str) -> Self {
        let door = Door::to(url);
        let (done, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let mut load = Self { done, seen, writers: JoinSet::new(), readers: JoinSet::new() };
        for writer in 0..WRITERS {
            let (door, done, seen) = (door.clone(), load.done.clone(), load.seen.clone());
            load.writers.spawn(async move {
                let mut written = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let actor = format!("{writer}.{}", written.len());
                    written.push(write(&door, &seen, writer % ROWS + 1, actor).await);
                }
                written
            });
        }
        for reader in 0..READERS {
            let (door, done) = (door.clone(), load.done.clone());
            load.readers.spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    let path = format!("/counters/{}", reader + 1);
                    let reply = Reply::of(door.request(Method::GET, &path)).await;
                    match (reply.status, reply.code()) {
                        (200, _) => {}
                        (503, "DATABASE_UNAVAILABLE" | "OVERLOADED") => back_off().await,
                        _ => panic!("a reader was told {} {}", reply.status, reply.text),
                    }
                }
            });
        }
        load
    }

    /// Waits until as many more writes were acknowledged.
    async fn progress(&self, more: usize) {
        let before = self.seen.acknowledged.load(Ordering::Relaxed);
        wait_until("writes go through", async || {
            self.seen.acknowledged.load(Ordering::Relaxed) >= before + more
        })
        .await;
    }

    /// Waits until as many more writes were refused.
    async fn refusals(&self, more: usize) {
        let before = self.seen.refused.load(Ordering::Relaxed);
        wait_until("writes are refused", async || {
            self.seen.refused.load(Ordering::Relaxed) >= before + more
        })
        .await;
    }

    async fn stop(self) -> Vec<Written> {
        self.done.store(true, Ordering::Relaxed);
        self.readers.join_all().await;
        self.writers.join_all().await.into_iter().flatten().collect()
    }
}

async fn write(door: &Door, seen: &Seen, row: usize, actor: String) -> Written {
    let request = increment(door, row).header("x-actor", &actor);
    let reply = Reply::of(request).await;
    let (version, unknown) = match (reply.status, reply.code()) {
        (200, _) => {
            seen.acknowledged.fetch_add(1, Ordering::Relaxed);
            let version = reply.data()["version"].as_i64().unwrap();
            (Some(i32::try_from(version).unwrap()), false)
        }
        (
            503,
            code @ ("DATABASE_UNAVAILABLE" | "OVERLOADED" | "LOCK_TIMEOUT" | "OUTCOME_UNKNOWN"),
        ) => {
            seen.refused.fetch_add(1, Ordering::Relaxed);
            assert!(!reply.header("retry-after").is_empty(), "{}", reply.text);
            back_off().await;
            (None, code == "OUTCOME_UNKNOWN")
        }
        _ => panic!("a writer was told {} {}", reply.status, reply.text),
    };
    Written { row, actor, version, unknown }
}

fn increment(door: &Door, row: usize) -> RequestBuilder {
    let path = format!("/counters/{row}/increment");
    json(door.request(Method::POST, &path), r#"{"field":"n","by":1}"#)
}

/// A client that was refused comes back a little later.
async fn back_off() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// The log holds every acknowledged write at its version, no refused one, and of the unknown ones
/// whichever happened.
async fn judge(server: &Server, written: &[Written]) {
    for row in 1..=ROWS {
        let log = chain(server, "counters", &row.to_string()).await;
        // Version 1 is from before.
        let happened: BTreeMap<_, _> =
            log.iter().skip(1).map(|entry| (entry.by.as_str(), entry.version)).collect();
        assert_eq!(happened.len(), log.len() - 1, "no write happened twice");
        let mine = || written.iter().filter(|written| written.row == row);
        for Written { actor, version, unknown, .. } in mine() {
            match (version, happened.get(actor.as_str())) {
                (Some(version), logged) => {
                    assert_eq!(logged, Some(version), "{actor} was acknowledged");
                }
                (None, Some(_)) => assert!(unknown, "{actor} was refused, and happened"),
                (None, None) => {}
            }
        }
        let told: BTreeSet<_> = mine().map(|written| written.actor.as_str()).collect();
        assert!(happened.keys().all(|actor| told.contains(actor)), "nothing else was written");
        // Asked of the database: a connection that died a moment ago may cost one more read its answer.
        let stored = server.value(&format!("SELECT n FROM counters WHERE id = {row}")).await;
        assert_eq!(stored, Some(happened.len().to_string()), "row {row}");
    }
    assert_sound(server).await;
    let count = |of: fn(&Written) -> bool| written.iter().filter(|w| of(w)).count();
    println!(
        "{} writes: {} acknowledged, {} refused, {} unknown",
        written.len(),
        count(|w| w.version.is_some()),
        count(|w| w.version.is_none() && !w.unknown),
        count(|w| w.unknown),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_terminated_under_load_lose_nothing_that_was_acknowledged() {
    let server = Server::start(COUNTERS, &["counters"]).await;
    let mut conn = server.connect().await;
    let load = Load::start(&server.url);
    let mut terminated = 0;
    for _ in 0..20 {
        load.progress(20).await;
        terminated += sqlx::query_scalar::<_, i64>(TERMINATE).fetch_one(&mut conn).await.unwrap();
    }
    load.progress(20).await;
    assert!(terminated >= 20, "{terminated}");
    judge(&server, &load.stop().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_is_killed_under_load_and_comes_back_lost_nothing_that_was_acknowledged() {
    let scratch = Scratch::new("killed");
    let mut options = Options::new(scratch.path().join("pg"));
    // Only the machine does not crash here: an acknowledged commit must have left the process.
    options.durable = false;
    options.settings.push(("synchronous_commit".to_owned(), "on".to_owned()));
    let mut postgres = Postgres::start(&options).await.unwrap();
    database::migrated(&postgres, "faults").await;
    prepare(&postgres.url("faults"), COUNTERS, &["counters"]).await;
    let server = Server::on(&postgres.url("faults"), "").await;
    let load = Load::start(&server.url);
    for _ in 0..3 {
        load.progress(50).await;
        let mut all = vec![postgres.pid()];
        all.extend(children(postgres.pid()));
        signal("KILL", &all);
        load.refusals(2 * WRITERS).await;
        postgres.stop().await.unwrap();
        postgres = Postgres::start(&options).await.unwrap();
    }
    load.progress(50).await;
    judge(&server, &load.stop().await).await;
    drop(server);
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn while_there_is_no_postgres_a_thousand_clients_are_told_so_without_delay() {
    let scratch = Scratch::new("away");
    let options = Options { durable: false, ..Options::new(scratch.path().join("pg")) };
    let postgres = Postgres::start(&options).await.unwrap();
    database::migrated(&postgres, "away").await;
    prepare(&postgres.url("away"), COUNTERS, &["counters"]).await;
    let server = Server::on(&postgres.url("away"), "").await;
    server.get("/counters/1").await.expect(200);
    postgres.stop().await.unwrap();

    let door = Door::to(&server.url);
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..1000 {
        clients.spawn(Reply::of(increment(&door, 1)));
    }
    for reply in clients.join_all().await {
        assert_eq!(reply.expect(503).code(), "DATABASE_UNAVAILABLE");
    }
    // One by one, each after a pause of its worker, they would take 12 s and more.
    println!("a thousand refusals: {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(8), "it took {:?}", begun.elapsed());

    let postgres = Postgres::start(&options).await.unwrap();
    wait_until("it serves again", async || server.get("/counters/1").await.status == 200).await;
    let stored = server.value("SELECT concat_ws('/', n, version) FROM counters WHERE id = 1").await;
    assert_eq!(stored.as_deref(), Some("0/1"));
    drop(server);
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_write_on_a_connection_that_died_unused_is_never_of_unknown_outcome() {
    let server = Server::start(COUNTERS, &["counters"]).await;
    let door = Door::to(&server.url);
    let mut conn = server.connect().await;
    for _ in 0..5 {
        // Every worker has a connection once as many requests are served at once.
        let mut some = JoinSet::new();
        for _ in 0..32 {
            some.spawn(Reply::of(increment(&door, 1)));
        }
        some.join_all().await;
        // The server looks at its catalogue and its log every second, and may be back already.
        let idle: String = sqlx::query_scalar(
            "SELECT coalesce(array_agg(pid), '{}')::text FROM pg_stat_activity \
             WHERE datname = current_database() AND application_name = 'counterfoil'",
        )
        .fetch_one(&mut conn)
        .await
        .unwrap();
        sqlx::query(TERMINATE).execute(&mut conn).await.unwrap();
        let those = format!("pid = ANY ('{idle}'::int4[])");
        wait_until("they are gone", async || sessions(&mut conn, &those).await == 0).await;
        for _ in 0..8 {
            let reply = Reply::of(increment(&door, 1)).await;
            match (reply.status, reply.code()) {
                (200, _) | (503, "DATABASE_UNAVAILABLE") => {}
                _ => panic!("{} {}", reply.status, reply.text),
            }
        }
    }
    chain(&server, "counters", "1").await;
}

#[tokio::test]
async fn a_write_that_is_terminated_while_it_waits_was_not_made() {
    let server = Server::start(COUNTERS, &["counters"]).await;
    let mut holder = server.connect().await;
    sqlx::raw_sql("BEGIN; SELECT FROM counters FOR UPDATE").execute(&mut holder).await.unwrap();
    let waiting = tokio::spawn(Reply::of(increment(&Door::to(&server.url), 1)));
    let mut observer = server.connect().await;
    wait_until("the request waits for the row", async || {
        sessions(&mut observer, "wait_event_type = 'Lock'").await == 1
    })
    .await;
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query(terminate).execute(&mut observer).await.unwrap();
    assert_eq!(waiting.await.unwrap().expect(503).code(), "DATABASE_UNAVAILABLE");
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    let stored = server.value("SELECT concat_ws('/', n, version) FROM counters WHERE id = 1").await;
    assert_eq!(stored.as_deref(), Some("0/1"));
    server.post("/counters/1/increment", r#"{"field":"n"}"#).await.expect(200);
}

/// A server with one connection to its database, by way of a wire, which has run every statement
/// that the tests below need.
async fn wired() -> (Server, Wire) {
    const NOTES: &str = "
        CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL);
        INSERT INTO notes VALUES (1, 'old'), (2, 'old');";
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let wire = Wire::to(&database_url).await;
    let server = Server::on(&wire.url, "[server]\nconnections = 1").await;
    server.put("/notes/2", Some("\"1\""), r#"{"text":"new"}"#).await.expect(200);
    server.put("/notes/2", Some("\"1\""), r#"{"text":"newer"}"#).await.expect(409);
    (server, wire)
}

const MARKED: &str = r#"{"text":"marked"}"#;

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_answered_from_the_log_and_its_repeat_is_no_conflict() {
    let (server, wire) = wired().await;
    wire.cut(Cut::Answer, "marked", 1);
    let reply = server.put("/notes/1", Some("\"1\""), MARKED).await;
    // The session may be ended before it ran the statement; the answer is true in either case.
    let made = if reply.status == 200 { "already-applied" } else { "" };
    if reply.status == 200 {
        assert_eq!(reply.header("etag"), "\"2\"");
        assert_eq!(reply.raw_data(), r#"{"id":1,"text":"marked","version":2}"#);
    } else {
        reply.expect_error(503, "DATABASE_UNAVAILABLE");
    }
    let again = server.put("/notes/1", Some("\"1\""), MARKED).await.expect(200);
    assert_eq!(again.header("counterfoil-result"), made);
    assert_eq!(again.data()["version"], 2);
    assert_eq!(chain(&server, "notes", "1").await.len(), 2);
}

#[tokio::test]
async fn every_kind_of_write_whose_connection_is_lost_is_answered_truthfully() {
    let (server, wire) = wired().await;
    let mut made = 0;
    for round in 0..40 {
        let cut = if round % 2 == 0 { Cut::Statement } else { Cut::Answer };
        let id = 100 + round;
        wire.cut(cut, "marked", 1);
        let post = server.post("/notes", &format!(r#"{{"id":{id},"text":"marked"}}"#)).await;
        let there = server.value(&format!("SELECT version FROM notes WHERE id = {id}")).await;
        assert_eq!(post.status, if there.is_some() { 201 } else { 503 }, "{}", post.text);
        assert!(there.is_some() || post.code() == "DATABASE_UNAVAILABLE", "{}", post.text);
        made += usize::from(there.is_some());
        assert!(there.is_none() || cut == Cut::Answer);

        wire.cut(cut, "DELETE", 1);
        let delete = server.delete(&format!("/notes/{id}"), None).await;
        let left = server.value(&format!("SELECT version FROM notes WHERE id = {id}")).await;
        match (there, left) {
            (Some(_), None) => assert_eq!(delete.status, 204, "{}", delete.text),
            (Some(_), Some(_)) => assert_eq!(delete.code(), "DATABASE_UNAVAILABLE"),
            (None, _) => assert!(matches!(delete.status, 404 | 503), "{}", delete.text),
        }
    }
    println!("of 20 lost answers to POST, {made} were of writes that were made");
}

#[tokio::test]
async fn a_write_that_is_lost_on_its_way_was_not_made_and_its_repeat_makes_it() {
    let (server, wire) = wired().await;
    wire.cut(Cut::Statement, "marked", 1);
    let reply = server.put("/notes/1", Some("\"1\""), MARKED).await.expect(503);
    assert_eq!(reply.code(), "DATABASE_UNAVAILABLE");
    let again = server.put("/notes/1", Some("\"1\""), MARKED).await.expect(200);
    assert_eq!(again.header("counterfoil-result"), "");
    assert_eq!(chain(&server, "notes", "1").await.len(), 2);
}

#[tokio::test]
async fn a_write_that_missed_is_not_of_unknown_outcome_when_its_explanation_is_lost() {
    let (server, wire) = wired().await;
    server.sql("UPDATE notes SET text = 'theirs' WHERE id = 1").await;
    for cut in [Cut::Answer, Cut::Statement] {
        // The first statement that carries the body is the write; the second one compares.
        wire.cut(cut, "marked", 2);
        let reply = server.put("/notes/1", Some("\"1\""), MARKED).await.expect(503);
        assert_eq!(reply.code(), "DATABASE_UNAVAILABLE", "{cut:?}");
    }
    server.put("/notes/1", Some("\"1\""), MARKED).await.expect(409);
    assert_eq!(chain(&server, "notes", "1").await.len(), 2);
}

#[tokio::test]
async fn a_read_or_a_dry_run_whose_connection_is_cut_is_not_of_unknown_outcome() {
    let (server, wire) = wired().await;
    wire.cut(Cut::Answer, "marked", 1);
    let put = json(server.request(Method::PUT, "/notes/1?dry_run=true"), MARKED);
    assert_eq!(Reply::of(put).await.expect(503).code(), "DATABASE_UNAVAILABLE");
    wire.cut(Cut::Answer, "4711", 1);
    assert_eq!(server.get("/notes/4711").await.expect(503).code(), "DATABASE_UNAVAILABLE");
    let mut conn = PgConnection::connect(&server.database_url).await.unwrap();
    assert_eq!(sessions(&mut conn, "state LIKE 'idle in transaction%'").await, 0);
    assert_eq!(server.get("/notes/1").await.expect(200).data()["version"], 1);
}

#[tokio::test]
async fn a_merge_whose_answer_is_lost_is_answered_with_what_it_was_made_of() {
    const NOTES: &str = "
        CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL, n integer NOT NULL DEFAULT 0);
        INSERT INTO notes SELECT i, 'old' FROM generate_series(1, 11) AS i;";
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let wire = Wire::to(&database_url).await;
    let server = Server::on(&wire.url, "[server]\nconnections = 1").await;
    let merge = async |id: i32| {
        server.patch(&format!("/notes/{id}"), None, r#"{"n":5}"#).await.expect(200);
        // The write that misses and its comparison carry the body too; the third is the merge.
        if id > 1 {
            wire.cut(Cut::Answer, "marked", 3);
        }
        server.patch(&format!("/notes/{id}?on_conflict=merge"), Some("\"1\""), MARKED).await
    };
    let whole = merge(1).await.expect(200);
    assert_eq!(whole.json["merged"]["base"], 1);
    let mut made = 0;
    for id in 2..=11 {
        let reply = merge(id).await;
        let version = server.value(&format!("SELECT version FROM notes WHERE id = {id}")).await;
        if version.as_deref() == Some("3") {
            made += 1;
            let reply = reply.expect(200);
            assert_eq!(reply.header("counterfoil-result"), "merged");
            assert_eq!(reply.json["merged"], whole.json["merged"]);
            assert_eq!(reply.header("etag"), "\"3\"");
        } else {
            reply.expect_error(503, "DATABASE_UNAVAILABLE");
        }
    }
    assert!(made > 0, "no merge was made");
    println!("of 10 lost answers, {made} were of merges that were made");
}
