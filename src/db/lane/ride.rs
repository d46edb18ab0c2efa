//! The way of one group through the database: as one statement, by halves where that fails, and what missed to
//! its explanation.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::db::Db;
use crate::db::fault::Fault;
use crate::db::held::Held;
use crate::db::lane::{Count, Left, Request, Waiting};

/// How long to wait for a statement. PostgreSQL ends it long before; this is for a connection that nothing
/// comes back on any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many times the parts of one group may wait for a lock in vain.
const LOCKS: usize = 16;

/// How a group went.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Whether the connection is well.
    pub(super) healthy: bool,
    /// How long its statement took; `None` where it did not go through as one.
    pub(super) took: Option<Duration>,
}

/// One group on its way.
pub(super) struct Ride<'a> {
    pub(super) held: &'a mut Held,
    pub(super) db: &'a Db,
    pub(super) count: &'a Count,
    /// How many times it waited for a lock in vain.
    pub(super) locks: usize,
}

impl Ride<'_> {
    /// Runs a group and answers each of it.
    pub(super) async fn carry<R: Request>(mut self, group: Vec<Waiting<R>>) -> Carried {
        let began = Instant::now();
        let size = group.len();
        let mut missed = Vec::new();
        // What is still to be run, each part as one statement, the next one last.
        let mut parts = vec![group];
        let (mut healthy, mut whole) = (true, true);
        while let Some(part) = parts.pop() {
            if !healthy {
                self.part_with(part, Left::Apart);
                continue;
            }
            let (left, well) = self.run(part, &mut missed).await;
            healthy = well;
            if let Some(mut left) = left {
                whole = false;
                // Nothing of it holds. Whoever it is about is found by halves, and the others go on.
                let half = left.split_off(left.len() / 2);
                parts.extend([half, left]);
            }
        }
        // A lone request that failed tells nothing about groups.
        let took = (whole || size == 1).then(|| began.elapsed());
        if !missed.is_empty() {
            healthy = self.explain(missed, healthy).await;
        }
        Carried { healthy, took }
    }

    /// Runs one part as one statement and answers each of it, but for those it gives back to be tried in
    /// smaller parts. Gives whether the connection is well.
    async fn run<R: Request>(
        &mut self,
        part: Vec<Waiting<R>>,
        missed: &mut Vec<Waiting<R>>,
    ) -> (Option<Vec<Waiting<R>>>, bool) {
        if let [one] = part.as_slice() {
            let became = limited::<R, _>(one.request.run(&mut self.held.conn)).await;
            let became = match became {
                Err(Fault::OutcomeUnknown) => Err(self.held.settle().await),
                became => became,
            };
            let healthy = !matches!(&became, Err(fault) if fault.breaks_connection());
            // Whoever has time waits for the lock, or for a slow trigger; a lane has none.
            let in_haste = matches!(&became, Err(Fault::LockTimeout | Fault::StatementTimeout));
            self.locks += usize::from(in_haste);
            for (waiting, became) in part.into_iter().zip([became]) {
                if in_haste {
                    waiting.leave(self.db, self.count, Left::Waits);
                } else {
                    waiting.tell(became);
                }
            }
            return (None, healthy);
        }
        let requests: Vec<_> = part.iter().map(|waiting| &*waiting.request).collect();
        match limited::<R, _>(R::run_together(&mut self.held.conn, &requests)).await {
            Ok(answers) => {
                missed.extend(tell(part, answers));
                (None, true)
            }
            Err(Fault::OutcomeUnknown) => {
                let fault = self.held.settle().await;
                for waiting in part {
                    waiting.tell(Err(fault.clone()));
                }
                (None, false)
            }
            Err(fault) => {
                let healthy = !fault.breaks_connection();
                self.locks += usize::from(fault == Fault::LockTimeout);
                // To look for who is slow, or for a lock that all want, takes longer than others can wait.
                let patient = fault != Fault::StatementTimeout && self.locks < LOCKS;
                if healthy && patient {
                    return (Some(part), true);
                }
                self.part_with(part, Left::Apart);
                (None, healthy)
            }
        }
    }

    /// Explains why these found no row. Gives whether the connection is well.
    async fn explain<R: Request>(&mut self, missed: Vec<Waiting<R>>, healthy: bool) -> bool {
        let requests: Vec<_> = missed.iter().map(|waiting| &*waiting.request).collect();
        let explained = if healthy {
            limited::<R, _>(R::explain_together(&mut self.held.conn, &requests)).await
        } else {
            Err(R::LOST)
        };
        let (answers, healthy) = match explained {
            Ok(answers) => (answers, healthy),
            Err(fault) => (Vec::new(), healthy && !fault.breaks_connection()),
        };
        let answers = answers.into_iter().chain(std::iter::repeat_with(|| Err(Left::Missed)));
        for (waiting, answer) in missed.into_iter().zip(answers) {
            match answer {
                Ok(answer) => waiting.tell(Ok(answer)),
                Err(left) => waiting.leave(self.db, self.count, left),
            }
        }
        healthy
    }

    fn part_with<R: Request>(&self, part: Vec<Waiting<R>>, left: Left) {
        for waiting in part {
            waiting.leave(self.db, self.count, left);
        }
    }
}

/// Waits for a statement while anything may still come of it.
async fn limited<R: Request, T>(
    statement: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    timeout(PATIENCE, statement).await.unwrap_or(Err(R::LOST))
}

/// Tells those who have an answer; gives the others.
fn tell<R: Request>(group: Vec<Waiting<R>>, answers: Vec<Option<R::Answer>>) -> Vec<Waiting<R>> {
    let answers = answers.into_iter().chain(std::iter::repeat_with(|| None));
    let told = group.into_iter().zip(answers).filter_map(|(waiting, answer)| match answer {
        Some(answer) => {
            waiting.tell(Ok(answer));
            None
        }
        None => Some(waiting),
    });
    told.collect()
}
