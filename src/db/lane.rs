//! Lanes: a lane is a task that owns its connection and takes everything that waits as one statement.
//! There is no timer: while one statement runs, the next group fills. Who is alone waits for nobody.
//!
//! What may share a statement, and what the statement is, says the [`Request`]. Whatever is not as the
//! others of its group runs by itself on the connections of [`Db`]; so it cannot hold the lane up.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::db::Db;
use crate::db::fault::Fault;
use crate::db::held::{Held, Keeper};

/// The most requests that one statement carries.
const GROUP: usize = 64;

/// How many requests may wait for one lane before new ones are turned away.
const QUEUE: usize = 4096;

/// How many of those that wait a lane looks through for its next group.
const SIGHT: usize = 512;

/// How long a request may wait for its turn.
const QUEUE_TIME: Duration = Duration::from_secs(5);

/// What a lane carries.
pub trait Request: Debug + Send + Sync + Sized + 'static {
    /// What comes of it.
    type Answer: Debug + Send;
    /// What it changes, of which a group may hold one alone.
    type Row: Eq + Hash;

    /// Whether both may be one statement.
    fn goes_with(&self, other: &Self) -> bool;

    /// What it changes; `None` for a request that changes nothing.
    fn row(&self) -> Option<Self::Row>;

    /// Runs one by itself, in the lane.
    fn run(
        &self,
        conn: &mut PgConnection,
    ) -> impl Future<Output = Result<Self::Answer, Fault>> + Send;

    /// Runs one by itself, outside of the lane. `missed` where it was in a statement that found no row
    /// for it, or found its row locked.
    fn run_outside(
        self: Arc<Self>,
        db: Db,
        missed: bool,
    ) -> impl Future<Output = Result<Self::Answer, Fault>> + Send;

    /// Runs several as one statement. Gives an answer for each, in their order; `None` for those that
    /// are to run outside. With an error, nothing of any of them may hold.
    fn run_together(
        conn: &mut PgConnection,
        group: &[&Self],
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, Fault>> + Send;
}

/// Lanes for one kind of request. They end when the last handle is dropped and their queues are empty.
#[derive(Debug)]
pub struct Lanes<R: Request> {
    queues: Arc<[async_channel::Sender<Waiting<R>>]>,
    count: Arc<Count>,
}

/// What lanes did since they were started.
#[derive(Debug, Default)]
struct Count {
    statements: AtomicU64,
    carried: AtomicU64,
    left: AtomicU64,
    overloads: AtomicU64,
}

/// What lanes are at, and what they did since they were started.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many lanes there are.
    pub lanes: usize,
    /// How many requests wait.
    pub queued: usize,
    /// How many groups were run, those of one included.
    pub statements: u64,
    /// How many requests were in them.
    pub carried: u64,
    /// How many of those went on to run by themselves.
    pub left: u64,
    /// How many requests were turned away.
    pub overloads: u64,
}

impl<R: Request> Clone for Lanes<R> {
    fn clone(&self) -> Self {
        Self { queues: self.queues.clone(), count: self.count.clone() }
    }
}

/// What became of a request.
type Ride<R> = Result<<R as Request>::Answer, Fault>;

#[derive(Debug)]
struct Waiting<R: Request> {
    request: Arc<R>,
    since: Instant,
    answer: oneshot::Sender<Ride<R>>,
}

impl<R: Request> Lanes<R> {
    /// Starts lanes that share one queue, for requests that change nothing. `db` is for what runs
    /// outside of them.
    pub fn shared(options: &PgConnectOptions, lanes: usize, db: &Db) -> Self {
        let (open, count) = (Arc::default(), Arc::default());
        let (sender, queue) = async_channel::bounded(QUEUE);
        for _ in 0..lanes.max(1) {
            tokio::spawn(Lane::new(options, queue.clone(), &open, db, &count).run());
        }
        Self { queues: [sender].into(), count }
    }

    /// Starts lanes with a queue each, for requests that change a row: all that change the same one
    /// take the same lane.
    pub fn apart(options: &PgConnectOptions, lanes: usize, db: &Db) -> Self {
        let count = Arc::default();
        let queues = (0..lanes.max(1)).map(|_| {
            let (sender, queue) = async_channel::bounded(QUEUE);
            // Whoever waits in this queue waits for this lane alone.
            tokio::spawn(Lane::new(options, queue, &Arc::default(), db, &count).run());
            sender
        });
        Self { queues: queues.collect(), count }
    }

    /// What the lanes are at.
    pub fn load(&self) -> Load {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Load {
            lanes: self.queues.len(),
            queued: self.queues.iter().map(async_channel::Sender::len).sum(),
            statements: count(&self.count.statements),
            carried: count(&self.count.carried),
            left: count(&self.count.left),
            overloads: count(&self.count.overloads),
        }
    }

    /// Sends a request through the lane of this number, whatever the number of lanes. Once begun it is
    /// carried to its end, whether or not the caller still waits.
    ///
    /// # Errors
    /// What its run gives; [`Fault::Overloaded`] where the queue is full or the wait too long, and
    /// [`Fault::Unavailable`] where the database cannot be reached.
    pub async fn send(&self, number: usize, request: R) -> Result<R::Answer, Fault> {
        let Some(queue) = self.queues.get(number % self.queues.len().max(1)) else {
            return Err(Fault::Overloaded);
        };
        let (answer, ride) = oneshot::channel();
        let waiting = Waiting { request: Arc::new(request), since: Instant::now(), answer };
        if queue.try_send(waiting).is_err() {
            self.count.overloads.fetch_add(1, Ordering::Relaxed);
            return Err(Fault::Overloaded);
        }
        // The lane drops a request unanswered only when it panicked.
        ride.await.unwrap_or(Err(Fault::Panicked))
    }
}

impl<R: Request> Waiting<R> {
    fn tell(self, ride: Ride<R>) {
        // Nobody waiting any more is no error: the work is done all the same.
        let _ = self.answer.send(ride);
    }

    fn leave(self, db: &Db, count: &Count, missed: bool) {
        count.left.fetch_add(1, Ordering::Relaxed);
        let db = db.clone();
        tokio::spawn(async move {
            let _ = self.answer.send(self.request.run_outside(db, missed).await);
        });
    }
}

struct Lane<R: Request> {
    queue: async_channel::Receiver<Waiting<R>>,
    keeper: Keeper,
    /// For what runs outside of the lane.
    db: Db,
    count: Arc<Count>,
    /// Those that were taken from the queue and wait for their group, in the order they came.
    waiting: VecDeque<Waiting<R>>,
    /// How many may share a statement just now.
    most: usize,
    /// Whether the last group was more than one.
    busy: bool,
}

impl<R: Request> Lane<R> {
    fn new(
        options: &PgConnectOptions,
        queue: async_channel::Receiver<Waiting<R>>,
        open: &Arc<AtomicUsize>,
        db: &Db,
        count: &Arc<Count>,
    ) -> Self {
        let keeper = Keeper::new(options.clone(), open.clone());
        let (db, count) = (db.clone(), count.clone());
        Self { queue, keeper, db, count, waiting: VecDeque::new(), most: GROUP, busy: false }
    }

    async fn run(mut self) {
        // The first request is not to wait for a connection.
        let _ = self.keeper.ready().await;
        while self.fill().await {
            let group = self.take();
            if group.is_empty() {
                continue;
            }
            let Some(held) = self.keeper.ready().await else {
                for waiting in group {
                    waiting.tell(Err(Fault::Unavailable));
                }
                if self.keeper.none_is_open() {
                    self.refuse_all();
                }
                self.keeper.pause().await;
                continue;
            };
            let size = group.len();
            self.busy = size > 1;
            self.count.statements.fetch_add(1, Ordering::Relaxed);
            self.count.carried.fetch_add(u64::try_from(size).unwrap_or(0), Ordering::Relaxed);
            let ran =
                AssertUnwindSafe(carry(held, &self.db, &self.count, group)).catch_unwind().await;
            let (healthy, together) = ran.unwrap_or((false, false));
            self.keeper.used(healthy);
            self.adapt(size, together);
        }
    }

    /// Takes in who waits; whether anybody ever will.
    async fn fill(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.queue.recv().await {
                Ok(first) => self.waiting.push_back(first),
                Err(_) => return false,
            }
        }
        // Where several come at a time, those who are about to come are let in first.
        if self.busy {
            tokio::task::yield_now().await;
        }
        while self.waiting.len() < SIGHT
            && let Ok(next) = self.queue.try_recv()
        {
            self.waiting.push_back(next);
        }
        true
    }

    /// Takes the next group: whoever waits longest, and those behind that may share its statement. A row
    /// is changed once per statement, so a second change waits for the next one; a row that more of
    /// them want goes on outside, where they wait in PostgreSQL and no round trip lies between two.
    fn take(&mut self) -> Vec<Waiting<R>> {
        let mut group: Vec<Waiting<R>> = Vec::new();
        let mut rows = HashMap::new();
        let mut later = VecDeque::new();
        while group.len() < self.most
            && let Some(next) = self.waiting.pop_front()
        {
            if next.answer.is_closed() {
                continue; // The client left before anything was begun.
            }
            if next.since.elapsed() > QUEUE_TIME {
                self.count.overloads.fetch_add(1, Ordering::Relaxed);
                next.tell(Err(Fault::Overloaded));
                continue;
            }
            let fits = group.first().is_none_or(|first| next.request.goes_with(&first.request));
            let nth = next.request.row().map_or(1, |row| {
                let seen = rows.entry(row).or_insert(0);
                *seen += 1;
                *seen
            });
            match nth {
                1 if fits => group.push(next),
                1 | 2 => later.push_back(next),
                _ => next.leave(&self.db, &self.count, false),
            }
        }
        later.append(&mut self.waiting);
        self.waiting = later;
        group
    }

    /// Where groups fail, smaller ones lose less.
    fn adapt(&mut self, size: usize, together: bool) {
        if size > 1 {
            self.most = if together { (self.most + 1).min(GROUP) } else { (size / 2).max(1) };
        } else if self.most == 1 {
            self.most = 2;
        }
    }

    fn refuse_all(&mut self) {
        let queued = std::iter::from_fn(|| self.queue.try_recv().ok());
        self.waiting
            .drain(..)
            .chain(queued)
            .for_each(|waiting| waiting.tell(Err(Fault::Unavailable)));
    }
}

/// Runs a group and answers each of it. Gives whether the connection is well, and whether the group
/// went through as one.
async fn carry<R: Request>(
    held: &mut Held,
    db: &Db,
    count: &Count,
    group: Vec<Waiting<R>>,
) -> (bool, bool) {
    if let [one] = group.as_slice() {
        let ride = match one.request.run(&mut held.conn).await {
            Err(Fault::OutcomeUnknown) => Err(held.settle().await),
            ride => ride,
        };
        let healthy = !matches!(&ride, Err(fault) if fault.breaks_connection());
        // Whoever has time waits for the lock, or for a slow trigger; a lane has none.
        let in_haste = matches!(&ride, Err(Fault::LockTimeout | Fault::StatementTimeout));
        for (waiting, ride) in group.into_iter().zip([ride]) {
            if in_haste { waiting.leave(db, count, false) } else { waiting.tell(ride) }
        }
        return (healthy, true);
    }
    let requests: Vec<_> = group.iter().map(|waiting| &*waiting.request).collect();
    match R::run_together(&mut held.conn, &requests).await {
        Ok(answers) => {
            let answers = answers.into_iter().chain(std::iter::repeat_with(|| None));
            for (waiting, answer) in group.into_iter().zip(answers) {
                match answer {
                    Some(answer) => waiting.tell(Ok(answer)),
                    None => waiting.leave(db, count, true),
                }
            }
            (true, true)
        }
        Err(Fault::OutcomeUnknown) => {
            let fault = held.settle().await;
            for waiting in group {
                waiting.tell(Err(fault.clone()));
            }
            (false, true)
        }
        Err(fault) => {
            // Nothing of it holds: each for itself.
            for waiting in group {
                waiting.leave(db, count, false);
            }
            (!fault.breaks_connection(), false)
        }
    }
}
