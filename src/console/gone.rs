//! A record that was deleted: who did it, what it was, and the way back. Where somebody was changing
//! it, the changes stand beside it.

use askama::Template;
use axum::response::Response;

use crate::catalog::key::Key;
use crate::console::difference::Shown;
use crate::console::here::{self, Here};
use crate::console::record::{self, Fixed};
use crate::console::reply::{self, Shell};
use crate::console::{value, words};
use crate::error::Error;
use crate::json::Member;
use crate::merge::Row;
use crate::record::Gone;
use crate::version::Version;

#[derive(Template)]
#[template(path = "gone.html")]
struct Page {
    shell: Shell,
    title: String,
    address: String,
    list: String,
    version: Version,
    by: String,
    at: String,
    /// Whether the last row is known, so that it can come back.
    known: bool,
    last: Vec<Fixed>,
    changes: Vec<Mine>,
    /// Why it could not come back.
    problem: Option<String>,
}

/// A change of the visitor's to the row that is gone.
struct Mine {
    label: String,
    last: Shown,
    yours: Shown,
    name: String,
    json: String,
}

/// The page of a deleted record; 410, as the API has it.
pub(super) fn answer(
    here: &Here,
    key: &Key,
    gone: Gone,
    yours: Vec<Member>,
    refused: Option<&Error>,
) -> Response {
    let resource = &here.resource;
    let last = gone.last.as_deref().map(record::parse);
    let values = last.clone().unwrap_or_default();
    let title = record::title(resource, &values, key);
    let mut prefix = "Deleted";
    if !yours.is_empty() {
        prefix = "Conflict";
    }
    let page = Page {
        shell: here.shell(format!("{prefix} – {title}"), Some((key, &title)), None),
        title,
        address: here::address(resource, key),
        list: here::list(resource),
        version: gone.version,
        by: gone.by.by,
        at: value::moment(&gone.by.at),
        known: last.is_some(),
        last: record::all(here, &values),
        changes: changes(here, &values, yours),
        problem: refused.map(|error| error.message().to_owned()),
    };
    reply::page(refused.map_or(410, Error::status), &page)
}

fn changes(here: &Here, last: &Row, yours: Vec<Member>) -> Vec<Mine> {
    let mine = yours.into_iter().filter_map(|(name, json)| {
        let kind = &here.resource.column(&name)?.kind;
        let value = serde_json::from_str(json.get()).ok()?;
        let (old, new) = Shown::between(kind, last.get(&name), Some(&value));
        Some(Mine {
            label: words::label(&name),
            last: old,
            yours: new,
            name: format!("y.{}", words::encode(&name)),
            json: json.get().to_owned(),
        })
    });
    mine.collect()
}
