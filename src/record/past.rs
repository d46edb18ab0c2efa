//! The routes of a record's past and of its possible future (API.md sections 3 and 4.3): history, and
//! the preview of a merge.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::LINK;
use axum::response::Response;
use futures_util::FutureExt as _;
use serde_json::json;
use serde_json::value::RawValue;

use crate::catalog::Resource;
use crate::error::{Code, Error};
use crate::heavy;
use crate::http::request::{self, Target};
use crate::http::{App, envelope};
use crate::json::{self, member};
use crate::merge::Resolve;
use crate::precondition::{Condition, Precondition};
use crate::record::history::{self, Entry};
use crate::record::query::{DEFAULT_LIMIT, limit};
use crate::record::store::Found;
use crate::record::{Change, Conflict, Outcome, Run, Verb, Write, body, conflict, store};
use crate::version::Version;

/// `GET /{resource}/{id}/history`
pub async fn history(State(app): State<App>, target: Target) -> Result<Response, Error> {
    let key = target.key()?;
    let (mut most, mut before) = (DEFAULT_LIMIT, None);
    for (name, value) in &target.parameters {
        match name.as_str() {
            "limit" => most = limit(value)?,
            "after" => before = Some(cursor(value)?),
            _ => {
                let message = format!("This request takes no parameter \"{name}\"");
                return Err(Error::field(Code::InvalidQuery, name, message));
            }
        }
    }
    let resource = target.resource.clone();
    let read = app.db.read(move |conn| {
        async move {
            let (entries, more) = history::read(conn, &resource, &key, before, most).await?;
            // A record that nobody wrote since its table was adopted has no history yet.
            let known = before.is_some()
                || !entries.is_empty()
                || matches!(store::read(conn, &resource, &key, None).await?, Found::Row(_));
            Ok(known.then_some((entries, more)))
        }
        .boxed()
    });
    let read = read.await.map_err(|fault| app.failure(&fault))?;
    let (entries, more) = read.ok_or_else(|| conflict::missing(&target.resource))?;
    let next = entries.last().filter(|_| more).map(|entry: &Entry| entry.version.to_string());
    // Rows stay the text that PostgreSQL made of them.
    let rows = serde_json::to_string(&entries)
        .map_err(|_| Error::new(Code::Internal, "The history could not be written"))?;
    let body = format!("{{\"data\":{rows},\"page\":{}}}", json!({ "next": next }));
    let mut response = envelope::json_response(StatusCode::OK, body);
    if let Some(next) = &next {
        envelope::set(response.headers_mut(), LINK.as_str(), &target.next_page(next));
    }
    Ok(response)
}

fn cursor(value: &str) -> Result<Version, Error> {
    value.parse().map(Version).map_err(|_| {
        Error::field(Code::InvalidCursor, "after", "after is not a cursor of this history")
    })
}

/// `POST /{resource}/{id}/merge`: what a write with `on_conflict=merge` would make of the record.
pub async fn preview(
    State(app): State<App>,
    target: Target,
    request: Request,
) -> Result<Response, Error> {
    let key = target.key()?;
    if let Some((name, _)) = target.parameters.first() {
        let message = format!("This request takes no parameter \"{name}\"");
        return Err(Error::field(Code::InvalidQuery, name, message));
    }
    request::demand_json(&target.headers)?;
    let bytes = request::body(request, app.limits.body).await?;
    let (base, data) = read_preview(&bytes)?;
    let members = json::read_object(data.get().as_bytes())?;
    let assignments = body::patch(&target.resource, &key, members, false)?;
    let write = Write {
        resource: target.resource.clone(),
        key: Some(key),
        verb: Verb::Patch,
        change: Ok(Change::Patch(assignments)),
        precondition: Precondition {
            if_match: Some(Condition::Versions(vec![base])),
            if_none_match: None,
        },
        had: None,
        on_conflict: None,
        actor: target.actor(),
        operation: None,
        run: Run::Rehearsal,
    };
    let compared =
        app.db.read(move |conn| async move { store::compare(conn, &write).await }.boxed());
    match compared.await.map_err(|fault| app.failure(&fault))? {
        Outcome::Conflict(conflict) => {
            let size = conflict.current.as_ref().map_or(0, |row| row.json.len());
            Ok(heavy::compute(size, || answer(&target.resource, base, &conflict)))
        }
        Outcome::Gone(gone) => Err(conflict::gone(gone)),
        Outcome::Refused(error) => Err(error),
        _ => Err(conflict::missing(&target.resource)),
    }
}

/// Reads `{"base_version": 7, "data": {…}}`.
fn read_preview(bytes: &[u8]) -> Result<(Version, Box<RawValue>), Error> {
    let (mut base, mut data) = (None, None);
    for (name, value) in json::read_object(bytes)? {
        match name.as_str() {
            "base_version" => base = Some(value),
            "data" => data = Some(value),
            name => {
                let message = format!("A merge has no member \"{name}\"");
                return Err(Error::field(Code::UnknownField, name, message));
            }
        }
    }
    let missing =
        |name: &str| Error::field(Code::MissingField, name, format!("{name} is required"));
    let base = base.ok_or_else(|| missing("base_version"))?;
    let base = member::integer(&base).map(Version).ok_or_else(|| {
        let message = "base_version must be the number of a version";
        Error::field(Code::InvalidValue, "base_version", message)
    })?;
    Ok((base, data.ok_or_else(|| missing("data"))?))
}

fn answer(resource: &Resource, base: Version, conflict: &Conflict) -> Response {
    let verdicts = conflict.sides.as_ref().map(|sides| sides.verdicts(resource));
    let merged = conflict.sides.as_ref().and_then(|sides| sides.merge(resource, Resolve::Fail));
    let version = conflict.current.as_ref().map(|row| row.version.0);
    let body = json!({
        "mergeable": merged.is_some(),
        "base_available": verdicts.as_ref().is_some_and(|v| v.base_available),
        "base_version": base.0,
        "current_version": version,
        "merged": merged.map(|(row, _)| row),
        "fields": verdicts.map(|v| v.fields).unwrap_or_default(),
    });
    envelope::data(StatusCode::OK, &body.to_string())
}
