//! Retention: lets go of history that a resource need not keep, in small steps between which everybody
//! else has the database for themselves.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use sqlx::PgConnection;

use crate::catalog::{Catalog, Retention};
use crate::db::Db;
use crate::db::fault::Fault;

/// How long after the end of one sweep the next one begins.
const SWEEP: Duration = Duration::from_mins(10);
/// How long to let others have the database between two steps.
const PAUSE: Duration = Duration::from_millis(50);
/// How many log rows one step looks at.
const BATCH: i32 = 1000;

/// Sweeps until the task is dropped.
pub async fn run(db: Db, catalog: Arc<ArcSwap<Catalog>>) {
    loop {
        let wanted: Vec<(String, Retention)> = catalog
            .load()
            .resources()
            .filter_map(|resource| Some((resource.name.clone(), resource.settings.retention?)))
            .collect();
        for (resource, retention) in wanted {
            if let Err(fault) = sweep(&db, &resource, retention).await {
                tracing::warn!(resource, ?fault, "the history could not be purged");
            }
        }
        tokio::time::sleep(SWEEP).await;
    }
}

/// Goes once through a resource's log; gives how many rows it let go.
///
/// # Errors
/// Those of the database.
pub async fn sweep(db: &Db, resource: &str, retention: Retention) -> Result<i64, Fault> {
    let (mut place, mut purged) = (None, 0);
    loop {
        let name = resource.to_owned();
        let step =
            db.run(move |conn| async move { step(conn, &name, retention, place).await }.boxed());
        let (next, count) = step.await?;
        purged += i64::from(count);
        match next {
            None => return Ok(purged),
            next => place = next,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

type Place = Option<(String, i32)>;

async fn step(
    conn: &mut PgConnection,
    resource: &str,
    retention: Retention,
    place: Place,
) -> Result<(Place, i32), Fault> {
    let (id, version) = place.unzip();
    let (id, version, purged): (Option<String>, Option<i32>, i32) = sqlx::query_as(
        "SELECT * FROM counterfoil.purge($1, make_interval(days => $2), $3, $4, $5, $6)",
    )
    .bind(resource)
    .bind(retention.days)
    .bind(retention.versions)
    .bind(id)
    .bind(version)
    .bind(BATCH)
    .fetch_one(conn)
    .await?;
    Ok((id.zip(version), purged))
}
