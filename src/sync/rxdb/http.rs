//! `/api/v1/sync/rxdb/{resource}/pull|push|stream`: the handlers that RxDB's replication asks for, in
//! the shapes of its own documentation, without an envelope.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Extension;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::FutureExt as _;
use serde_json::json;
use uuid::Uuid;

use crate::catalog::{Catalog, Resource};
use crate::error::{Code, Error};
use crate::feed::cursor::{Cursor, Keys, Kind};
use crate::feed::http::Asked;
use crate::feed::page::Change;
use crate::feed::snapshot::{self, Place};
use crate::feed::store::{BYTES, Wanted};
use crate::feed::stream::Form;
use crate::feed::stream::http::{Follow, Listener, last_event_id, open};
use crate::feed::{Expired, Filter};
use crate::http::envelope::{RequestId, json_response};
use crate::http::metrics::Metrics;
use crate::http::once::Counted;
use crate::http::{App, request};
use crate::record::answer::Answer;
use crate::record::draft;
use crate::sync::rxdb::{DEFAULT_LIMIT, Push, document, read};
use crate::version::Version;

/// How large the documents of a page may become together, about; then it is filled up with small ones.
const MOST_BYTES: usize = 16 << 20;

/// Asks for what a page of the address takes; the resource, and what follows it alone.
fn find(app: &App, name: &str) -> Result<(Arc<Catalog>, Arc<Resource>, Filter), Error> {
    let catalog = app.catalog.load_full();
    let unknown = || Error::new(Code::NotFound, format!("There is no resource \"{name}\""));
    let resource = catalog.resource(name).cloned().ok_or_else(unknown)?;
    if let Some(obstacle) = document::obstacle(&resource) {
        let message = format!("\"{name}\" cannot be replicated with RxDB: {obstacle}");
        return Err(Error::new(Code::NotFound, message));
    }
    let filter = Filter::read(&catalog, Some(name))?;
    Ok((catalog, resource, filter))
}

/// A cursor of changes or of a first copy.
fn cursor(text: &str, field: &str, filter: &Filter, keys: &Keys) -> Result<Cursor, Error> {
    let read = |kind| Cursor::read(text, field, kind, filter, keys);
    match read(Kind::Pull) {
        Err(error) if error.code() == Code::InvalidCursor => read(Kind::Snapshot),
        read => read,
    }
}

/// `GET /api/v1/sync/rxdb/{resource}/pull`: first the rows as they stand, then the changes. A page that is
/// not full tells RxDB that there is no more.
pub async fn pull(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Response, Error> {
    let (catalog, resource, filter) = find(&app, &name)?;
    let asked = Asked::read(parameters, "cursor", true)?;
    if asked.resources.is_some() {
        let message = "The address names the resource";
        return Err(Error::field(Code::InvalidQuery, "resources", message));
    }
    let limit = asked.limit.unwrap_or(DEFAULT_LIMIT);
    let keys = app.feed.keys();
    let from = asked.cursor.map(|text| cursor(&text, "cursor", &filter, &keys)).transpose()?;
    let mut page = Page { app, catalog, filter, keys, from };
    let mut documents = Vec::with_capacity(limit.min(1000));
    let mut bytes = 0;
    while documents.len() < limit && bytes < MOST_BYTES {
        let (changes, more) = page.next(limit - documents.len()).await?;
        let told = changes.iter().map(|change| tell(&resource, change));
        for document in told {
            bytes += document.len();
            documents.push(document);
        }
        if !more {
            break;
        }
    }
    if bytes >= MOST_BYTES {
        fill(&mut documents, limit);
    }
    let cursor = page.from.map(|cursor| cursor.write(&page.keys));
    let body = format!(
        "{{\"documents\":[{}],\"checkpoint\":{}}}",
        documents.join(","),
        cursor.map_or_else(|| json!(null), |cursor| json!({ "cursor": cursor }))
    );
    Ok(json_response(StatusCode::OK, body))
}

/// Fills a page up with its last document: to RxDB one that is not full is the end, and a document that
/// is told twice is told once.
fn fill(documents: &mut Vec<String>, limit: usize) {
    if let Some(last) = documents.last().cloned() {
        documents.resize(limit.max(documents.len()), last);
    }
}

/// Where a pull is.
struct Page {
    app: App,
    catalog: Arc<Catalog>,
    filter: Filter,
    keys: Arc<Keys>,
    from: Option<Cursor>,
}

impl Page {
    /// The next changes, at most so many, and whether there may be more.
    async fn next(&mut self, limit: usize) -> Result<(Vec<Change>, bool), Error> {
        match &self.from {
            Some(cursor) if cursor.kind == Kind::Pull => self.changes(limit).await,
            _ => self.copy(limit).await,
        }
    }

    async fn changes(&mut self, limit: usize) -> Result<(Vec<Change>, bool), Error> {
        let Some(cursor) = &mut self.from else { return Ok((Vec::new(), false)) };
        let epoch = Some(cursor.epoch);
        let mut wanted = Wanted::new(&self.catalog, &self.filter, epoch, cursor.position);
        wanted.limit = i64::try_from(limit).unwrap_or(i64::MAX);
        (wanted.bytes, wanted.last_rows) = (BYTES, true);
        let read = self
            .app
            .db
            .read(move |conn| async move { crate::feed::store::page(conn, &wanted).await }.boxed());
        let read = read.await.map_err(|fault| self.app.failure(&fault))?;
        let read = read.map_err(|expired| expired.error(&self.filter))?;
        cursor.position = read.position;
        Ok((read.changes, read.has_more))
    }

    async fn copy(&mut self, limit: usize) -> Result<(Vec<Change>, bool), Error> {
        let place =
            self.from.as_ref().and_then(|from| Place::read(&from.place)).unwrap_or_default();
        let filter = self.filter.clone();
        let read = self.app.db.read(move |conn| {
            async move {
                // Ahead of the first row: what changes from now on comes after the cursor.
                let begun = snapshot::store::begin(conn).await?;
                let page = snapshot::store::page(conn, &filter, &place, limit).await?;
                Ok((begun, page))
            }
            .boxed()
        });
        let (begun, (changes, next)) = read.await.map_err(|fault| self.app.failure(&fault))?;
        let mut cursor = match self.from.take() {
            Some(from) if from.epoch != begun.epoch => {
                return Err(Expired::Database.error(&self.filter));
            }
            Some(from) => from,
            None => Cursor::new(Kind::Snapshot, begun.epoch, begun.position, &self.filter),
        };
        match next {
            Some(place) => cursor.place = place.write(),
            // What changed meanwhile is told next.
            None => cursor = Cursor { kind: Kind::Pull, place: Vec::new(), ..cursor },
        }
        self.from = Some(cursor);
        Ok((changes, true))
    }
}

fn tell(resource: &Resource, change: &Change) -> String {
    let row = change.row.as_deref().unwrap_or("{}");
    document::told(resource, row, Version(change.version), change.deleted)
}

/// `POST /api/v1/sync/rxdb/{resource}/push`
pub async fn push(
    State(app): State<App>,
    Path(name): Path<String>,
    Extension(request_id): Extension<RequestId>,
    Query(parameters): Query<Vec<(String, String)>>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Error> {
    let (_, resource, _) = find(&app, &name)?;
    request::demand_json(&headers)?;
    let (mut client, mut on_conflict, mut report) = (None, None, false);
    for (name, value) in &parameters {
        let wrong = |wanted| {
            let message = format!("{name} must be {wanted}");
            Error::field(Code::InvalidQuery, name, message)
        };
        match (name.as_str(), value.as_str()) {
            ("client_id", id) => {
                client = Some(Uuid::parse_str(id).map_err(|_| wrong("a UUID"))?);
            }
            ("on_conflict", word) => on_conflict = draft::on_conflict(word).map_err(wrong)?,
            ("report", "true") => report = true,
            ("report", "false") => report = false,
            ("report", _) => return Err(wrong("true or false")),
            _ => {
                let message = format!("This request takes no parameter \"{name}\"");
                return Err(Error::field(Code::InvalidQuery, name, message));
            }
        }
    }
    let body = request::body(request, app.limits.body).await?;
    let rows = read::read(&resource, &body)?;
    let (actor, became) = (request::actor(&headers), Mutex::default());
    let push = Push {
        resource,
        rows,
        client,
        on_conflict,
        report,
        actor,
        request_id: request_id.as_str().to_owned(),
        became,
    };
    app.carry_out(push, None).await
}

impl Counted for Push {
    fn count(&self, _: &Result<Answer, Error>, metrics: &Metrics) {
        for &became in self.became.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            metrics.write(&self.resource.name, became);
        }
    }
}

/// The events of a client that said how far it read: each moves its checkpoint.
static FOLLOWED: Form = Form {
    name: "rxdb followed",
    event: None,
    last_rows: true,
    data: |filter, changes, cursor, _| event(filter, changes, &json!({ "cursor": cursor })),
};

/// The events of a client that did not: what lies between its last pull and the first of them, only a
/// pull can tell, so its checkpoint stays.
static OVERHEARD: Form = Form {
    name: "rxdb overheard",
    event: None,
    last_rows: true,
    data: |filter, changes, _, _| event(filter, changes, &json!({})),
};

fn event(filter: &Filter, changes: &[Change], checkpoint: &serde_json::Value) -> String {
    let resource = filter.resources.first();
    let told = changes.iter().filter_map(|change| Some(tell(resource?, change)));
    let documents: Vec<_> = told.collect();
    format!("{{\"documents\":[{}],\"checkpoint\":{checkpoint}}}", documents.join(","))
}

/// `GET /api/v1/sync/rxdb/{resource}/stream`
pub async fn stream(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(parameters): Query<Vec<(String, String)>>,
    listener: Listener,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (catalog, _, filter) = find(&app, &name)?;
    let asked = Asked::read(parameters, "cursor", false)?;
    if asked.resources.is_some() {
        let message = "The address names the resource";
        return Err(Error::field(Code::InvalidQuery, "resources", message));
    }
    let keys = app.feed.keys();
    let given = asked.cursor.map(|text| cursor(&text, "cursor", &filter, &keys)).transpose()?;
    let followed = given.as_ref().is_some_and(|cursor| cursor.kind == Kind::Pull);
    let now = || Cursor::new(Kind::Pull, keys.epoch, *app.feed.newest().borrow(), &filter);
    let cursor = match last_event_id(&headers) {
        Some(id) => Cursor::read(&id, "Last-Event-ID", Kind::Pull, &filter, &keys)?,
        None => {
            given.map_or_else(now, |given| Cursor { kind: Kind::Pull, place: Vec::new(), ..given })
        }
    };
    let form = if followed { &FOLLOWED } else { &OVERHEARD };
    let follow = Follow { asked: Some(name), catalog, filter, cursor, announce: true, form };
    open(app, listener, follow).await
}
