//! A queue has an end, a wait has a limit, and a server that ends answers all who wait.

use reqwest::Method;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::busy::{Busy, KEPT, send};
use super::{MANY, NOTES};
use crate::support::process::signal;
use crate::support::{Reply, json, wait_until};

/// More than one lane's queue holds of one caller.
const CROWD: usize = 2400;
/// As many come at a time.
const WAVE: usize = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_finds_the_queue_full_is_told_at_once_and_has_written_nothing() {
    let sql = format!(
        "CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL);
         INSERT INTO notes SELECT id, 'old' FROM generate_series(1, {CROWD} + 1) AS id"
    );
    let busy = Busy::start(&sql, &["notes"]).await;
    let first = busy.keep().await;
    let (mut sent, mut refused) = (JoinSet::new(), Vec::new());
    for wave in 0..CROWD / WAVE {
        for id in (wave * WAVE + 1..=(wave + 1) * WAVE).filter(|&id| id != KEPT) {
            let request = Reply::of(busy.patch(id, r#"{"text":"new"}"#));
            sent.spawn(async move { (id, request.await) });
        }
        // Each is in the queue or answered: the lane itself does nothing meanwhile.
        wait_until("all of them came in", async || {
            while let Some(answered) = sent.try_join_next() {
                refused.push(answered.unwrap());
            }
            busy.queued().await == sent.len()
        })
        .await;
    }
    assert!(busy.wire.holds(), "the lane was kept all the time");
    assert!(!refused.is_empty(), "the queue has an end");
    // There is room for others, and their turn comes first.
    let other = busy.patch(CROWD + 1, r#"{"text":"new"}"#).header("x-actor", "mina");
    let (queued, other) = (busy.queued().await, send([(0, Reply::of(other))].into_iter()));
    busy.until_queued(queued + 1).await;
    for (_, reply) in &refused {
        assert_eq!((reply.status, reply.code()), (503, "OVERLOADED"), "{}", reply.text);
    }
    busy.wire.release();
    first.await.unwrap().expect(200);
    for (_, reply) in other.join_all().await {
        reply.expect(200);
    }
    let mut written = vec![KEPT, CROWD + 1];
    for (id, reply) in sent.join_all().await {
        match (reply.status, reply.code()) {
            (200, _) => written.push(id),
            // The wait may have been too long.
            (503, "OVERLOADED") => {}
            _ => panic!("{} {}", reply.status, reply.text),
        }
    }
    written.sort_unstable();
    assert_eq!(busy.notes("version = 2").await, written);
    assert_eq!(busy.notes("version > 2").await, [0; 0]);
    // Whoever comes again now gets through.
    let (id, _) = refused.first().unwrap();
    let reply = Reply::of(busy.patch(*id, r#"{"text":"again"}"#)).await.expect(200);
    assert_eq!(reply.data()["version"], 2);
}

/// Those who wait behind a statement are told in time, however long it takes. A connection over which nothing
/// comes back any more (a host that is gone, a session that is stopped) is met by no limit of PostgreSQL's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waited_too_long_is_told_so_and_is_never_written_afterwards() {
    let busy = Busy::start(NOTES, &["notes"]).await;
    let change = |ids: std::ops::RangeInclusive<usize>, body: &'static str| {
        send(ids.map(|id| (id, Reply::of(busy.patch(id, body)))))
    };
    let first = busy.keep().await;
    let late = change(2..=9, r#"{"text":"late"}"#);
    busy.until_queued(8).await;
    for (_, reply) in late.join_all().await {
        reply.expect_error(503, "OVERLOADED");
    }
    assert!(busy.wire.holds(), "the lane was kept all the time");
    // Who comes only now is in time.
    let timely = change(10..=17, r#"{"text":"timely"}"#);
    busy.until_queued(8).await;
    busy.wire.release();
    for (_, reply) in timely.join_all().await {
        assert_eq!(reply.expect(200).data()["text"], "timely");
    }
    first.await.unwrap().expect(200);
    // A later write in the same lane has passed them all by.
    Reply::of(busy.patch(18, r#"{"text":"last"}"#)).await.expect(200);
    assert_eq!(busy.notes("text = 'late' OR id BETWEEN 2 AND 9 AND version > 1").await, [0; 0]);
    assert_eq!(busy.notes("version = 2").await.len(), 1 + 8 + 1);
}

/// One statement is under way and all the others wait in the queue when the server is told to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_told_to_end_answers_all_who_wait_in_its_lanes() {
    let mut busy = Busy::start(NOTES, &["notes", "events"]).await;
    let first = busy.keep().await;
    let waiting = send((2..=MANY).map(|id| {
        let change = busy.patch(id, &format!(r#"{{"text":"by {id}"}}"#));
        // Stale ones, and other shapes, wait behind the first.
        let request = match id % 4 {
            0 => change.header("if-match", "\"7\""),
            1 => json(busy.door.request(Method::POST, "/events"), r#"{"text":"e"}"#),
            _ => change,
        };
        (id, Reply::of(request))
    }));
    busy.until_queued(MANY - 1).await;

    signal("TERM", &[busy.program.pid]);
    let address = busy.program.url.trim_start_matches("http://").to_owned();
    wait_until("nobody is let in any more", async || TcpStream::connect(&address).await.is_err())
        .await;
    assert!(!first.is_finished(), "its statement waits still");
    busy.wire.release();
    first.await.unwrap().expect(200);
    for (id, reply) in waiting.join_all().await {
        match id % 4 {
            0 => assert_eq!(reply.expect_error(409, "WRITE_CONFLICT").json["data"]["id"], id),
            1 => assert_eq!(reply.expect(201).data()["text"], "e"),
            _ => assert_eq!(reply.expect(200).data()["text"], format!("by {id}")),
        }
    }
    assert!(busy.program.ended().await.success());
    let written: Vec<_> = (2..=MANY).filter(|id| id % 4 > 1).collect();
    assert_eq!(busy.notes("version = 2 AND text = 'by ' || id").await, written);
    let events = (2..=MANY).filter(|id| id % 4 == 1).count();
    assert_eq!(busy.value("SELECT count(*) FROM events").await, Some(events.to_string()));
}
