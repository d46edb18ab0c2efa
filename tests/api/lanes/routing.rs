//! An answer reaches the request that it belongs to, and groups cost fewer statements than requests.

use reqwest::Method;

use super::{MANY, all, calls, patch, start};
use crate::support::{Server, json};

/// The planted bug that this is for: answers of a group given to each other's requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_gets_the_answer_to_their_own_request() {
    let server = start().await;
    for round in 1..=20 {
        let replies = all(&server, 1..=MANY, |server, id| {
            if id % 2 == 0 {
                let body = format!(r#"{{"text":"{round} of {id}"}}"#);
                patch(server, id, &body).header("if-match", format!("\"{round}\""))
            } else {
                server.request(Method::GET, &format!("/notes/{id}"))
            }
        });
        for (id, reply) in replies.await {
            let reply = reply.expect(200);
            assert_eq!(reply.data()["id"], id);
            if id % 2 == 0 {
                assert_eq!(reply.data()["text"], format!("{round} of {id}"));
                assert_eq!(reply.data()["version"], round + 1);
            }
        }
    }
}

/// New records have no key to be told apart by until the database gives it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_gets_the_record_that_they_created() {
    let server = start().await;
    for round in 0..10 {
        let replies = all(&server, 1..=MANY, |server, n| {
            let body = format!(r#"{{"text":"{round} of {n}"}}"#);
            json(server.request(Method::POST, "/events"), &body)
        });
        for (n, reply) in replies.await {
            let reply = reply.expect(201);
            assert_eq!(reply.data()["text"], format!("{round} of {n}"));
            assert_eq!(reply.header("location"), format!("/api/v1/events/{}", reply.data()["id"]));
        }
    }
}

/// A group of shapes: other columns, other verbs, other tables, other reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_every_kind_pass_each_other_in_one_lane() {
    let server = start().await;
    let replies = all(&server, 1..=MANY, |server, id| {
        let path = format!("/notes/{id}");
        match id % 6 {
            0 => patch(server, id, r#"{"text":"new"}"#),
            1 => patch(server, id, r#"{"n":7}"#),
            2 => json(server.request(Method::PUT, &path), r#"{"text":"put"}"#),
            3 => server.request(Method::DELETE, &path),
            4 => {
                json(server.request(Method::POST, &format!("{path}/increment")), r#"{"field":"n"}"#)
            }
            _ => server.request(Method::GET, &format!("{path}?select=id")),
        }
    });
    for (id, reply) in replies.await {
        if id % 6 == 3 {
            reply.expect(204);
            server.get(&format!("/notes/{id}")).await.expect_error(410, "RECORD_DELETED");
            continue;
        }
        let reply = reply.expect(200);
        assert_eq!(reply.data()["id"], id);
        match id % 6 {
            0 => assert_eq!(reply.data()["text"], "new"),
            1 => assert_eq!(reply.data()["n"], 7),
            2 => assert_eq!(reply.data()["text"], "put"),
            4 => assert_eq!(reply.data()["n"], 1),
            _ => assert_eq!(reply.data().get("text"), None),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_are_fewer_statements_than_requests() {
    const ROUNDS: usize = 20;
    let server = start().await;
    for round in 0..ROUNDS {
        let body = format!(r#"{{"n":{round}}}"#);
        for (_, reply) in all(&server, 1..=MANY, |server, id| patch(server, id, &body)).await {
            reply.expect(200);
        }
        let read = |server: &Server, id| server.request(Method::GET, &format!("/notes/{id}"));
        for (_, reply) in all(&server, 1..=MANY, read).await {
            reply.expect(200);
        }
    }
    let writes = calls(&server, "%UPDATE \"public\".\"notes\"%").await;
    let reads = calls(&server, "SELECT t.\"version\"%FROM%\"public\".\"notes\"%").await;
    assert!((1..ROUNDS * MANY).contains(&writes), "{writes} statements that write");
    assert!((1..ROUNDS * MANY).contains(&reads), "{reads} statements that read");
}
