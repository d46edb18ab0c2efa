//! The address to which offline clients push.

use serde_json::{Map, Value, json};

use crate::http::openapi::operation::Operation;
use crate::http::openapi::{failure, members};
use crate::sync::{GREATEST_ID, MOST};

const TAG: &str = "sync";

pub(super) fn paths() -> Map<String, Value> {
    members([("/api/v1/sync/push", json!({ "post": push() }))])
}

fn push() -> Value {
    let about = "Applies what a client wrote while it was offline, in order and exactly once for each \
        `client_id` and `id`. Each mutation is the write that a request of its own would be, and its \
        result is stored with it: sent again, it is answered from there, with `replayed`. Atomic, a \
        refusal refuses all, uses no id up, and `error.details.results` holds every refused one.";
    let conflict = |status| failure::response(status, &failure::codes(status), None);
    Operation::new("push", TAG, "What a client wrote while it was offline")
        .about(about)
        .common(&["Actor", "RequestId"])
        .body([("application/json", body())])
        .success(200, "What became of each mutation", &["Retry-After"], Some(answer()))
        .failures(&[400, 401, 403, 405, 500, 503])
        .failures(&[404, 410, 413, 415, 422, 428, 507])
        .own_failure(409, conflict(409))
        .own_failure(412, conflict(412))
        .finish()
}

fn id() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": GREATEST_ID })
}

fn body() -> Value {
    let mutation = json!({
        "type": "object",
        "required": ["id", "op", "resource"],
        "properties": {
            "id": { "description": "Counts up by one for each client", "allOf": [id()] },
            "op": { "enum": ["create", "put", "patch", "delete", "increment"] },
            "resource": { "type": "string" },
            "record_id": { "type": ["string", "integer"] },
            "base_version": {
                "type": "integer", "minimum": 0, "maximum": i32::MAX,
                "description": "The version that the client had; 0 where there must be no record. \
                    Absent, the write is unconditional",
            },
            "base_mutation": {
                "description": "Instead: the earlier mutation of this client that made that version",
                "allOf": [id()],
            },
            "on_conflict": { "enum": ["fail", "merge", "merge_mine", "merge_theirs"] },
            "data": { "description": "What the body of a request of its own would be" },
        },
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "required": ["client_id", "mutations"],
        "properties": {
            "client_id": { "type": "string", "format": "uuid" },
            "atomic": { "type": "boolean", "default": false },
            "mutations": { "type": "array", "maxItems": MOST, "items": mutation },
            "ack_through": {
                "type": "integer", "minimum": 0, "maximum": GREATEST_ID,
                "description": "The client has the results up to this one; they are let go",
            },
        },
        "additionalProperties": false,
    })
}

fn answer() -> Value {
    let line = json!({
        "type": "object",
        "required": ["id", "status"],
        "properties": {
            "id": id(),
            "status": {
                "enum": ["applied", "merged", "noop", "conflict", "blocked", "rejected", "retry"],
            },
            "version": { "type": "integer", "description": "That the record came to" },
            "data": { "type": ["object", "null"], "description": "The record, as it stands" },
            "merged": { "type": "object" },
            "error": { "type": "object", "description": "Why it does not hold" },
            "blocked_by": id(),
            "unconditional": { "const": true },
            "replayed": { "const": true },
        },
    });
    let content = json!({
        "type": "object",
        "required": ["results", "last_mutation_id"],
        "properties": {
            "results": { "type": "array", "items": line },
            "last_mutation_id": { "type": "integer", "minimum": 0, "maximum": GREATEST_ID },
        },
    });
    json!({ "type": "object", "required": ["data"], "properties": { "data": content } })
}
