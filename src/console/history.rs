//! A record's versions, the differences between any two of them, and the way back to one.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::catalog::key::Key;
use crate::console::difference::Shown;
use crate::console::here::{self, Here};
use crate::console::record;
use crate::console::reply::{self, Failure, Shell};
use crate::console::write;
use crate::console::{value, words};
use crate::http::App;
use crate::merge::Row;
use crate::record::conflict;
use crate::record::history::Entry;
use crate::record::store::Found;
use crate::version::Version;

/// Versions on a page.
const MOST: usize = 50;

#[derive(Template)]
#[template(path = "history.html")]
struct Page {
    shell: Shell,
    title: String,
    address: String,
    logged: bool,
    current: Version,
    deleted: bool,
    versions: Vec<Line>,
    older: Option<Version>,
    differences: Option<Differences>,
}

/// One version.
struct Line {
    version: Version,
    what: &'static str,
    by: String,
    at: String,
    changed: Vec<String>,
    merged_from: String,
    from: bool,
    to: bool,
    /// Whether it can be brought back.
    past: bool,
}

/// What differs between two versions.
struct Differences {
    from: Version,
    to: Version,
    missing: Option<Version>,
    changes: Vec<Change>,
}

struct Change {
    label: String,
    old: Shown,
    new: Shown,
}

/// `GET /console/{resource}/{id}/history`
pub(super) async fn page(State(app): State<App>, here: Here) -> Result<Response, Failure> {
    let key = here.key()?;
    let before = here.version("before");
    let (entries, more) = write::versions(&app, &here, &key, before, MOST).await?;
    let standing = write::read(&app, &here, &key).await?;
    let (current, deleted, values) = match standing {
        Found::Row(row) => (row.version, false, record::parse(&row.json)),
        Found::Gone(gone) => {
            let last = gone.last.as_deref().map(record::parse);
            (gone.version, true, last.unwrap_or_default())
        }
        Found::Missing => return Err(conflict::missing(&here.resource).into()),
    };
    let newest = entries.first().map_or(current, |entry| Version(entry.version));
    let previous = entries.get(1).map_or(newest, |entry| Version(entry.version));
    let to = here.version("to").unwrap_or(newest);
    let from = here.version("from").unwrap_or(previous);
    let differences = if entries.is_empty() || from == to {
        None
    } else {
        Some(differences(&app, &here, &key, from, to).await?)
    };
    let title = record::title(&here.resource, &values, &key);
    let older = entries.last().filter(|_| more).map(|e| Version(e.version));
    let line = |entry| Line::of(entry, from, to, current, deleted);
    let page = Page {
        shell: here.shell(format!("History of {title}"), Some((&key, &title)), Some("History")),
        title,
        address: here::address(&here.resource, &key),
        logged: here.resource.history,
        current,
        deleted,
        versions: entries.into_iter().map(line).collect(),
        older,
        differences,
    };
    Ok(reply::page(200, &page))
}

impl Line {
    fn of(entry: Entry, from: Version, to: Version, current: Version, deleted: bool) -> Self {
        let version = Version(entry.version);
        let what = match entry.op.as_str() {
            "create" => "Created",
            "update" if entry.merged_from.is_some() => "Merged",
            "update" => "Saved",
            "delete" => "Deleted",
            "baseline" => "Was there",
            _ => "Written",
        };
        let parents = entry.merged_from.unwrap_or_default();
        let parents: Vec<String> = parents.iter().map(ToString::to_string).collect();
        Self {
            version,
            what,
            by: entry.by.unwrap_or_else(|| "somebody before the log began".to_owned()),
            at: value::moment(&entry.at),
            changed: match entry.op.as_str() {
                "create" => vec!["New row".to_owned()],
                _ => entry.changed.iter().map(|c| words::label(c)).collect(),
            },
            merged_from: words::listed(&parents),
            from: version == from,
            to: version == to,
            past: entry.op != "delete" && (version != current || deleted),
        }
    }
}

async fn differences(
    app: &App,
    here: &Here,
    key: &Key,
    from: Version,
    to: Version,
) -> Result<Differences, Failure> {
    let (old, new) = (at(app, here, key, from).await?, at(app, here, key, to).await?);
    let missing = match (&old, &new) {
        (None, _) => Some(from),
        (_, None) => Some(to),
        _ => None,
    };
    let changes = match (old, new) {
        (Some(old), Some(new)) => changes(here, &old, &new),
        _ => Vec::new(),
    };
    Ok(Differences { from, to, missing, changes })
}

async fn at(app: &App, here: &Here, key: &Key, version: Version) -> Result<Option<Row>, Failure> {
    Ok(match write::read_version(app, here, key, version).await? {
        Found::Row(row) => Some(record::parse(&row.json)),
        Found::Gone(gone) => gone.last.as_deref().map(record::parse),
        Found::Missing => None,
    })
}

fn changes(here: &Here, old: &Row, new: &Row) -> Vec<Change> {
    let resource = &here.resource;
    let columns = resource.readable().filter(|c| c.name != resource.version_column().name);
    let differ = columns.filter(|column| {
        let comparison = column.kind.comparison();
        !comparison.same(old.get(&column.name), new.get(&column.name))
    });
    let changes = differ.map(|column| {
        let (old, new) = (old.get(&column.name), new.get(&column.name));
        let (old, new) = Shown::between(&column.kind, old, new);
        Change { label: words::label(&column.name), old, new }
    });
    changes.collect()
}
