//! Several writes as one request: together or each for itself, in order, without deadlocks, and in few
//! statements.

mod answers;
mod cost;
mod crossing;
mod lost;
mod order;
mod refusals;
mod troubles;
mod undone;

use serde_json::{Value, json};

use crate::support::{Reply, Server};

const NOTES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, text text UNIQUE, n integer NOT NULL DEFAULT 0 CHECK (n >= 0));
    INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 1000) AS i;";

async fn notes() -> Server {
    Server::start(NOTES, &["notes"]).await
}

async fn send(server: &Server, operations: &Value) -> Reply {
    server.post("/batch", &json!({ "operations": operations }).to_string()).await
}

async fn send_loose(server: &Server, operations: &Value) -> Reply {
    let body = json!({ "atomic": false, "operations": operations });
    server.post("/batch", &body.to_string()).await
}

fn patch(id: i32, if_match: Option<&str>, body: &Value) -> Value {
    let mut operation =
        json!({ "method": "PATCH", "resource": "notes", "id": id.to_string(), "body": body });
    if let Some(tag) = if_match {
        operation["if_match"] = json!(tag);
    }
    operation
}

fn delete(id: i32) -> Value {
    json!({ "method": "DELETE", "resource": "notes", "id": id.to_string() })
}

fn create(body: &Value) -> Value {
    json!({ "method": "POST", "resource": "notes", "body": body })
}

fn increment(id: i32, by: i32) -> Value {
    let body = json!({ "field": "n", "by": by });
    json!({ "method": "INCREMENT", "resource": "notes", "id": id.to_string(), "body": body })
}

/// The statuses of a batch's operations.
fn statuses(reply: &Reply) -> Vec<u64> {
    let lines = reply.data().as_array().unwrap();
    lines.iter().map(|line| line["status"].as_u64().unwrap()).collect()
}

/// The indexes and codes of the operations that an atomic batch lists as refused.
fn refused(reply: &Reply) -> Vec<(u64, String)> {
    let lines = reply.details()["operations"].as_array().unwrap();
    let line = |line: &Value| {
        let code = line["error"]["code"].as_str().unwrap().to_owned();
        (line["index"].as_u64().unwrap(), code)
    };
    lines.iter().map(line).collect()
}
