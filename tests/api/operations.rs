//! What is known of operations, and what an operator may do about those that are blocked.

use counterfoil::db::{Db, connect};
use counterfoil::operation::purge::sweep;
use reqwest::Method;

use crate::support::{Reply, Server, json};

const NOTES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
    INSERT INTO notes VALUES (1);";

async fn raise(server: &Server, key: &str) -> Reply {
    let request = server.request(Method::POST, "/notes/1/increment");
    let request = request.header("idempotency-key", key).header("x-actor", "mina");
    Reply::of(json(request, r#"{"field": "n"}"#)).await
}

async fn id_of(server: &Server, key: &str) -> String {
    server
        .value(&format!("SELECT id FROM counterfoil.operation WHERE key = '{key}'"))
        .await
        .unwrap()
}

#[tokio::test]
async fn operations_are_listed_and_shown() {
    let server = Server::start(NOTES, &["notes"]).await;
    for key in ["a", "b", "c"] {
        raise(&server, key).await.expect(200);
    }
    let page = server.get("/operations?limit=2").await.expect(200);
    let keys: Vec<_> = page.data().as_array().unwrap().iter().map(|o| o["key"].clone()).collect();
    assert_eq!(keys, ["c", "b"]);
    let next = page.json["page"]["next"].as_str().unwrap();
    let rest = server.get(&format!("/operations?limit=2&after={next}")).await.expect(200);
    assert_eq!(rest.data()[0]["key"], "a");
    assert_eq!(rest.json["page"]["next"], serde_json::Value::Null);

    let shown = server.get(&format!("/operations/{}", id_of(&server, "b").await)).await.expect(200);
    let shown = shown.data();
    assert_eq!((&shown["status"], &shown["attempts"]), (&"completed".into(), &1.into()));
    assert_eq!((&shown["method"], &shown["actor"]), (&"POST".into(), &"mina".into()));
    assert_eq!(shown["path"], "/api/v1/notes/1/increment");
    assert_eq!(shown["evidence"]["etag"], "\"3\"");

    let none = server.get("/operations?status=blocked").await.expect(200);
    assert_eq!(none.data().as_array().unwrap().len(), 0);
    server.get("/operations?status=odd").await.expect_error(400, "INVALID_QUERY");
    server.get("/operations?colour=red").await.expect_error(400, "INVALID_QUERY");
    server.get("/operations/7").await.expect_error(400, "INVALID_ID");
    let unknown = "/operations/01a11e82-d0bc-7367-9c39-5e9873953dde";
    server.get(unknown).await.expect_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_blocked_operation_waits_for_somebody() {
    let server = Server::start(NOTES, &["notes"]).await;
    for key in ["a", "b", "c"] {
        raise(&server, key).await.expect(200);
    }
    server.sql("UPDATE counterfoil.operation SET status = 'blocked'").await;
    let told = raise(&server, "a").await.expect_error(409, "OPERATION_IN_PROGRESS");
    assert_eq!(told.details()["status"], "blocked");
    let blocked = server.get("/operations?status=blocked").await.expect(200);
    assert_eq!(blocked.data().as_array().unwrap().len(), 3);

    let retry = format!("/operations/{}/retry", id_of(&server, "a").await);
    let settled = server.post(&retry, r#"{"note": "checked"}"#).await.expect(200);
    assert_eq!(settled.data()["status"], "retryable");
    assert_eq!(settled.data()["evidence"]["settled"]["note"], "checked");
    server.post(&retry, "{}").await.expect_error(409, "TRANSITION_CONFLICT");
    assert_eq!(raise(&server, "a").await.expect(200).data()["n"], 4);
    let id = id_of(&server, "a").await;
    let shown = server.get(&format!("/operations/{id}")).await.expect(200);
    assert_eq!(
        (&shown.data()["status"], &shown.data()["attempts"]),
        (&"completed".into(), &2.into())
    );

    for (key, status, answered) in [("b", "completed", 200), ("c", "rejected", 409)] {
        let resolve = format!("/operations/{}/resolve", id_of(&server, key).await);
        server.post(&resolve, r#"{"status": "odd"}"#).await.expect_error(422, "INVALID_VALUE");
        let body = format!(r#"{{"status": "{status}", "note": "by hand"}}"#);
        server.post(&resolve, &body).await.expect(200);
        let repeat = raise(&server, key).await.expect(answered);
        assert_eq!(repeat.header("idempotency-replayed"), "true");
    }
    assert_eq!(server.value("SELECT n FROM notes").await.as_deref(), Some("4"));
}

#[tokio::test]
async fn keys_are_forgotten_when_their_time_is_over() {
    let server = Server::configured(NOTES, &["notes"], "[server]\nkeep_operations_hours = 1").await;
    for key in ["a", "b", "c"] {
        raise(&server, key).await.expect(200);
    }
    let due = "SELECT count(*) FROM counterfoil.operation \
               WHERE expires_at BETWEEN now() + interval '59 min' AND now() + interval '61 min'";
    assert_eq!(server.value(due).await.as_deref(), Some("3"));
    let db = Db::start(&connect::options(&server.database_url).unwrap(), 1);
    assert_eq!(sweep(&db).await, Ok(0));
    server
        .sql(
            "UPDATE counterfoil.operation SET expires_at = now() - interval '1 s' WHERE key <> 'c'",
        )
        .await;
    server.sql("UPDATE counterfoil.operation SET status = 'blocked' WHERE key = 'b'").await;
    assert_eq!(sweep(&db).await, Ok(1));
    assert_eq!(raise(&server, "a").await.expect(200).header("idempotency-replayed"), "");
}
