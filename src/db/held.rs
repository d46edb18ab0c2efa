//! A worker's connection: opened when it is needed, tried out after it lay unused, dropped when it broke.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::time::{Instant, timeout};

use crate::db::backend::Backend;
use crate::db::connect;
use crate::db::fault::Fault;

/// How long a worker waits between attempts to reach a database that is away.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// How long an unused connection may take to show that it lives.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a connection may lie unused before it is tried out ahead of its next job.
const IDLE: Duration = Duration::from_millis(100);

/// A connection, counted among the open ones while it is held.
pub(super) struct Held {
    pub(super) conn: PgConnection,
    backend: Backend,
    options: PgConnectOptions,
    open: Arc<AtomicUsize>,
}

impl Held {
    async fn open(options: &PgConnectOptions, open: &Arc<AtomicUsize>) -> sqlx::Result<Self> {
        let mut conn = connect::connect(options).await?;
        let backend = Backend::of(&mut conn).await?;
        open.fetch_add(1, Ordering::Relaxed);
        Ok(Self { conn, backend, options: options.clone(), open: open.clone() })
    }

    /// Makes sure, as far as can be, that the session of a broken connection is over.
    pub(super) async fn settle(&self) -> Fault {
        if self.backend.end(&self.options).await { Fault::Settled } else { Fault::OutcomeUnknown }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps one worker's connection.
pub(super) struct Keeper {
    options: PgConnectOptions,
    /// Counts the connections of all workers on the same queue.
    open: Arc<AtomicUsize>,
    held: Option<Held>,
    used: Instant,
}

impl Keeper {
    pub(super) fn new(options: PgConnectOptions, open: Arc<AtomicUsize>) -> Self {
        Self { options, open, held: None, used: Instant::now() }
    }

    /// The connection, fit for use; `None` where the database cannot be reached.
    pub(super) async fn ready(&mut self) -> Option<&mut Held> {
        // A connection that died while nobody used it must not make a write's outcome unknown.
        if self.used.elapsed() > IDLE
            && let Some(held) = &mut self.held
            && !matches!(timeout(PATIENCE, held.conn.ping()).await, Ok(Ok(())))
        {
            self.held = None;
        }
        if self.held.is_none() {
            match Held::open(&self.options, &self.open).await {
                Ok(fresh) => self.held = Some(fresh),
                Err(error) => tracing::warn!(%error, "the database cannot be reached"),
            }
        }
        self.held.as_mut()
    }

    /// Takes note of a use; a connection that is not well is closed.
    pub(super) fn used(&mut self, healthy: bool) {
        if !healthy {
            self.held = None;
        }
        self.used = Instant::now();
    }

    /// Whether no worker of the queue has a connection: who waits then waits in vain.
    pub(super) fn none_is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    /// Waits before the next attempt to reach a database that is away.
    pub(super) async fn pause(&self) {
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}
