//! The order of checks (RFC 9110 §13.2): route, media type, a header that cannot be read, existence,
//! preconditions, and only then what the body says. Every fault that a body may have is sent to
//! records in every standing; the answer is that of whichever comes first.

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use crate::support::{Reply, Server};

const TASKS: &str = "
    CREATE TABLE owners (id integer PRIMARY KEY);
    CREATE TABLE tasks (id integer PRIMARY KEY, amount integer NOT NULL CHECK (amount >= 0),
        due date, code text UNIQUE, owner integer REFERENCES owners);
    CREATE TABLE notes (task integer NOT NULL REFERENCES tasks);";

/// The record 1 is live and at version 7, 2 was deleted at version 7, 3 was never seen. The record 9
/// holds the code that is taken.
const RECORDS: &str = "
    INSERT INTO tasks VALUES (1, 94), (2, 94), (9, 94);
    UPDATE tasks SET code = 'taken' WHERE id = 9;
    INSERT INTO notes VALUES (1);";

const ALL: &str = "SELECT (SELECT json_agg(t ORDER BY id) FROM tasks t)::text || \
    (SELECT count(*) FROM counterfoil.change)::text";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Post,
    Put,
    /// PUT under `If-None-Match: *`.
    PutNew,
    Patch,
    MergePatch,
    JsonPatch,
    Increment,
    Delete,
}

const VERBS: [Verb; 8] = [
    Verb::Post,
    Verb::Put,
    Verb::PutNew,
    Verb::Patch,
    Verb::MergePatch,
    Verb::JsonPatch,
    Verb::Increment,
    Verb::Delete,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    MediaType,
    InvalidJson,
    DuplicateKey,
    UnknownField,
    WrongType,
    /// A text that only PostgreSQL can tell from a date.
    NoSuchDate,
    Null,
    MissingField,
    OtherId,
    Check,
    Reference,
    Taken,
    OutOfRange,
    /// A DELETE of a record that others refer to.
    Referenced,
}

/// Every fault with the answer that is its own: status, code, field.
#[rustfmt::skip]
const FAULTS: [(Fault, u16, &str, &str); 14] = [
    (Fault::MediaType,    415, "UNSUPPORTED_MEDIA_TYPE", ""),
    (Fault::InvalidJson,  400, "INVALID_JSON",           ""),
    (Fault::DuplicateKey, 400, "DUPLICATE_KEY",          "amount"),
    (Fault::UnknownField, 422, "UNKNOWN_FIELD",          "nope"),
    (Fault::WrongType,    422, "INVALID_VALUE",          "amount"),
    (Fault::NoSuchDate,   422, "INVALID_VALUE",          "due"),
    (Fault::Null,         422, "INVALID_VALUE",          "amount"),
    (Fault::MissingField, 422, "MISSING_FIELD",          "amount"),
    (Fault::OtherId,      422, "INVALID_VALUE",          "id"),
    (Fault::Check,        422, "CHECK_FAILED",           "amount"),
    (Fault::Reference,    422, "REFERENCE_NOT_FOUND",    "owner"),
    (Fault::Taken,        409, "ALREADY_EXISTS",         "code"),
    (Fault::OutOfRange,   422, "INVALID_VALUE",          "amount"),
    (Fault::Referenced,   409, "REFERENCED",             ""),
];

/// How the record and the headers stand: the id, `If-Match`, `If-None-Match`.
type Standing = (i32, Option<&'static str>, Option<&'static str>);

const STANDINGS: [Standing; 14] = [
    (1, None, None),
    (1, Some("\"7\""), None),
    (1, Some("*"), None),
    (1, Some("\"6\""), None),
    (1, Some("\"abc\""), None),
    (1, Some("\"7"), None),
    (1, None, Some("\"6\"")),
    (1, None, Some("\"7\"")),
    (1, Some("\"6\""), Some("\"7\"")),
    (2, None, None),
    (2, Some("\"7\""), None),
    (2, Some("\"7"), None),
    (3, None, None),
    (3, Some("\"6\""), None),
];

/// The code that comes before what the body says; empty where nothing does.
fn first_refusal(
    verb: Verb,
    (id, if_match, if_none_match): Standing,
    required: bool,
) -> &'static str {
    match (id, if_match, if_none_match) {
        (_, Some("\"7"), _) => "INVALID_IF_MATCH",
        // POST creates or refuses to; no record can be at a version that it names.
        (_, None, _) if verb == Verb::Post => "",
        (..) if verb == Verb::Post => "WRITE_CONFLICT",
        (2 | 3, None, _) if verb == Verb::PutNew => "",
        (2, ..) => "RECORD_DELETED",
        (3, ..) => "NOT_FOUND",
        (_, None, _) if required && verb != Verb::PutNew => "PRECONDITION_REQUIRED",
        (_, Some("\"6\"" | "\"abc\""), _) => "WRITE_CONFLICT",
        (_, _, Some("\"7\"")) => "PRECONDITION_FAILED",
        _ if verb == Verb::PutNew => "PRECONDITION_FAILED",
        _ => "",
    }
}

fn status(code: &str) -> u16 {
    match code {
        "INVALID_IF_MATCH" => 400,
        "NOT_FOUND" => 404,
        "WRITE_CONFLICT" => 409,
        "RECORD_DELETED" => 410,
        "PRECONDITION_FAILED" => 412,
        "PRECONDITION_REQUIRED" => 428,
        other => panic!("{other}"),
    }
}

/// The body that has the fault, where the verb can have it.
fn body(verb: Verb, fault: Fault, id: i32) -> Option<String> {
    let whole = matches!(verb, Verb::Post | Verb::Put | Verb::PutNew);
    match (verb, fault) {
        (Verb::Delete, Fault::Referenced) => return Some(String::new()),
        (Verb::Delete, _) | (_, Fault::Referenced) | (Verb::Post, Fault::OtherId) => return None,
        (_, Fault::InvalidJson) => return Some("{\"amount\":".to_owned()),
        (Verb::Increment, _) => {
            let text = match fault {
                Fault::MediaType => r#"{"field":"amount"}"#,
                Fault::DuplicateKey => r#"{"field":"amount","amount":1,"amount":2}"#,
                Fault::UnknownField => r#"{"field":"nope"}"#,
                Fault::Check => r#"{"field":"amount","by":-1000}"#,
                Fault::OutOfRange => r#"{"field":"amount","by":2147483647}"#,
                _ => return None,
            };
            return Some(text.to_owned());
        }
        (_, Fault::MissingField) if !whole => return None,
        _ => {}
    }
    let (field, value) = match fault {
        Fault::MediaType => ("amount", "5"),
        Fault::DuplicateKey => ("amount", "{\"amount\":1,\"amount\":2}"),
        Fault::UnknownField => ("nope", "5"),
        Fault::WrongType => ("amount", "\"many\""),
        Fault::NoSuchDate => ("due", "\"2026-02-30\""),
        Fault::Null => ("amount", "null"),
        Fault::OtherId => ("id", "77"),
        Fault::MissingField => ("code", "\"free\""),
        Fault::Check => ("amount", "-1"),
        Fault::Reference => ("owner", "404"),
        Fault::Taken => ("code", "\"taken\""),
        Fault::OutOfRange => ("amount", "2147483648"),
        Fault::InvalidJson | Fault::Referenced => return None,
    };
    if verb == Verb::JsonPatch {
        return Some(format!(r#"[{{"op":"add","path":"/{field}","value":{value}}}]"#));
    }
    let mut members = vec![format!("\"{field}\":{value}")];
    if whole && field != "amount" && fault != Fault::MissingField {
        members.push("\"amount\":5".to_owned());
    }
    if verb == Verb::Post {
        members.push(format!("\"id\":{id}"));
    }
    Some(format!("{{{}}}", members.join(",")))
}

fn request(
    server: &Server,
    verb: Verb,
    fault: Fault,
    standing: Standing,
) -> Option<RequestBuilder> {
    let (id, if_match, if_none_match) = standing;
    let body = body(verb, fault, id)?;
    let (method, path, media_type) = match verb {
        Verb::Post => (Method::POST, "/tasks".to_owned(), "application/json"),
        Verb::Put | Verb::PutNew => (Method::PUT, format!("/tasks/{id}"), "application/json"),
        Verb::Patch => (Method::PATCH, format!("/tasks/{id}"), "application/json"),
        Verb::MergePatch => (Method::PATCH, format!("/tasks/{id}"), "application/merge-patch+json"),
        Verb::JsonPatch => (Method::PATCH, format!("/tasks/{id}"), "application/json-patch+json"),
        Verb::Increment => (Method::POST, format!("/tasks/{id}/increment"), "application/json"),
        Verb::Delete => (Method::DELETE, format!("/tasks/{id}"), "application/json"),
    };
    let media_type = if fault == Fault::MediaType { "text/plain" } else { media_type };
    let mut request = server.request(method, &path).header("content-type", media_type).body(body);
    if let Some(value) = if_match {
        request = request.header("if-match", value);
    }
    match (verb, if_none_match) {
        (Verb::PutNew, None) => Some(request.header("if-none-match", "*")),
        (Verb::PutNew, Some(_)) => None,
        (_, Some(value)) => Some(request.header("if-none-match", value)),
        (_, None) => Some(request),
    }
}

/// Sends one request and gives what differs from the answer that is due.
async fn difference(
    server: &Server,
    (fault, own_status, own_code, own_field): (Fault, u16, &str, &str),
    verb: Verb,
    standing: Standing,
    required: bool,
) -> Option<String> {
    // Whether a taken id or the body's fault is told first is nobody's promise.
    if verb == Verb::Post && standing.0 == 1 {
        return None;
    }
    let reply = Reply::of(request(server, verb, fault, standing)?).await;
    let (status, code, field) = match first_refusal(verb, standing, required) {
        "" => (own_status, own_code, own_field),
        _ if fault == Fault::MediaType => (own_status, own_code, own_field),
        code => (status(code), code, ""),
    };
    let patches = matches!(verb, Verb::Patch | Verb::MergePatch | Verb::JsonPatch);
    let advised = patches && fault == Fault::MediaType;
    // A conflict shows the record, but for POST, which met none.
    let shown = match code {
        "WRITE_CONFLICT" if verb != Verb::Post => ("\"7\"", Value::from(100)),
        "WRITE_CONFLICT" => ("", Value::Null),
        _ => (reply.header("etag"), reply.data()["amount"].clone()),
    };
    let due = (status, code, field, advised, shown);
    let found = (
        reply.status,
        reply.code(),
        reply.details()["field"].as_str().unwrap_or_default(),
        reply.header("accept-patch").contains("json-patch"),
        (reply.header("etag"), reply.data()["amount"].clone()),
    );
    (due != found).then(|| format!("{fault:?} by {verb:?} at {standing:?}: {found:?}, not {due:?}"))
}

async fn every_fault_meets_every_standing(config: &str, required: bool) {
    let server = Server::configured(TASKS, &["tasks"], config).await;
    let raise = "UPDATE tasks SET amount = amount + 1;".repeat(6);
    server.sql(&format!("{RECORDS}{raise} DELETE FROM tasks WHERE id = 2")).await;
    let before = server.value(ALL).await;
    let mut differences = Vec::new();
    for fault in FAULTS {
        for verb in VERBS {
            for standing in STANDINGS {
                differences.extend(difference(&server, fault, verb, standing, required).await);
            }
        }
    }
    assert!(differences.is_empty(), "{}:\n{}", differences.len(), differences.join("\n"));
    assert_eq!(server.value(ALL).await, before, "no fault was written");
}

#[tokio::test]
async fn a_stale_tag_with_a_body_that_cannot_be_stored_is_the_conflict() {
    every_fault_meets_every_standing("", false).await;
}

#[tokio::test]
async fn a_missing_if_match_comes_before_what_the_body_says() {
    every_fault_meets_every_standing("[resource.tasks]\nrequire_if_match = true", true).await;
}

#[tokio::test]
async fn a_post_under_if_match_shows_the_live_record_whatever_else_its_body_says() {
    let server = Server::start(TASKS, &["tasks"]).await;
    server.sql(RECORDS).await;
    for body in [
        r#"{"id":1,"amount":5}"#,
        r#"{"id":1,"amount":-1}"#,
        r#"{"id":1,"amount":5,"due":"2026-02-30"}"#,
        r#"{"id":1,"amount":5,"code":"taken"}"#,
    ] {
        let request = server.request(Method::POST, "/tasks").header("if-match", "\"1\"");
        let reply = Reply::of(request.header("content-type", "application/json").body(body)).await;
        let reply = reply.expect(409);
        assert_eq!(reply.code(), "ALREADY_EXISTS", "{}", reply.text);
        assert_eq!(reply.data()["id"], 1, "{}", reply.text);
    }
}
