//! `Idempotency-Key`: a request that is sent again is answered again and done once, whatever happens
//! in between.

mod crowds;
mod faults;
mod replays;

use reqwest::{Method, RequestBuilder};

use crate::support::{Reply, Server, json};

const NOTES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, text text UNIQUE, n integer NOT NULL DEFAULT 0);
    INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 20) AS i;";

async fn notes() -> Server {
    Server::start(NOTES, &["notes"]).await
}

fn keyed(server: &Server, method: Method, path: &str, key: &str, body: &str) -> RequestBuilder {
    let request = server.request(method, path).header("idempotency-key", key);
    if body.is_empty() { request } else { json(request, body) }
}

/// What a repeat shares with the first answer.
fn content(reply: &Reply) -> (u16, String, [String; 5]) {
    let names = ["etag", "location", "content-location", "content-type", "counterfoil-result"];
    (reply.status, reply.text.clone(), names.map(|name| reply.header(name).to_owned()))
}

fn is_replay(reply: &Reply) -> bool {
    reply.header("idempotency-replayed") == "true"
}
