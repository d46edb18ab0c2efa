//! Connections to PostgreSQL. Each is owned by a worker task that takes jobs from one bounded queue;
//! no request ever holds a connection. A client that leaves drops its answer, never the work: a
//! half-run statement or an open transaction cannot come back to the next borrower.

pub mod backend;
pub mod connect;
pub mod fault;
mod held;
pub mod lane;
pub mod migrate;
pub mod recall;
pub mod sweep;
pub mod transaction;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::db::fault::Fault;
use crate::db::held::{Held, Keeper};

/// How many jobs may wait for a connection before new ones are turned away.
const QUEUE: usize = 4096;

/// A job gets a connection, or why there is none, and gives whether the connection may serve the
/// next job.
type Job = Box<dyn for<'c> FnOnce(Result<&'c mut Held, Fault>) -> BoxFuture<'c, bool> + Send>;

/// How long a job may wait for a connection. Where many writers wait for one locked row, the others
/// are told so rather than left to wait their turn behind them.
const QUEUE_TIME: Duration = Duration::from_secs(5);

/// A handle on the workers. They end when the last handle is dropped and the queue is empty.
///
/// Reads have connections of their own: they wait for no row's lock, and must not wait behind writes
/// that do. So have writes of which it is known that they will have to wait.
#[derive(Clone, Debug)]
pub struct Db {
    writes: Queue,
    waits: Queue,
    reads: Queue,
    written: Arc<Notify>,
}

#[derive(Clone, Debug)]
struct Queue {
    jobs: async_channel::Sender<Job>,
    connections: usize,
    open: Arc<AtomicUsize>,
    overloads: Arc<AtomicU64>,
}

/// What one kind of connections is at.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// `writes`, `waits` or `reads`.
    pub name: &'static str,
    /// How many connections there may be.
    pub connections: usize,
    /// How many there are.
    pub open: usize,
    /// How many jobs wait for one.
    pub queued: usize,
    /// How many jobs were turned away for want of one.
    pub overloads: u64,
}

impl Db {
    /// Starts `connections` workers for writes on a database, half as many for writes that wait for
    /// others, and half as many for reads. They connect when their first job comes.
    pub fn start(options: &PgConnectOptions, connections: usize) -> Self {
        Self {
            writes: Queue::start(options, connections),
            waits: Queue::start(options, connections.div_ceil(2)),
            reads: Queue::start(options, connections.div_ceil(2)),
            written: Arc::default(),
        }
    }

    /// What the connections are at.
    pub fn loads(&self) -> [Load; 3] {
        [self.writes.load("writes"), self.waits.load("waits"), self.reads.load("reads")]
    }

    /// Runs a job that only reads on one of the connections for reads. See [`Self::run`].
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn read<T, F>(&self, job: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Fault>> + Send + 'static,
    {
        self.reads.run(job).await
    }

    /// Runs a job on one of the connections and gives its result. The job is owned by the worker:
    /// once begun, it is carried to its end whether or not the caller still waits.
    ///
    /// # Errors
    /// What the job gives; [`Fault::Overloaded`] where the queue is full or the wait too long, and
    /// [`Fault::Unavailable`] where the database cannot be reached.
    pub async fn run<T, F>(&self, job: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Fault>> + Send + 'static,
    {
        let result = self.writes.run(job).await;
        self.wrote();
        result
    }

    /// As [`Self::run`], for a write that came upon somebody else's lock: it may wait, and is not to keep
    /// others from a connection meanwhile.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn wait<T, F>(&self, job: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Fault>> + Send + 'static,
    {
        let result = self.waits.run(job).await;
        self.wrote();
        result
    }

    /// Something may have been written.
    pub fn wrote(&self) {
        self.written.notify_one();
    }

    /// Resolves when something may have been written since it last did; for one who waits.
    pub async fn written(&self) {
        self.written.notified().await;
    }
}

impl Queue {
    fn start(options: &PgConnectOptions, connections: usize) -> Self {
        let (jobs, queue) = async_channel::bounded(QUEUE);
        let open = Arc::new(AtomicUsize::new(0));
        let connections = connections.max(1);
        for _ in 0..connections {
            tokio::spawn(work(options.clone(), queue.clone(), open.clone()));
        }
        Self { jobs, connections, open, overloads: Arc::default() }
    }

    fn load(&self, name: &'static str) -> Load {
        Load {
            name,
            connections: self.connections,
            open: self.open.load(Ordering::Relaxed),
            queued: self.jobs.len(),
            overloads: self.overloads.load(Ordering::Relaxed),
        }
    }

    fn overloaded(overloads: &AtomicU64) -> Fault {
        overloads.fetch_add(1, Ordering::Relaxed);
        Fault::Overloaded
    }

    async fn run<T, F>(&self, job: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Fault>> + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        let queued = Instant::now();
        let overloads = self.overloads.clone();
        let message: Job = Box::new(move |held| {
            async move {
                if answer.is_closed() {
                    return true; // The client left before anything was begun.
                }
                let result = match held {
                    Ok(_) if queued.elapsed() > QUEUE_TIME => Err(Self::overloaded(&overloads)),
                    Ok(held) => match job(&mut held.conn).await {
                        Err(Fault::OutcomeUnknown) => Err(held.settle().await),
                        result => result,
                    },
                    Err(fault) => Err(fault),
                };
                let healthy = !matches!(&result, Err(fault) if fault.breaks_connection());
                // Nobody waiting any more is no error: the work is done all the same.
                let _ = answer.send(result);
                healthy
            }
            .boxed()
        });
        if self.jobs.try_send(message).is_err() {
            return Err(Self::overloaded(&self.overloads));
        }
        // The worker drops a job unanswered only when it panicked.
        result.await.unwrap_or(Err(Fault::Panicked))
    }
}

/// `open` counts the connections of all workers.
async fn work(
    options: PgConnectOptions,
    queue: async_channel::Receiver<Job>,
    open: Arc<AtomicUsize>,
) {
    let mut keeper = Keeper::new(options, open);
    while let Ok(job) = queue.recv().await {
        let Some(held) = keeper.ready().await else {
            job(Err(Fault::Unavailable)).await;
            if keeper.none_is_open() {
                refuse_waiting(&queue).await;
            }
            keeper.pause().await;
            continue;
        };
        let healthy = AssertUnwindSafe(job(Ok(held))).catch_unwind().await.unwrap_or(false);
        keeper.used(healthy);
    }
}

/// Tells all who wait that there is no database: none of the workers has a connection, so waiting
/// longer would gain them nothing.
async fn refuse_waiting(queue: &async_channel::Receiver<Job>) {
    while let Ok(job) = queue.try_recv() {
        job(Err(Fault::Unavailable)).await;
    }
}
