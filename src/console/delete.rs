//! Deleting a record: a page that asks, and a conditional DELETE. If somebody saved the record in
//! between, the page comes back and shows what.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};

use crate::catalog::key::Key;
use crate::console::difference::Shown;
use crate::console::flash::{Flash, What};
use crate::console::here::{self, Here, Sent};
use crate::console::record::{self, Fixed};
use crate::console::reply::{self, Failure, Shell};
use crate::console::write::{self, Draft};
use crate::console::{gone, value, words};
use crate::error::Error;
use crate::http::App;
use crate::merge::Row;
use crate::record::store::Found;
use crate::record::{Conflict, Outcome, conflict as answers};
use crate::version::Version;

#[derive(Template)]
#[template(path = "delete.html")]
struct Page {
    shell: Shell,
    title: String,
    address: String,
    version: Version,
    values: Vec<Fixed>,
    moved: Option<Moved>,
    problem: Option<String>,
}

/// What somebody saved since the visitor asked to delete.
struct Moved {
    since: Version,
    by: String,
    at: String,
    changes: Vec<Change>,
}

struct Change {
    label: String,
    old: Shown,
    new: Shown,
}

/// `GET /console/{resource}/{id}/delete`
pub(super) async fn page(State(app): State<App>, here: Here) -> Result<Response, Failure> {
    let key = here.key()?;
    ask(&app, &here, &key, None).await
}

async fn ask(
    app: &App,
    here: &Here,
    key: &Key,
    refused: Option<Error>,
) -> Result<Response, Failure> {
    match write::read(app, here, key).await? {
        Found::Missing => Err(answers::missing(&here.resource).into()),
        Found::Gone(gone) => Ok(gone::answer(here, key, gone, Vec::new(), None)),
        Found::Row(row) => {
            let values = record::parse(&row.json);
            Ok(asking(here, key, row.version, &values, None, refused))
        }
    }
}

fn asking(
    here: &Here,
    key: &Key,
    version: Version,
    values: &Row,
    moved: Option<Moved>,
    refused: Option<Error>,
) -> Response {
    let title = record::title(&here.resource, values, key);
    let status = match (&moved, &refused) {
        (Some(_), _) => 409,
        (None, Some(error)) => error.status(),
        (None, None) => 200,
    };
    let word = if moved.is_some() { "Conflict" } else { "Delete" };
    let page = Page {
        shell: here.shell(format!("{word} – {title}"), Some((key, &title)), Some("Delete")),
        title,
        address: here::address(&here.resource, key),
        version,
        values: record::all(here, values),
        moved,
        problem: refused.map(|error| error.message().to_owned()),
    };
    reply::page(status, &page)
}

/// `POST /console/{resource}/{id}/delete`
pub(super) async fn confirm(
    State(app): State<App>,
    Sent { here, key, form }: Sent,
) -> Result<Response, Failure> {
    let version = form.version("version")?;
    match Draft::delete(&key, version).write(&app, &here).await {
        Ok(Outcome::Deleted(_)) => {
            let record = here::address(&here.resource, &key);
            let flash = Flash::new(What::Deleted, version, record);
            Ok(reply::see_other(&here::list(&here.resource), Some(&flash)))
        }
        Ok(Outcome::Conflict(conflict)) => Ok(met(&here, &key, version, conflict)),
        Ok(Outcome::Gone(gone)) => Ok(gone::answer(&here, &key, gone, Vec::new(), None)),
        Ok(Outcome::Refused(error)) | Err(error) => ask(&app, &here, &key, Some(error)).await,
        Ok(_) => Err(answers::missing(&here.resource).into()),
    }
}

fn met(here: &Here, key: &Key, since: Version, conflict: Conflict) -> Response {
    let Some(current) = conflict.current else {
        return Failure::from(answers::missing(&here.resource)).into_response();
    };
    let verdicts = conflict.sides.map(|sides| sides.verdicts(&here.resource));
    let changes = verdicts.map(|v| v.fields).unwrap_or_default().into_iter();
    let changes = changes.filter_map(|field| {
        let kind = &here.resource.column(&field.field)?.kind;
        let (old, new) = Shown::between(kind, field.base.as_ref(), field.theirs.as_ref());
        Some(Change { label: words::label(&field.field), old, new })
    });
    let (by, at) = conflict.by.map_or_else(Default::default, |by| (by.by, value::moment(&by.at)));
    let moved = Moved { since, by, at, changes: changes.collect() };
    let values = record::parse(&current.json);
    asking(here, key, current.version, &values, Some(moved), None)
}
