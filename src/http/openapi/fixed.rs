//! The addresses that are there whatever the tables are.

use serde_json::{Map, Value, json};

use crate::http::openapi::{component, failure, members, shared};

const TAG: &str = "service";

pub(super) fn tag() -> Value {
    json!({ "name": TAG, "description": "The service itself" })
}

pub(super) fn paths() -> Map<String, Value> {
    members([
        (
            "/healthz",
            json!({ "get": get(
                "health", "Whether the process lives", &status("ok"), &[],
            )}),
        ),
        (
            "/readyz",
            json!({ "get": get(
                "ready", "Whether it can serve: the database answers", &ready(), &[503],
            )}),
        ),
        ("/metrics", json!({ "get": metrics() })),
        ("/openapi.json", json!({ "get": description() })),
    ])
}

fn get(id: &str, summary: &str, schema: &Value, failures: &[u16]) -> Value {
    let ok = json!({
        "description": summary,
        "headers": shared::header_references(&[]),
        "content": { "application/json": { "schema": schema } },
    });
    let failures = failures.iter().chain(&[405, 500]);
    let failures = failures.map(|&status| (status.to_string(), failure::reference(status)));
    let mut responses = members(failures);
    responses.insert("200".to_owned(), ok);
    json!({
        "operationId": id,
        "tags": [TAG],
        "summary": summary,
        "parameters": [component("parameters", "RequestId")],
        "responses": responses,
    })
}

fn status(word: &str) -> Value {
    json!({
        "type": "object",
        "required": ["status"],
        "properties": { "status": { "const": word } },
    })
}

fn ready() -> Value {
    let mut schema = status("ready");
    schema["properties"]["resources"] = json!({ "type": "integer", "minimum": 0 });
    schema["required"] = json!(["status", "resources"]);
    schema
}

fn metrics() -> Value {
    let mut operation = get("metrics", "What was counted, for Prometheus", &json!({}), &[]);
    operation["responses"]["200"]["content"] =
        json!({ "text/plain": { "schema": { "type": "string" } } });
    operation
}

fn description() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["openapi", "info", "paths"],
        "properties": {
            "openapi": { "type": "string" },
            "info": { "type": "object" },
            "paths": { "type": "object" },
        },
    });
    let mut operation = get("openapi", "This description", &schema, &[400]);
    operation["parameters"] = json!([
        {
            "name": "If-None-Match",
            "in": "header",
            "description": "Tags of descriptions that the client has, or `*`",
            "schema": { "type": "string" },
        },
        component("parameters", "RequestId"),
    ]);
    let mut headers = shared::header_references(&[]);
    headers["ETag"] = component("headers", "DocumentETag");
    operation["responses"]["200"]["headers"] = headers.clone();
    operation["responses"]["304"] =
        json!({ "description": "The client has this description", "headers": headers });
    operation
}
