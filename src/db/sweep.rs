//! Lets go of rows whose time is over, in small steps between which writers have the database for
//! themselves.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sqlx::PgConnection;

use crate::db::Db;
use crate::db::fault::Fault;

/// How long to wait before a sweep.
const SWEEP: Duration = Duration::from_mins(1);
/// How long to let others have the database between two steps.
const PAUSE: Duration = Duration::from_millis(50);
/// How many rows one step lets go of.
const BATCH: i32 = 500;

/// One step: lets go of at most so many rows and gives how many there were.
pub type Step = for<'c> fn(&'c mut PgConnection, i32) -> BoxFuture<'c, Result<i32, Fault>>;

/// Sweeps until the task is dropped.
pub async fn run(db: Db, step: Step) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if let Err(fault) = sweep(&db, step).await {
            tracing::warn!(?fault, "what is over could not be purged");
        }
    }
}

/// Lets go of all that is over; gives how many rows there were.
///
/// # Errors
/// Those of the database.
pub async fn sweep(db: &Db, step: Step) -> Result<i64, Fault> {
    let mut purged = 0;
    loop {
        let gone = db.run(move |conn| async move { step(conn, BATCH).await }.boxed()).await?;
        purged += i64::from(gone);
        if gone < BATCH {
            return Ok(purged);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
