//! The schemas of one resource: the row, and the bodies of its writes.

use serde_json::{Map, Value, json};

use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::http::openapi::types::{self, Way, or_null};

/// The row as it is read.
pub(super) fn row(resource: &Resource) -> Value {
    let properties: Map<_, _> = resource
        .readable()
        .map(|column| {
            let mut schema = described(resource, column, Way::Read);
            if !column.writable() {
                schema["readOnly"] = json!(true);
            }
            (column.name.clone(), schema)
        })
        .collect();
    let required: Vec<_> = resource.readable().map(|c| c.name.as_str()).collect();
    let mut schema = json!({ "type": "object", "required": required, "properties": properties });
    if let Some(comment) = &resource.comment {
        schema["description"] = json!(comment);
    }
    schema
}

/// What a read with `select` answers of a row.
pub(super) fn selection(resource: &Resource) -> Value {
    let version = resource.version_column();
    json!({
        "type": "object",
        "description": "The fields that `select` names, and the version",
        "required": [version.name],
        "properties": { version.name.clone(): types::column(version, Way::Read) },
        "maxProperties": resource.readable().count().saturating_sub(1),
    })
}

/// The body of a new record.
pub(super) fn create(resource: &Resource) -> Value {
    let required = |place: usize, column: &Column| {
        let made = resource.key.contains(&place) && column.kind == Kind::Uuid;
        column.required() && !made
    };
    let mut schema = body(resource, "A new record", required);
    if let [place] = resource.key.as_slice() {
        types::address(&mut schema["properties"][&resource.columns[*place].name]);
    }
    schema
}

/// The body of a whole replacement.
pub(super) fn replace(resource: &Resource) -> Value {
    let required =
        |place: usize, column: &Column| column.required() && !resource.key.contains(&place);
    let about = "A whole record. Fields left out return to their default; the id may be sent, if \
        it is the one in the address";
    body(resource, about, required)
}

/// The body of a partial change.
pub(super) fn patch(resource: &Resource) -> Value {
    let about = "The fields to change. The id may be sent, if it is the one in the address";
    body(resource, about, |_, _| false)
}

fn body(resource: &Resource, about: &str, required: impl Fn(usize, &Column) -> bool) -> Value {
    let columns = || resource.columns.iter().enumerate().filter(|(_, column)| !column.hidden);
    let properties: Map<_, _> =
        columns().map(|(_, column)| (column.name.clone(), property(resource, column))).collect();
    let required: Vec<_> = columns()
        .filter(|(place, column)| required(*place, column))
        .map(|(_, column)| column.name.as_str())
        .collect();
    let mut schema = json!({
        "type": "object",
        "description": about,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// A member of a body. What the service alone sets may be sent and is ignored, so that a client can
/// send back the row that it read.
fn property(resource: &Resource, column: &Column) -> Value {
    if column.writable() {
        described(resource, column, Way::Write)
    } else {
        json!({ "description": "Set by the service; ignored here" })
    }
}

fn described(resource: &Resource, column: &Column, way: Way) -> Value {
    let mut schema = types::column(column, way);
    let references = resource.references.iter().filter(|r| r.columns.contains(&column.name));
    let targets = references.map(|r| format!("Refers to {}", r.table.replace('"', "")));
    let about: Vec<_> = column.comment.clone().into_iter().chain(targets).collect();
    if !about.is_empty() {
        schema["description"] = json!(about.join(". "));
    }
    schema
}

/// The columns that an increment may raise.
pub(super) fn countable(resource: &Resource) -> impl Iterator<Item = &Column> {
    resource
        .writable()
        .map(|(_, column)| column)
        .filter(|c| matches!(c.kind, Kind::Integer(_) | Kind::Numeric(_) | Kind::Float))
}

/// The body of an increment: each field with the numbers that it may be raised by, or several.
pub(super) fn increment(resource: &Resource) -> Value {
    let single = countable(resource).map(|column| {
        let mut properties = numbers(column);
        properties["field"] = json!({ "type": "string", "const": column.name });
        raised(&column.name, &properties, &["field"])
    });
    let fields: Map<String, Value> = countable(resource)
        .map(|column| {
            let numbers = numbers(column);
            let by = numbers["by"].clone();
            let bounded = raised(&column.name, &numbers, &[]);
            (column.name.clone(), json!({ "anyOf": [by, bounded] }))
        })
        .collect();
    let fields = json!({
        "type": "object", "minProperties": 1, "properties": fields, "additionalProperties": false,
    });
    let several = raised("several", &json!({ "fields": fields }), &["fields"]);
    let alternatives: Vec<_> = single.chain([several]).collect();
    json!({
        "oneOf": alternatives,
        "description": "Which numbers to raise, by how much, and within which bounds",
    })
}

/// What is added to a number, and the bounds that the sum must keep.
fn numbers(column: &Column) -> Value {
    let number = match column.kind {
        Kind::Integer(size) => types::whole(size),
        Kind::Numeric(declared) => types::number(declared),
        _ => json!({ "type": "number" }),
    };
    let mut by = number.clone();
    by["default"] = json!(1);
    json!({ "by": by, "min": number, "max": number })
}

fn raised(title: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "title": title,
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// The current row in a failure, where there is one that the caller may read.
pub(super) fn current(row: &Value) -> Value {
    or_null(json!({ "anyOf": [row] }))
}
