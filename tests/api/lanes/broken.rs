//! A lane's connection breaks with a group under way, its session is ended, its PostgreSQL is started anew: each
//! of those who were in it is told the truth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use counterfoil::postgres::{Options, Postgres};
use reqwest::{Method, RequestBuilder};
use tokio::task::JoinSet;

use super::busy::{Busy, send};
use crate::support::scratch::Scratch;
use crate::support::wire::Cut;
use crate::support::{Door, Reply, Server, database, json, prepare, wait_until};

/// `notes` keeps the lane, the others are written in groups.
const TABLES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL);
    INSERT INTO notes VALUES (1, 'note');
    CREATE TABLE kept (id integer PRIMARY KEY, text text NOT NULL);
    INSERT INTO kept SELECT id, 'old' FROM generate_series(1, 500) AS id;
    CREATE TABLE plain (LIKE kept INCLUDING ALL);
    INSERT INTO plain SELECT * FROM kept;
    CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL);
    SELECT counterfoil.adopt('plain', history => false);";

/// How many are in a group.
const GROUP: usize = 24;

/// What a group does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Guarded PUTs, with history.
    Put,
    /// Guarded PUTs, without.
    PlainPut,
    /// Guarded deletions, without: those are logged all the same.
    PlainDelete,
    /// New records whose ids the database makes.
    Post,
}

impl Kind {
    fn request(self, door: &Door, id: usize, text: &str) -> RequestBuilder {
        let body = format!(r#"{{"text":"{text}"}}"#);
        let guarded = |method, table| {
            door.request(method, &format!("/{table}/{id}")).header("if-match", "\"1\"")
        };
        match self {
            Self::Put => json(guarded(Method::PUT, "kept"), &body),
            Self::PlainPut => json(guarded(Method::PUT, "plain"), &body),
            Self::PlainDelete => guarded(Method::DELETE, "plain"),
            Self::Post => json(door.request(Method::POST, "/events"), &body),
        }
    }

    /// SQL: whether the write was made.
    fn made(self, id: usize, text: &str) -> String {
        match self {
            Self::Put => {
                format!("EXISTS (SELECT FROM kept WHERE (id, text, version) = ({id}, '{text}', 2))")
            }
            Self::PlainPut => format!(
                "EXISTS (SELECT FROM plain WHERE (id, text, version) = ({id}, '{text}', 2))"
            ),
            Self::PlainDelete => format!("NOT EXISTS (SELECT FROM plain WHERE id = {id})"),
            Self::Post => format!("1 = (SELECT count(*) FROM events WHERE text = '{text}')"),
        }
    }

    /// Whether nobody can know of a write what became of it. A record that is at the version named still
    /// was not written; of one that is not, only a log tells by whom it was.
    fn is_unknown(self, made: bool) -> bool {
        match self {
            Self::Put | Self::PlainDelete => false,
            Self::PlainPut => made,
            Self::Post => !made,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_in_a_group_whose_connection_breaks_is_told_the_truth() {
    let busy = Busy::start(TABLES, &["notes", "kept", "events"]).await;
    let mut next = 1;
    for kind in [Kind::Put, Kind::PlainPut, Kind::PlainDelete, Kind::Post] {
        let (mut made, mut unmade) = (0, 0);
        for (round, cut) in
            [Cut::Statement, Cut::Torn, Cut::Answer, Cut::Answer].into_iter().enumerate()
        {
            let ids = next..next + GROUP;
            next += GROUP;
            let text = |id: usize| format!("{kind:?} round {round}, {id}");
            let first = busy.keep().await;
            // A statement names the actors of all its writes.
            let actor = format!("{kind:?} in round {round}");
            let sent = send(ids.map(|id| {
                let request = kind.request(&busy.door, id, &text(id));
                (id, Reply::of(request.header("x-actor", &actor)))
            }));
            busy.until_queued(GROUP).await;
            busy.wire.cut(cut, &actor, 1);
            busy.wire.release();
            first.await.unwrap().expect(200);
            for (id, reply) in sent.join_all().await {
                let there = busy.value(&kind.made(id, &text(id))).await.unwrap() == "true";
                made += usize::from(there);
                unmade += usize::from(!there);
                match (reply.status, reply.code()) {
                    (200 | 201 | 204, _) => assert!(there, "{kind:?} {cut:?}: {}", reply.text),
                    (503, "DATABASE_UNAVAILABLE") => {
                        assert!(!there, "{kind:?} {cut:?}: {}", reply.text);
                    }
                    (503, "OUTCOME_UNKNOWN") if kind.is_unknown(there) => {}
                    _ => panic!("{kind:?} {cut:?}: {} {}", reply.status, reply.text),
                }
            }
        }
        println!("{kind:?}: {made} made, {unmade} not");
        assert!(unmade > 0, "{kind:?}: nothing was cut off");
    }
}

/// Clients with a row each, of which they alone write and always know the version: a conflict would be false.
struct Owners {
    done: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    tasks: JoinSet<Owner>,
}

/// What one of them knows of its row in the end.
struct Owner {
    path: String,
    version: u64,
    text: String,
    unavailable: usize,
    unknown: usize,
}

const OWNERS: usize = 32;

impl Owners {
    fn start(url: &str) -> Self {
        let door = Door::to(url);
        let (done, acknowledged) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut tasks = JoinSet::new();
        for number in 0..OWNERS {
            let table = if number % 2 == 0 { "kept" } else { "plain" };
            let owner = Owner {
                path: format!("/{table}/{}", number + 1),
                version: 1,
                text: "old".to_owned(),
                unavailable: 0,
                unknown: 0,
            };
            tasks.spawn(owner.write(door.clone(), done.clone(), acknowledged.clone()));
        }
        Self { done, acknowledged, tasks }
    }

    /// Waits until each wrote that much more, on the average.
    async fn progress(&self, each: usize) {
        let enough = self.acknowledged.load(Ordering::Relaxed) + each * OWNERS;
        wait_until("writes go through", async || {
            self.acknowledged.load(Ordering::Relaxed) >= enough
        })
        .await;
    }

    /// Stops them and compares what they know with the database.
    async fn judge(self, server: &Server) -> Vec<Owner> {
        self.done.store(true, Ordering::Relaxed);
        let owners = self.tasks.join_all().await;
        for owner in &owners {
            let (table, id) = owner.path[1..].split_once('/').unwrap();
            let stored = format!("SELECT version || ' ' || text FROM {table} WHERE id = {id}");
            let known = format!("{} {}", owner.version, owner.text);
            assert_eq!(server.value(&stored).await, Some(known), "{}", owner.path);
        }
        let logged = "SELECT count(*) FROM kept AS k WHERE version > 1 AND version <> \
            (SELECT count(*) FROM counterfoil.change WHERE resource = 'kept' AND id = k.id::text)";
        assert_eq!(server.value(logged).await.as_deref(), Some("0"), "each version is logged once");
        let count = |of: fn(&Owner) -> usize| owners.iter().map(of).sum::<usize>();
        println!(
            "{} acknowledged, {} unavailable, {} unknown",
            self.acknowledged.load(Ordering::Relaxed),
            count(|owner| owner.unavailable),
            count(|owner| owner.unknown)
        );
        owners
    }
}

impl Owner {
    async fn write(
        mut self,
        door: Door,
        done: Arc<AtomicBool>,
        acknowledged: Arc<AtomicUsize>,
    ) -> Self {
        for attempt in 0.. {
            if done.load(Ordering::Relaxed) {
                break;
            }
            // A text of its own tells each attempt from those before.
            let text = format!("attempt {attempt}");
            let request = door.request(Method::PUT, &self.path);
            let request = request.header("if-match", format!("\"{}\"", self.version));
            let reply = Reply::of(json(request, &format!(r#"{{"text":"{text}"}}"#))).await;
            match (reply.status, reply.code()) {
                (200, _) => {
                    assert_eq!(reply.data()["version"], self.version + 1, "{}", reply.text);
                    assert_eq!(reply.header("counterfoil-result"), "", "nobody else wrote it");
                    (self.version, self.text) = (self.version + 1, text);
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                // Nothing was done: the next attempt names the same version.
                (503, "DATABASE_UNAVAILABLE" | "OVERLOADED") => {
                    self.unavailable += 1;
                    back_off().await;
                }
                (503, "OUTCOME_UNKNOWN") => {
                    self.unknown += 1;
                    self.look(&door, text).await;
                }
                _ => panic!("{} at {}: {} {}", self.path, self.version, reply.status, reply.text),
            }
        }
        self
    }

    /// Reads whether an attempt of unknown outcome was made.
    async fn look(&mut self, door: &Door, text: String) {
        let begun = Instant::now();
        let row = loop {
            let read = Reply::of(door.request(Method::GET, &self.path)).await;
            if read.status == 200 {
                break read;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", read.text);
            back_off().await;
        };
        if row.data()["version"] != self.version {
            assert_eq!(row.data()["version"], self.version + 1, "{}", row.text);
            assert_eq!(row.data()["text"], text, "{}", row.text);
            (self.version, self.text) = (self.version + 1, text);
        }
    }
}

/// A client that was refused comes back a little later.
async fn back_off() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Ends the sessions that just write a group.
const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE datname = current_database() AND application_name = 'counterfoil' \
    AND state = 'active' AND query LIKE '%unnest%' AND query NOT LIKE '%pg_stat_activity%'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_whose_session_is_ended_are_told_the_truth() {
    let server = Server::configured(TABLES, &["kept"], "[server]\nlanes = 1").await;
    let mut conn = server.connect().await;
    let owners = Owners::start(&server.url);
    for _ in 0..12 {
        owners.progress(2).await;
        wait_until("a group is met", async || {
            sqlx::query_scalar::<_, i64>(TERMINATE).fetch_one(&mut conn).await.unwrap() > 0
        })
        .await;
    }
    owners.progress(2).await;
    let owners = owners.judge(&server).await;
    let unknown = owners.iter().filter(|owner| owner.unknown > 0);
    // The log tells of each write where there is one.
    assert!(unknown.into_iter().all(|owner| owner.path.starts_with("/plain")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_whose_postgres_is_started_anew_are_told_the_truth_and_go_on_by_themselves() {
    let scratch = Scratch::new("anew");
    let options = Options { durable: false, ..Options::new(scratch.path().join("pg")) };
    let mut postgres = Postgres::start(&options).await.unwrap();
    database::migrated(&postgres, "anew").await;
    prepare(&postgres.url("anew"), TABLES, &["kept"]).await;
    let server = Server::on(&postgres.url("anew"), "[server]\nlanes = 1").await;
    let owners = Owners::start(&server.url);
    for _ in 0..2 {
        owners.progress(3).await;
        postgres.stop().await.unwrap();
        postgres = Postgres::start(&options).await.unwrap();
    }
    owners.progress(3).await;
    owners.judge(&server).await;
    drop(server);
    postgres.stop().await.unwrap();
}
