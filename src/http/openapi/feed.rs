//! The addresses of the feed: pull, snapshot, stream.

use serde_json::{Map, Value, json};

use crate::feed::DEFAULT_LIMIT;
use crate::http::openapi::operation::{Operation, data};
use crate::http::openapi::types::{or_null, whole};
use crate::http::openapi::{filter, members};

const TAG: &str = "sync";

/// Failures of every request here.
const ANY: [u16; 6] = [400, 401, 403, 405, 500, 503];

pub(super) fn tag() -> Value {
    json!({ "name": TAG, "description": "Copies of records that follow every change, and what is written to them offline" })
}

pub(super) fn paths() -> Map<String, Value> {
    members([
        ("/api/v1/sync/pull", json!({ "get": pull() })),
        ("/api/v1/sync/snapshot", json!({ "get": snapshot() })),
        ("/api/v1/sync/stream", json!({ "get": stream() })),
    ])
}

fn pull() -> Value {
    let answer = json!({
        "type": "object",
        "required": ["changes", "cursor", "has_more", "lag_ms"],
        "properties": {
            "changes": { "type": "array", "items": change() },
            "cursor": { "type": "string", "description": "Where to go on" },
            "has_more": { "type": "boolean", "description": "Whether to go on at once" },
            "lag_ms": {
                "type": "integer",
                "minimum": 0,
                "description": "For how long an open transaction has kept later changes back",
            },
        },
    });
    let about = "Every committed change, in an order to go on in. No change is skipped. Two versions \
        of one record may come in either order: the highest one counts.";
    Operation::new("pull", TAG, "The changes after a cursor")
        .about(about)
        .parameters([cursor("cursor", "Where to go on; without one, at the beginning of the log")])
        .parameters([resources(), limit()])
        .common(&["RequestId"])
        .success(200, "The changes", &[], Some(data(&answer)))
        .failures(&ANY)
        .failures(&[410])
        .finish()
}

fn snapshot() -> Value {
    let text = |about: &str| json!({ "type": ["string", "null"], "description": about });
    let answer = json!({
        "type": "object",
        "required": ["changes", "after", "cursor"],
        "properties": {
            "changes": { "type": "array", "items": change() },
            "after": text("The next page"),
            "cursor": text("On the last page: where to begin to pull"),
        },
    });
    let about =
        "Pages of all records as they stand. What changes meanwhile comes with the pulls after it.";
    Operation::new("snapshot", TAG, "A first copy")
        .about(about)
        .parameters([cursor("after", "The page before's `after`"), resources(), limit()])
        .common(&["RequestId"])
        .success(200, "The records", &[], Some(data(&answer)))
        .failures(&ANY)
        .failures(&[410])
        .finish()
}

fn stream() -> Value {
    let about = "Server-sent events without an end. `changes` holds what a pull holds, and its `id` is \
        the cursor after it. `reset` says why the cursor has ended, as `error` does elsewhere. A \
        comment comes at least every 15 seconds.";
    Operation::new("stream", TAG, "The changes after a cursor, as they come to be")
        .about(about)
        .parameters([cursor("cursor", "Where to go on; without one, at the beginning of the log")])
        .parameters([resources(), last_event_id()])
        .events(&ANY)
}

pub(super) fn cursor(name: &str, about: &str) -> Value {
    let schema = json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]*$" });
    json!({ "name": name, "in": "query", "description": about, "schema": schema })
}

pub(super) fn last_event_id() -> Value {
    json!({
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The last event's `id`, for one who comes back; it comes ahead of `cursor`",
        "schema": { "type": "string" },
    })
}

fn resources() -> Value {
    let name = "[a-z][a-z0-9_]*";
    json!({
        "name": "resources",
        "in": "query",
        "description": "Names of resources that keep a history; all that do where it is left out. A \
            cursor goes on with the same ones only",
        "schema": { "type": "string", "pattern": format!("^({name}(,{name})*)?$") },
    })
}

fn limit() -> Value {
    let mut limit = filter::limit();
    limit["schema"]["default"] = json!(DEFAULT_LIMIT);
    limit
}

fn change() -> Value {
    let known = |schema: Value, about: &str| {
        let mut schema = or_null(schema);
        schema["description"] = json!(about);
        schema
    };
    let text = || json!({ "type": "string" });
    json!({
        "type": "object",
        "required": ["resource", "id", "version", "op", "data", "by", "at", "origin"],
        "properties": {
            "resource": text(),
            "id": { "type": "string", "description": "As it stands in the record's address" },
            "version": whole(4),
            "op": {
                "enum": ["upsert", "delete", "remove"],
                "description": "`remove`: the record is no longer the caller's to see",
            },
            "data": known(json!({ "type": "object" }), "The row at this version; null where it is gone"),
            "by": known(text(), "Who made it, where that is known"),
            "at": known(json!({ "type": "string", "format": "date-time" }), "When, where that is known"),
            "origin": known(text(), "The client that pushed it"),
        },
    })
}
