//! What is known of operations, and what an operator may do about those that are blocked.

use counterfoil::db::{Db, connect};
use counterfoil::operation::purge::sweep;
use reqwest::Method;
use serde_json::Value;

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
    assert_eq!(rest.json["page"]["next"], Value::Null);

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

/// A table whose trigger fails in a way that no client is to blame for, and says how often it ran.
const BROKEN: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
    INSERT INTO notes VALUES (1);
    CREATE SEQUENCE runs;
    CREATE SEQUENCE unused;
    CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM nextval('runs'); PERFORM currval('unused'); RETURN new; END $$;
    CREATE TRIGGER broken BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION broken();";

/// A request that may be answered 500.
async fn attempt(server: &Server, key: &str, body: &str) -> (u16, Value, String) {
    let request = server.request(Method::POST, "/notes/1/increment");
    let response = json(request.header("idempotency-key", key), body).send().await.unwrap();
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    (response.status().as_u16(), response.json().await.unwrap(), id)
}

#[tokio::test]
async fn an_operation_that_fails_time_and_again_is_blocked_until_somebody_decides() {
    let server = Server::start(BROKEN, &["notes"]).await;
    let body = r#"{"field": "n"}"#;
    let mut operation = String::new();
    for tried in 1..=5 {
        let (status, told, request) = attempt(&server, "k", body).await;
        assert_eq!(status, 500, "{told}");
        let standing = if tried < 5 { "retryable" } else { "blocked" };
        assert_eq!(told["error"]["details"]["status"], standing, "{told}");
        let id = told["error"]["details"]["operation"].as_str().unwrap();
        operation = format!("/operations/{id}");
        let shown = server.get(&operation).await.expect(200);
        assert_eq!(shown.data()["status"], standing);
        assert_eq!(shown.data()["attempts"], tried);
        let failures = shown.data()["evidence"]["failures"].as_array().unwrap();
        assert_eq!(failures.len(), tried);
        assert_eq!(failures[0]["code"], "INTERNAL");
        assert_eq!(failures[0]["request_id"], request);
    }
    for _ in 0..2 {
        let told = raise(&server, "k").await.expect_error(409, "OPERATION_IN_PROGRESS");
        assert_eq!(told.details()["status"], "blocked");
        assert_eq!(told.header("retry-after"), "60");
    }
    assert_eq!(server.value("SELECT last_value FROM runs").await.as_deref(), Some("5"));
    // Decided once, it may be tried once.
    let retry = format!("{operation}/retry");
    server.post(&retry, r#"{"status": "completed"}"#).await.expect_error(422, "UNKNOWN_FIELD");
    server.post(&retry, "{}").await.expect(200);
    assert_eq!(attempt(&server, "k", body).await.1["error"]["details"]["status"], "blocked");
    server.post(&retry, "{}").await.expect(200);
    server.sql("DROP TRIGGER broken ON notes").await;
    raise(&server, "k").await.expect(200);
    let shown = server.get(&operation).await;
    assert_eq!(
        (&shown.data()["status"], &shown.data()["attempts"]),
        (&"completed".into(), &7.into())
    );
    let evidence = &shown.data()["evidence"];
    assert_eq!(evidence["failures"].as_array().unwrap().len(), 6);
    assert_eq!(
        (&evidence["etag"], &evidence["settled"]["by"]),
        (&"\"2\"".into(), &"anonymous".into())
    );
    assert_eq!(server.value("SELECT n FROM notes").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn what_failed_without_an_effect_does_not_use_its_key_up() {
    let server = Server::start(BROKEN, &["notes"]).await;
    assert_eq!(attempt(&server, "k", r#"{"field": "n"}"#).await.0, 500);
    // Other content is another operation, with attempts of its own.
    let (status, told, _) = attempt(&server, "k", r#"{"field": "n", "by": 2}"#).await;
    assert_eq!((status, &told["error"]["details"]["status"]), (500, &"retryable".into()));
    server.sql("DROP TRIGGER broken ON notes").await;
    let first = attempt(&server, "k", r#"{"field": "n", "by": 3}"#).await;
    assert_eq!((first.0, &first.1["data"]["n"]), (200, &3.into()));
    let listed = server.get("/operations").await;
    assert_eq!(
        (&listed.data()[0]["attempts"], listed.data().as_array().unwrap().len()),
        (&1.into(), 1)
    );
    raise(&server, "k").await.expect_error(422, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn a_trigger_that_names_what_is_not_there_is_a_failure_and_no_change_of_the_table() {
    let server = Server::start(BROKEN, &["notes"]).await;
    let names =
        ["PERFORM 1 FROM nowhere", "PERFORM nothing()", "EXECUTE 'select ('", "new.other := 1"];
    for (key, broken) in names.into_iter().enumerate() {
        let function = format!(
            "CREATE OR REPLACE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ \
             BEGIN {broken}; RETURN new; END $$"
        );
        server.sql(&function).await;
        let (status, told, _) = attempt(&server, &key.to_string(), r#"{"field": "n"}"#).await;
        assert_eq!((status, &told["error"]["code"]), (500, &"INTERNAL".into()), "{broken}: {told}");
    }
    let waiting = server.get("/operations?status=retryable").await.expect(200);
    assert_eq!(waiting.data().as_array().unwrap().len(), 4);
}
