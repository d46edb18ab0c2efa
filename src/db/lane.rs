//! Lanes: a lane is a task that owns its connection and takes everything that waits as one statement.
//! There is no timer: while one statement runs, the next group fills. Who is alone waits for nobody.
//!
//! What may share a statement, and what the statement is, says the [`Request`]. Whoever would have to wait
//! for somebody's lock runs by itself on the connections of [`Db`]; so it cannot hold the lane up.

mod pace;
mod queue;
mod ride;

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

use crate::db::Db;
use crate::db::fault::Fault;
use crate::db::held::Keeper;
use crate::db::lane::pace::Pace;
use crate::db::lane::queue::{Pick, Queue};
use crate::db::lane::ride::Ride;

/// How long a request may wait for its turn.
const QUEUE_TIME: Duration = Duration::from_secs(5);

/// How many wait before another lane comes to the help of one at work.
const CROWD: usize = 16;

/// How long a statement takes usually, at the most. Who comes while a slower one runs does not wait for its
/// lane where there is another.
const SOON: Duration = Duration::from_millis(1);

/// How often those who wait behind a long statement are looked after.
const LOOK: Duration = Duration::from_secs(1);

/// What a lane carries.
pub trait Request: Debug + Send + Sync + Sized + 'static {
    /// What comes of it.
    type Answer: Debug + Send;

    /// What befell a request of whose statement nothing was heard any more.
    const LOST: Fault;

    /// Whose request it is. Parties take turns, however many requests each of them has.
    fn party(&self) -> Mark;

    /// Whether both may be one statement.
    fn goes_with(&self, other: &Self) -> bool;

    /// What it changes, of which a group may hold one alone; `None` for a request that changes nothing.
    fn row(&self) -> Option<Mark>;

    /// Runs one by itself, in the lane.
    fn run(
        &self,
        conn: &mut PgConnection,
    ) -> impl Future<Output = Result<Self::Answer, Fault>> + Send;

    /// Runs one by itself, outside of the lane.
    fn run_outside(
        self: Arc<Self>,
        db: Db,
        left: Left,
    ) -> impl Future<Output = Result<Self::Answer, Fault>> + Send;

    /// Runs several as one statement. Gives an answer for each, in their order; `None` for those that
    /// found no row. With an error, nothing of any of them may hold.
    fn run_together(
        conn: &mut PgConnection,
        group: &[&Self],
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, Fault>> + Send;

    /// Explains, as one statement, why those of a group that found no row did not. Gives for each, in their
    /// order, its answer or why it is to run outside.
    fn explain_together(
        conn: &mut PgConnection,
        group: &[&Self],
    ) -> impl Future<Output = Result<Vec<Result<Self::Answer, Left>>, Fault>> + Send;
}

/// Why a request runs outside of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It was in a statement that found no row for it.
    Missed,
    /// It will wait for others, whom it met or is one of.
    Waits,
    /// Its neighbours were in the way.
    Apart,
}

/// Stands for something that is only ever compared. Two things may have the same mark, seldom enough:
/// they then share a turn, or merely never a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(pub u64);

impl Mark {
    /// The mark of anything.
    pub fn of(thing: impl Hash) -> Self {
        Self(BuildHasherDefault::<DefaultHasher>::default().hash_one(thing))
    }
}

/// Lanes for one kind of request. They end when this is dropped and their lines are empty.
#[derive(Debug)]
pub struct Lanes<R: Request> {
    lines: Vec<Arc<Line<R>>>,
    /// How many lanes take from them.
    width: usize,
    count: Arc<Count>,
}

impl<R: Request> Drop for Lanes<R> {
    fn drop(&mut self) {
        for line in &self.lines {
            line.lock().ended = true;
            line.news.notify_waiters();
        }
    }
}

/// Those who wait for a lane, or for one of several.
#[derive(Debug)]
struct Line<R: Request> {
    state: Mutex<State<R>>,
    news: Notify,
}

#[derive(Debug)]
struct State<R: Request> {
    queue: Queue<Waiting<R>>,
    ended: bool,
    /// How many lanes run a group of it, and since when the latest does.
    running: usize,
    began: Instant,
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

/// How many lanes there are, and the size of their groups where it is not for them to find.
type Size = (usize, Option<usize>);

/// What became of a request.
type Became<R> = Result<<R as Request>::Answer, Fault>;

#[derive(Debug)]
struct Waiting<R: Request> {
    request: Arc<R>,
    since: Instant,
    answer: oneshot::Sender<Became<R>>,
}

impl<R: Request> Lanes<R> {
    /// Starts lanes that share one line, for requests that change nothing. `db` is for what runs
    /// outside of them.
    pub fn shared(options: &PgConnectOptions, (lanes, group): Size, db: &Db) -> Self {
        let (open, count, line) = (Arc::default(), Arc::default(), Line::new());
        for _ in 0..lanes.max(1) {
            tokio::spawn(Lane::new(options, line.clone(), &open, db, &count).of(group).run());
        }
        Self { lines: vec![line], width: lanes.max(1), count }
    }

    /// Starts lanes with a line each, for requests that change a row: all that change the same one
    /// take the same lane.
    pub fn apart(options: &PgConnectOptions, (lanes, group): Size, db: &Db) -> Self {
        let count = Arc::default();
        let every = (0..lanes.max(1)).map(|_| {
            let line = Line::new();
            // Whoever waits in this line waits for this lane alone.
            tokio::spawn(
                Lane::new(options, line.clone(), &Arc::default(), db, &count).of(group).run(),
            );
            line
        });
        Self { lines: every.collect(), width: lanes.max(1), count }
    }

    /// What the lanes are at.
    pub fn load(&self) -> Load {
        let Self { lines, width, count } = self;
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Load {
            lanes: *width,
            queued: lines.iter().map(|line| line.lock().queue.len()).sum(),
            statements: read(&count.statements),
            carried: read(&count.carried),
            left: read(&count.left),
            overloads: read(&count.overloads),
        }
    }

    /// Sends a request through the lane of this number, whatever the number of lanes. Once begun it is
    /// carried to its end, whether or not the caller still waits.
    ///
    /// # Errors
    /// What its run gives; [`Fault::Overloaded`] where the line is full or the wait too long, and
    /// [`Fault::Unavailable`] where the database cannot be reached.
    pub async fn send(&self, number: usize, request: R) -> Result<R::Answer, Fault> {
        let Self { lines, count, .. } = self;
        let Some(line) = lines.get(number % lines.len().max(1)) else {
            return Err(Fault::Overloaded);
        };
        let (answer, became) = oneshot::channel();
        let party = request.party();
        let since = Instant::now();
        let waiting = Waiting { request: Arc::new(request), since, answer };
        match line.lock().let_in(party, waiting) {
            Err(_) => {
                count.overloads.fetch_add(1, Ordering::Relaxed);
                return Err(Fault::Overloaded);
            }
            Ok(true) => line.news.notify_one(),
            Ok(false) => {}
        }
        // The lane drops a request unanswered only when it panicked.
        became.await.unwrap_or(Err(Fault::Panicked))
    }
}

impl<R: Request> Line<R> {
    fn new() -> Arc<Self> {
        let state =
            State { queue: Queue::default(), ended: false, running: 0, began: Instant::now() };
        Arc::new(Self { state: Mutex::new(state), news: Notify::new() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Request> State<R> {
    /// Lets one in, and says whether a lane is to be called; gives it back where there is no room.
    fn let_in(&mut self, party: Mark, waiting: Waiting<R>) -> Result<bool, Waiting<R>> {
        let now = waiting.since;
        self.queue.push(party.0, waiting)?;
        Ok(self.calls(now))
    }

    /// Whether a lane is to come for those who wait: where one is at work already and will be back soon,
    /// only if they are a crowd. Fewer lanes make larger groups.
    fn calls(&self, now: Instant) -> bool {
        let crowd = self.queue.len() >= CROWD * self.running;
        crowd || now.saturating_duration_since(self.began) > SOON
    }
}

impl<R: Request> Waiting<R> {
    fn tell(self, became: Became<R>) {
        // Nobody waiting any more is no error: the work is done all the same.
        let _ = self.answer.send(became);
    }

    fn leave(self, db: &Db, count: &Count, left: Left) {
        count.left.fetch_add(1, Ordering::Relaxed);
        let db = db.clone();
        tokio::spawn(async move {
            let _ = self.answer.send(self.request.run_outside(db, left).await);
        });
    }
}

struct Lane<R: Request> {
    line: Arc<Line<R>>,
    keeper: Keeper,
    /// For what runs outside of the lane.
    db: Db,
    count: Arc<Count>,
    pace: Pace,
    /// Whether the last group was more than one.
    busy: bool,
}

/// What a lane does next with one that it took from the line.
enum Turn {
    Ride,
    /// Its client left before anything was begun.
    Abandoned,
    Expired,
    Outside,
}

impl<R: Request> Lane<R> {
    fn new(
        options: &PgConnectOptions,
        line: Arc<Line<R>>,
        open: &Arc<AtomicUsize>,
        db: &Db,
        count: &Arc<Count>,
    ) -> Self {
        let keeper = Keeper::new(options.clone(), open.clone());
        let (db, count) = (db.clone(), count.clone());
        Self { line, keeper, db, count, pace: Pace::default(), busy: false }
    }

    /// Runs groups of this size at the most, whatever it measures.
    fn of(mut self, group: Option<usize>) -> Self {
        self.pace = group.map_or_else(Pace::default, Pace::fixed);
        self
    }

    async fn run(mut self) {
        // The first request is not to wait for a connection.
        let _ = self.keeper.ready().await;
        while let Some(group) = self.next().await {
            let Some(held) = self.keeper.ready().await else {
                self.line.lock().running -= 1;
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
            let carried = {
                let run = Ride { held, db: &self.db, count: &self.count, locks: 0 }.carry(group);
                let mut run = pin!(AssertUnwindSafe(run).catch_unwind());
                loop {
                    if let Ok(carried) = timeout(LOOK, &mut run).await {
                        break carried.unwrap_or_default();
                    }
                    expire(&self.line, &self.count);
                    self.line.news.notify_one();
                }
            };
            self.line.lock().running -= 1;
            self.keeper.used(carried.healthy);
            match carried.took {
                Some(took) => self.pace.ran(size, took),
                None => self.pace.failed(size),
            }
        }
    }

    /// The next group; `None` when nobody will ever come.
    async fn next(&mut self) -> Option<Vec<Waiting<R>>> {
        // Where several come at a time, those who are about to come are let in first.
        if self.busy {
            tokio::task::yield_now().await;
        }
        loop {
            let group = self.take();
            if !group.is_empty() {
                return Some(group);
            }
            let news = {
                let state = self.line.lock();
                match (state.queue.len(), state.ended) {
                    (0, true) => return None,
                    (0, false) => self.line.news.notified(),
                    _ => continue,
                }
            };
            news.await;
        }
    }

    /// Takes the next group: whoever's turn it is, and those behind that may share its statement. A row
    /// is changed once per statement, so a second change waits for the next one; a row that more of
    /// them want goes on outside, where they wait in PostgreSQL and no round trip lies between two.
    fn take(&self) -> Vec<Waiting<R>> {
        let most = self.pace.most();
        let mut turns = Vec::new();
        let mut first: Option<Arc<R>> = None;
        let mut rows = HashMap::new();
        let now = Instant::now();
        let mut state = self.line.lock();
        let taken = state.queue.take(most, |next| {
            if next.answer.is_closed() {
                turns.push(Turn::Abandoned);
                return Pick::Take;
            }
            if now.saturating_duration_since(next.since) > QUEUE_TIME {
                turns.push(Turn::Expired);
                return Pick::Take;
            }
            let nth = next.request.row().map_or(1, |row| {
                let nth = rows.entry(row).or_insert(0);
                *nth += 1;
                *nth
            });
            let fits = first.as_ref().is_none_or(|first| next.request.goes_with(first));
            match nth {
                1 if fits => {
                    first.get_or_insert_with(|| next.request.clone());
                    turns.push(Turn::Ride);
                    Pick::Take
                }
                1 | 2 => Pick::Stay,
                _ => {
                    turns.push(Turn::Outside);
                    Pick::Take
                }
            }
        });
        if turns.iter().any(|turn| matches!(turn, Turn::Ride)) {
            state.running += 1;
            state.began = now;
        }
        let more = state.queue.len() > 0 && state.calls(now);
        drop(state);
        if more {
            // One notice may have stood for all who came.
            self.line.news.notify_one();
        }
        let mut group = Vec::with_capacity(taken.len());
        for (waiting, turn) in taken.into_iter().zip(turns) {
            match turn {
                Turn::Ride => group.push(waiting),
                Turn::Outside => waiting.leave(&self.db, &self.count, Left::Waits),
                Turn::Abandoned => {}
                Turn::Expired => {
                    self.count.overloads.fetch_add(1, Ordering::Relaxed);
                    waiting.tell(Err(Fault::Overloaded));
                }
            }
        }
        group
    }

    fn refuse_all(&self) {
        let refused: Vec<_> = self.line.lock().queue.take_all().collect();
        for waiting in refused {
            waiting.tell(Err(Fault::Unavailable));
        }
    }
}

/// Turns away those who have waited too long.
fn expire<R: Request>(line: &Line<R>, count: &Count) {
    let now = Instant::now();
    let late = |waiting: &Waiting<R>| now.saturating_duration_since(waiting.since) > QUEUE_TIME;
    let expired = line.lock().queue.take_all_who(late);
    for waiting in expired {
        count.overloads.fetch_add(1, Ordering::Relaxed);
        waiting.tell(Err(Fault::Overloaded));
    }
}
