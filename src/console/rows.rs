//! A resource's rows: filtered and ordered in the API's own query grammar, page by page.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use futures_util::FutureExt as _;

use crate::catalog::key::Key;
use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::console::difference::{Piece, Shown};
use crate::console::field::Choice;
use crate::console::here::{self, Here};
use crate::console::reply::{self, Failure, Shell};
use crate::console::{record, words};
use crate::error::Error;
use crate::http::App;
use crate::merge::Row;
use crate::record::list::{self, Page as Found};
use crate::record::query;

/// A longer text is cut in the table.
const CUT: usize = 60;

#[derive(Template)]
#[template(path = "rows.html")]
struct Page<'p> {
    shell: Shell,
    resource: &'p Resource,
    label: String,
    address: String,
    columns: Vec<Heading>,
    rows: Vec<Line>,
    filters: Vec<Chip>,
    /// The parameters that a further filter keeps.
    kept: Vec<(String, String)>,
    choices: Vec<Choice>,
    operators: Vec<Choice>,
    problem: Option<String>,
    first: Option<String>,
    next: Option<String>,
}

/// A heading, which orders by its column.
struct Heading {
    label: String,
    hint: Option<String>,
    address: Option<String>,
    /// `ascending`, `descending` or `none`.
    sort: &'static str,
    number: bool,
}

struct Line {
    address: String,
    cells: Vec<Cell>,
}

struct Cell {
    label: String,
    shown: Shown,
    /// The full text, where it was cut.
    full: Option<String>,
    number: bool,
    code: bool,
    /// Whether it leads to the record.
    leads: bool,
}

/// A filter in force.
struct Chip {
    text: String,
    without: String,
}

/// The operators that the form offers: the word in the form, what people call it.
const OPERATORS: [(&str, &str); 11] = [
    ("contains", "contains"),
    ("eq", "is"),
    ("neq", "is not"),
    ("starts", "starts with"),
    ("gt", "is more than"),
    ("gte", "is at least"),
    ("lt", "is less than"),
    ("lte", "is at most"),
    ("in", "is one of (a,b)"),
    ("null", "has no value"),
    ("not_null", "has a value"),
];

/// `GET /console/{resource}`
pub(super) async fn page(State(app): State<App>, here: Here) -> Result<Response, Failure> {
    if let Some(address) = added(&here) {
        return Ok(reply::see_other(&address, None));
    }
    let read = match query::read(&here.resource, &here.parameters) {
        Ok(query) => {
            let resource = here.resource.clone();
            let read = app.db.read(move |conn| {
                async move { list::read(conn, &resource, &query, false).await }.boxed()
            });
            read.await.map_err(|fault| app.failure(&fault))?
        }
        Err(error) => Err(error),
    };
    Ok(answer(&here, read))
}

/// Where the filter form leads: the same list with one condition more, in the API's grammar.
fn added(here: &Here) -> Option<String> {
    let column = here.parameter("add.column")?;
    let operator = here.parameter("add.operator").unwrap_or("eq");
    let value = here.parameter("add.value").unwrap_or_default();
    let escaped = || value.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    let condition = match operator {
        "null" | "not_null" => format!("is.{operator}"),
        "contains" => format!("ilike.*{}*", escaped()),
        "starts" => format!("ilike.{}*", escaped()),
        "in" if !value.starts_with('(') => format!("in.({value})"),
        operator => format!("{operator}.{value}"),
    };
    let mut parameters = kept(here);
    parameters.push((column.to_owned(), condition));
    Some(address(&here.resource, &parameters))
}

/// The parameters of the query apart from the page's cursor and the filter form's inputs.
fn kept(here: &Here) -> Vec<(String, String)> {
    let parameters = here.parameters.iter();
    let kept = parameters.filter(|(name, _)| name != "after" && !name.starts_with("add."));
    kept.cloned().collect()
}

fn address(resource: &Resource, parameters: &[(String, String)]) -> String {
    let pairs = parameters
        .iter()
        .map(|(name, value)| format!("{}={}", words::encode(name), words::encode(value)));
    let query: Vec<_> = pairs.collect();
    match query.join("&") {
        query if query.is_empty() => here::list(resource),
        query => format!("{}?{query}", here::list(resource)),
    }
}

fn answer(here: &Here, read: Result<Found, Error>) -> Response {
    let resource = &here.resource;
    let places = shown_columns(here);
    let kept = kept(here);
    let (rows, next, problem) = match read {
        Ok(found) => (rows(resource, &found.rows, &places), found.next, None),
        Err(error) => (Vec::new(), None, Some(error)),
    };
    let paged = |cursor: String| {
        let mut parameters = kept.clone();
        parameters.push(("after".to_owned(), cursor));
        address(resource, &parameters)
    };
    let choice = |value: &str, text: &str| Choice {
        value: value.to_owned(),
        text: text.to_owned(),
        chosen: false,
    };
    let shown = places.iter().map(|&place| &resource.columns[place]);
    let choices = shown.map(|c| choice(&c.name, &words::label(&c.name)));
    let label = words::label(&resource.name);
    let page = Page {
        shell: here.shell(label.as_str(), None, None),
        resource,
        label,
        address: here::list(resource),
        columns: places.iter().map(|&place| heading(here, place)).collect(),
        rows,
        filters: chips(here, &kept),
        choices: choices.collect(),
        operators: OPERATORS.iter().map(|(word, text)| choice(word, text)).collect(),
        first: here.parameter("after").map(|_| address(resource, &kept)),
        next: next.map(paged),
        problem: problem.as_ref().map(|error| error.message().to_owned()),
        kept,
    };
    reply::page(problem.map_or(200, |error| error.status()), &page)
}

/// The columns in the order of the table: first what names a record, the version last, and a key
/// that says nothing to people just ahead of it.
fn shown_columns(here: &Here) -> Vec<usize> {
    let resource = &here.resource;
    let selected = here.parameter("select");
    let selected = selected.and_then(|select| query::select(resource, select).ok());
    let title = record::title_column(resource);
    let lead = title.or(resource.key.first().copied());
    let rank = |place: usize| {
        let key = title.is_some() && resource.key.contains(&place);
        match place {
            _ if Some(place) == lead => 0,
            _ if place == resource.version => 3,
            _ if key => 2,
            _ => 1,
        }
    };
    let all = 0..resource.columns.len();
    let mut places: Vec<usize> = all
        .filter(|place| !resource.columns[*place].hidden)
        .filter(|place| selected.as_ref().is_none_or(|selected| selected.contains(place)))
        .collect();
    places.sort_by_key(|place| rank(*place));
    places
}

fn is_number(column: &Column) -> bool {
    matches!(column.kind, Kind::Integer(_) | Kind::Numeric(_) | Kind::Float)
}

fn heading(here: &Here, place: usize) -> Heading {
    let column = &here.resource.columns[place];
    let order = here.parameter("order").unwrap_or_default();
    let sort = match order.strip_prefix(column.name.as_str()) {
        Some("" | ".asc") => "ascending",
        Some(".desc") => "descending",
        _ => "none",
    };
    let orderable = !matches!(column.kind, Kind::Json { .. } | Kind::Composite | Kind::Other);
    // A name with a comma cannot stand in an order.
    let address = (orderable && !column.name.contains(',')).then(|| {
        let mut parameters = kept(here);
        parameters.retain(|(name, _)| name != "order");
        let term = match sort {
            "ascending" => format!("{}.desc", column.name),
            _ => format!("{}.asc", column.name),
        };
        parameters.push(("order".to_owned(), term));
        address(&here.resource, &parameters)
    });
    Heading {
        label: words::label(&column.name),
        hint: column.comment.clone(),
        address,
        sort,
        number: is_number(column),
    }
}

fn rows(resource: &Resource, json: &str, places: &[usize]) -> Vec<Line> {
    let rows: Vec<Row> = serde_json::from_str(json).unwrap_or_default();
    rows.iter()
        .map(|row| Line {
            address: key(resource, row)
                .map(|key| here::address(resource, &key))
                .unwrap_or_default(),
            cells: places
                .iter()
                .enumerate()
                .map(|(i, &place)| cell(&resource.columns[place], row, i == 0))
                .collect(),
        })
        .collect()
}

/// The key of a row; `None` where a part of it was not selected.
fn key(resource: &Resource, row: &Row) -> Option<Key> {
    let part = |column: &Column| match row.get(&column.name)? {
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let parts: Option<Vec<_>> = resource.key_columns().map(part).collect();
    Some(Key { parts: parts? })
}

fn cell(column: &Column, row: &Row, leads: bool) -> Cell {
    let value = row.get(&column.name);
    let mut shown = match (&column.kind, value) {
        // One line of a table has no room for a document.
        (Kind::Json { .. } | Kind::Composite, Some(value)) if !value.is_null() => {
            Shown { pieces: vec![Piece::Same(value.to_string())], ..Shown::default() }
        }
        _ => Shown::whole(&column.kind, value),
    };
    let mut full = None;
    if let [Piece::Same(text)] = shown.pieces.as_mut_slice() {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.chars().count() > CUT {
            let cut: String = line.chars().take(CUT - 1).collect();
            full = Some(std::mem::replace(text, format!("{}…", cut.trim_end())));
        } else if !line.is_empty() {
            *text = line;
        }
    }
    Cell {
        label: words::label(&column.name),
        shown,
        full,
        number: is_number(column),
        code: matches!(column.kind, Kind::Uuid | Kind::Json { .. } | Kind::Bytea),
        leads,
    }
}

fn chips(here: &Here, kept: &[(String, String)]) -> Vec<Chip> {
    let filters = kept
        .iter()
        .enumerate()
        .filter(|(_, (name, _))| !matches!(name.as_str(), "order" | "limit" | "select"));
    let chips = filters.map(|(at, (name, value))| {
        let mut rest = kept.to_vec();
        rest.remove(at);
        Chip { text: in_words(name, value), without: address(&here.resource, &rest) }
    });
    chips.collect()
}

/// A condition as people say it; as it is written where there are no words for it.
fn in_words(name: &str, condition: &str) -> String {
    let label = words::label(name);
    let unescaped = |text: &str| text.replace("\\%", "%").replace("\\_", "_").replace("\\\\", "\\");
    let (operator, value) = condition.split_once('.').unwrap_or((condition, ""));
    match (operator, value) {
        ("is", "null") => format!("{label} has no value"),
        ("is", "not_null") => format!("{label} has a value"),
        ("ilike", pattern) => match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(inner), Some(_)) => {
                format!("{label} contains {}", unescaped(inner.trim_end_matches('*')))
            }
            (None, Some(start)) => format!("{label} starts with {}", unescaped(start)),
            _ => format!("{label} is like {pattern}"),
        },
        ("in", list) => format!("{label} is one of {list}"),
        (operator, value) => match OPERATORS.iter().find(|(word, _)| *word == operator) {
            Some((_, words)) => format!("{label} {words} {value}"),
            None => format!("{name} {condition}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn conditions_are_said_in_words() {
        assert_eq!(in_words("due_on", "gte.2026-01-01"), "Due on is at least 2026-01-01");
        assert_eq!(in_words("memo", r"ilike.*50\%*"), "Memo contains 50%");
        assert_eq!(in_words("memo", "ilike.a*"), "Memo starts with a");
        assert_eq!(in_words("memo", "is.null"), "Memo has no value");
        assert_eq!(in_words("or", "(a.eq.1,b.eq.2)"), "or (a.eq.1,b.eq.2)");
    }
}
