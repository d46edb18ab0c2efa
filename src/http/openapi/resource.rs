//! The operations of one resource.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::catalog::Resource;
use crate::catalog::kind::Kind;
use crate::http::openapi::operation::{Operation, data};
use crate::http::openapi::types::{self, Way};
use crate::http::openapi::{component, failure, filter, members, past, schema};
use crate::record::conflict;

/// Failures of every request to a resource.
pub(super) const ANY: [u16; 7] = [400, 401, 403, 404, 405, 500, 503];
/// Failures of every write.
const WRITE: [u16; 3] = [410, 422, 507];
/// Failures of every write with a body.
pub(super) const BODY: [u16; 2] = [413, 415];
/// What every request may say about itself.
pub(super) const REQUEST: [&str; 2] = ["Actor", "RequestId"];

/// A resource with its name in the document.
pub(super) struct Described<'a> {
    pub(super) resource: &'a Arc<Resource>,
    pub(super) name: &'a str,
}

impl Described<'_> {
    pub(super) fn tag(&self) -> Value {
        let table = self.resource.table.replace('"', "");
        let about = self.resource.comment.clone().unwrap_or_else(|| format!("The table {table}"));
        json!({ "name": self.resource.name, "description": about })
    }

    pub(super) fn paths(&self) -> Map<String, Value> {
        let base = format!("/api/v1/{}", self.resource.name);
        let record = format!("{base}/{{id}}");
        let mut paths = members([
            (base, json!({ "get": self.list(), "head": self.count(), "post": self.create() })),
            (
                record.clone(),
                json!({
                    "parameters": [self.id()],
                    "get": self.read(),
                    "head": self.look(),
                    "put": self.replace(),
                    "patch": self.patch(),
                    "delete": self.delete(),
                }),
            ),
        ]);
        let beside = [("history", "get", self.history()), ("merge", "post", self.preview())];
        for (name, method, operation) in beside {
            let item = json!({ "parameters": [self.id()], method: operation });
            paths.insert(format!("{record}/{name}"), item);
        }
        if schema::countable(self.resource).next().is_some() {
            let increment = json!({ "parameters": [self.id()], "post": self.increment() });
            paths.insert(format!("{record}/increment"), increment);
        }
        paths
    }

    pub(super) fn schemas(&self) -> Map<String, Value> {
        members([
            (self.name.to_owned(), schema::row(self.resource)),
            (self.named("Create"), schema::create(self.resource)),
            (self.named("Replace"), schema::replace(self.resource)),
            (self.named("Patch"), schema::patch(self.resource)),
            (self.named("Increment"), schema::increment(self.resource)),
        ])
    }

    /// The failures that show the current row.
    pub(super) fn responses(&self) -> Map<String, Value> {
        let row = schema::current(&self.schema(""));
        let responses = failure::WITH_ROW.map(|status| {
            let mut codes = failure::codes(status);
            if self.resource.settings.conflict_status == 412 {
                match status {
                    412 => codes.push(conflict::CODE),
                    // A JSON Patch whose `test` fails answers as a conflict does.
                    _ => codes.retain(|code| *code != conflict::CODE),
                }
            }
            (self.failure_name(status), failure::response(status, &codes, Some(&row)))
        });
        members(responses)
    }

    fn named(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.name)
    }

    fn failure_name(&self, status: u16) -> String {
        self.named(if status == 409 { "Conflict" } else { "PreconditionFailed" })
    }

    pub(super) fn schema(&self, suffix: &str) -> Value {
        component("schemas", &self.named(suffix))
    }

    pub(super) fn operation(&self, verb: &str, summary: &str) -> Operation {
        Operation::new(&format!("{verb}{}", self.name), &self.resource.name, summary)
    }

    /// The id in the path. Its parts are an array in the style `simple`, which is commas between
    /// parts that are each percent-encoded.
    fn id(&self) -> Value {
        let mut parts: Vec<_> = self.resource.key_columns().map(part).collect();
        if let [only] = parts.as_mut_slice() {
            types::address(only);
        }
        let names: Vec<_> = self.resource.key_columns().map(|c| format!("`{}`", c.name)).collect();
        let (about, schema) = if parts.len() == 1 {
            (format!("The id: {}", names.concat()), parts.remove(0))
        } else {
            let count = parts.len();
            let about =
                format!("The id: {}, joined by commas, each percent-encoded", names.join(", "));
            let schema = json!({
                "type": "array", "prefixItems": parts, "items": false,
                "minItems": count, "maxItems": count,
            });
            (about, schema)
        };
        json!({ "name": "id", "in": "path", "required": true, "description": about, "schema": schema })
    }

    fn list(&self) -> Value {
        let rows = json!({
            "type": "object",
            "required": ["data", "page"],
            "properties": {
                "data": { "type": "array", "items": self.answered() },
                "page": component("schemas", "Page"),
            },
        });
        let about = "Filters are query parameters named after the fields: `?status=eq.draft`. \
            Conditions on one field may be repeated; all must hold.";
        self.operation("list", &format!("A page of {}", self.resource.name))
            .about(about)
            .parameters(filter::parameters(self.resource))
            .common(&["After", "And", "Or", "NotAnd", "NotOr", "PreferCount"])
            .common(&REQUEST)
            .success(200, "The page", &["Link", "Content-Range", "Preference-Applied"], Some(rows))
            .failures(&ANY)
            .finish()
    }

    fn count(&self) -> Value {
        self.operation("count", &format!("The headers of a page of {}", self.resource.name))
            .about("With `Prefer: count=exact`, how many rows there are.")
            .parameters(filter::parameters(self.resource))
            .common(&["After", "And", "Or", "NotAnd", "NotOr", "PreferCount"])
            .common(&REQUEST)
            .success(
                200,
                "The page's headers",
                &["Link", "Content-Range", "Preference-Applied"],
                None,
            )
            .bare_failures(&ANY)
            .finish()
    }

    fn read(&self) -> Value {
        let not_modified = "The client has this version";
        let row = data(&self.answered());
        let unmet = failure::response(412, &failure::codes(412), Some(&self.answered()));
        self.operation("read", &format!("One record of {}", self.resource.name))
            .parameters([filter::select(self.resource), past::version()])
            .common(&["IfNoneMatch", "IfMatch"])
            .common(&REQUEST)
            .success(200, "The record", &["ETag"], Some(row))
            .success(304, not_modified, &["ETag"], None)
            .failures(&ANY)
            .failures(&[410])
            .own_failure(412, unmet)
            .finish()
    }

    fn look(&self) -> Value {
        self.operation("look", &format!("The headers of one record of {}", self.resource.name))
            .parameters([filter::select(self.resource), past::version()])
            .common(&["IfNoneMatch", "IfMatch"])
            .common(&REQUEST)
            .success(200, "The record's headers", &["ETag"], None)
            .success(304, "The client has this version", &["ETag"], None)
            .bare_failures(&ANY)
            .bare_failures(&[410, 412])
            .finish()
    }

    fn create(&self) -> Value {
        let row = data(&self.schema(""));
        let about = "`If-Match` cannot hold for a record that is still to come: with it, nothing is \
            created (409).";
        self.operation("create", &format!("A new record of {}", self.resource.name))
            .about(about)
            .common(&["IdempotencyKey", "DryRun", "PreferReturnCreated"])
            .common(&REQUEST)
            .body([("application/json", self.schema("Create"))])
            .success(
                201,
                "The new record",
                &[
                    "Location",
                    "Content-Location",
                    "ETag",
                    "Preference-Applied",
                    "Idempotency-Replayed",
                ],
                Some(row),
            )
            .links(201, self.links())
            .failures(&ANY)
            .failures(&WRITE)
            .failures(&BODY)
            .failure(409, &self.failure_name(409))
            .failure(412, &self.failure_name(412))
            .finish()
    }

    fn replace(&self) -> Value {
        let about = "With `If-None-Match: *` it creates the record under this id, over a deletion \
            too; the version then goes on where it was.";
        let created = data(&self.schema(""));
        let operation =
            self.operation("replace", &format!("Replace a record of {}", self.resource.name));
        self.write(
            operation
                .about(about)
                .parameters([past::on_conflict()])
                .common(&["PreferReturnCreated"])
                .body([("application/json", self.schema("Replace"))]),
        )
        .success(
            201,
            "The new record",
            &["Location", "Content-Location", "ETag", "Preference-Applied", "Idempotency-Replayed"],
            Some(created),
        )
        .failures(&BODY)
        .finish()
    }

    fn patch(&self) -> Value {
        let about = "As `application/merge-patch+json`, objects also merge inside JSON fields.";
        let operation = self
            .operation("patch", &format!("Change fields of a record of {}", self.resource.name));
        let fields = self.schema("Patch");
        let operation = operation.about(about).parameters([past::on_conflict()]);
        self.change(operation.body([
            ("application/json", fields.clone()),
            ("application/merge-patch+json", fields),
            ("application/json-patch+json", component("schemas", "JsonPatch")),
        ]))
        .failures(&BODY)
        .finish()
    }

    fn increment(&self) -> Value {
        let operation = self.operation(
            "increment",
            &format!("Raise a number of a record of {}", self.resource.name),
        );
        let about = "One atomic statement, for numbers that many writers raise at once.";
        self.change(operation.about(about).body([("application/json", self.schema("Increment"))]))
            .failures(&BODY)
            .finish()
    }

    fn delete(&self) -> Value {
        let operation =
            self.operation("delete", &format!("Delete a record of {}", self.resource.name));
        self.guarded(operation.common(&["DryRun", "IfMatch", "IfNoneMatch"]))
            .success(204, "The record is gone", &["Idempotency-Replayed"], None)
            .finish()
    }

    /// What every change of a row has in common.
    fn change(&self, operation: Operation) -> Operation {
        self.write(operation.common(&["PreferReturn"]))
    }

    /// What every write of a row has in common.
    fn write(&self, operation: Operation) -> Operation {
        let mut row = data(&self.schema(""));
        row["properties"]["merged"] = past::merged();
        let headers = ["ETag", "Content-Location", "Counterfoil-Result", "Idempotency-Replayed"];
        let minimal = ["ETag", "Preference-Applied", "Counterfoil-Result", "Idempotency-Replayed"];
        self.guarded(operation.common(&["DryRun", "IfMatch", "IfNoneMatch"]))
            .success(200, "The row as it is now", &headers, Some(row))
            .success(204, "It is done; the row was not asked for", &minimal, None)
    }

    /// What every write to a record can run into.
    fn guarded(&self, operation: Operation) -> Operation {
        let operation = operation
            .common(&["IdempotencyKey"])
            .common(&REQUEST)
            .failures(&ANY)
            .failures(&WRITE)
            .failure(409, &self.failure_name(409))
            .failure(412, &self.failure_name(412));
        if self.resource.settings.require_if_match { operation.failures(&[428]) } else { operation }
    }

    /// What can be done with a row in an answer, where one field is the whole id.
    fn links(&self) -> Map<String, Value> {
        let [place] = self.resource.key.as_slice() else {
            return Map::new();
        };
        let field = self.resource.columns[*place].name.replace('~', "~0").replace('/', "~1");
        let mut verbs = vec!["read", "look", "replace", "patch", "delete"];
        if schema::countable(self.resource).next().is_some() {
            verbs.push("increment");
        }
        let link = |verb: &str| {
            json!({
                "operationId": format!("{verb}{}", self.name),
                "parameters": { "id": format!("$response.body#/data/{field}") },
            })
        };
        members(verbs.into_iter().map(|verb| (verb, link(verb))))
    }

    /// A row in the answer to a read: whole, or what `select` leaves of it.
    fn answered(&self) -> Value {
        json!({ "anyOf": [self.schema(""), schema::selection(self.resource)] })
    }
}

/// A part of the id.
fn part(column: &crate::catalog::Column) -> Value {
    match column.kind {
        // In a path a number is its digits; there is no text beside it.
        Kind::Integer(size) => types::whole(size),
        _ => types::column(column, Way::Write),
    }
}
