//! The promise itself: many writers, transactions held open, readers polling all the while.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use sqlx::{AssertSqlSafe, PgConnection};
use tokio::sync::Barrier;

use super::{Copy, settled, start};
use crate::support::{Door, Reply, Server, wait_until};

/// Numbers that look like chance and are the same in every run.
struct Dice(u64);

impl Dice {
    fn up_to(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// How many writers, how long they hold their transactions, and for how long all of it goes on.
struct Size {
    writers: u64,
    hold_ms: u64,
    time: Duration,
}

/// `COUNTERFOIL_SOAK=1` runs it at length.
fn size() -> Size {
    if std::env::var_os("COUNTERFOIL_SOAK").is_some() {
        Size { writers: 64, hold_ms: 5000, time: Duration::from_mins(1) }
    } else {
        Size { writers: 16, hold_ms: 500, time: Duration::from_secs(4) }
    }
}

async fn run(conn: &mut PgConnection, sql: String) -> bool {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.is_ok()
}

/// Writes in transactions of every shape until the time is over.
async fn writer(mut conn: PgConnection, number: u64, hold_ms: u64, over: Arc<AtomicBool>) {
    let mut dice = Dice(number + 1);
    run(&mut conn, "SET lock_timeout = '1s'".to_owned()).await;
    let mut turn = 0;
    while !over.load(Ordering::Relaxed) {
        turn += 1;
        let hold = Duration::from_millis(dice.up_to(hold_ms + 1));
        let mut done = run(&mut conn, "BEGIN".to_owned()).await;
        // Some take their number long before they write, some long before they commit.
        if dice.up_to(3) == 0 {
            done &= run(&mut conn, "SELECT pg_current_xact_id()".to_owned()).await;
            tokio::time::sleep(hold / 2).await;
        }
        for part in 0..=dice.up_to(3) {
            let (shared, own) = (dice.up_to(12), 1000 + number * 100_000 + turn * 10 + part);
            let sql = match dice.up_to(6) {
                0 => format!("INSERT INTO notes VALUES ({own}, 'w{number}')"),
                1 => format!("DELETE FROM notes WHERE id = {shared}"),
                2 => format!(
                    "INSERT INTO notes VALUES ({shared}, 'again') ON CONFLICT (id) DO UPDATE SET text = 'over'"
                ),
                3 => format!("INSERT INTO tasks VALUES ('{own}', '2026-01-01')"),
                4 => format!("UPDATE tasks SET done = NOT done WHERE id = '{shared}'"),
                _ => format!("UPDATE notes SET text = 'w{number} {turn}' WHERE id = {shared}"),
            };
            done = done && run(&mut conn, sql).await;
        }
        tokio::time::sleep(hold).await;
        let end = if done && dice.up_to(8) > 0 { "COMMIT" } else { "ROLLBACK" };
        run(&mut conn, end.to_owned()).await;
    }
}

/// What a reader follows, and how.
struct Reader {
    more: &'static str,
    resources: &'static str,
    /// How it begins: with a first copy, or at the beginning of the log.
    copies: bool,
}

const READERS: [Reader; 6] = [
    Reader { more: "&limit=3", resources: "", copies: false },
    Reader { more: "", resources: "", copies: false },
    Reader { more: "&limit=1000", resources: "", copies: true },
    Reader { more: "&limit=7", resources: "&resources=tasks", copies: false },
    Reader { more: "&limit=50", resources: "&resources=notes", copies: true },
    Reader { more: "&limit=1000", resources: "&resources=notes,tasks", copies: false },
];

async fn page(door: &Door, path: &str) -> Reply {
    Reply::of(door.request(Method::GET, path)).await.expect(200)
}

async fn reader(door: Door, reader: &Reader, over: Arc<AtomicBool>, number: u64) -> Copy {
    let Reader { more, resources, copies } = reader;
    let mut copy = Copy::default();
    let mut dice = Dice(100 + number);
    let mut after = copies.then(String::new);
    while let Some(place) = after.take() {
        let reply = page(&door, &format!("/sync/snapshot?after={place}&limit=5{resources}")).await;
        copy.take(reply.data());
        after = reply.data()["after"].as_str().map(str::to_owned);
    }
    copy.seen.clear();
    loop {
        let last = over.load(Ordering::Relaxed);
        let reply =
            page(&door, &format!("/sync/pull?cursor={}{more}{resources}", copy.cursor)).await;
        copy.take(reply.data());
        if last && reply.data()["has_more"] == false {
            return copy;
        }
        // A crash between two steps: the page is read once more.
        if dice.up_to(20) == 0 {
            let again =
                page(&door, &format!("/sync/pull?cursor={}{more}{resources}", copy.cursor)).await;
            let before = copy.records.clone();
            let seen = copy.seen.clone();
            let cursor = copy.cursor.clone();
            copy.take(again.data());
            copy.take(again.data());
            (copy.records, copy.seen, copy.cursor) = (before, seen, cursor);
        }
        tokio::time::sleep(Duration::from_millis(dice.up_to(40))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reader_sees_exactly_what_was_committed() {
    let size = size();
    let server = start().await;
    server
        .sql(
            "INSERT INTO notes SELECT i, 'old' FROM generate_series(0, 11) i;
             INSERT INTO tasks SELECT i, '2026-01-01' FROM generate_series(0, 11) i",
        )
        .await;
    let (wrote, read) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    // Draws its place in the order first of all, and commits long after others.
    let mut early = server.connect().await;
    assert!(run(&mut early, "BEGIN; INSERT INTO notes VALUES (500, 'early')".to_owned()).await);
    let mut idle = server.connect().await;
    assert!(run(&mut idle, "BEGIN; SELECT pg_current_xact_id()".to_owned()).await);

    let door = Door::to(&server.url);
    let mut readers = Vec::new();
    for (number, how) in (0..).zip(&READERS) {
        readers.push(tokio::spawn(reader(door.clone(), how, read.clone(), number)));
    }
    let mut writers = Vec::new();
    for number in 0..size.writers {
        let conn = server.connect().await;
        writers.push(tokio::spawn(writer(conn, number, size.hold_ms, wrote.clone())));
    }
    // Both hold the feed back while they are open; from then on it moves along with the writers.
    tokio::time::sleep(size.time / 4).await;
    assert!(run(&mut idle, "INSERT INTO notes VALUES (501, 'late'); COMMIT".to_owned()).await);
    tokio::time::sleep(size.time / 4).await;
    assert!(
        run(&mut early, "UPDATE notes SET text = 'last' WHERE id = 500; COMMIT".to_owned()).await
    );
    tokio::time::sleep(size.time / 2).await;
    wrote.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    settled(&server).await;
    read.store(true, Ordering::Relaxed);

    let logged = log(&server).await;
    let committed = logged.len();
    println!("{committed} changes by {} writers", size.writers);
    assert!(committed > 100, "{committed}");
    for (task, how) in readers.into_iter().zip(&READERS) {
        let copy = task.await.unwrap();
        let followed =
            |resource: &str| how.resources.is_empty() || how.resources.contains(resource);
        let expected: BTreeSet<_> =
            logged.iter().filter(|(resource, ..)| followed(resource)).cloned().collect();
        let seen: BTreeSet<_> = copy.seen.iter().cloned().collect();
        assert_eq!(seen.len(), copy.seen.len(), "a change came twice");
        if how.copies {
            // What the first copy held already need not come again.
            assert!(seen.is_subset(&expected));
        } else {
            assert_eq!(seen, expected);
        }
        for table in ["notes", "tasks"].into_iter().filter(|table| followed(table)) {
            assert_same(&server, &copy, table).await;
        }
    }
}

/// All that the log holds.
async fn log(server: &Server) -> Vec<(String, String, i64)> {
    let mut conn = server.connect().await;
    let text = "SELECT resource, id, version::int8 FROM counterfoil.change WHERE op <> 'baseline'";
    sqlx::query_as(text).fetch_all(&mut conn).await.unwrap()
}

/// Asserts that a copy holds the rows of a table at their versions, and no others.
async fn assert_same(server: &Server, copy: &Copy, table: &str) {
    let mut conn = server.connect().await;
    let key = if table == "notes" { "id::text" } else { "id || ',' || day" };
    let text = format!("SELECT {key}, version::int8 FROM {table}");
    let rows: Vec<(String, i64)> =
        sqlx::query_as(AssertSqlSafe(text)).fetch_all(&mut conn).await.unwrap();
    let rows: BTreeSet<_> = rows.into_iter().collect();
    let held: BTreeSet<_> = copy
        .records
        .iter()
        .filter(|((resource, _), (_, row))| resource == table && row.is_some())
        .map(|((_, id), (version, _))| (id.clone(), *version))
        .collect();
    assert_eq!(held, rows, "{table}");
}

/// Sessions draw numbers of the log ahead, so that a later change may have a lower one.
#[tokio::test]
async fn the_order_of_the_log_is_not_that_of_its_sequence() {
    let server = start().await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    assert!(run(&mut first, "INSERT INTO notes VALUES (1)".to_owned()).await);
    assert!(run(&mut second, "INSERT INTO notes VALUES (2)".to_owned()).await);
    let mut copy = Copy::default();
    copy.catch_up(&server, "").await;
    assert!(run(&mut first, "INSERT INTO notes VALUES (3)".to_owned()).await);
    copy.catch_up(&server, "").await;
    assert_eq!(copy.versions(), ["notes/1@1", "notes/2@1", "notes/3@1"]);
}

/// A change that commits late, after others with higher numbers, is not passed by: the readers wait.
#[tokio::test]
async fn a_late_commit_is_waited_for() {
    let server = start().await;
    let mut early = server.connect().await;
    assert!(run(&mut early, "BEGIN; INSERT INTO notes VALUES (1, 'early')".to_owned()).await);
    let barrier = Arc::new(Barrier::new(2));
    let other = {
        let (mut conn, barrier) = (server.connect().await, barrier.clone());
        tokio::spawn(async move {
            assert!(run(&mut conn, "INSERT INTO notes VALUES (2, 'quick')".to_owned()).await);
            barrier.wait().await;
        })
    };
    barrier.wait().await;
    other.await.unwrap();
    let mut copy = Copy::default();
    let begun = Instant::now();
    wait_until("the lag is told", async || {
        let reply = server.get(&format!("/sync/pull?cursor={}", copy.cursor)).await.expect(200);
        copy.take(reply.data());
        reply.data()["lag_ms"].as_i64().unwrap() >= 300
    })
    .await;
    assert!(copy.seen.is_empty(), "{:?} after {:?}", copy.seen, begun.elapsed());
    let metrics =
        reqwest::get(format!("{}/metrics", server.url)).await.unwrap().text().await.unwrap();
    let lag =
        metrics.lines().find_map(|line| line.strip_prefix("counterfoil_feed_lag_milliseconds "));
    assert!(lag.unwrap().parse::<i64>().unwrap() >= 300, "{metrics}");
    assert!(run(&mut early, "COMMIT".to_owned()).await);
    copy.catch_up(&server, "").await;
    assert_eq!(copy.versions(), ["notes/1@1", "notes/2@1"]);
}
