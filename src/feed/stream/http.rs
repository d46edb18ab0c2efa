//! `GET /api/v1/sync/stream`: the pages of pull as server-sent events, as they come to be.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

use crate::catalog::Catalog;
use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::feed::cursor::{Cursor, Kind};
use crate::feed::http::Asked;
use crate::feed::stream::{CHANGES, Event, Form, text};
use crate::feed::{Expired, Filter, Position};
use crate::http::App;
use crate::http::envelope::RequestId;
use crate::http::server::Ending;

/// How long a stream is silent at most.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long to wait where the database could not be read.
const PAUSE: Duration = Duration::from_secs(1);
/// How many streams a process holds; the other connections are for requests.
const MOST: usize = 16_000;

static PLACES: Semaphore = Semaphore::const_new(MOST);

/// How many streams are open.
pub fn streams() -> usize {
    MOST - PLACES.available_permits()
}

/// `GET /api/v1/sync/stream`
pub async fn stream(
    State(app): State<App>,
    Query(parameters): Query<Vec<(String, String)>>,
    listener: Listener,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let asked = Asked::read(parameters, "cursor", false)?;
    let catalog = app.catalog.load_full();
    let filter = Filter::read(&catalog, asked.resources.as_deref())?;
    let keys = app.feed.keys();
    let (field, given) = match last_event_id(&headers) {
        Some(id) => ("Last-Event-ID", Some(id)),
        None => ("cursor", asked.cursor),
    };
    let cursor = match given {
        Some(given) => Cursor::read(&given, field, Kind::Pull, &filter, &keys)?,
        None => Cursor::new(Kind::Pull, keys.epoch, Position::default(), &filter),
    };
    let (asked, announce, form) = (asked.resources, false, &CHANGES);
    open(app, listener, Follow { asked, catalog, filter, cursor, announce, form }).await
}

/// Where a browser that comes back stood; the address is that of its beginning.
pub fn last_event_id(headers: &HeaderMap) -> Option<String> {
    let last = headers.get("last-event-id")?;
    Some(String::from_utf8_lossy(last.as_bytes()).into_owned()).filter(|id| !id.is_empty())
}

/// Who listens: what ends it, and the request's id.
pub type Listener = (Option<Extension<Ending>>, Option<Extension<RequestId>>);

/// What a stream follows.
#[derive(Debug)]
pub struct Follow {
    /// The resources as the request names them.
    pub asked: Option<String>,
    /// The catalogue of the moment.
    pub catalog: Arc<Catalog>,
    /// The resources.
    pub filter: Filter,
    /// From where on.
    pub cursor: Cursor,
    /// Whether to tell that place ahead of the first event: a client that comes back must go on from there,
    /// and its address does not name it.
    pub announce: bool,
    /// In which words.
    pub form: &'static Form,
}

/// Opens a stream.
///
/// # Errors
/// `OVERLOADED`, `CURSOR_EXPIRED`, and what the database could not do.
pub async fn open(
    app: App,
    (ending, request_id): Listener,
    follow: Follow,
) -> Result<Response, Error> {
    let Follow { asked, catalog, filter, cursor, announce, form } = follow;
    let place = PLACES.try_acquire().map_err(|_| {
        Error::new(Code::Overloaded, "There are as many streams as this server holds: pull instead")
    })?;
    let mut reader = Reader {
        newest: app.feed.newest(),
        app,
        catalog,
        asked,
        filter,
        form,
        told: cursor.position,
        cursor,
        more: false,
        ended: false,
        spoke: Instant::now(),
        request_id: request_id.map_or_else(String::new, |Extension(id)| id.as_str().to_owned()),
        ending: ending.map(|Extension(ending)| ending),
        _place: place,
    };
    // What is wrong with the cursor is answered before the stream begins.
    let first = reader.read().await.map_err(|fault| reader.app.failure(&fault))?;
    let first = first.map_err(|expired| expired.error(&reader.filter))?;
    let first = reader.take(first);
    let first = if first.is_empty() && announce { reader.place() } else { first };
    let mut first = Some(first).filter(|text| !text.is_empty());
    let events = stream::unfold(reader, move |mut reader| {
        let first = first.take();
        async move {
            let text = match first {
                Some(first) => first,
                None => reader.next().await?,
            };
            Some((Ok::<_, Infallible>(text), reader))
        }
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        // Asks a proxy to pass events on as they come.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// One stream. It is asked for its next event only when the last one has left, so a client that reads
/// slowly has it wait at its cursor.
struct Reader {
    app: App,
    catalog: Arc<Catalog>,
    asked: Option<String>,
    filter: Filter,
    form: &'static Form,
    cursor: Cursor,
    /// The place of the last `id:` that was sent.
    told: Position,
    newest: watch::Receiver<Position>,
    more: bool,
    ended: bool,
    /// When something was last sent.
    spoke: Instant,
    request_id: String,
    ending: Option<Ending>,
    _place: SemaphorePermit<'static>,
}

/// What ended a wait.
enum Woken {
    Ending,
    Newer,
    Silence,
}

impl Reader {
    /// The text of the next event; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended {
                return None;
            }
            if let Err(error) = self.still_fits() {
                return Some(self.reset(&error));
            }
            // Also where much is written for others.
            let silent = self.spoke.elapsed();
            if silent >= HEARTBEAT {
                return Some(self.heartbeat());
            }
            let newest = *self.newest.borrow_and_update();
            if !self.more && newest <= self.cursor.position {
                match self.wait(HEARTBEAT.saturating_sub(silent)).await {
                    Woken::Ending => return None,
                    Woken::Newer | Woken::Silence => continue,
                }
            }
            match self.read().await {
                Ok(Ok(event)) => {
                    let text = self.take(event);
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
                Ok(Err(expired)) => return Some(self.reset(&expired.error(&self.filter))),
                // The database is away for a moment, or has too much to do.
                Err(_) => {
                    if matches!(self.wait(PAUSE).await, Woken::Ending) {
                        return None;
                    }
                }
            }
        }
    }

    async fn wait(&mut self, limit: Duration) -> Woken {
        let Self { newest, ending, .. } = self;
        let ends = async {
            match ending {
                Some(ending) => ending.begun().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ends => Woken::Ending,
            changed = newest.changed() => if changed.is_ok() { Woken::Newer } else { Woken::Ending },
            () = tokio::time::sleep(limit) => Woken::Silence,
        }
    }

    async fn read(&self) -> Result<Result<Event, Expired>, Fault> {
        let Self { app, catalog, filter, cursor, form, newest, .. } = self;
        let newest = *newest.borrow();
        app.reads.read(&app.db, &app.feed.keys(), catalog, filter, (cursor, form), newest).await
    }

    fn take(&mut self, event: Event) -> Bytes {
        self.cursor.position = event.position;
        self.more = event.more;
        if !event.text.is_empty() {
            (self.told, self.spoke) = (event.position, Instant::now());
        }
        event.text
    }

    /// Whether the log and the resources are still those of the cursor.
    fn still_fits(&mut self) -> Result<(), Error> {
        if self.app.feed.keys().epoch != self.cursor.epoch {
            return Err(Expired::Database.error(&self.filter));
        }
        let catalog = self.app.catalog.load();
        if !Arc::ptr_eq(&catalog, &self.catalog) {
            self.catalog = catalog.clone();
            let filter = Filter::read(&self.catalog, self.asked.as_deref());
            self.filter = filter.map_err(|_| Expired::Resources.error(&self.filter))?;
            if self.filter.logs() != self.cursor.logs {
                return Err(Expired::Resources.error(&self.filter));
            }
        }
        Ok(())
    }

    /// A comment; and where the cursor moved past what was for others, an `id:` that is no event.
    fn heartbeat(&mut self) -> Bytes {
        self.spoke = Instant::now();
        if self.told == self.cursor.position {
            return Bytes::from_static(b":\n\n");
        }
        self.place()
    }

    /// An `id:` that is no event.
    fn place(&mut self) -> Bytes {
        self.told = self.cursor.position;
        Bytes::from(format!(":\nid: {}\n\n", self.cursor.write(&self.app.feed.keys())))
    }

    /// Tells the client to start again; the last event.
    fn reset(&mut self, error: &Error) -> Bytes {
        self.ended = true;
        text(
            Some("reset"),
            None,
            &serde_json::json!({ "error": error.envelope(&self.request_id) }).to_string(),
        )
    }
}
