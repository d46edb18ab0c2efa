//! Failures: their two forms, and one response per status with the codes that it may carry.

use serde_json::{Map, Value, json};

use crate::error::Code;
use crate::http::openapi::types::or_null;
use crate::http::openapi::{component, members, past, shared};

/// Statuses whose answer shows the current row, and so belongs to a resource.
pub(super) const WITH_ROW: [u16; 2] = [409, 412];

/// Both forms of a failure.
pub(super) fn schemas() -> Map<String, Value> {
    members([("Failure", failure()), ("Problem", problem())])
}

/// The responses that do not depend on a resource.
pub(super) fn responses() -> Map<String, Value> {
    let mut statuses: Vec<u16> = Code::ALL.iter().map(|code| code.status()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    let common = statuses.into_iter().filter(|status| !WITH_ROW.contains(status));
    members(common.map(|status| (name(status), response(status, &codes(status), None))))
}

/// Every code of a status.
pub(super) fn codes(status: u16) -> Vec<Code> {
    Code::ALL.iter().copied().filter(|code| code.status() == status).collect()
}

/// A failure as one of a resource or of all: the response with its codes, headers and bodies.
pub(super) fn response(status: u16, codes: &[Code], row: Option<&Value>) -> Value {
    let names: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    json!({
        "description": description(codes),
        "headers": headers(status),
        "content": {
            "application/json": { "schema": narrowed(
                "Failure", row, json!({ "error": { "properties": { "code": { "enum": names } } } }),
            )},
            "application/problem+json": { "schema": narrowed(
                "Problem", row, json!({ "code": { "enum": names } }),
            )},
        },
    })
}

/// A failure without a body, as HEAD answers it.
pub(super) fn bare(status: u16) -> Value {
    json!({ "description": description(&codes(status)), "headers": headers(status) })
}

/// A reference to the response of a status.
pub(super) fn reference(status: u16) -> Value {
    component("responses", &name(status))
}

/// The response's name among the components, after the reason phrase.
fn name(status: u16) -> String {
    let status = axum::http::StatusCode::from_u16(status).unwrap_or_default();
    let reason = status.canonical_reason().unwrap_or("Failure");
    reason.split(' ').collect()
}

fn description(codes: &[Code]) -> String {
    let lines: Vec<_> =
        codes.iter().map(|code| format!("`{}`: {}", code.as_str(), code.title())).collect();
    lines.join("\n\n")
}

fn headers(status: u16) -> Value {
    let further: &[&str] = match status {
        405 => &["Allow"],
        409 | 412 => &["ETag", "Cache-Control"],
        422 | 428 => &["ETag"],
        410 => &["Cache-Control"],
        415 => &["Accept-Patch"],
        503 => &["Retry-After"],
        _ => &[],
    };
    shared::header_references(further)
}

/// A form of failure with only these codes, and with this row.
fn narrowed(form: &str, row: Option<&Value>, mut properties: Value) -> Value {
    if let Some(row) = row {
        properties["data"] = row.clone();
    }
    json!({ "allOf": [component("schemas", form), { "properties": properties }] })
}

fn failure() -> Value {
    json!({
        "type": "object",
        "description": "A failure",
        "required": ["error", "data"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message", "details", "request_id"],
                "properties": {
                    "code": code(),
                    "message": { "type": "string", "description": "For a person; it may change" },
                    "details": details(),
                    "request_id": { "type": "string" },
                },
            },
            "data": data(),
        },
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "The same failure as RFC 9457 has it",
        "required": ["type", "title", "status", "detail", "code", "details", "request_id", "data"],
        "properties": {
            "type": { "type": "string", "format": "uri-reference" },
            "title": { "type": "string" },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "detail": { "type": "string" },
            "code": code(),
            "details": details(),
            "request_id": { "type": "string" },
            "data": data(),
        },
    })
}

fn code() -> Value {
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    json!({ "type": "string", "description": "For a program; it stays", "enum": codes })
}

fn data() -> Value {
    json!({
        "type": ["object", "null"],
        "description": "The current row, where there is one that the caller may read",
    })
}

/// The names of the fields of a rule, or the fields of a conflict.
fn fields() -> Value {
    json!({ "anyOf": [
        { "type": "array", "items": { "type": "string" } },
        past::verdicts(),
    ]})
}

fn details() -> Value {
    let version = |about: &str| or_null(json!({ "type": "integer", "description": about }));
    let text = |about: &str| json!({ "type": "string", "description": about });
    json!({
        "type": "object",
        "description": "Facts for a program; which ones depends on the code",
        "properties": {
            "field": text("The field or parameter that is to blame"),
            "fields": fields(),
            "base_available": { "type": "boolean", "description": "Whether the row that the client had is known" },
            "mergeable": { "type": "boolean", "description": "Whether no field truly clashes" },
            "constraint": text("The database's name of the rule"),
            "resource": text("The resource that is to blame"),
            "reason": text("Why a cursor has ended: `database`, `retention` or `resources`"),
            "snapshot": text("The address at which to start again"),
            "your_version": version("The newest version that the request named"),
            "current_version": version("The version that the record is at"),
            "kind": {
                "type": "string",
                "enum": ["update_update", "delete_update", "update_delete", "create_create"],
            },
            "changed_by": or_null(text("Who wrote the current version")),
            "changed_at": or_null(json!({ "type": "string", "format": "date-time" })),
        },
    })
}
