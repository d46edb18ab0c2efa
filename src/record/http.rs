//! The routes of records (API.md sections 3 and 4).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Request, State};
use axum::http::header::{ETAG, LINK};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::FutureExt as _;

use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::heavy;
use crate::http::App;
use crate::http::envelope::{self, set};
use crate::http::metrics::Metrics;
use crate::http::once::{Asks, Counted};
use crate::http::request::{self, Target};
use crate::merge::Resolve;
use crate::precondition::{Precondition, Standing};
use crate::record::answer::{Answer, Context};
use crate::record::became::Became;
use crate::record::draft::{self, Draft};
use crate::record::lane::Read;
use crate::record::list::Page;
use crate::record::list::ids::Ids;
use crate::record::run::store::Single;
use crate::record::store::Found;
use crate::record::{Row, Run, conflict, history, list as page, query};
use crate::version::{Tag, Version};

/// `GET /{resource}/{id}`
pub async fn read(State(app): State<App>, target: Target) -> Result<Response, Error> {
    let key = target.key()?;
    let precondition = target.precondition()?;
    let resource = target.resource.clone();
    let found = match Wanted::read(&target)? {
        Wanted::Now(select) => {
            let keys = vec![key];
            let found = app.lanes.read(Read { resource, keys, select, party: target.party() });
            found.await.map(|found| found.into_iter().next().unwrap_or(Found::Missing))
        }
        Wanted::At(version) => {
            let read = app.db.read(move |conn| {
                async move { history::read_version(conn, &resource, &key, version).await }.boxed()
            });
            read.await
        }
    };
    match found.map_err(|fault| app.failure(&fault))? {
        Found::Missing => Err(conflict::missing(&target.resource)),
        Found::Gone(gone) => Err(conflict::gone(gone)),
        Found::Row(row) => Ok(answer_read(&precondition, row)),
    }
}

/// What a read of one record is to show.
enum Wanted {
    /// The record as it stands, all of it or these columns.
    Now(Option<Vec<usize>>),
    /// The record at this version.
    At(Version),
}

impl Wanted {
    fn read(target: &Target) -> Result<Self, Error> {
        match target.parameters.as_slice() {
            [] => Ok(Self::Now(None)),
            [(name, value)] if name == "select" => {
                Ok(Self::Now(Some(query::select(&target.resource, value)?)))
            }
            [(name, value)] if name == "version" => {
                let version = Tag { weak: false, opaque: value }.read(true).ok_or_else(|| {
                    Error::field(
                        Code::InvalidQuery,
                        name,
                        "version must be the number of a version",
                    )
                })?;
                Ok(Self::At(version))
            }
            [(name, _), ..] => {
                let message = "This request takes select or version, one of them and once";
                Err(Error::field(Code::InvalidQuery, name, message))
            }
        }
    }
}

/// A read under preconditions: 304 where the client has this version already (RFC 9110 §13.1.2).
fn answer_read(precondition: &Precondition, row: Row) -> Response {
    let mut response = match precondition.standing(row.version) {
        Standing::Holds => envelope::data(StatusCode::OK, &row.json),
        Standing::Unwanted => StatusCode::NOT_MODIFIED.into_response(),
        Standing::Stale => return conflict::unmet(row).into_response(),
    };
    set(response.headers_mut(), ETAG.as_str(), &Tag::write(row.version));
    response
}

/// `GET /{resource}`
pub async fn list(State(app): State<App>, target: Target) -> Result<Response, Error> {
    let query = query::read(&target.resource, &target.parameters)?;
    let count = target.prefers("count=exact");
    let first = query.after.is_none();
    let named = named(&app, &target, &query, count).await.map_err(|fault| app.failure(&fault))?;
    let page = if let Some(page) = named {
        page
    } else {
        let resource = target.resource.clone();
        let read = app.db.read(move |conn| {
            async move { page::read(conn, &resource, &query, count).await }.boxed()
        });
        read.await.map_err(|fault| app.failure(&fault))??
    };
    let next = page.next.as_deref().map_or(serde_json::Value::Null, Into::into);
    let body = format!("{{\"data\":{},\"page\":{{\"next\":{next}}}}}", page.rows);
    let mut response = envelope::json_response(StatusCode::OK, body);
    let headers = response.headers_mut();
    if let Some(next) = &page.next {
        set(headers, LINK.as_str(), &target.next_page(next));
    }
    if let Some(total) = page.total {
        let range = match page.length {
            length if first && length > 0 => format!("0-{}", length - 1),
            _ => "*".to_owned(),
        };
        set(headers, "content-range", &format!("{range}/{total}"));
        set(headers, "preference-applied", "count=exact");
    }
    Ok(response)
}

/// A list that names its records; `None` for any other, and where they are more than a page has room for.
async fn named(
    app: &App,
    target: &Target,
    query: &query::Query,
    count: bool,
) -> Result<Option<Page>, Fault> {
    let resource = target.resource.clone();
    let Some(Ids { keys, descending }) = Ids::of(&resource, query) else { return Ok(None) };
    let read = Read { resource, keys, select: query.select.clone(), party: target.party() };
    let page = Page::of(app.lanes.read(read).await?, descending, count);
    let fits = page.rows.len() <= page::BYTES.unsigned_abs().try_into().unwrap_or(usize::MAX);
    target.resource.large.store(!fits, Ordering::Relaxed);
    Ok(fits.then_some(page))
}

/// `POST /{resource}`
pub async fn create(
    State(app): State<App>,
    target: Target,
    request: Request,
) -> Result<Response, Error> {
    request::demand_json(&target.headers)?;
    let Opened { precondition, options, bytes } = Opened::read(&app, &target, request).await?;
    let draft = Draft::create(&target.resource, precondition, &bytes);
    write(&app, &target, draft, options, &bytes).await
}

/// `PUT /{resource}/{id}`
pub async fn replace(
    State(app): State<App>,
    target: Target,
    request: Request,
) -> Result<Response, Error> {
    let key = target.key()?;
    request::demand_json(&target.headers)?;
    let Opened { precondition, options, bytes } = Opened::read(&app, &target, request).await?;
    let draft = Draft::replace(&target.resource, key, precondition, &bytes);
    write(&app, &target, draft, options, &bytes).await
}

/// `PATCH /{resource}/{id}`
pub async fn patch(
    State(app): State<App>,
    target: Target,
    request: Request,
) -> Result<Response, Error> {
    let key = target.key()?;
    let media_type = request::media_type(&target.headers);
    draft::demand_patch_type(&media_type)?;
    let Opened { precondition, options, bytes } = Opened::read(&app, &target, request).await?;
    let draft = Draft::patch(&target.resource, key, precondition, &media_type, &bytes);
    write(&app, &target, draft, options, &bytes).await
}

/// `DELETE /{resource}/{id}`
pub async fn delete(State(app): State<App>, target: Target) -> Result<Response, Error> {
    let draft = Draft::delete(target.key()?, target.precondition()?);
    let options = Options::read(&target)?;
    write(&app, &target, draft, options, b"").await
}

/// `POST /{resource}/{id}/increment`
pub async fn increment(
    State(app): State<App>,
    target: Target,
    request: Request,
) -> Result<Response, Error> {
    let key = target.key()?;
    request::demand_json(&target.headers)?;
    let Opened { precondition, options, bytes } = Opened::read(&app, &target, request).await?;
    let draft = Draft::increment(&target.resource, key, precondition, &bytes);
    write(&app, &target, draft, options, &bytes).await
}

/// What a write with a body has in common with every other.
struct Opened {
    precondition: Precondition,
    options: Options,
    bytes: Bytes,
}

impl Opened {
    /// Reads it in the order in which it is judged.
    async fn read(app: &App, target: &Target, request: Request) -> Result<Self, Error> {
        let precondition = target.precondition()?;
        let options = Options::read(target)?;
        let bytes = request::body(request, app.limits.body).await?;
        Ok(Self { precondition, options, bytes })
    }
}

/// The parameters of a write.
#[derive(Default)]
struct Options {
    dry_run: bool,
    on_conflict: Option<Resolve>,
}

impl Options {
    /// Reads `dry_run`, and for PUT and PATCH `on_conflict`. A write that ignored a word of its request would do
    /// something else than was asked, so nothing else may stand there.
    fn read(target: &Target) -> Result<Self, Error> {
        let mut options = Self::default();
        let merges = matches!(target.method, Method::PUT | Method::PATCH);
        let mut seen = std::collections::HashSet::new();
        for (name, value) in &target.parameters {
            if !seen.insert(name) {
                let message = format!("{name} stands twice in the query");
                return Err(Error::field(Code::InvalidQuery, name, message));
            }
            let wrong = |wanted: &str| {
                Error::field(Code::InvalidQuery, name, format!("{name} must be {wanted}"))
            };
            match (name.as_str(), value.as_str()) {
                ("dry_run", "true" | "") => options.dry_run = true,
                ("dry_run", "false") => {}
                ("dry_run", _) => return Err(wrong("true or false")),
                ("on_conflict", word) if merges => {
                    options.on_conflict = draft::on_conflict(word).map_err(wrong)?;
                }
                _ => {
                    let message = format!("This request takes no parameter \"{name}\"");
                    return Err(Error::field(Code::InvalidQuery, name, message));
                }
            }
        }
        Ok(options)
    }
}

async fn write(
    app: &App,
    target: &Target,
    draft: Draft,
    options: Options,
    body: &[u8],
) -> Result<Response, Error> {
    let Options { dry_run, on_conflict } = options;
    let Target { method, uri, headers, request_id, .. } = target;
    let request_id = request_id.as_str();
    let claim = app.claim("write", &Asks { method, uri, headers, body, request_id })?;
    // What writes nothing may be asked any number of times.
    let claim = claim.filter(|_| !dry_run);
    let run = match &claim {
        _ if dry_run => Run::Rehearsal,
        Some(_) => Run::Within,
        None => Run::Alone,
    };
    let write = draft.into_write(target.resource.clone(), on_conflict, target.actor(), run);
    let minimal = target.prefers("return=minimal");
    if claim.is_some() {
        return app.carry_out(Single { write, minimal }, claim).await;
    }
    let write = Arc::new(write);
    let outcome = app.apply(&write).await?;
    let context = Context::of(&write, minimal);
    Ok(heavy::compute(outcome.size(), || context.answer(outcome))?.into_response())
}

impl Counted for Single {
    fn count(&self, answer: &Result<Answer, Error>, metrics: &Metrics) {
        metrics.write(&self.write.resource.name, Became::of(answer));
    }
}
