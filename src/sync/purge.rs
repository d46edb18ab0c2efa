//! Lets go of the results of mutations whose time is over. A client's line stays.

use futures_util::FutureExt as _;

use crate::db::Db;
use crate::db::fault::Fault;
use crate::db::sweep;
use crate::sync::store;

/// How results are swept.
pub const STEP: sweep::Step = |conn, most| store::purge(conn, most).boxed();

/// Lets go of all that is expired; gives how many there were.
///
/// # Errors
/// Those of the database.
pub async fn sweep(db: &Db) -> Result<i64, Fault> {
    sweep::sweep(db, STEP).await
}
