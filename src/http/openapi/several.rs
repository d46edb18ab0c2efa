//! The addresses of batches and operations, which are there whatever the tables are.

use serde_json::{Map, Value, json};

use crate::http::openapi::operation::Operation;
use crate::http::openapi::types::or_null;
use crate::http::openapi::{failure, members};

const TAG: &str = "operations";

/// Failures of every request here.
const ANY: [u16; 6] = [400, 401, 403, 405, 500, 503];

pub(super) fn tag() -> Value {
    json!({ "name": TAG, "description": "Several writes as one, and writes that are done once" })
}

pub(super) fn paths() -> Map<String, Value> {
    let id = json!([{
        "name": "id", "in": "path", "required": true, "description": "The operation's id",
        "schema": { "type": "string", "format": "uuid" },
    }]);
    let one = |method: &str, operation: Value| json!({ "parameters": id, method: operation });
    members([
        ("/api/v1/batch", json!({ "post": batch() })),
        ("/api/v1/operations", json!({ "get": list() })),
        ("/api/v1/operations/{id}", one("get", show())),
        ("/api/v1/operations/{id}/retry", one("post", retry())),
        ("/api/v1/operations/{id}/resolve", one("post", resolve())),
    ])
}

fn batch() -> Value {
    let about = "At most 500 writes in one transaction, in the order given. Atomic, a refusal \
        refuses all, and `error.details.operations` holds every refused one; otherwise each \
        stands for itself in the list.";
    let conflict = |status| failure::response(status, &failure::codes(status), None);
    Operation::new("batch", TAG, "Several writes as one request")
        .about(about)
        .common(&["IdempotencyKey", "DryRun", "PreferReturn", "Actor", "RequestId"])
        .body([("application/json", batch_body())])
        .success(200, "Each operation's answer", &["Idempotency-Replayed"], Some(batch_answer()))
        .failures(&ANY)
        .failures(&[404, 410, 413, 415, 422, 428, 507])
        .own_failure(409, conflict(409))
        .own_failure(412, conflict(412))
        .finish()
}

fn batch_body() -> Value {
    let text = json!({ "type": "string" });
    let tag = json!({ "type": ["string", "integer"], "description": "What the header would hold" });
    let operation = json!({
        "type": "object",
        "required": ["method", "resource"],
        "properties": {
            "method": { "enum": ["POST", "PUT", "PATCH", "DELETE", "INCREMENT"] },
            "resource": text,
            "id": { "type": ["string", "integer"] },
            "if_match": tag,
            "if_none_match": tag,
            "media_type": { "type": "string", "description": "Of the body, where it is a patch" },
            "on_conflict": { "enum": ["fail", "merge", "merge_mine", "merge_theirs"] },
            "body": { "description": "What a request of its own would send" },
        },
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "required": ["operations"],
        "properties": {
            "atomic": { "type": "boolean", "default": true },
            "operations": { "type": "array", "maxItems": crate::batch::MOST, "items": operation },
        },
        "additionalProperties": false,
    })
}

fn batch_answer() -> Value {
    let line = json!({
        "type": "object",
        "required": ["status", "data"],
        "properties": {
            "status": { "type": "integer" },
            "etag": { "type": ["string", "null"] },
            "location": { "type": "string" },
            "result": { "type": "string" },
            "error": { "type": "object" },
            "data": { "type": ["object", "null"] },
        },
    });
    data(&json!({ "type": "array", "items": line }))
}

fn list() -> Value {
    let query = |name: &str, about: &str, schema: Value| json!({ "name": name, "in": "query", "description": about, "schema": schema });
    let page = json!({
        "type": "object",
        "required": ["data", "page"],
        "properties": {
            "data": { "type": "array", "items": shown() },
            "page": {
                "type": "object",
                "required": ["next"],
                "properties": { "next": { "type": ["string", "null"] } },
            },
        },
    });
    Operation::new("listOperations", TAG, "What was done under an Idempotency-Key, newest first")
        .parameters([
            query("status", "Only those of this status", status()),
            query("limit", "How many", json!({ "type": "integer", "minimum": 1, "maximum": 1000 })),
            query(
                "after",
                "The page before's `page.next`",
                json!({ "type": "string", "format": "uuid" }),
            ),
        ])
        .common(&["RequestId"])
        .success(200, "The page", &[], Some(page))
        .failures(&ANY)
        .finish()
}

fn show() -> Value {
    Operation::new("showOperation", TAG, "One operation")
        .common(&["RequestId"])
        .success(200, "The operation", &[], Some(data(&shown())))
        .failures(&ANY)
        .failures(&[404])
        .finish()
}

fn retry() -> Value {
    settle("retryOperation", "Let a blocked operation be run again")
        .about("The next request under its key runs it.")
        .body([("application/json", settlement(&json!({}), &[]))])
        .finish()
}

fn resolve() -> Value {
    let status = json!({ "status": { "enum": ["completed", "rejected"] } });
    settle("resolveOperation", "Say how a blocked operation ended")
        .body([("application/json", settlement(&status, &["status"]))])
        .finish()
}

fn settle(id: &str, summary: &str) -> Operation {
    let conflict = failure::response(409, &failure::codes(409), None);
    Operation::new(id, TAG, summary)
        .common(&["Actor", "RequestId"])
        .success(200, "The operation as it is now", &[], Some(data(&shown())))
        .failures(&ANY)
        .failures(&[404, 413, 422])
        .own_failure(409, conflict)
}

fn settlement(more: &Value, required: &[&str]) -> Value {
    let mut schema = json!({
        "type": "object",
        "required": required,
        "properties": more,
        "additionalProperties": false,
    });
    schema["properties"]["note"] =
        json!({ "type": "string", "maxLength": 2000, "description": "Kept with the evidence" });
    schema
}

fn status() -> Value {
    json!({ "enum": ["running", "retryable", "completed", "rejected", "blocked"] })
}

fn shown() -> Value {
    let moment = || json!({ "type": "string", "format": "date-time" });
    let text = || json!({ "type": "string" });
    json!({
        "type": "object",
        "required": ["id", "key", "status", "kind", "method", "path", "actor", "attempts", "evidence"],
        "properties": {
            "id": { "type": "string", "format": "uuid" },
            "key": text(), "kind": text(), "method": text(), "path": text(), "actor": text(),
            "status": status(),
            "attempts": { "type": "integer", "minimum": 1 },
            "evidence": { "type": "object" },
            "response_status": { "type": ["integer", "null"] },
            "created_at": moment(),
            "completed_at": or_null(moment()),
            "expires_at": moment(),
        },
    })
}

/// `{"data": …}`
fn data(schema: &Value) -> Value {
    json!({ "type": "object", "required": ["data"], "properties": { "data": schema } })
}
