//! Mutations of offline clients: in order, exactly once, and each answered with what became of it.

mod atomic;
mod chains;
mod cost;
mod faults;
mod refusals;
mod replays;
mod statuses;
mod troubles;
mod undone;
mod waiting;

use serde_json::{Value, json};

use crate::support::{Reply, Server};

const NOTES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, text text UNIQUE, n integer NOT NULL DEFAULT 0 CHECK (n >= 0), memo text);
    INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 1000) AS i;";

/// A trigger that fails in a way that only its owner can mend, where a row's `n` becomes 13.
pub(crate) const FAILING: &str = "
    CREATE SEQUENCE unused;
    CREATE FUNCTION unlucky() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW.n = 13 THEN NEW.n := currval('unused'); END IF; RETURN NEW; END $$;
    CREATE TRIGGER unlucky BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION unlucky();";

const CLIENT: &str = "0193aaaa-0000-7000-8000-000000000001";

async fn notes() -> Server {
    Server::start(NOTES, &["notes"]).await
}

/// A client's push.
async fn push(server: &Server, mutations: &Value) -> Reply {
    send(server, &json!({ "client_id": CLIENT, "mutations": mutations })).await
}

async fn send(server: &Server, body: &Value) -> Reply {
    server.post("/sync/push", &body.to_string()).await
}

fn patch(id: i64, record: i32, base: i32, data: &Value) -> Value {
    json!({"id": id, "op": "patch", "resource": "notes", "record_id": record.to_string(),
        "base_version": base, "data": data})
}

/// A patch that is based on another mutation.
fn follow(id: i64, record: i32, base: i64, data: &Value) -> Value {
    json!({"id": id, "op": "patch", "resource": "notes", "record_id": record.to_string(),
        "base_mutation": base, "data": data})
}

fn delete(id: i64, record: i32, base: i32) -> Value {
    json!({"id": id, "op": "delete", "resource": "notes", "record_id": record.to_string(),
        "base_version": base})
}

fn create(id: i64, record: i32, data: &Value) -> Value {
    json!({"id": id, "op": "create", "resource": "notes", "record_id": record.to_string(),
        "data": data})
}

/// The lines of an answer.
fn results(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data()["results"].as_array().unwrap().clone()
}

fn statuses(reply: &Reply) -> Vec<String> {
    results(reply).iter().map(|line| line["status"].as_str().unwrap().to_owned()).collect()
}
