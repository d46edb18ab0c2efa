//! The routes of operations (API.md section 7).

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::FutureExt as _;
use serde_json::json;
use uuid::Uuid;

use crate::error::{Code, Error};
use crate::http::{App, envelope, request};
use crate::json;
use crate::operation::settle;
use crate::operation::store::{self, Listed, Settlement};

/// How many operations a page holds where nothing is said.
const LIMIT: i64 = 50;
/// How many a page may hold.
const MOST: i64 = 1000;
/// The states of an operation.
pub const STATUSES: [&str; 5] = ["running", "retryable", "completed", "rejected", "blocked"];

type Parameters = Query<Vec<(String, String)>>;

/// `GET /api/v1/operations`
pub async fn list(
    State(app): State<App>,
    Query(parameters): Parameters,
) -> Result<Response, Error> {
    let listed = read_list(&parameters)?;
    let page = page(&app, listed).await?;
    let rows = page.operations.join(",");
    let body = format!(r#"{{"data":[{rows}],"page":{{"next":{}}}}}"#, json!(page.next));
    Ok(envelope::json_response(StatusCode::OK, body))
}

/// Operations, newest first.
#[derive(Debug)]
pub struct Page {
    /// Each as JSON text.
    pub operations: Vec<String>,
    /// The last one's id, where there may be more.
    pub next: Option<String>,
}

/// Reads a page.
///
/// # Errors
/// What the database could not do.
pub async fn page(app: &App, listed: Listed) -> Result<Page, Error> {
    let limit = listed.limit;
    let found = app.db.read(move |conn| async move { store::list(conn, &listed).await }.boxed());
    let found = found.await.map_err(|fault| app.failure(&fault))?;
    let full = i64::try_from(found.len()) == Ok(limit);
    let next = found.last().filter(|_| full).map(|(id, _)| id.clone());
    Ok(Page { operations: found.into_iter().map(|(_, operation)| operation).collect(), next })
}

/// Reads the parameters of a list.
///
/// # Errors
/// `INVALID_QUERY`, `INVALID_CURSOR`.
pub fn read_list(parameters: &[(String, String)]) -> Result<Listed, Error> {
    let mut listed = Listed { tenant: String::new(), status: None, after: None, limit: LIMIT };
    for (name, value) in parameters {
        let wrong = |wanted: &str| {
            Error::field(Code::InvalidQuery, name, format!("{name} must be {wanted}"))
        };
        match name.as_str() {
            "status" if STATUSES.contains(&value.as_str()) => listed.status = Some(value.clone()),
            "status" => return Err(wrong(&STATUSES.join(", "))),
            "after" => {
                let id = Uuid::parse_str(value).map_err(|_| {
                    Error::field(Code::InvalidCursor, name, "after must be a page's next")
                })?;
                listed.after = Some(id.to_string());
            }
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
                listed.limit = limit.ok_or_else(|| wrong("a number from 1 to 1000"))?;
            }
            _ => {
                let message = format!("This request takes no parameter \"{name}\"");
                return Err(Error::field(Code::InvalidQuery, name, message));
            }
        }
    }
    Ok(listed)
}

/// `GET /api/v1/operations/{id}`
pub async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(envelope::data(StatusCode::OK, &find(&app, &id).await?))
}

/// One operation as JSON text.
///
/// # Errors
/// `INVALID_ID`, `NOT_FOUND`, and what the database could not do.
pub async fn find(app: &App, id: &str) -> Result<String, Error> {
    let id = read_id(id)?;
    let found = app.db.read(move |conn| async move { store::show(conn, "", &id).await }.boxed());
    found.await.map_err(|fault| app.failure(&fault))?.ok_or_else(missing)
}

/// `POST /api/v1/operations/{id}/retry`: the next request under its key runs it again.
pub async fn retry(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Error> {
    let (status, note) = read_settlement(&request::body(request, app.limits.body).await?)?;
    if status.is_some() {
        return Err(unknown_member("status"));
    }
    let settlement = Settlement::retry(note, request::actor(&headers));
    Ok(envelope::data(StatusCode::OK, &settled(&app, &id, settlement).await?))
}

/// `POST /api/v1/operations/{id}/resolve`: it is over, as `{"status": "completed"}` or `"rejected"`.
pub async fn resolve(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Error> {
    let (status, note) = read_settlement(&request::body(request, app.limits.body).await?)?;
    let actor = request::actor(&headers);
    let settlement = Settlement::resolve(&id, status.as_deref(), note, actor)?;
    Ok(envelope::data(StatusCode::OK, &settled(&app, &id, settlement).await?))
}

/// Settles a blocked operation and gives it as JSON text.
///
/// # Errors
/// `TRANSITION_CONFLICT` where it is not blocked; else as [`find`].
pub async fn settled(app: &App, id: &str, settlement: Settlement) -> Result<String, Error> {
    let id = read_id(id)?;
    let settled = app.db.run(move |conn| {
        async move {
            let settled = store::settle(conn, "", &id, &settlement).await?;
            // A statement of its own says why nothing was settled.
            let there = settled.is_some() || store::show(conn, "", &id).await?.is_some();
            Ok((settled, there))
        }
        .boxed()
    });
    match settled.await.map_err(|fault| app.failure(&fault))? {
        (Some(operation), _) => Ok(operation),
        (None, false) => Err(missing()),
        (None, true) => Err(Error::new(Code::TransitionConflict, "The operation is not blocked")),
    }
}

/// Reads `{"status": …, "note": …}`, both of which may be left out.
fn read_settlement(bytes: &[u8]) -> Result<(Option<String>, String), Error> {
    let (mut status, mut note) = (None, String::new());
    let members = if bytes.is_empty() { Vec::new() } else { json::read_object(bytes)? };
    for (name, value) in members {
        let text = || {
            serde_json::from_str::<String>(value.get()).map_err(|_| {
                Error::field(Code::InvalidValue, &name, format!("{name} must be a text"))
            })
        };
        match name.as_str() {
            "status" => status = Some(text()?),
            "note" => note = settle::note(&text()?)?,
            _ => return Err(unknown_member(&name)),
        }
    }
    Ok((status, note))
}

fn unknown_member(name: &str) -> Error {
    Error::field(Code::UnknownField, name, format!("This request has no member \"{name}\""))
}

fn read_id(id: &str) -> Result<String, Error> {
    let id = Uuid::parse_str(id);
    id.map(|id| id.to_string())
        .map_err(|_| Error::new(Code::InvalidId, "The id of an operation is a UUID"))
}

fn missing() -> Error {
    Error::new(Code::NotFound, "There is no operation with this id")
}
