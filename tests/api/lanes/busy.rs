//! A lane whose one statement waits on its way to PostgreSQL, so that a test has all the time it wants to fill
//! the queue behind it.

use std::fs;
use std::future::Future;

use reqwest::{Method, RequestBuilder};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::task::{JoinHandle, JoinSet};

use crate::support::process::Program;
use crate::support::scratch::Scratch;
use crate::support::wire::{Cut, Wire};
use crate::support::{Door, Reply, database, json, prepare, wait_until};

/// The row whose write keeps the lane.
pub const KEPT: usize = 1;

/// A server with a single lane in a process of its own, by way of a wire to its database.
pub struct Busy {
    pub program: Program,
    pub door: Door,
    pub wire: Wire,
    pub database_url: String,
    metrics: reqwest::Client,
    _folder: Scratch,
}

impl Busy {
    /// Runs SQL in a fresh database, adopts the tables named, and serves them. One of them is `notes`.
    pub async fn start(sql: &str, tables: &[&str]) -> Self {
        let database_url = database::create().await;
        prepare(&database_url, sql, tables).await;
        let wire = Wire::to(&database_url).await;
        let folder = Scratch::new("lanes");
        let config = folder.path().join("counterfoil.toml");
        fs::write(&config, "[server]\nlanes = 1").unwrap();
        let arguments = ["--config".as_ref(), config.as_os_str()];
        let program = Program::configured(&wire.url, &arguments).await;
        let door = Door::to(&program.url);
        let metrics = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { program, door, wire, database_url, metrics, _folder: folder }
    }

    /// Sends the write that keeps the lane, until the wire lets it go.
    pub async fn keep(&self) -> JoinHandle<Reply> {
        self.wire.cut(Cut::Wait, "keeper", 1);
        let first = tokio::spawn(Reply::of(self.patch(KEPT, r#"{"text":"keeper"}"#)));
        wait_until("the lane is kept", async || self.wire.holds()).await;
        first
    }

    /// How many writes wait in the lane's queue.
    pub async fn queued(&self) -> usize {
        self.gauge("counterfoil_lane_queue{lane=\"writes\"}").await
    }

    /// Waits until so many do.
    pub async fn until_queued(&self, count: usize) {
        wait_until("they are in the queue", async || self.queued().await == count).await;
    }

    /// One of the figures at `/metrics`.
    pub async fn gauge(&self, name: &str) -> usize {
        let reply = self.metrics.get(format!("{}/metrics", self.program.url)).send().await.unwrap();
        let text = reply.text().await.unwrap();
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap().trim().parse().unwrap()
    }

    pub fn patch(&self, id: usize, body: &str) -> RequestBuilder {
        json(self.door.request(Method::PATCH, &format!("/notes/{id}")), body)
    }

    /// One value that SQL gives, as text; asked of the database by nobody's wire.
    pub async fn value(&self, sql: &str) -> Option<String> {
        let mut conn = PgConnection::connect(&self.database_url).await.unwrap();
        let sql = format!("SELECT ({sql})::text");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut conn).await.unwrap()
    }

    /// The ids of the rows that this holds of.
    pub async fn notes(&self, condition: &str) -> Vec<usize> {
        let ids =
            format!("SELECT coalesce(json_agg(id ORDER BY id), '[]') FROM notes WHERE {condition}");
        serde_json::from_str(&self.value(&ids).await.unwrap()).unwrap()
    }
}

/// Sends requests at once, each with its number.
pub fn send<R>(requests: impl Iterator<Item = (usize, R)>) -> JoinSet<(usize, R::Output)>
where
    R: Future<Output: Send> + Send + 'static,
{
    let mut sent = JoinSet::new();
    for (number, request) in requests {
        sent.spawn(async move { (number, request.await) });
    }
    sent
}
