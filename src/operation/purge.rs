//! Lets go of operations whose time is over.

use futures_util::FutureExt as _;

use crate::db::Db;
use crate::db::fault::Fault;
use crate::db::sweep;
use crate::operation::store;

/// How operations are swept.
pub const STEP: sweep::Step = |conn, most| store::purge(conn, most).boxed();

/// Lets go of all that is expired; gives how many there were.
///
/// # Errors
/// Those of the database.
pub async fn sweep(db: &Db) -> Result<i64, Fault> {
    sweep::sweep(db, STEP).await
}
