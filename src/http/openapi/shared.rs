//! Parameters, headers and schemas that every resource shares.

use serde_json::{Map, Value, json};

use crate::http::openapi::{component, members};

/// The headers and parameters of requests.
pub(super) fn parameters() -> Map<String, Value> {
    let mut parameters = request_headers();
    parameters.extend(query());
    parameters
}

fn request_headers() -> Map<String, Value> {
    let preconditions = [
        (
            "IfMatch",
            "If-Match",
            "The version that the request is based on, as an entity tag: \
            `\"7\"`, several of them, or `*`. Absent, the request goes through as it is. A write \
            that met another version is told so",
            "\"7\"",
        ),
        (
            "IfNoneMatch",
            "If-None-Match",
            "Versions that the record must not be at; `*` asks that \
            there be no record. A read answers 304 for a version that the client has",
            "\"7\"",
        ),
    ];
    let preferences = [
        (
            "PreferCount",
            "Prefer",
            "`count=exact` adds the number of rows, on all pages, as \
            `Content-Range`",
            "count=exact",
        ),
        ("PreferReturn", "Prefer", "`return=minimal` answers without the row", "return=minimal"),
        // No example: a 201 without its row is one that no description of a 201 can hold.
        ("PreferReturnCreated", "Prefer", "`return=minimal` answers 201 without the row", ""),
    ];
    let requests = [
        (
            "IdempotencyKey",
            "Idempotency-Key",
            "Does the write once: a repeat under the same key gets the first answer. 1 to 255 \
            visible characters",
            "9c1f7e0a-checkout",
        ),
        ("Actor", "X-Actor", "Who makes the request, for the history", "mina"),
        (
            "RequestId",
            "X-Request-Id",
            "An id for the log: visible ASCII, at most 128 characters; \
            any other is replaced",
            "checkout-7f3a",
        ),
    ];
    let all = preconditions.into_iter().chain(preferences).chain(requests);
    members(all.map(|(component, name, about, example)| (component, header(name, about, example))))
}

fn query() -> Map<String, Value> {
    let dry_run = json!({
        "name": "dry_run",
        "in": "query",
        "description": "Answer what would happen, and write nothing",
        "allowEmptyValue": true,
        "schema": { "type": "boolean", "default": false },
    });
    let after = json!({
        "name": "after",
        "in": "query",
        "description": "The cursor of the page before: its `page.next`",
        "schema": { "type": "string", "pattern": "^[A-Za-z0-9_-]+$" },
    });
    members([
        ("DryRun", dry_run),
        ("After", after),
        ("And", tree("and", "Conditions of which every one must hold")),
        ("Or", tree("or", "Conditions of which at least one must hold")),
        ("NotAnd", tree("not.and", "Conditions of which at least one must fail")),
        ("NotOr", tree("not.or", "Conditions of which none may hold")),
    ])
}

fn header(name: &str, about: &str, example: &str) -> Value {
    let mut header = json!({
        "name": name,
        "in": "header",
        "description": about,
        "schema": { "type": "string" },
    });
    if !example.is_empty() {
        header["example"] = json!(example);
    }
    header
}

fn tree(name: &str, about: &str) -> Value {
    let about = format!("{about}: `(a.eq.1,not.and(b.gt.2,c.is.null))`");
    json!({
        "name": name,
        "in": "query",
        "description": about,
        "schema": { "type": "string", "pattern": r"^\([^\x00]+\)$" },
    })
}

/// The headers of answers.
pub(super) fn headers() -> Map<String, Value> {
    let answered = |about: &str| json!({ "description": about, "schema": { "type": "string" } });
    members([
        (
            "ETag",
            json!({
                "description": "The version of the row, for `If-Match`",
                "schema": { "type": "string", "pattern": "^\"[0-9]+\"$" },
            }),
        ),
        ("DocumentETag", answered("The description's tag, for `If-None-Match`")),
        ("Location", answered("The address of the new record")),
        ("Content-Location", answered("The address of the row in the body")),
        (
            "Content-Range",
            answered("The rows of this page and how many there are in all: `0-49/1312`"),
        ),
        ("Link", answered("The next page: `<…>; rel=\"next\"`")),
        ("Preference-Applied", answered("The preferences that were followed")),
        ("Idempotency-Replayed", answered("`true`: the answer is that of an earlier request")),
        ("X-Request-Id", answered("Finds the request in the log")),
        ("Allow", answered("The methods that this address takes")),
        ("Accept-Patch", answered("The media types that PATCH takes")),
        ("Cache-Control", answered("`no-store`: the row may move again at once")),
        (
            "Retry-After",
            json!({
                "description": "Seconds after which to try again",
                "schema": { "type": "integer", "minimum": 0 },
            }),
        ),
        (
            "Counterfoil-Result",
            json!({
                "description": "`already-applied`: the row already holds all that the write sets, so a \
                    retry after a lost reply is no conflict; `merged`: the write met a newer \
                    row and was merged with it",
                "schema": { "type": "string", "enum": ["already-applied", "merged"] },
            }),
        ),
    ])
}

/// `X-Request-Id` and these headers, as the `headers` of a response.
pub(super) fn header_references(names: &[&str]) -> Value {
    let all = names.iter().copied().chain(["X-Request-Id"]);
    Value::Object(members(all.map(|name| (name, component("headers", name)))))
}

/// What is not of one resource and no failure.
pub(super) fn schemas() -> Map<String, Value> {
    members([("JsonPatch", json_patch()), ("Page", page())])
}

fn page() -> Value {
    json!({
        "type": "object",
        "required": ["next"],
        "properties": {
            "next": { "type": ["string", "null"], "description": "The cursor of the next page" },
        },
    })
}

/// RFC 6902.
fn json_patch() -> Value {
    let pointer = json!({
        "type": "string",
        "description": "A JSON Pointer (RFC 6901)",
        "pattern": r"^(/([^~/\x00]|~[01])*)*$",
    });
    let operation = |operators: &[&str], members: &[&str]| {
        let mut properties = json!({ "op": { "enum": operators }, "path": pointer });
        for member in members {
            properties[*member] = match *member {
                "from" => pointer.clone(),
                _ => json!({ "description": "Any JSON value" }),
            };
        }
        let required: Vec<_> = ["op", "path"].iter().chain(members).collect();
        json!({ "type": "object", "required": required, "properties": properties })
    };
    json!({
        "type": "array",
        "description": "A JSON Patch (RFC 6902), said against the record as it stands",
        "items": { "oneOf": [
            operation(&["add", "replace", "test"], &["value"]),
            operation(&["remove"], &[]),
            operation(&["move", "copy"], &["from"]),
        ]},
    })
}
