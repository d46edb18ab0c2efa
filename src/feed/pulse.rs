//! One task per process looks at the end of the log, so that no reader has to: it tells streams when
//! there is something to read, and everybody how far the feed lags behind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use tokio::sync::watch;

use crate::db::Db;
use crate::db::fault::Fault;
use crate::feed::cursor::Keys;
use crate::feed::{Position, store};

/// How often the log is looked at where this process wrote nothing.
const PERIOD: Duration = Duration::from_secs(1);
/// How much time there is between two looks, however much is written.
const PAUSE: Duration = Duration::from_millis(100);
/// How many foreign changes one step settles.
const BATCH: i32 = 2000;
/// How many looks are remembered: a transaction that was open for longer lags by that much at least.
const LOOKS: usize = 4096;

/// What all readers of a process share.
#[derive(Debug)]
pub struct Feed {
    keys: ArcSwap<Keys>,
    newest: watch::Sender<Position>,
    lag_ms: AtomicI64,
}

impl Feed {
    /// The feed of the database that has these keys.
    pub fn new(keys: Keys) -> Arc<Self> {
        let newest = watch::Sender::new(Position::default());
        Arc::new(Self { keys: ArcSwap::from_pointee(keys), newest, lag_ms: AtomicI64::new(0) })
    }

    /// What signs cursors.
    pub fn keys(&self) -> Arc<Keys> {
        self.keys.load_full()
    }

    /// For how long the oldest open writing transaction has kept later changes from being read, in
    /// milliseconds.
    pub fn lag_ms(&self) -> i64 {
        self.lag_ms.load(Ordering::Relaxed)
    }

    /// Tells of the newest place that can be read; one notice may stand for many changes.
    pub fn newest(&self) -> watch::Receiver<Position> {
        self.newest.subscribe()
    }

    /// Looks until the task is dropped.
    pub async fn run(self: Arc<Self>, db: Db) {
        let mut horizon = Horizon::default();
        let mut settled = false;
        loop {
            if !settled {
                settled = settle(&db).await;
            }
            match db.read(|conn| async move { store::look(conn).await }.boxed()).await {
                Ok(look) => {
                    let another = look.keys.epoch != self.keys.load().epoch;
                    if another {
                        tracing::warn!(
                            "the database was restored or replaced: all cursors have ended"
                        );
                        settled = false;
                    }
                    self.keys.store(Arc::new(look.keys));
                    let lag = horizon.lag(look.horizon, look.next).max(look.lag_ms);
                    self.lag_ms.store(lag, Ordering::Relaxed);
                    self.newest.send_if_modified(|newest| {
                        std::mem::replace(newest, look.newest) != look.newest || another
                    });
                }
                Err(fault) => tracing::warn!(?fault, "the change log could not be looked at"),
            }
            tokio::time::sleep(PAUSE).await;
            let idle = PERIOD.saturating_sub(PAUSE);
            if self.newest.receiver_count() == 0 {
                tokio::time::sleep(idle).await;
            } else {
                let _ = tokio::time::timeout(idle, db.written()).await;
            }
        }
    }
}

/// Gives changes of another cluster a place in this one's order; whether all have it.
async fn settle(db: &Db) -> bool {
    loop {
        match db.run(|conn| async move { store::settle_foreign(conn, BATCH).await }.boxed()).await {
            Ok(0) => return true,
            Ok(_) => tokio::time::sleep(PAUSE).await,
            Err(fault) => {
                tracing::warn!(?fault, "restored changes could not be settled");
                return matches!(fault, Fault::Forbidden);
            }
        }
    }
}

/// How long the horizon has stood, by what was seen of it. PostgreSQL shows a session's age only to
/// roles that may see it; this needs no right at all.
#[derive(Debug, Default)]
struct Horizon {
    /// When the next transaction's number was which, oldest first.
    seen: VecDeque<(Instant, u64)>,
}

impl Horizon {
    /// Milliseconds since a look at which transactions up to the horizon were the next to begin.
    fn lag(&mut self, horizon: u64, next: u64) -> i64 {
        let now = Instant::now();
        // Looks that the horizon has passed say nothing any more.
        while self.seen.front().is_some_and(|(_, next)| *next <= horizon) {
            self.seen.pop_front();
        }
        if self.seen.len() == LOOKS {
            // The oldest one counts; those after it may become sparse.
            self.seen.remove(1);
        }
        let since = self.seen.front().map_or(now, |(at, _)| *at);
        self.seen.push_back((now, next));
        i64::try_from((now - since).as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_lags_from_the_first_look_that_it_has_not_passed() {
        let mut horizon = Horizon::default();
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        horizon.seen = [(ago(30), 100), (ago(20), 105), (ago(10), 110)].into();
        // Transaction 102 is open: it had begun by the second look.
        assert_eq!(horizon.lag(102, 120) / 1000, 20);
        assert_eq!(horizon.lag(110, 120), 0);
    }
}
