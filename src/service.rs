//! The service put together: database, catalogue, routes. `serve`, `dev` and the tests start it here.

use std::num::NonZeroU16;
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use sqlx::Connection as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::catalog::{store, watch};
use crate::config::Config;
use crate::db::connect::{self, OLDEST};
use crate::db::{Db, migrate, sweep};
use crate::feed::pulse::Feed;
use crate::http::metrics::Metrics;
use crate::http::{self, App, House, Limits};
use crate::record::became::Became;
use crate::record::lane::Witness;
use crate::record::lane::store::Lanes;
use crate::record::retention;
use crate::{feed, operation, sync};

/// Connections to the database where nothing else is said: enough to keep a small server's cores
/// busy, few enough for PostgreSQL to serve them side by side.
pub const CONNECTIONS: usize = 8;

/// For how many hours an `Idempotency-Key` is remembered where nothing else is said.
pub const KEEP_OPERATIONS_HOURS: u16 = 24;

/// For how many days the results of pushed mutations are kept where nothing else is said: for longer
/// than most clients are away.
pub const KEEP_MUTATIONS_DAYS: u16 = 30;

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database cannot be reached or used.
    #[error("the database cannot be used: {0}")]
    Database(#[from] sqlx::Error),
    /// The server is older than we know.
    #[error("PostgreSQL {0} is too old: version 14 or later is needed")]
    TooOld(i32),
    /// `counterfoil migrate` was not run.
    #[error(
        "the schema \"counterfoil\" is not up to date in this database; run: counterfoil migrate"
    )]
    NotMigrated,
    /// The configuration does not fit the catalogue.
    #[error("the configuration does not fit the database:\n  {}", .0.join("\n  "))]
    Misconfigured(Vec<String>),
}

/// One lane for every core, so that PostgreSQL always has the next statement of one while it ends
/// another's.
fn lanes_of_this_machine() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// A service that is ready to be given connections.
#[derive(Debug)]
pub struct Service {
    /// Its routes.
    pub router: Router,
    /// What its handlers work with.
    pub app: App,
    tasks: [JoinHandle<()>; 5],
}

impl Drop for Service {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Connects, checks that the database is one we can serve, and reads the catalogue.
///
/// # Errors
/// [`StartError`], in words for the operator.
pub async fn start(database_url: &str, config: Config) -> Result<Service, StartError> {
    let options = connect::options(database_url)?;
    let mut conn = connect::connect(&options).await?;
    let version = connect::server_version(&mut conn).await?;
    if version < OLDEST {
        return Err(StartError::TooOld(version / 10_000));
    }
    if !migrate::is_current(&mut conn).await? {
        return Err(StartError::NotMigrated);
    }
    let mut catalog = store::load(&mut conn).await?;
    let keys = feed::store::keys(&mut conn).await?;
    conn.close().await?;
    let problems = config.apply(&mut catalog);
    if !problems.is_empty() {
        return Err(StartError::Misconfigured(problems));
    }
    let db = Db::start(&options, config.server.connections.unwrap_or(CONNECTIONS));
    let lanes = config.server.lanes.map_or_else(lanes_of_this_machine, |n| n.get().into());
    let group = config.server.group.map(|n| n.get().into());
    let metrics = Metrics::default();
    let counted = metrics.clone();
    let witness = Witness(Arc::new(move |write, outcome| {
        counted.write(&write.resource.name, Became::from(outcome));
    }));
    let app = App::new(House {
        lanes: Lanes::start(&options, (lanes, group), db.clone(), witness),
        db,
        catalog: Arc::new(ArcSwap::from_pointee(catalog)),
        refresh: Arc::new(Notify::new()),
        limits: Limits::default(),
        keep_operations_hours: config
            .server
            .keep_operations_hours
            .map_or(KEEP_OPERATIONS_HOURS, NonZeroU16::get)
            .into(),
        keep_mutations_days: config
            .server
            .keep_mutations_days
            .map_or(KEEP_MUTATIONS_DAYS, NonZeroU16::get)
            .into(),
        feed: Feed::new(keys),
        reads: Arc::default(),
        openapi: http::openapi::serve::Cache::default(),
        metrics,
    });
    let (db, catalog, refresh) = (app.db.clone(), app.catalog.clone(), app.refresh.clone());
    let router = http::router(app.clone(), &config.server.cors_origins, config.server.demo);
    let tasks = [
        tokio::spawn(retention::run(db.clone(), catalog.clone())),
        tokio::spawn(sweep::run(db.clone(), operation::purge::STEP)),
        tokio::spawn(sweep::run(db.clone(), sync::purge::STEP)),
        tokio::spawn(app.feed.clone().run(db.clone())),
        tokio::spawn(watch::run(db, catalog, refresh, Arc::new(config))),
    ];
    Ok(Service { router, app, tasks })
}
