//! Somebody at `psql` holds a row while a request waits behind it: the answer tells what became of
//! the row, never what it was when the request began to wait.

use reqwest::{Method, RequestBuilder};
use sqlx::{AssertSqlSafe, PgConnection};
use tokio::task::JoinHandle;

use super::{assert_sound, chain, sessions, tagged};
use crate::support::{Reply, Server, json, wait_until};

const NOTES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL, n integer NOT NULL DEFAULT 0);
    INSERT INTO notes SELECT id, 'old' FROM generate_series(1, 12) AS id;";

/// Every kind of write to a row.
const VERBS: [&str; 6] = ["put", "patch", "merge patch", "json patch", "delete", "increment"];

/// A server, and one of its rows, which `ID` stands for in SQL.
struct Case<'s> {
    server: &'s Server,
    id: usize,
}

impl Case<'_> {
    fn request(&self, method: Method, tag: Option<&str>) -> RequestBuilder {
        let request = self.server.request(method, &format!("/notes/{}", self.id));
        match tag {
            Some(tag) => request.header("if-match", tag),
            None => request,
        }
    }

    fn write(&self, verb: &str, tag: Option<&str>) -> RequestBuilder {
        let patch = |media_type: &str, body: &'static str| {
            self.request(Method::PATCH, tag).header("content-type", media_type).body(body)
        };
        match verb {
            "put" => json(self.request(Method::PUT, tag), r#"{"text":"mine"}"#),
            "patch" => patch("application/json", r#"{"text":"mine"}"#),
            "merge patch" => patch("application/merge-patch+json", r#"{"text":"mine"}"#),
            "json patch" => patch(
                "application/json-patch+json",
                r#"[{"op":"replace","path":"/text","value":"mine"}]"#,
            ),
            "delete" => self.request(Method::DELETE, tag),
            _ => {
                let address = format!("/notes/{}/increment", self.id);
                let request = self.server.request(Method::POST, &address);
                let request = match tag {
                    Some(tag) => request.header("if-match", tag),
                    None => request,
                };
                json(request, r#"{"field":"n","by":5}"#)
            }
        }
    }

    /// Runs SQL in a transaction that stays open, then sends a request and sees it wait.
    async fn hold(&self, sql: &str, request: RequestBuilder) -> Held {
        let mut holder = self.server.connect().await;
        run(&mut holder, &format!("BEGIN; {}", sql.replace("ID", &self.id.to_string()))).await;
        let waiting = tokio::spawn(Reply::of(request));
        let mut observer = self.server.connect().await;
        wait_until("the request waits for the row", async || {
            sessions(&mut observer, "wait_event_type = 'Lock'").await == 1
        })
        .await;
        Held { holder, waiting }
    }

    /// The row as it is stored. Its chain of versions is whole.
    async fn stored(&self) -> Option<String> {
        let id = self.id.to_string();
        let log = chain(self.server, "notes", &id).await;
        let row = format!("SELECT concat_ws('/', text, n, version) FROM notes WHERE id = {id}");
        let row = self.server.value(&row).await;
        if let Some(row) = &row {
            let version = log.last().map(|entry| entry.version.to_string());
            assert_eq!(row.rsplit('/').next(), version.as_deref());
        }
        row
    }
}

/// A session with its transaction open, and a request that waits for it.
struct Held {
    holder: PgConnection,
    waiting: JoinHandle<Reply>,
}

impl Held {
    /// Ends the transaction; the answer to the request.
    async fn end(mut self, sql: &str) -> Reply {
        run(&mut self.holder, sql).await;
        self.waiting.await.unwrap()
    }
}

async fn run(conn: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.unwrap();
}

async fn serve() -> Server {
    Server::start(NOTES, &["notes"]).await
}

/// One row for each of these.
fn cases<'s, T: Copy>(server: &'s Server, of: &[T]) -> Vec<(Case<'s>, T)> {
    of.iter().enumerate().map(|(i, &of)| (Case { server, id: i + 1 }, of)).collect()
}

const TAG: Option<&str> = Some("\"1\"");
const UPDATE: &str = "UPDATE notes SET text = 'theirs' WHERE id = ID";
const DELETE: &str = "DELETE FROM notes WHERE id = ID";
const REBORN: &str = "DELETE FROM notes WHERE id = ID; INSERT INTO notes VALUES (ID, 'reborn')";

#[tokio::test]
async fn a_guarded_write_that_waited_is_shown_the_row_that_was_committed_meanwhile() {
    let server = serve().await;
    for (case, verb) in cases(&server, &VERBS) {
        let reply = case.hold(UPDATE, case.write(verb, TAG)).await.end("COMMIT").await.expect(409);
        assert_eq!(reply.code(), "WRITE_CONFLICT", "{verb}");
        assert_eq!(tagged(&reply), 2, "{verb}");
        assert_eq!(reply.details()["your_version"], 1, "{verb}");
        assert_eq!(reply.details()["current_version"], 2, "{verb}");
        assert_eq!(reply.details()["changed_by"], "postgres", "{verb}");
        assert_eq!(reply.data()["text"], "theirs", "{verb}");
        assert_eq!(reply.data()["version"], 2, "{verb}");
        assert_eq!(case.stored().await.as_deref(), Some("theirs/0/2"), "{verb}");
    }
    assert_sound(&server).await;
}

#[tokio::test]
async fn a_guarded_write_that_waited_goes_through_where_the_other_rolls_back() {
    let server = serve().await;
    for (case, verb) in cases(&server, &VERBS) {
        let reply = case.hold(UPDATE, case.write(verb, TAG)).await.end("ROLLBACK").await;
        let (status, stored) = match verb {
            "delete" => (204, None),
            "increment" => (200, Some("old/5/2")),
            _ => (200, Some("mine/0/2")),
        };
        reply.expect(status);
        assert_eq!(case.stored().await.as_deref(), stored, "{verb}");
    }
}

#[tokio::test]
async fn a_row_that_was_locked_and_left_alone_is_still_at_its_version() {
    let server = serve().await;
    let case = Case { server: &server, id: 1 };
    let lock = "SELECT FROM notes WHERE id = ID FOR UPDATE";
    let reply = case.hold(lock, case.write("put", TAG)).await.end("COMMIT").await.expect(200);
    assert_eq!(tagged(&reply), 2);
    assert_eq!(case.stored().await.as_deref(), Some("mine/0/2"));
}

#[tokio::test]
async fn a_write_that_waited_for_a_deletion_is_told_of_it() {
    let server = serve().await;
    let guarded = VERBS.map(|verb| (verb, TAG));
    let all = [guarded, VERBS.map(|verb| (verb, None))].concat();
    for (case, (verb, tag)) in cases(&server, &all) {
        let reply = case.hold(DELETE, case.write(verb, tag)).await.end("COMMIT").await.expect(410);
        assert_eq!(reply.code(), "RECORD_DELETED", "{verb}");
        assert_eq!(reply.details()["current_version"], 2, "{verb}");
        assert_eq!(reply.details()["changed_by"], "postgres", "{verb}");
        assert_eq!(reply.data()["text"], "old", "{verb}");
        assert_eq!(case.stored().await, None, "{verb}");
    }
}

#[tokio::test]
async fn a_row_deleted_and_inserted_anew_meanwhile_is_a_conflict_at_a_higher_version() {
    let server = serve().await;
    for (case, verb) in cases(&server, &VERBS) {
        let reply = case.hold(REBORN, case.write(verb, TAG)).await.end("COMMIT").await.expect(409);
        assert_eq!(tagged(&reply), 3, "{verb}");
        assert_eq!(reply.details()["current_version"], 3, "{verb}");
        assert_eq!(reply.data()["text"], "reborn", "{verb}");
        assert_eq!(case.stored().await.as_deref(), Some("reborn/0/3"), "{verb}");
    }
    assert_sound(&server).await;
}

#[tokio::test]
async fn a_version_set_by_hand_counts_as_one_step() {
    let server = serve().await;
    for (case, verb) in cases(&server, &VERBS) {
        let update = "UPDATE notes SET text = 'theirs', version = 99 WHERE id = ID";
        let reply = case.hold(update, case.write(verb, TAG)).await.end("COMMIT").await.expect(409);
        assert_eq!(tagged(&reply), 2, "{verb}");
        assert_eq!(reply.data()["text"], "theirs", "{verb}");
        assert_eq!(case.stored().await.as_deref(), Some("theirs/0/2"), "{verb}");
    }
    assert_sound(&server).await;
}

#[tokio::test]
async fn several_versions_committed_at_once_are_all_passed_over() {
    let server = serve().await;
    let case = Case { server: &server, id: 1 };
    let three = format!("{UPDATE}; {UPDATE}; UPDATE notes SET text = 'last' WHERE id = ID");
    let request = case.write("put", Some("\"1\", \"3\""));
    let reply = case.hold(&three, request).await.end("COMMIT").await.expect(409);
    assert_eq!(reply.details()["your_version"], 3);
    assert_eq!(reply.details()["current_version"], 4);
    assert_eq!(reply.data()["text"], "last");
    assert_eq!(case.stored().await.as_deref(), Some("last/0/4"));
}

#[tokio::test]
async fn a_version_that_is_not_committed_yet_cannot_be_named() {
    let server = serve().await;
    let case = Case { server: &server, id: 1 };
    let mut holder = server.connect().await;
    run(&mut holder, "BEGIN; UPDATE notes SET text = 'theirs' WHERE id = 1").await;
    // The row is at version 1 for everybody else, so the write misses at once and waits for nobody.
    let early = Reply::of(case.write("put", Some("\"2\""))).await.expect(409);
    assert_eq!(early.details()["current_version"], 1);
    run(&mut holder, "COMMIT").await;
    Reply::of(case.write("put", Some("\"2\""))).await.expect(200);
    assert_eq!(case.stored().await.as_deref(), Some("mine/0/3"));
}

#[tokio::test]
async fn an_unguarded_write_that_waited_comes_on_top() {
    let server = serve().await;
    let updated = VERBS.map(|verb| (verb, UPDATE, "theirs", 3));
    let reborn = VERBS.map(|verb| (verb, REBORN, "reborn", 4));
    for (case, (verb, held, text, version)) in cases(&server, &[updated, reborn].concat()) {
        let reply = case.hold(held, case.write(verb, None)).await.end("COMMIT").await;
        let (status, stored) = match verb {
            "delete" => (204, None),
            "increment" => (200, Some(format!("{text}/5/{version}"))),
            _ => (200, Some(format!("mine/0/{version}"))),
        };
        reply.expect(status);
        assert_eq!(case.stored().await, stored, "{verb}");
        let log = chain(&server, "notes", &case.id.to_string()).await;
        assert_eq!(log.len(), version, "{verb}");
    }
    assert_sound(&server).await;
}

#[tokio::test]
async fn a_stale_write_that_the_other_made_already_is_no_conflict() {
    let server = serve().await;
    for (case, verb) in cases(&server, &["put", "patch", "merge patch", "json patch"]) {
        let same = "UPDATE notes SET text = 'mine' WHERE id = ID";
        let reply = case.hold(same, case.write(verb, TAG)).await.end("COMMIT").await.expect(200);
        assert_eq!(reply.header("counterfoil-result"), "already-applied", "{verb}");
        assert_eq!(tagged(&reply), 2, "{verb}");
        assert_eq!(case.stored().await.as_deref(), Some("mine/0/2"), "{verb}");
    }
}

/// The two ways to create a record whose id the client gives.
fn creation(case: &Case<'_>, way: &str) -> RequestBuilder {
    let id = case.id;
    match way {
        "post" => {
            let request = case.server.request(Method::POST, "/notes");
            json(request, &format!(r#"{{"id":{id},"text":"mine"}}"#))
        }
        _ => {
            json(case.request(Method::PUT, None).header("if-none-match", "*"), r#"{"text":"mine"}"#)
        }
    }
}

#[tokio::test]
async fn a_creation_that_waited_for_another_of_the_same_id_is_shown_it() {
    let server = serve().await;
    server.sql("DELETE FROM notes").await;
    let insert = "INSERT INTO notes VALUES (ID, 'theirs')";
    for (case, (way, status, code)) in
        cases(&server, &[("post", 409, "ALREADY_EXISTS"), ("put", 412, "PRECONDITION_FAILED")])
    {
        let held = case.hold(insert, creation(&case, way)).await;
        let reply = held.end("COMMIT").await.expect(status);
        assert_eq!(reply.code(), code);
        assert_eq!(tagged(&reply), 3, "{way}");
        assert_eq!(reply.data()["text"], "theirs", "{way}");
        assert_eq!(case.stored().await.as_deref(), Some("theirs/0/3"), "{way}");
    }
    assert_sound(&server).await;
}

#[tokio::test]
async fn a_creation_that_waited_for_one_that_is_rolled_back_goes_through() {
    let server = serve().await;
    server.sql("DELETE FROM notes").await;
    for (case, way) in cases(&server, &["post", "put"]) {
        let insert = "INSERT INTO notes VALUES (ID, 'theirs')";
        let reply = case.hold(insert, creation(&case, way)).await.end("ROLLBACK").await.expect(201);
        assert_eq!(tagged(&reply), 3, "{way}");
        assert_eq!(case.stored().await.as_deref(), Some("mine/0/3"), "{way}");
    }
}

#[tokio::test]
async fn a_creation_that_waited_for_a_deletion_continues_its_versions() {
    let server = serve().await;
    for (case, way) in cases(&server, &["post", "put"]) {
        let reply = case.hold(DELETE, creation(&case, way)).await.end("COMMIT").await.expect(201);
        assert_eq!(tagged(&reply), 3, "{way}");
        assert_eq!(case.stored().await.as_deref(), Some("mine/0/3"), "{way}");
    }
    assert_sound(&server).await;
}

#[tokio::test]
async fn a_row_held_too_long_is_left_as_it_was() {
    let server = serve().await;
    let case = Case { server: &server, id: 1 };
    let mut held = case.hold(UPDATE, case.write("put", TAG)).await;
    let reply = (&mut held.waiting).await.unwrap().expect(503);
    assert_eq!(reply.code(), "LOCK_TIMEOUT");
    assert!(!reply.header("retry-after").is_empty());
    run(&mut held.holder, "ROLLBACK").await;
    assert_eq!(server.value("SELECT version FROM notes WHERE id = 1").await.as_deref(), Some("1"));
    Reply::of(case.write("put", TAG)).await.expect(200);
    assert_eq!(case.stored().await.as_deref(), Some("mine/0/2"));
}
