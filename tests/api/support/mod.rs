//! What every test starts from: one PostgreSQL for the whole run, a database of its own for each
//! test, and a real server in front of it.

pub mod database;
mod door;
pub mod process;
mod reply;
pub mod scratch;
pub mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use counterfoil::config::Config;
use counterfoil::http::server::{self, Patience};
use counterfoil::service::{self, Service};
use reqwest::{Client, Method, RequestBuilder};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use door::Door;
pub use reply::Reply;

/// A server on a database of its own. Both end with it.
pub struct Server {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    /// The database, for psql, sqlx and further servers.
    pub database_url: String,
    client: Client,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
    _service: Arc<Service>,
}

impl Server {
    /// Runs SQL in a fresh database, adopts the tables named, and serves them.
    pub async fn start(sql: &str, tables: &[&str]) -> Self {
        Self::configured(sql, tables, "").await
    }

    /// As [`Self::start`], with the text of a `counterfoil.toml`.
    pub async fn configured(sql: &str, tables: &[&str], config: &str) -> Self {
        let database_url = database::create().await;
        prepare(&database_url, sql, tables).await;
        Self::on(&database_url, config).await
    }

    /// As [`Self::start`], with this patience with clients.
    pub async fn patient(sql: &'static str, tables: &[&str], patience: Patience) -> Self {
        let database_url = database::create().await;
        prepare(&database_url, sql, tables).await;
        Self::run(&database_url, "", patience).await
    }

    /// One more server on a database that is there already.
    pub async fn on(database_url: &str, config: &str) -> Self {
        Self::run(database_url, config, Patience::default()).await
    }

    async fn run(database_url: &str, config: &str, patience: Patience) -> Self {
        let config = Config::parse(config, "test.toml").unwrap();
        let service = Arc::new(service::start(database_url, config).await.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let router = service.router.clone();
        let running = tokio::spawn(server::run_patiently(listener, router, patience, async {
            let _ = stopped.await;
        }));
        let client = Client::builder().no_proxy().build().unwrap();
        let database_url = database_url.to_owned();
        Self { url, database_url, client, stop, running, _service: service }
    }

    /// Tells the server to end and waits until it has.
    pub async fn end(self) {
        drop(self.stop);
        self.running.await.unwrap();
    }

    /// A connection of somebody else to the same database.
    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.database_url).await.unwrap()
    }

    /// Runs SQL as somebody else.
    pub async fn sql(&self, sql: &str) {
        let mut conn = self.connect().await;
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
    }

    /// One value that SQL gives, as text; `None` for NULL or no row.
    pub async fn value(&self, sql: &str) -> Option<String> {
        let mut conn = self.connect().await;
        let sql = format!("SELECT ({sql})::text");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut conn).await.unwrap()
    }

    /// A request to `/api/v1{path}`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/api/v1{path}", self.url))
    }

    pub async fn get(&self, path: &str) -> Reply {
        Reply::of(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &str) -> Reply {
        Reply::of(json(self.request(Method::POST, path), body)).await
    }

    /// A PUT, with `If-Match` where one is given.
    pub async fn put(&self, path: &str, if_match: Option<&str>, body: &str) -> Reply {
        Reply::of(json(guarded(self.request(Method::PUT, path), if_match), body)).await
    }

    /// A PATCH of plain JSON, with `If-Match` where one is given.
    pub async fn patch(&self, path: &str, if_match: Option<&str>, body: &str) -> Reply {
        Reply::of(json(guarded(self.request(Method::PATCH, path), if_match), body)).await
    }

    /// A PATCH of this media type.
    pub async fn patch_as(&self, media_type: &str, path: &str, body: &str) -> Reply {
        let request = self.request(Method::PATCH, path).header("content-type", media_type);
        Reply::of(request.body(body.to_owned())).await
    }

    /// A DELETE, with `If-Match` where one is given.
    pub async fn delete(&self, path: &str, if_match: Option<&str>) -> Reply {
        Reply::of(guarded(self.request(Method::DELETE, path), if_match)).await
    }
}

/// Runs SQL in a database and adopts the tables named.
pub async fn prepare(database_url: &str, sql: &str, tables: &[&str]) {
    let mut conn = PgConnection::connect(database_url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
    for table in tables {
        sqlx::query("SELECT counterfoil.adopt($1::regclass)")
            .bind(*table)
            .execute(&mut conn)
            .await
            .unwrap();
    }
}

/// Adds a JSON body.
pub fn json(request: RequestBuilder, body: &str) -> RequestBuilder {
    request.header("content-type", "application/json").body(body.to_owned())
}

fn guarded(request: RequestBuilder, if_match: Option<&str>) -> RequestBuilder {
    match if_match {
        Some(tag) => request.header("if-match", tag),
        None => request,
    }
}

/// How much of something: the full amount where `make soak` asks for it.
pub fn scale(usual: usize, full: usize) -> usize {
    if std::env::var_os("COUNTERFOIL_SOAK").is_some() { full } else { usual }
}

/// Waits for a condition that is bound to come true.
pub async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
