//! The addresses that RxDB's replication of one resource asks.

use serde_json::{Map, Value, json};

use crate::http::openapi::resource::Described;
use crate::http::openapi::{failure, feed, filter, members};
use crate::sync::rxdb::{DEFAULT_LIMIT, MOST, document};

/// Failures of every request here.
const ANY: [u16; 7] = [400, 401, 403, 404, 405, 500, 503];

impl Described<'_> {
    /// The addresses of a resource that can be replicated.
    pub(super) fn rxdb(&self) -> Map<String, Value> {
        if document::obstacle(self.resource).is_some() || !self.resource.history {
            return Map::new();
        }
        let base = format!("/api/v1/sync/rxdb/{}", self.resource.name);
        members([
            (format!("{base}/pull"), json!({ "get": self.rxdb_pull() })),
            (format!("{base}/push"), json!({ "post": self.rxdb_push() })),
            (format!("{base}/stream"), json!({ "get": self.rxdb_stream() })),
        ])
    }

    fn rxdb_pull(&self) -> Value {
        let checkpoint = json!({
            "type": "object",
            "required": ["cursor"],
            "properties": { "cursor": { "type": "string" } },
        });
        let answer = json!({
            "type": "object",
            "required": ["documents", "checkpoint"],
            "properties": { "documents": documents(), "checkpoint": checkpoint },
        });
        let mut limit = filter::limit();
        limit["schema"]["default"] = json!(DEFAULT_LIMIT);
        let about = "First the rows as they stand, then what changed. A page with fewer documents than \
            `limit` is the last one for now; a document may come more than once.";
        self.operation(
            "rxdbPull",
            &format!("What RxDB's pull handler gives, of {}", self.resource.name),
        )
        .about(about)
        .parameters([feed::cursor("cursor", "That of the last `checkpoint`; none at first"), limit])
        .common(&["RequestId"])
        .success(200, "The documents", &[], Some(answer))
        .failures(&ANY)
        .failures(&[410])
        .finish()
    }

    fn rxdb_push(&self) -> Value {
        let key = self.resource.key_columns().next().map_or("", |key| key.name.as_str());
        let id = json!({ "type": ["string", "number"], "description": "To RxDB a text" });
        let wanted =
            json!({ "type": "object", "required": [key], "properties": members([(key, id)]) });
        let row = json!({
            "type": "object",
            "required": ["newDocumentState"],
            "properties": {
                "newDocumentState": wanted,
                "assumedMasterState": { "type": ["object", "null"] },
            },
            "additionalProperties": false,
        });
        let rejected = json!({
            "type": "object",
            "required": ["id", "error"],
            "properties": { "id": { "type": "string" }, "error": { "type": "object" } },
        });
        let report = json!({
            "type": "object",
            "required": ["documents", "rejected"],
            "properties": {
                "documents": documents(),
                "rejected": { "type": "array", "items": rejected },
            },
        });
        let about = "Each document is written only if the server's is the one that was assumed, or this \
            client itself wrote what came after it. The answer holds the documents that the client is to \
            take over: those that stand against it, and those that the table refuses to be otherwise. What \
            is sent again finds its effect there.";
        let conflict = |status| failure::response(status, &failure::codes(status), None);
        self.operation("rxdbPush", &format!("What RxDB's push handler sends, of {}", self.resource.name))
            .about(about)
            .parameters([
                json!({
                    "name": "client_id", "in": "query",
                    "description": "A UUID, the same for as long as the client keeps its documents",
                    "schema": { "type": "string", "format": "uuid" },
                }),
                json!({
                    "name": "on_conflict", "in": "query",
                    "description": "Whether the server is to combine what does not clash",
                    "schema": {
                        "enum": ["fail", "merge", "merge_mine", "merge_theirs"], "default": "fail",
                    },
                }),
                json!({
                    "name": "report", "in": "query",
                    "description": "Whether to say what the table refuses, and why, beside the documents",
                    "schema": { "type": "boolean", "default": false },
                }),
            ])
            .common(&["Actor", "RequestId"])
            .body([(
                "application/json",
                json!({ "type": "array", "maxItems": MOST, "items": row }),
            )])
            .success(
                200,
                "The documents to take over; with `report`, an object that holds them",
                &[],
                Some(json!({ "oneOf": [documents(), report] })),
            )
            .failures(&ANY)
            .failures(&[410, 413, 415, 422, 428, 507])
            .own_failure(409, conflict(409))
            .own_failure(412, conflict(412))
            .finish()
    }

    fn rxdb_stream(&self) -> Value {
        let about = "Server-sent events without an end and without a name: the `data` of each is \
            `{documents, checkpoint}`, as a pull answers. Where the address has no `cursor`, `checkpoint` is \
            empty: what came before the first event, only a pull tells.";
        let summary = format!("What RxDB's pull stream gives, of {}", self.resource.name);
        self.operation("rxdbStream", &summary)
            .about(about)
            .parameters([
                feed::cursor("cursor", "That of the last `checkpoint`, where one is known"),
                feed::last_event_id(),
            ])
            .events(&ANY)
    }
}

fn documents() -> Value {
    let document = json!({
        "type": "object",
        "required": ["_deleted"],
        "properties": { "_deleted": { "type": "boolean" } },
    });
    json!({ "type": "array", "items": document })
}
