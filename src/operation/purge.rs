//! Lets go of operations whose time is over, in small steps between which writers have the database
//! for themselves.

use std::time::Duration;

use futures_util::FutureExt as _;

use crate::db::Db;
use crate::db::fault::Fault;
use crate::operation::store;

/// How long to wait before a sweep.
const SWEEP: Duration = Duration::from_mins(1);
/// How long to let others have the database between two steps.
const PAUSE: Duration = Duration::from_millis(50);
/// How many operations one step lets go of.
const BATCH: i32 = 500;

/// Sweeps until the task is dropped.
pub async fn run(db: Db) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if let Err(fault) = sweep(&db).await {
            tracing::warn!(?fault, "operations could not be purged");
        }
    }
}

/// Lets go of all that is expired; gives how many there were.
///
/// # Errors
/// Those of the database.
pub async fn sweep(db: &Db) -> Result<i64, Fault> {
    let mut purged = 0;
    loop {
        let step = db.run(|conn| async move { store::purge(conn, BATCH).await }.boxed()).await?;
        purged += i64::from(step);
        if step < BATCH {
            return Ok(purged);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
