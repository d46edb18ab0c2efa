//! `counterfoil dev`: a private PostgreSQL, the demo, and a server on loopback, in one command.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sqlx::PgConnection;

use crate::catalog::store;
use crate::cli::{DevArgs, Failure, say, serve};
use crate::config::Config;
use crate::db::{connect, migrate};
use crate::http::server;
use crate::postgres::{Options, Postgres};

/// The invoice of the story.
const INVOICE: &str = "01a11e82-d0bc-7367-9c39-5e9873953dde";

const DATABASE: &str = "counterfoil";

/// The demo's tables and rows.
const DEMO: &str = include_str!("../../examples/demo.sql");
const DEMO_CONFIG: &str = include_str!("../../examples/demo.toml");
const DEMO_TABLES: [&str; 5] = ["invoices", "bookings", "offers", "games", "counters"];

/// Serves until the process is told to end; leaves no process behind.
pub(super) async fn dev(
    database_url: Option<&str>,
    config: Option<&Path>,
    args: &DevArgs,
) -> Result<(), Failure> {
    let mut config = read_config(config, !args.no_demo)?;
    if config.server.cors_origins.is_empty() {
        config.server.cors_origins.push("*".to_owned());
    }
    config.server.demo |= !args.no_demo;
    let ended = serve::ended()?;
    // A database that is named is used; else a private one is started.
    let Some(url) = database_url else {
        let mut postgres = start_postgres(&args.data_dir).await?;
        let url = postgres.url(DATABASE);
        let mut lost = false;
        let gone = postgres.ended();
        let over = async {
            tokio::select! {
                biased;
                () = ended => {}
                () = gone => lost = true,
            }
        };
        let served = serve_demo(&url, config, args, over).await;
        if lost && let Some(error) = postgres.early_exit() {
            return Err(Failure::new(error));
        }
        postgres.stop().await.map_err(Failure::new)?;
        return served;
    };
    serve_demo(url, config, args, ended).await
}

async fn start_postgres(data_dir: &Path) -> Result<Postgres, Failure> {
    let data_dir = std::path::absolute(data_dir).map_err(Failure::new)?.join("pg");
    let postgres = Postgres::start(&Options::new(data_dir)).await.map_err(Failure::new)?;
    if let Some(note) = postgres.note() {
        say(note);
    }
    postgres.create_database_if_missing(DATABASE).await.map_err(Failure::new)?;
    Ok(postgres)
}

async fn serve_demo(
    url: &str,
    config: Config,
    args: &DevArgs,
    ended: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let options = connect::options(url).map_err(Failure::usage)?;
    let mut conn = connect::connect(&options).await.map_err(Failure::new)?;
    migrate::run(&mut conn).await.map_err(Failure::new)?;
    let demo = !args.no_demo;
    let version = if demo { fill(&mut conn).await.map_err(Failure::new)? } else { 1 };
    drop(conn);
    let listen = serve::address(args.listen, &config);
    if !listen.ip().is_loopback() {
        return Err(Failure::usage(
            "dev serves without authentication, so it listens on loopback only",
        ));
    }
    let service = serve::start(url, config).await?;
    let listener = serve::bind(listen)?;
    let local = serve::local(&listener)?;
    say(&format!("database: {url}"));
    say(&format!("listening: http://{local}"));
    if demo {
        suggest(local, version);
    }
    server::run(listener, service.router.clone(), ended).await;
    Ok(())
}

/// Makes the demo's tables and adopts them, where they are not there yet; gives the version at which the
/// invoice of the story is.
async fn fill(conn: &mut PgConnection) -> sqlx::Result<i32> {
    sqlx::raw_sql(DEMO).execute(&mut *conn).await?;
    for table in DEMO_TABLES {
        let adopted: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM counterfoil.resource WHERE name = $1)")
                .bind(table)
                .fetch_one(&mut *conn)
                .await?;
        if !adopted {
            store::adopt(conn, &format!("public.{table}"), None, true, "version").await?;
        }
    }
    let version = "SELECT version FROM public.invoices WHERE id = $1::uuid";
    let found = sqlx::query_scalar(version).bind(INVOICE).fetch_optional(conn).await?;
    Ok(found.unwrap_or(1))
}

/// The file that is named or lies here, else the demo's.
fn read_config(path: Option<&Path>, demo: bool) -> Result<Config, Failure> {
    if path.is_some() || !demo || Path::new(serve::DEFAULT_CONFIG).exists() {
        serve::read_config(path)
    } else {
        Config::parse(DEMO_CONFIG, "examples/demo.toml").map_err(Failure::usage)
    }
}

/// What to try next: a read, a guarded write, and the same write again, which is now stale.
fn suggest(local: SocketAddr, version: i32) {
    let invoice = format!("http://{local}/api/v1/invoices/{INVOICE}");
    let patch = "-H 'Content-Type: application/merge-patch+json'";
    say(&format!("\nopen http://{local}/demo in two windows, or try:"));
    say(&format!("  curl -i {invoice}"));
    say(&format!(
        "  curl -i -X PATCH {invoice} -H 'If-Match: \"{version}\"' {patch} -d '{{\"amount\": 1250}}'"
    ));
    say(&format!(
        "  curl -i -X PATCH {invoice} -H 'If-Match: \"{version}\"' {patch} -d '{{\"amount\": 1300}}'   # 409, and what to do about it"
    ));
}

/// Where `dev` keeps its database.
pub(super) fn default_data_dir() -> PathBuf {
    PathBuf::from(".counterfoil")
}
