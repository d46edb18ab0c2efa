//! The operations on a record's past and its possible future: history, and the preview of a merge.

use serde_json::{Map, Value, json};

use crate::http::openapi::operation::data;
use crate::http::openapi::resource::{ANY, BODY, Described, REQUEST};
use crate::http::openapi::types::{or_null, whole};
use crate::http::openapi::{component, filter, members};

impl Described<'_> {
    pub(super) fn history(&self) -> Value {
        let page = json!({
            "type": "object",
            "required": ["data", "page"],
            "properties": {
                "data": { "type": "array", "items": component("schemas", "Version") },
                "page": component("schemas", "Page"),
            },
        });
        let after = json!({
            "name": "after",
            "in": "query",
            "description": "The cursor of the page before: its `page.next`",
            "schema": whole(4),
        });
        self.operation("history", &format!("The versions of a record of {}", self.resource.name))
            .about("Newest first.")
            .parameters([filter::limit(), after])
            .common(&REQUEST)
            .success(200, "The versions", &["Link"], Some(page))
            .failures(&ANY)
            .finish()
    }

    pub(super) fn preview(&self) -> Value {
        let summary = format!("What a merge would make of a record of {}", self.resource.name);
        self.operation("merge", &summary)
            .about("Writes nothing. A write with `on_conflict=merge` does it.")
            .common(&REQUEST)
            .body([("application/json", self.preview_body())])
            .success(200, "The merge", &[], Some(data(&component("schemas", "Merge"))))
            .failures(&ANY)
            .failures(&BODY)
            .failures(&[410, 422])
            .finish()
    }

    fn preview_body(&self) -> Value {
        json!({
            "type": "object",
            "required": ["base_version", "data"],
            "properties": {
                "base_version": whole(4),
                "data": self.schema("Patch"),
            },
            "additionalProperties": false,
        })
    }
}

/// The parameter that reads an old version.
pub(super) fn version() -> Value {
    json!({
        "name": "version",
        "in": "query",
        "description": "The version to read from the history, instead of the record as it stands; \
            not together with `select`",
        "schema": { "type": "integer", "minimum": 0, "maximum": i32::MAX },
    })
}

/// The parameter that lets a write be merged.
pub(super) fn on_conflict() -> Value {
    json!({
        "name": "on_conflict",
        "in": "query",
        "description": "What becomes of a write that met a newer row: `fail` tells the conflict, \
            `merge` writes what both sides changed where no field clashes, `merge_mine` and \
            `merge_theirs` settle clashes one way",
        "schema": {
            "type": "string",
            "enum": ["fail", "merge", "merge_mine", "merge_theirs"],
            "default": "fail",
        },
    })
}

pub(super) fn schemas() -> Map<String, Value> {
    members([("Version", entry()), ("FieldVerdict", verdict()), ("Merge", merge())])
}

/// What a merged write was made of, beside its row.
pub(super) fn merged() -> Value {
    json!({
        "type": "object",
        "description": "Only where the write was merged",
        "required": ["base", "onto", "fields"],
        "properties": { "base": whole(4), "onto": whole(4), "fields": verdicts() },
    })
}

/// The fields of a conflict.
pub(super) fn verdicts() -> Value {
    json!({ "type": "array", "items": component("schemas", "FieldVerdict") })
}

fn entry() -> Value {
    let merged_from = "The versions that this one is a merge of: the client's, and the one it was \
        written over";
    json!({
        "type": "object",
        "description": "A version of a record",
        "required": ["version", "op", "at", "by", "changed", "data"],
        "properties": {
            "version": whole(4),
            "op": { "type": "string", "enum": ["baseline", "create", "update", "delete"] },
            "at": { "type": "string", "format": "date-time" },
            "by": { "type": ["string", "null"] },
            "changed": {
                "type": "array",
                "items": { "type": "string" },
                "description": "The fields that differ from the version before",
            },
            "merged_from": { "type": "array", "items": whole(4), "description": merged_from },
            "data": { "type": "object", "description": "The row; for a deletion the last one" },
        },
    })
}

fn verdict() -> Value {
    let value = |about: &str| json!({ "description": about });
    json!({
        "type": "object",
        "description": "A changed field with its values; an absent value is left out",
        "required": ["field", "verdict"],
        "properties": {
            "field": { "type": "string" },
            "verdict": {
                "type": "string",
                "enum": ["yours", "theirs", "same", "merged", "both"],
                "description": "Who changed it; `both` is a clash",
            },
            "base": value("The value that both sides began with"),
            "yours": value("The value that you sent"),
            "theirs": value("The current value"),
            "merged": value("The combined value"),
        },
    })
}

fn merge() -> Value {
    json!({
        "type": "object",
        "required":
            ["mergeable", "base_available", "base_version", "current_version", "merged", "fields"],
        "properties": {
            "mergeable": { "type": "boolean" },
            "base_available": { "type": "boolean" },
            "base_version": whole(4),
            "current_version": or_null(whole(4)),
            "merged": or_null(json!({ "type": "object", "description": "The merged row" })),
            "fields": verdicts(),
        },
    })
}
