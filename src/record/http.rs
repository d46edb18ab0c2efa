//! The routes of records (API.md sections 3 and 4).

use std::fmt::Write as _;

use axum::extract::{Request, State};
use axum::http::header::{ETAG, LINK};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::FutureExt as _;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::error::{Code, Error};
use crate::heavy;
use crate::http::App;
use crate::http::envelope;
use crate::http::request::{self, Target};
use crate::json;
use crate::merge::Resolve;
use crate::precondition::{Precondition, Standing};
use crate::record::answer::Context;
use crate::record::store::{self, Found};
use crate::record::{
    Change, Row, Verb, Write, body, conflict, history, increment, list as page,
    patch as json_patch, query,
};
use crate::version::{Tag, Version};

/// The media types that PATCH takes.
const PATCH_TYPES: &str =
    "application/merge-patch+json, application/json, application/json-patch+json";

/// `GET /{resource}/{id}`
pub async fn read(State(app): State<App>, target: Target) -> Result<Response, Error> {
    let key = target.key()?;
    let precondition = target.precondition()?;
    let resource = target.resource.clone();
    let found = match Wanted::read(&target)? {
        Wanted::Now(select) => {
            let read = app.db.run(move |conn| {
                async move { store::read(conn, &resource, &key, select).await }.boxed()
            });
            read.await
        }
        Wanted::At(version) => {
            let read = app.db.run(move |conn| {
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
    let resource = target.resource.clone();
    let page = app
        .db
        .run(move |conn| async move { page::read(conn, &resource, &query, count).await }.boxed());
    let page = page.await.map_err(|fault| app.failure(&fault))??;
    let next = page.next.as_deref().map_or(serde_json::Value::Null, Into::into);
    let body = format!("{{\"data\":{},\"page\":{{\"next\":{next}}}}}", page.rows);
    let mut response = envelope::json_response(StatusCode::OK, body);
    let headers = response.headers_mut();
    if let Some(next) = &page.next {
        set(headers, LINK.as_str(), &format!("<{}>; rel=\"next\"", next_address(&target, next)));
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

/// The same list from the cursor on.
fn next_address(target: &Target, next: &str) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    let mut address = format!("/api/v1/{}?", target.resource.name);
    for (name, value) in target.parameters.iter().filter(|(name, _)| name != "after") {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let _ = write!(address, "{}={}&", encode(name), encode(value));
    }
    address + "after=" + next
}

/// `POST /{resource}`
pub async fn create(
    State(app): State<App>,
    target: Target,
    request: Request,
) -> Result<Response, Error> {
    request::demand_json(&target.headers)?;
    let precondition = target.precondition()?;
    let options = Options::read(&target)?;
    let bytes = request::body(request, app.limits.body).await?;
    let change = json::read_object(&bytes)
        .and_then(|members| body::create(&target.resource, None, members))
        .map(Change::Create);
    let draft = Draft { key: None, verb: Verb::Create, change, precondition, options };
    write(&app, &target, draft).await
}

/// `PUT /{resource}/{id}`
pub async fn replace(
    State(app): State<App>,
    target: Target,
    request: Request,
) -> Result<Response, Error> {
    let key = target.key()?;
    request::demand_json(&target.headers)?;
    let precondition = target.precondition()?;
    let options = Options::read(&target)?;
    let bytes = request::body(request, app.limits.body).await?;
    let members = json::read_object(&bytes);
    let (verb, change) = if precondition.demands_absence() {
        let body = members.and_then(|m| body::create(&target.resource, Some(&key), m));
        (Verb::Create, body.map(Change::Create))
    } else {
        let body = members.and_then(|m| body::replace(&target.resource, &key, m));
        (Verb::Replace, body.map(Change::Replace))
    };
    write(&app, &target, Draft { key: Some(key), verb, change, precondition, options }).await
}

/// `PATCH /{resource}/{id}`
pub async fn patch(
    State(app): State<App>,
    target: Target,
    request: Request,
) -> Result<Response, Error> {
    let key = target.key()?;
    let media_type = request::media_type(&target.headers);
    if !PATCH_TYPES.split(", ").any(|taken| taken == media_type) && !media_type.is_empty() {
        let refused = request::unsupported(&media_type, PATCH_TYPES);
        return Err(refused.header("accept-patch", PATCH_TYPES));
    }
    let precondition = target.precondition()?;
    let options = Options::read(&target)?;
    let bytes = request::body(request, app.limits.body).await?;
    let change = read_patch(&target.resource, &key, &media_type, &bytes);
    let key = Some(key);
    write(&app, &target, Draft { key, verb: Verb::Patch, change, precondition, options }).await
}

fn read_patch(
    resource: &Resource,
    key: &Key,
    media_type: &str,
    bytes: &Bytes,
) -> Result<Change, Error> {
    if media_type == "application/json-patch+json" {
        return json_patch::read(bytes).map(Change::JsonPatch);
    }
    let merge = media_type == "application/merge-patch+json";
    let members = json::read_object(bytes)?;
    body::patch(resource, key, members, merge).map(Change::Patch)
}

/// `DELETE /{resource}/{id}`
pub async fn delete(State(app): State<App>, target: Target) -> Result<Response, Error> {
    let key = Some(target.key()?);
    let precondition = target.precondition()?;
    let options = Options::read(&target)?;
    let change = Ok(Change::Delete);
    write(&app, &target, Draft { key, verb: Verb::Delete, change, precondition, options }).await
}

/// `POST /{resource}/{id}/increment`
pub async fn increment(
    State(app): State<App>,
    target: Target,
    request: Request,
) -> Result<Response, Error> {
    let key = Some(target.key()?);
    request::demand_json(&target.headers)?;
    let precondition = target.precondition()?;
    let options = Options::read(&target)?;
    let bytes = request::body(request, app.limits.body).await?;
    let change = increment::read(&target.resource, &bytes).map(Change::Increment);
    write(&app, &target, Draft { key, verb: Verb::Increment, change, precondition, options }).await
}

/// A write as the request has it, before it is handed to the database.
struct Draft {
    key: Option<Key>,
    verb: Verb,
    change: Result<Change, Error>,
    precondition: Precondition,
    options: Options,
}

impl Draft {
    /// Lets the write fail, where the record is there, for want of an `If-Match` that the resource
    /// insists on. That comes ahead of what `If-None-Match` says and of what the body says.
    fn demand_if_match(&mut self, resource: &Resource) {
        let needed = self.verb != Verb::Create && self.precondition.if_match.is_none();
        if resource.settings.require_if_match && needed {
            let message =
                "This resource takes no write without If-Match: read the record and send its ETag";
            self.change = Err(Error::new(Code::PreconditionRequired, message));
            self.precondition = Precondition::default();
        }
    }
}

/// The parameters of a write.
#[derive(Default)]
struct Options {
    dry_run: bool,
    on_conflict: Option<Resolve>,
}

impl Options {
    /// Reads `dry_run` and `on_conflict`. A write that ignored a word of its request would do
    /// something else than was asked, so nothing else may stand there.
    fn read(target: &Target) -> Result<Self, Error> {
        let mut options = Self::default();
        for (name, value) in &target.parameters {
            let wrong = |wanted: &str| {
                Error::field(Code::InvalidQuery, name, format!("{name} must be {wanted}"))
            };
            match (name.as_str(), value.as_str()) {
                ("dry_run", "true" | "") => options.dry_run = true,
                ("dry_run", "false") => {}
                ("dry_run", _) => return Err(wrong("true or false")),
                ("on_conflict", "fail") => options.on_conflict = None,
                ("on_conflict", "merge") => options.on_conflict = Some(Resolve::Fail),
                ("on_conflict", "merge_mine") => options.on_conflict = Some(Resolve::Mine),
                ("on_conflict", "merge_theirs") => options.on_conflict = Some(Resolve::Theirs),
                ("on_conflict", _) => {
                    return Err(wrong("fail, merge, merge_mine or merge_theirs"));
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

async fn write(app: &App, target: &Target, mut draft: Draft) -> Result<Response, Error> {
    draft.demand_if_match(&target.resource);
    let Draft { key, verb, change, precondition, options } = draft;
    let Options { dry_run, on_conflict } = options;
    let resource = target.resource.clone();
    let actor = target.actor();
    let write = Write {
        resource,
        key: key.clone(),
        verb,
        change,
        precondition,
        on_conflict,
        actor,
        dry_run,
    };
    let outcome =
        app.db.run(move |conn| async move { store::write(conn, &write).await }.boxed()).await;
    let outcome = outcome.map_err(|fault| app.failure(&fault))?;
    let (resource, key) = (&*target.resource, key.as_ref());
    let minimal = target.prefers("return=minimal");
    let context = Context { resource, key, verb, minimal };
    let answer = heavy::compute(outcome.size(), || context.answer(outcome));
    Ok(answer?.into_response())
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
