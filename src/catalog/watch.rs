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
    let mut seen: Option<String> = None;
    loop {
        let asked = tokio::time::timeout(PERIOD, refresh.notified()).await.is_ok();
        let known = catalog.load().fingerprint.clone();
        let before = seen.take().filter(|_| !asked);
        let look = db.read(move |conn| {
            async move {
                let now = store::snapshot(conn).await?;
                // Where nothing was committed, nothing changed; to ask so costs a twentieth.
                if before.is_some_and(|before| still(&before, &now))
                    || store::fingerprint(conn).await? == known
                {
                    return Ok((now, None));
                }
                Ok::<_, Fault>((now, Some(store::load(conn).await?)))
            }
            .boxed()
        });
        let look = look.await.map(|(now, fresh)| {
            seen = Some(now);
            fresh
        });
        match look {
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

/// Whether no transaction ended between two snapshots, as PostgreSQL writes them: the first number that was
/// still open, the next one to be given, those open in between.
fn still(before: &str, now: &str) -> bool {
    let mut parts = now.split(':');
    let (first, next, open) = (parts.next(), parts.next(), parts.next());
    before == now && first == next && open == Some("")
}

#[cfg(test)]
mod tests {
    use super::still;

    #[test]
    fn a_database_is_still_where_no_transaction_was_begun_or_open() {
        assert!(still("750:750:", "750:750:"));
        assert!(!still("750:750:", "751:751:"));
        assert!(
            !still("750:752:750", "750:752:750"),
            "one that is open may end and leave no trace"
        );
        assert!(!still("750:752:", "750:752:"));
        assert!(!still("", ""));
    }
}
