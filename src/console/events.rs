//! Tells the page of an open record when somebody saves it, as a server-sent event. Each stream looks
//! at its record's version once a second, through the same queue as every request; it holds no
//! connection in between, and ends with the client, with the record, or with the server.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{FutureExt as _, stream};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::catalog::key::Key;
use crate::console::here::Here;
use crate::console::reply::Failure;
use crate::http::App;
use crate::http::server::Ending;
use crate::record::history;
use crate::record::store::{self, Found};
use crate::version::Version;

/// How often a record is looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// How many open records are watched at once; further pages do without.
const MOST: usize = 256;

static PLACES: Semaphore = Semaphore::const_new(MOST);

/// `GET /console/{resource}/{id}/events?version=7`
pub(super) async fn stream(
    State(app): State<App>,
    ending: Option<Extension<Ending>>,
    here: Here,
) -> Result<Response, Failure> {
    let key = here.key()?;
    let Ok(place) = PLACES.try_acquire() else {
        // To a browser this says: do not come back.
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let watch = Watch {
        seen: here.version("version"),
        ended: false,
        app,
        here,
        key,
        ending: ending.map(|Extension(ending)| ending),
        _place: place,
    };
    let events = stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    let alive = KeepAlive::new().interval(Duration::from_secs(15));
    Ok(Sse::new(events).keep_alive(alive).into_response())
}

/// One open page's look at its record.
struct Watch {
    app: App,
    here: Here,
    key: Key,
    /// The version that the page knows.
    seen: Option<Version>,
    ended: bool,
    ending: Option<Ending>,
    _place: SemaphorePermit<'static>,
}

impl Watch {
    /// Waits for the next version; `None` where there is nothing more to wait for.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.ended || self.is_ending().await {
                return None;
            }
            // A database that is away for a moment is asked again.
            let Ok(found) = self.look().await else {
                continue;
            };
            match found {
                Found::Missing => return None,
                Found::Gone(gone) => {
                    self.ended = true;
                    return Some(event("deleted", gone.version, &gone.by.by));
                }
                Found::Row(row) if self.seen.is_none_or(|seen| seen == row.version) => {
                    self.seen = Some(row.version);
                }
                Found::Row(row) => {
                    self.seen = Some(row.version);
                    return Some(event("saved", row.version, &self.author(row.version).await));
                }
            }
        }
    }

    /// Waits for the next look; whether the server ends meanwhile.
    async fn is_ending(&mut self) -> bool {
        if let Some(ending) = &mut self.ending {
            return tokio::time::timeout(PERIOD, ending.begun()).await.is_ok();
        }
        tokio::time::sleep(PERIOD).await;
        false
    }

    async fn look(&self) -> Result<Found, crate::db::fault::Fault> {
        let (resource, key) = (self.here.resource.clone(), self.key.clone());
        let only = Some(vec![resource.version]);
        let read = self.app.db.read(move |conn| {
            async move { store::read(conn, &resource, &key, only).await }.boxed()
        });
        read.await
    }

    /// Who saved a version; empty where the change log does not say.
    async fn author(&self, version: Version) -> String {
        let (resource, key) = (self.here.resource.clone(), self.key.clone());
        let read = self.app.db.read(move |conn| {
            async move { history::read(conn, &resource, &key, None, 1).await }.boxed()
        });
        let newest = read.await.unwrap_or_default().0.pop();
        let newest = newest.filter(|entry| entry.version == version.0);
        newest.map_or_else(String::new, |entry| entry.by.unwrap_or_default())
    }
}

fn event(name: &str, version: Version, by: &str) -> Event {
    let data = json!({ "version": version.0, "by": by });
    Event::default().event(name).id(version.to_string()).data(data.to_string())
}
