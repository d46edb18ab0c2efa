//! Lanes: requests that share a statement are none the worse for it. Every server here has a single lane,
//! so that all of them meet in it.

mod broken;
mod busy;
mod isolation;
mod leaving;
mod log;
mod mixed;
mod queue;
mod routing;
mod shapes;

use std::sync::Arc;

use reqwest::{Method, RequestBuilder};
use tokio::task::JoinSet;

use crate::support::{Reply, Server, json};

/// How many write at once: enough to fill groups while another statement runs.
const MANY: usize = 48;

const NOTES: &str = "
    CREATE TABLE notes (
        id integer PRIMARY KEY,
        text text NOT NULL CHECK (text <> 'bad'),
        code text UNIQUE,
        n integer NOT NULL DEFAULT 0);
    INSERT INTO notes (id, text) SELECT id, 'note ' || id FROM generate_series(1, 48) AS id;
    CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL, code text UNIQUE);
    CREATE EXTENSION pg_stat_statements;";

async fn start() -> Arc<Server> {
    let server = Server::configured(NOTES, &["notes", "events"], "[server]\nlanes = 1").await;
    Arc::new(server)
}

fn patch(server: &Server, id: usize, body: &str) -> RequestBuilder {
    json(server.request(Method::PATCH, &format!("/notes/{id}")), body)
}

/// Sends one request for each number at once and gives the answers in the order of the numbers.
async fn all(
    server: &Arc<Server>,
    numbers: impl Iterator<Item = usize>,
    request: impl Fn(&Server, usize) -> RequestBuilder,
) -> Vec<(usize, Reply)> {
    let mut sent = JoinSet::new();
    for number in numbers {
        let request = request(server, number);
        sent.spawn(async move { (number, Reply::of(request).await) });
    }
    let mut replies = sent.join_all().await;
    replies.sort_by_key(|(number, _)| *number);
    replies
}

/// How often a statement that begins or goes on like this ran.
async fn calls(server: &Server, like: &str) -> usize {
    let sql = format!(
        "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '{like}' \
         AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    server.value(&sql).await.unwrap().parse().unwrap()
}
