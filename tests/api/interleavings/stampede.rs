//! Many writers with the same tag on one row: one wins, and all others are told who and what.

use std::collections::BTreeSet;

use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Entry, assert_sound, chain, tagged};
use crate::support::process::Program;
use crate::support::{Door, Reply, Server};

const CLIENTS: i32 = 200;
const ROUNDS: i32 = 50;

const SHEET: &str = "
    CREATE TABLE sheets (id integer PRIMARY KEY, n integer NOT NULL, memo text);
    INSERT INTO sheets VALUES (1, 0, NULL);";
const PATH: &str = "/sheets/1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Put,
    Patch,
    MergePatch,
    JsonPatch,
    Delete,
    Increment,
}

const ALL: [Verb; 6] =
    [Verb::Put, Verb::Patch, Verb::MergePatch, Verb::JsonPatch, Verb::Delete, Verb::Increment];

impl Verb {
    /// The write of one client. What is set differs from client to client and from what any
    /// increment reaches, so that no loser's write is what the winner has done already.
    fn request(self, door: &Door, round: i32, client: i32) -> RequestBuilder {
        let n = round * CLIENTS + client + 1;
        let (method, path, media_type, body) = match self {
            Self::Put => (
                Method::PUT,
                PATH.to_owned(),
                "application/json",
                format!(r#"{{"id":1,"n":{n},"memo":"{client}"}}"#),
            ),
            Self::Patch => {
                (Method::PATCH, PATH.to_owned(), "application/json", format!(r#"{{"n":{n}}}"#))
            }
            Self::MergePatch => (
                Method::PATCH,
                PATH.to_owned(),
                "application/merge-patch+json",
                format!(r#"{{"memo":"{n}"}}"#),
            ),
            Self::JsonPatch => (
                Method::PATCH,
                PATH.to_owned(),
                "application/json-patch+json",
                format!(r#"[{{"op":"replace","path":"/n","value":{n}}}]"#),
            ),
            Self::Delete => return door.request(Method::DELETE, PATH),
            Self::Increment => (
                Method::POST,
                format!("{PATH}/increment"),
                "application/json",
                r#"{"field":"n","by":1000000}"#.to_owned(),
            ),
        };
        door.request(method, &path).header("content-type", media_type).body(body)
    }
}

/// All clients of a round at once, spread over the doors; who won, and the answers by client.
async fn round(doors: &[Door], verbs: &[Verb], round: i32, tag: &str) -> Vec<(i32, Verb, Reply)> {
    let mut clients = JoinSet::new();
    for (client, door) in (0..CLIENTS).zip(doors.iter().cycle()) {
        let verb = verbs[usize::try_from(client).unwrap() / doors.len() % verbs.len()];
        let request = verb
            .request(door, round, client)
            .header("if-match", tag)
            .header("x-actor", format!("client {client}"));
        clients.spawn(async move { (client, verb, Reply::of(request).await) });
    }
    clients.join_all().await
}

/// One answer is a success; every other names the winner's version and shows its row.
fn judge(answers: &[(i32, Verb, Reply)], stale: i32) -> (i32, Verb) {
    let won = |status| matches!(status, 200 | 204);
    let winners: Vec<_> = answers.iter().filter(|(.., reply)| won(reply.status)).collect();
    let [(client, verb, winner)] = winners.as_slice() else {
        panic!("{} writes at version {stale} went through", winners.len());
    };
    let deleted = *verb == Verb::Delete;
    assert_eq!(winner.status, if deleted { 204 } else { 200 }, "{verb:?}: {}", winner.text);
    for (loser, lost, reply) in answers.iter().filter(|(other, ..)| other != client) {
        let details = reply.details();
        let context =
            format!("client {loser} ({lost:?}) lost to {client} ({verb:?}): {}", reply.text);
        assert_eq!(details["your_version"], stale, "{context}");
        assert_eq!(details["current_version"], stale + 1, "{context}");
        assert_eq!(details["changed_by"], format!("client {client}"), "{context}");
        if deleted {
            assert_eq!((reply.status, reply.code()), (410, "RECORD_DELETED"), "{context}");
            assert_eq!(reply.data()["version"], stale, "{context}");
        } else {
            assert_eq!((reply.status, reply.code()), (409, "WRITE_CONFLICT"), "{context}");
            assert_eq!(tagged(reply), stale + 1, "{context}");
            assert_eq!(reply.data(), winner.data(), "{context}");
            let kind = match lost {
                Verb::Delete => "delete_update",
                _ => "update_update",
            };
            assert_eq!(details["kind"], kind, "{context}");
        }
    }
    (*client, *verb)
}

/// Fifty rounds; afterwards the database holds the winners' writes and nothing else.
async fn stampede(server: &Server, doors: &[Door], verbs: &[Verb]) {
    let mut version = 1;
    let mut won = Vec::new();
    for n in 0..ROUNDS {
        let answers = round(doors, verbs, n, &format!("\"{version}\"")).await;
        let winner = judge(&answers, version);
        version += 1;
        won.push((version, winner));
        if winner.1 == Verb::Delete {
            let again = doors[0].request(Method::PUT, PATH).header("if-none-match", "*");
            let again = again.header("content-type", "application/json").body(r#"{"n":0}"#);
            version += 1;
            assert_eq!(tagged(&Reply::of(again).await.expect(201)), version, "it never restarts");
        }
    }
    let log = chain(server, "sheets", "1").await;
    assert_eq!(log.last().map(|entry| entry.version), Some(version));
    for (version, (client, verb)) in won {
        let Entry { by, op, doc, .. } = log.iter().find(|entry| entry.version == version).unwrap();
        assert_eq!(*by, format!("client {client}"), "version {version}");
        assert_eq!(op, if verb == Verb::Delete { "delete" } else { "update" }, "version {version}");
        if verb == Verb::Put {
            assert_eq!(doc["memo"], Value::from(client.to_string()), "version {version}");
        }
    }
    assert_sound(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_200_puts_with_one_tag_exactly_one_goes_through_fifty_times() {
    let server = Server::start(SHEET, &["sheets"]).await;
    stampede(&server, &[Door::to(&server.url)], &[Verb::Put]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_server_processes_on_one_database_let_one_of_200_writes_of_any_kind_through_fifty_times()
 {
    let server = Server::start(SHEET, &["sheets"]).await;
    let first = Program::serve(&server.database_url).await;
    let second = Program::serve(&server.database_url).await;
    let doors = [Door::to(&first.url), Door::to(&second.url)];
    stampede(&server, &doors, &ALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_without_a_tag_all_go_through_one_version_each() {
    let server = Server::start(SHEET, &["sheets"]).await;
    let other = Server::on(&server.database_url, "").await;
    let doors = [Door::to(&server.url), Door::to(&other.url)];
    let verbs = ALL.map(|verb| if verb == Verb::Delete { Verb::JsonPatch } else { verb });
    let mut versions = BTreeSet::new();
    for n in 0..3 {
        for (_, verb, reply) in round(&doors, &verbs, n, "*").await {
            let reply = reply.expect(200);
            assert!(versions.insert(tagged(&reply)), "{verb:?}: {}", reply.text);
        }
    }
    assert!(versions.into_iter().eq(2..=3 * CLIENTS + 1), "a version for each");
    let log = chain(&server, "sheets", "1").await;
    assert_eq!(log.last().map(|entry| entry.version), Some(3 * CLIENTS + 1));
    assert_sound(&server).await;
}
