//! Lanes: a lane is a task that owns its connection and takes everything that waits as one statement.
//! There is no timer: while one statement runs, the next group fills. Who is alone waits for nobody.
//!
//! What may share a statement, and what the statement is, says the [`Request`]. Whatever is not as the
//! others of its group is handed back, to be run by itself elsewhere; so it cannot hold the lane up.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::FutureExt as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::oneshot;
use tokio::time::Instant;

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

    /// Runs one by itself.
    fn run(
        &self,
        conn: &mut PgConnection,
    ) -> impl Future<Output = Result<Option<Self::Answer>, Fault>> + Send;

    /// Runs several as one statement. Gives an answer for each, in their order; `None` for those that
    /// are to be run elsewhere. With an error, nothing of any of them may hold.
    fn run_together(
        conn: &mut PgConnection,
        group: &[&Self],
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, Fault>> + Send;
}

/// What became of a request.
#[derive(Debug)]
pub enum Ride<R: Request> {
    /// It was run, and came to this.
    Done(R, Result<R::Answer, Fault>),
    /// It was not run, or missed: it is to be run by itself.
    Alone(R),
    /// It was refused ahead of its run, or the lane failed over it.
    Lost(Fault),
}

/// Lanes for one kind of request. They end when the last handle is dropped and their queues are empty.
#[derive(Debug)]
pub struct Lanes<R: Request> {
    queues: Arc<[async_channel::Sender<Waiting<R>>]>,
}

impl<R: Request> Clone for Lanes<R> {
    fn clone(&self) -> Self {
        Self { queues: self.queues.clone() }
    }
}

#[derive(Debug)]
struct Waiting<R: Request> {
    request: R,
    since: Instant,
    answer: oneshot::Sender<Ride<R>>,
}

impl<R: Request> Lanes<R> {
    /// Starts lanes that share one queue, for requests that change nothing.
    pub fn shared(options: &PgConnectOptions, lanes: usize) -> Self {
        let open = Arc::new(AtomicUsize::new(0));
        let (sender, queue) = async_channel::bounded(QUEUE);
        for _ in 0..lanes.max(1) {
            tokio::spawn(Lane::new(options, queue.clone(), &open).run());
        }
        Self { queues: [sender].into() }
    }

    /// Starts lanes with a queue each, for requests that change a row: all that change the same one
    /// take the same lane.
    pub fn apart(options: &PgConnectOptions, lanes: usize) -> Self {
        let open = Arc::new(AtomicUsize::new(0));
        let queues = (0..lanes.max(1)).map(|_| {
            let (sender, queue) = async_channel::bounded(QUEUE);
            tokio::spawn(Lane::new(options, queue, &open).run());
            sender
        });
        Self { queues: queues.collect() }
    }

    /// Sends a request through the lane of this number, whatever the number of lanes. Once begun it is
    /// carried to its end, whether or not the caller still waits.
    pub async fn send(&self, number: u64, request: R) -> Ride<R> {
        let lanes = u64::try_from(self.queues.len()).unwrap_or(1).max(1);
        let lane = usize::try_from(number % lanes).unwrap_or(0);
        let Some(queue) = self.queues.get(lane) else { return Ride::Alone(request) };
        let (answer, ride) = oneshot::channel();
        if queue.try_send(Waiting { request, since: Instant::now(), answer }).is_err() {
            return Ride::Lost(Fault::Overloaded);
        }
        // The lane drops a request unanswered only when it panicked.
        ride.await.unwrap_or(Ride::Lost(Fault::Panicked))
    }
}

impl<R: Request> Waiting<R> {
    fn tell(self, result: Result<R::Answer, Fault>) {
        // Nobody waiting any more is no error: the work is done all the same.
        let _ = self.answer.send(Ride::Done(self.request, result));
    }

    fn hand_back(self) {
        let _ = self.answer.send(Ride::Alone(self.request));
    }

    fn refuse(self, fault: Fault) {
        let _ = self.answer.send(Ride::Lost(fault));
    }
}

struct Lane<R: Request> {
    queue: async_channel::Receiver<Waiting<R>>,
    keeper: Keeper,
    /// Those that were taken from the queue and wait for their group, in the order they came.
    waiting: VecDeque<Waiting<R>>,
    /// How many may share a statement just now.
    most: usize,
}

impl<R: Request> Lane<R> {
    fn new(
        options: &PgConnectOptions,
        queue: async_channel::Receiver<Waiting<R>>,
        open: &Arc<AtomicUsize>,
    ) -> Self {
        let keeper = Keeper::new(options.clone(), open.clone());
        Self { queue, keeper, waiting: VecDeque::new(), most: GROUP }
    }

    async fn run(mut self) {
        while self.fill().await {
            let group = take(&mut self.waiting, self.most);
            if group.is_empty() {
                continue;
            }
            let Some(held) = self.keeper.ready().await else {
                group.into_iter().for_each(|waiting| waiting.refuse(Fault::Unavailable));
                if self.keeper.none_is_open() {
                    self.refuse_all();
                }
                self.keeper.pause().await;
                continue;
            };
            let count = group.len();
            let ran = AssertUnwindSafe(carry(held, group)).catch_unwind().await;
            let (healthy, together) = ran.unwrap_or((false, false));
            self.keeper.used(healthy);
            self.adapt(count, together);
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
        while self.waiting.len() < SIGHT
            && let Ok(next) = self.queue.try_recv()
        {
            self.waiting.push_back(next);
        }
        true
    }

    /// Where groups fail, smaller ones lose less.
    fn adapt(&mut self, count: usize, together: bool) {
        if count > 1 {
            self.most = if together { (self.most + 1).min(GROUP) } else { (count / 2).max(1) };
        } else if self.most == 1 {
            self.most = 2;
        }
    }

    fn refuse_all(&mut self) {
        let queued = std::iter::from_fn(|| self.queue.try_recv().ok());
        self.waiting.drain(..).chain(queued).for_each(|waiting| waiting.refuse(Fault::Unavailable));
    }
}

/// Takes the next group: whoever waits longest, and those behind that may share its statement. A row
/// is changed once per statement, and by those who want to change it in the order they came.
fn take<R: Request>(waiting: &mut VecDeque<Waiting<R>>, most: usize) -> Vec<Waiting<R>> {
    let mut group: Vec<Waiting<R>> = Vec::new();
    let mut rows = HashSet::new();
    let mut later = VecDeque::new();
    while group.len() < most
        && let Some(next) = waiting.pop_front()
    {
        if next.answer.is_closed() {
            continue; // The client left before anything was begun.
        }
        if next.since.elapsed() > QUEUE_TIME {
            next.refuse(Fault::Overloaded);
            continue;
        }
        let fits = group.first().is_none_or(|first| next.request.goes_with(&first.request));
        let first_of_its_row = next.request.row().is_none_or(|row| rows.insert(row));
        if fits && first_of_its_row {
            group.push(next);
        } else {
            later.push_back(next);
        }
    }
    later.append(waiting);
    *waiting = later;
    group
}

/// Runs a group and answers each of it. Gives whether the connection is well, and whether the group
/// went through as one.
async fn carry<R: Request>(held: &mut Held, mut group: Vec<Waiting<R>>) -> (bool, bool) {
    if group.len() == 1
        && let Some(one) = group.pop()
    {
        let result = match one.request.run(&mut held.conn).await {
            Err(Fault::OutcomeUnknown) => Err(held.settle().await),
            result => result,
        };
        let healthy = !matches!(&result, Err(fault) if fault.breaks_connection());
        match result {
            Ok(Some(answer)) => one.tell(Ok(answer)),
            Ok(None) => one.hand_back(),
            Err(fault) => one.tell(Err(fault)),
        }
        return (healthy, true);
    }
    let requests: Vec<_> = group.iter().map(|waiting| &waiting.request).collect();
    match R::run_together(&mut held.conn, &requests).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for waiting in group {
                match answers.next().flatten() {
                    Some(answer) => waiting.tell(Ok(answer)),
                    None => waiting.hand_back(),
                }
            }
            (true, true)
        }
        Err(Fault::OutcomeUnknown) => {
            let fault = held.settle().await;
            group.into_iter().for_each(|waiting| waiting.tell(Err(fault.clone())));
            (false, true)
        }
        Err(fault) => {
            // Nothing of it holds: each for itself.
            group.into_iter().for_each(Waiting::hand_back);
            (!fault.breaks_connection(), false)
        }
    }
}
