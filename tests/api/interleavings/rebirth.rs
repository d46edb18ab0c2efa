//! One id that is created and deleted by many at once: it has one line of versions, which rises for
//! ever.

use reqwest::{Method, RequestBuilder};
use tokio::task::JoinSet;

use super::{assert_sound, chain, tagged};
use crate::support::{Door, Reply, Server, json};

const CLIENTS: i32 = 16;
const ROUNDS: i32 = 200;

const SEATS: &str = "CREATE TABLE seats (id integer PRIMARY KEY, holder text NOT NULL);";
const SEAT: &str = "/seats/1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Post,
    Put,
    Delete,
}

fn request(door: &Door, verb: Verb, holder: &str) -> RequestBuilder {
    let body = format!(r#"{{"id":1,"holder":"{holder}"}}"#);
    match verb {
        Verb::Post => json(door.request(Method::POST, "/seats"), &body),
        Verb::Put => json(door.request(Method::PUT, SEAT).header("if-none-match", "*"), &body),
        Verb::Delete => door.request(Method::DELETE, SEAT),
    }
}

/// Sixteen clients at once, each with one of the verbs.
async fn at_once(door: &Door, verbs: &[Verb], round: i32) -> Vec<(Verb, Reply)> {
    let mut clients = JoinSet::new();
    for (client, &verb) in (0..CLIENTS).zip(verbs.iter().cycle()) {
        let request = request(door, verb, &format!("{round}/{client}"));
        clients.spawn(async move { (verb, Reply::of(request).await) });
    }
    clients.join_all().await
}

/// Every answer is a success or says what stood in the way; gives the versions created, in order.
fn judge(answers: &[(Verb, Reply)]) -> Vec<i32> {
    let mut created = Vec::new();
    for (verb, reply) in answers {
        match (verb, reply.status, reply.code()) {
            (Verb::Post | Verb::Put, 201, _) => created.push(tagged(reply)),
            (Verb::Post, 409, "ALREADY_EXISTS") | (Verb::Put, 412, "PRECONDITION_FAILED") => {
                // The row that won, whichever it was at the time.
                assert_eq!(reply.data()["version"], tagged(reply), "{verb:?}: {}", reply.text);
            }
            (Verb::Delete, 204, _) | (Verb::Delete, 410, "RECORD_DELETED") => {}
            _ => panic!("{verb:?}: {} {}", reply.status, reply.text),
        }
    }
    created.sort_unstable();
    created
}

fn deletions(answers: &[(Verb, Reply)]) -> usize {
    answers.iter().filter(|(_, reply)| reply.status == 204).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_creators_of_one_id_exactly_one_wins_two_hundred_times() {
    let server = Server::start(SEATS, &["seats"]).await;
    let door = Door::to(&server.url);
    for round in 0..ROUNDS {
        let answers = at_once(&door, &[Verb::Post, Verb::Put], round).await;
        // One version for the creation and one for the deletion of every round before.
        let version = 2 * round + 1;
        assert_eq!(judge(&answers), [version], "round {round}");
        let winner = answers.iter().find(|(_, reply)| reply.status == 201).unwrap();
        for (verb, reply) in &answers {
            assert_eq!(reply.data(), winner.1.data(), "{verb:?} is shown the winner");
        }
        let answers = at_once(&door, &[Verb::Delete], round).await;
        judge(&answers);
        assert_eq!(deletions(&answers), 1, "round {round}");
        for (_, reply) in answers.iter().filter(|(_, reply)| reply.status == 410) {
            assert_eq!(reply.details()["current_version"], version + 1, "{}", reply.text);
        }
    }
    let log = chain(&server, "seats", "1").await;
    assert_eq!(log.len(), 2 * usize::try_from(ROUNDS).unwrap());
    assert_sound(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creators_and_deleters_of_one_id_draw_one_line_of_versions() {
    let server = Server::start(SEATS, &["seats"]).await;
    let door = Door::to(&server.url);
    server.post("/seats", r#"{"id":1,"holder":"first"}"#).await.expect(201);
    let (mut created, mut deleted) = (vec![1], 0);
    for round in 0..ROUNDS {
        let answers =
            at_once(&door, &[Verb::Post, Verb::Delete, Verb::Put, Verb::Delete], round).await;
        let versions = judge(&answers);
        let newest = *created.last().unwrap();
        assert!(versions.iter().all(|&version| version > newest), "{versions:?} after {newest}");
        created.extend(versions);
        deleted += deletions(&answers);
    }
    let log = chain(&server, "seats", "1").await;
    assert_eq!(log.len(), created.len() + deleted, "what was answered is what happened");
    for (entry, op) in log.iter().zip(["create", "delete"].into_iter().cycle()) {
        assert_eq!(entry.op, op, "version {}", entry.version);
    }
    let logged: Vec<_> = log.iter().filter(|e| e.op == "create").map(|e| e.version).collect();
    assert_eq!(logged, created);
    assert_sound(&server).await;
}
