//! Keeps the catalogue of a running server up to date: a look every second at whether an adopted
//! table changed, and at once where a statement found that one did.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use tokio::sync::Notify;

use crate::catalog::{Catalog, store};
use crate::config::Config;
use crate::db::Db;
use crate::db::fault::Fault;

/// How often the database is asked.
const PERIOD: Duration = Duration::from_secs(1);

/// Watches until the task is dropped.
pub async fn run(
    db: Db,
    catalog: Arc<ArcSwap<Catalog>>,
    refresh: Arc<Notify>,
    config: Arc<Config>,
) {
    loop {
        let _ = tokio::time::timeout(PERIOD, refresh.notified()).await;
        let known = catalog.load().fingerprint.clone();
        let fresh = db.read(move |conn| {
            async move {
                if store::fingerprint(conn).await? == known {
                    return Ok(None);
                }
                Ok::<_, Fault>(Some(store::load(conn).await?))
            }
            .boxed()
        });
        match fresh.await {
            Ok(Some(mut fresh)) => {
                // What was checked at start may have been dropped since; the rest still serves.
                for problem in config.apply(&mut fresh) {
                    tracing::warn!(problem, "the configuration no longer fits the catalogue");
                }
                for name in config.exposed(&fresh) {
                    tracing::error!(name, "withheld: a column to hide or protect is gone");
                    fresh.withhold(name);
                }
                tracing::info!(resources = fresh.resources().count(), "the catalogue changed");
                catalog.store(Arc::new(fresh));
            }
            Ok(None) => {}
            Err(fault) => tracing::warn!(?fault, "the catalogue could not be looked at"),
        }
    }
}
