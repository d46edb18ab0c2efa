//! One PostgreSQL for the run, and databases copied from a migrated template.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use counterfoil::db::{connect, migrate};
use counterfoil::postgres::{Error, Options, Postgres};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::{Mutex, OnceCell};

static POSTGRES: OnceCell<Postgres> = OnceCell::const_new();
static COPYING: Mutex<()> = Mutex::const_new(());
static NEXT: AtomicU32 = AtomicU32::new(0);

const TEMPLATE: &str = "migrated";

/// The run's PostgreSQL; it ends with the process.
pub async fn postgres() -> &'static Postgres {
    POSTGRES.get_or_init(start).await
}

/// Makes a database with the schema `counterfoil` in it and gives its URL.
pub async fn create() -> String {
    let postgres = postgres().await;
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    // A template may be copied by one session at a time.
    let _turn = COPYING.lock().await;
    run(postgres, &format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}")).await;
    postgres.url(&name)
}

async fn start() -> Postgres {
    let postgres = claim_directory().await;
    for name in databases(&postgres).await {
        run(&postgres, &format!("DROP DATABASE \"{name}\" WITH (FORCE)")).await;
    }
    migrated(&postgres, TEMPLATE).await;
    postgres
}

/// Makes a database and brings it up to date.
pub async fn migrated(postgres: &Postgres, name: &str) {
    run(postgres, &format!("CREATE DATABASE {name}")).await;
    let options = connect::options(&postgres.url(name)).unwrap();
    let mut conn = connect::connect(&options).await.unwrap();
    migrate::run(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// Starts in a directory of this checkout; a second run at the same time takes another.
async fn claim_directory() -> Postgres {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_MANIFEST_DIR").hash(&mut hasher);
    let base = std::env::temp_dir().join(format!("counterfoil-tests-{:x}", hasher.finish()));
    for attempt in 0..8 {
        match Postgres::start(&options(base.join(attempt.to_string()).join("pg"))).await {
            Ok(postgres) => return postgres,
            Err(Error::InUse { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("eight other runs hold every directory below {}", base.display());
}

fn options(data_dir: PathBuf) -> Options {
    let mut options = Options::new(data_dir);
    options.durable = false;
    options.settings = [
        ("max_connections", "400"),
        ("shared_buffers", "64MB"),
        ("shared_preload_libraries", "pg_stat_statements"),
        ("pg_stat_statements.track", "top"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    options
}

async fn databases(postgres: &Postgres) -> Vec<String> {
    let mut conn = PgConnection::connect(&postgres.url("postgres")).await.unwrap();
    sqlx::query_scalar(
        "SELECT datname FROM pg_database WHERE datname <> 'postgres' AND NOT datistemplate",
    )
    .fetch_all(&mut conn)
    .await
    .unwrap()
}

async fn run(postgres: &Postgres, sql: &str) {
    let mut conn = PgConnection::connect(&postgres.url("postgres")).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
}
