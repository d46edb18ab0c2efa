//! The filters of a list, one query parameter per column, in PostgREST's spelling.

use serde_json::{Map, Value, json};

use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::http::openapi::types::{UUID, digits};
use crate::http::openapi::{component, members};
use crate::record::query::{DEFAULT_LIMIT, MOST_ROWS};

/// Parameters of a list that a column's name cannot be taken for.
const RESERVED: [&str; 8] = ["select", "order", "limit", "after", "and", "or", "not.and", "not.or"];
const ANYTHING: &str = r"[^\x00]*";

/// Every parameter of a list that depends on the columns.
pub(super) fn parameters(resource: &Resource) -> Vec<Value> {
    let mut parameters = vec![select(resource), order(resource), limit()];
    let columns = resource.readable().filter(|c| !RESERVED.contains(&c.name.as_str()));
    parameters.extend(columns.map(parameter));
    parameters
}

/// `?select=id,amount`
pub(super) fn select(resource: &Resource) -> Value {
    let names = alternatives(resource.readable().map(|c| c.name.as_str()));
    let name = format!(r"(\*|{names})");
    json!({
        "name": "select",
        "in": "query",
        "description": "The fields to answer, joined by commas; the version always comes along",
        "schema": { "type": "string", "pattern": format!("^{name}(,{name})*$") },
    })
}

fn order(resource: &Resource) -> Value {
    let sortable = resource.readable().filter(|c| c.kind != Kind::Json { binary: false });
    let names = alternatives(sortable.map(|c| c.name.as_str()));
    let term = format!(r"{names}(\.(asc|desc))?(\.(nullsfirst|nullslast))?");
    json!({
        "name": "order",
        "in": "query",
        "description": "Fields to sort by, each with `.asc` or `.desc` and `.nullsfirst` or \
            `.nullslast`; the id settles ties",
        "schema": { "type": "string", "pattern": format!("^{term}(,{term})*$") },
    })
}

pub(super) fn limit() -> Value {
    json!({
        "name": "limit",
        "in": "query",
        "description": "How many rows a page holds at most; one of large rows ends early",
        "schema": { "type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": DEFAULT_LIMIT },
    })
}

fn parameter(column: &Column) -> Value {
    let schema = match shared_name(&column.kind) {
        Some(name) => component("schemas", name),
        None => schema(&column.kind),
    };
    json!({ "name": column.name, "in": "query", "schema": schema })
}

/// The filters of kinds that need no more to be said than their name.
pub(super) fn schemas() -> Map<String, Value> {
    let kinds = [
        Kind::Bool,
        Kind::Integer(2),
        Kind::Integer(4),
        Kind::Integer(8),
        Kind::Float,
        Kind::Text(None),
        Kind::Uuid,
        Kind::Date,
        Kind::Json { binary: false },
        Kind::Json { binary: true },
        Kind::Other,
    ];
    members(kinds.iter().filter_map(|kind| Some((shared_name(kind)?, schema(kind)))))
}

fn shared_name(kind: &Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Enum(_) => return None,
        Kind::Bool => "FilterBoolean",
        Kind::Integer(2) => "FilterSmallint",
        Kind::Integer(4) => "FilterInteger",
        Kind::Integer(_) => "FilterBigint",
        Kind::Float | Kind::Numeric(_) => "FilterNumber",
        Kind::Uuid => "FilterUuid",
        Kind::Date => "FilterDate",
        Kind::Timestamp | Kind::TimestampTz | Kind::Time | Kind::Bytea | Kind::Text(_) => {
            "FilterValue"
        }
        Kind::Json { binary: false } => "FilterJson",
        Kind::Json { binary: true } => "FilterJsonb",
        Kind::Array(_) | Kind::Vector | Kind::Composite | Kind::Name | Kind::Other => "FilterOther",
    })
}

fn schema(kind: &Kind) -> Value {
    json!({
        "type": "string",
        "description": "A filter: an operator and a value; `not.` before it turns it around",
        "pattern": pattern(kind),
    })
}

/// What a filter on such a column looks like.
fn pattern(kind: &Kind) -> String {
    let operand = operand(kind);
    let mut tests = vec![
        format!(r"(like|ilike|match|imatch|(fts|plfts|phfts|wfts)(\([^)\x00]*\))?)\.{ANYTHING}"),
        format!(r"in\.\({ANYTHING}\)"),
        r"is\.(null|not_null)".to_owned(),
    ];
    if *kind != (Kind::Json { binary: false }) {
        tests.insert(0, format!(r"(eq|neq|gt|gte|lt|lte|isdistinct)\.{operand}"));
    }
    if matches!(kind, Kind::Array(_) | Kind::Composite | Kind::Json { .. } | Kind::Other) {
        tests.push(format!(r"(cs|cd|ov|sl|sr|nxr|nxl|adj)\.{ANYTHING}"));
    }
    if *kind == Kind::Bool {
        tests.push(r"is\.(true|false|unknown)".to_owned());
    }
    format!(r"^(not\.)?({})$", tests.join("|"))
}

/// What a value to compare with looks like, where the type's rules are short.
fn operand(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "(true|false)".to_owned(),
        Kind::Integer(size) => format!(r"[-+]?[0-9]{{1,{}}}(\.0+)?", digits(*size)),
        Kind::Float | Kind::Numeric(_) => {
            r"([-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?|NaN|-?Infinity)".to_owned()
        }
        Kind::Uuid => UUID.to_owned(),
        Kind::Enum(labels) => alternatives(labels.iter().map(String::as_str)),
        Kind::Date => "([0-9]{4,7}-[0-9]{2}-[0-9]{2}|-?infinity)".to_owned(),
        _ => ANYTHING.to_owned(),
    }
}

/// One of these texts, as a regular expression.
fn alternatives<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let escaped: Vec<_> = texts.map(escape).collect();
    format!("({})", escaped.join("|"))
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\^$.|?*+()[]{}/-".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_patterns() {
        assert_eq!(alternatives(["a.b", "c|d"].into_iter()), r"(a\.b|c\|d)");
    }
}
