//! The feed: no committed change is ever skipped, and a cursor goes on where it stood.

mod crowd;
mod cursors;
mod pages;
mod plan;
mod snapshots;
mod streams;
mod writers;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::Server;

const NOTES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL DEFAULT '');
    CREATE TABLE tasks (id text, day date, done boolean NOT NULL DEFAULT false, PRIMARY KEY (id, day));
    CREATE TABLE quiet (id integer PRIMARY KEY);";

async fn start() -> Server {
    Server::start(NOTES, &["notes", "tasks"]).await
}

/// A client that keeps a copy, by the one rule that it needs: the highest version of a record counts.
#[derive(Debug, Default)]
struct Copy {
    cursor: String,
    /// The version and the row of each record; no row where it is deleted.
    records: BTreeMap<(String, String), (i64, Option<Value>)>,
    /// All that was seen: resource, id, version.
    seen: Vec<(String, String, i64)>,
}

impl Copy {
    /// Takes over a page.
    fn take(&mut self, page: &Value) {
        for change in page["changes"].as_array().unwrap() {
            let text = |name: &str| change[name].as_str().unwrap().to_owned();
            let record = (text("resource"), text("id"));
            let version = change["version"].as_i64().unwrap();
            self.seen.push((record.0.clone(), record.1.clone(), version));
            let newest = self.records.get(&record).map_or(0, |(version, _)| *version);
            if version > newest {
                let row = (text("op") == "upsert").then(|| change["data"].clone());
                self.records.insert(record, (version, row));
            }
        }
        if let Some(cursor) = page["cursor"].as_str() {
            cursor.clone_into(&mut self.cursor);
        }
    }

    /// Pulls one page with these further parameters; whether there is more.
    async fn pull(&mut self, server: &Server, more: &str) -> bool {
        let reply =
            server.get(&format!("/sync/pull?cursor={}{more}", self.cursor)).await.expect(200);
        self.take(reply.data());
        reply.data()["has_more"].as_bool().unwrap()
    }

    /// Pulls until there is nothing more, and the horizon has passed all that is committed.
    async fn catch_up(&mut self, server: &Server, more: &str) {
        settled(server).await;
        while self.pull(server, more).await {}
    }

    fn versions(&self) -> Vec<String> {
        self.seen
            .iter()
            .map(|(resource, id, version)| format!("{resource}/{id}@{version}"))
            .collect()
    }
}

/// Waits until every change that is committed can be read: transactions of other tests, in other
/// databases of the same server, hold the horizon back, too.
pub async fn settled(server: &Server) {
    let newest = server.value("SELECT pg_snapshot_xmax(pg_current_snapshot())").await.unwrap();
    let passed = format!("SELECT pg_snapshot_xmin(pg_current_snapshot()) >= '{newest}'::xid8");
    crate::support::wait_until("the horizon has passed", async || {
        server.value(&passed).await.as_deref() == Some("true")
    })
    .await;
}
