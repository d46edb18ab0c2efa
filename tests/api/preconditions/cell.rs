//! One cell of the matrix: sends the request and holds answer and database against the rules.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::headers::{Header, IF_MATCH, NO_HEADER};
use super::rules::{CURRENT, Outcome, Settings, State, Verb, outcome};
use crate::support::{Reply, Server};

const ITEMS: &str = "CREATE TABLE items (
    id integer PRIMARY KEY, amount integer NOT NULL DEFAULT 0, note text);";

/// The tag of every live record.
const RIGHT: Header = IF_MATCH[1];

/// How the client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Plain,
    /// `?dry_run=true`
    DryRun,
    /// `Prefer: return=minimal`
    Minimal,
    /// `Accept: application/problem+json`
    Problem,
    /// As one of two operations of a batch that holds as a whole.
    Atomic,
    /// As one of two operations of a batch, each for itself.
    Loose,
}

impl Manner {
    /// Whether a fact shows in this manner: in a batch, headers are of the whole.
    fn shows(self, fact: &str, failed: bool) -> bool {
        match fact {
            "Content-Location" | "Preference-Applied" | "Cache-Control" | "Content-Type" => {
                !self.is_batch()
            }
            "ETag" => !(self.is_batch() && failed),
            _ => true,
        }
    }

    fn is_batch(self) -> bool {
        matches!(self, Self::Atomic | Self::Loose)
    }
}

pub(super) struct Cell {
    pub(super) verb: Verb,
    pub(super) state: State,
    pub(super) if_match: Header,
    pub(super) if_none_match: Header,
    pub(super) manner: Manner,
}

/// A server with as many records of each state as are asked for.
pub(super) struct Bench {
    pub(super) server: Server,
    conn: PgConnection,
    settings: Settings,
    next: i32,
    /// How many changes the log must hold.
    changes: i64,
}

impl Bench {
    pub(super) async fn new(settings: Settings, records: usize) -> Self {
        let config = format!(
            "[server]\nlanes = 1\n[resource.items]\nstrict_etags = {}\nrequire_if_match = {}\nconflict_status = {}",
            settings.strict_etags, settings.require_if_match, settings.conflict_status
        );
        let server = Server::configured(ITEMS, &["items"], &config).await;
        let raise = "UPDATE items SET amount = amount + 1;".repeat(6);
        server
            .sql(&format!(
                "SET counterfoil.actor = 'mina';
                 INSERT INTO items SELECT i, 94, 'as it was' FROM generate_series(1, {records}) i;
                 INSERT INTO items SELECT -i, 94, 'as it was' FROM generate_series(1, {records}) i;
                 {raise} DELETE FROM items WHERE id < 0;"
            ))
            .await;
        let conn = server.connect().await;
        Self { server, conn, settings, next: 1, changes: i64::try_from(records).unwrap() * 15 }
    }

    /// Tries a cell and gives what differs from the rules.
    pub(super) async fn run(&mut self, cell: &Cell) -> Vec<String> {
        let id = self.record(cell.state);
        let reply = if cell.manner.is_batch() {
            self.through_batch(cell, id).await
        } else {
            Reply::of(self.request(cell, id)).await
        };
        self.judge(cell, id, &reply).await
    }

    /// As [`Self::run`], for cells that come at once and meet in one lane.
    pub(super) async fn run_together(&mut self, cells: &[Cell]) -> Vec<String> {
        let ids: Vec<_> = cells.iter().map(|cell| self.record(cell.state)).collect();
        let sent = cells.iter().zip(&ids).map(|(cell, id)| Reply::of(self.request(cell, *id)));
        let replies = futures_util::future::join_all(sent).await;
        let mut differences = Vec::new();
        for ((cell, id), reply) in cells.iter().zip(ids).zip(replies) {
            differences.extend(self.judge(cell, id, &reply).await);
        }
        differences
    }

    async fn judge(&mut self, cell: &Cell, id: i32, reply: &Reply) -> Vec<String> {
        let after = self.snapshot(id).await;
        self.changes += after.logged - changes_before(cell.state);

        let strict = self.settings.strict_etags;
        let outcome = outcome(
            cell.verb,
            cell.state,
            cell.if_match.demand(strict),
            cell.if_none_match.demand(strict),
            self.settings,
        );
        let expected = expected(cell, id, outcome, self.settings);
        let found = found(cell, reply, &after);
        expected
            .iter()
            .zip(&found)
            .filter(|((name, _), _)| cell.manner.shows(name, reply.status >= 400))
            .filter(|(expected, found)| expected != found)
            .map(|((name, expected), (_, found))| {
                format!(
                    "{:?} on a {:?} record, If-Match {}, If-None-Match {}, {:?}: \
                     {name} is {found}, not {expected}",
                    cell.verb, cell.state, cell.if_match.name, cell.if_none_match.name, cell.manner
                )
            })
            .collect()
    }

    /// A record in this state that no cell was tried on yet.
    pub(super) fn record(&mut self, state: State) -> i32 {
        self.next += 1;
        match state {
            State::Live => self.next - 1,
            State::Deleted => 1 - self.next,
            State::NeverSeen => 999_999 + self.next,
        }
    }

    fn request(&self, cell: &Cell, id: i32) -> RequestBuilder {
        let (method, mut path) = match cell.verb {
            Verb::Post => (Method::POST, "/items".to_owned()),
            Verb::Put => (Method::PUT, format!("/items/{id}")),
            Verb::PatchJson | Verb::PatchMerge | Verb::JsonPatch => {
                (Method::PATCH, format!("/items/{id}"))
            }
            Verb::Delete => (Method::DELETE, format!("/items/{id}")),
            Verb::Increment => (Method::POST, format!("/items/{id}/increment")),
        };
        if cell.manner == Manner::DryRun {
            path.push_str("?dry_run=true");
        }
        let mut request = self.server.request(method, &path).header("x-actor", "otto");
        for line in cell.if_match.lines {
            request = request.header("if-match", *line);
        }
        for line in cell.if_none_match.lines {
            request = request.header("if-none-match", *line);
        }
        request = match cell.manner {
            Manner::Minimal => request.header("prefer", "return=minimal"),
            Manner::Problem => request.header("accept", "application/problem+json"),
            _ => request,
        };
        let Some((media_type, body)) = content(cell.verb, id) else { return request };
        request.header("content-type", media_type).body(body.to_string())
    }

    /// Sends the cell with another operation of its shape, on another record, behind it.
    async fn through_batch(&mut self, cell: &Cell, id: i32) -> Reply {
        let other = match cell.verb {
            Verb::Post => 2_000_000 + self.next,
            _ => self.next,
        };
        self.next += 1;
        let own = operation(cell.verb, id, cell.if_match, cell.if_none_match);
        let companion = if cell.verb == Verb::Post { NO_HEADER } else { RIGHT };
        let companion = operation(cell.verb, other, companion, NO_HEADER);
        let atomic = cell.manner == Manner::Atomic;
        let batch = json!({ "atomic": atomic, "operations": [own, companion] });
        let request = self.server.request(Method::POST, "/batch").header("x-actor", "otto");
        let whole = Reply::of(crate::support::json(request, &batch.to_string())).await;
        let mut line = if whole.status >= 400 {
            let refused = &whole.details()["operations"];
            assert_eq!(refused.as_array().unwrap().len(), 1, "{}", whole.text);
            let line = refused[0].clone();
            assert_eq!(line["index"], 0);
            assert_eq!(
                (&line["status"], &line["error"]["code"]),
                (&json!(whole.status), &json!(whole.code()))
            );
            line
        } else {
            assert_eq!(whole.data().as_array().unwrap().len(), 2, "{}", whole.text);
            assert!(whole.data()[1]["status"].as_u64().unwrap() < 300, "{}", whole.text);
            self.changes += 1;
            whole.data()[0].clone()
        };
        let mut reply = Reply { text: String::new(), ..whole };
        reply.status = u16::try_from(line["status"].as_u64().unwrap()).unwrap();
        for name in ["etag", "location"] {
            match line[name].as_str() {
                Some(value) => reply.headers.insert(name, value.parse().unwrap()),
                None => reply.headers.remove(name),
            };
        }
        if reply.status == 204 {
            line.as_object_mut().unwrap().remove("data");
        }
        reply.json = line;
        reply
    }

    pub(super) async fn snapshot(&mut self, id: i32) -> Snapshot {
        let (row, logged, newest): (Option<String>, i64, Option<String>) = sqlx::query_as(
            "SELECT (SELECT row_to_json(t)::text FROM items t WHERE id = $1), \
             (SELECT count(*) FROM counterfoil.change WHERE resource = 'items' AND id = $1::text), \
             (SELECT concat_ws(' ', op, version, 'by', \"by\") FROM counterfoil.change \
              WHERE resource = 'items' AND id = $1::text ORDER BY version DESC LIMIT 1)",
        )
        .bind(id)
        .fetch_one(&mut self.conn)
        .await
        .unwrap();
        Snapshot {
            row: row.map_or(Value::Null, |row| serde_json::from_str(&row).unwrap()),
            logged,
            newest: newest.unwrap_or_default(),
        }
    }

    /// Asserts that the database holds the changes seen in the cells and no others.
    pub(super) async fn finish(mut self) {
        let changes: i64 = sqlx::query_scalar("SELECT count(*) FROM counterfoil.change")
            .fetch_one(&mut self.conn)
            .await
            .unwrap();
        assert_eq!(changes, self.changes, "a request changed another record");
    }
}

/// The media type and the body of a request.
pub(super) fn content(verb: Verb, id: i32) -> Option<(&'static str, Value)> {
    let content = match verb {
        Verb::Post => ("application/json", json!({"id": id, "amount": 500, "note": "new"})),
        Verb::Put => ("application/json", json!({"amount": 500, "note": "new"})),
        Verb::PatchJson => ("application/json", json!({"amount": 500})),
        Verb::PatchMerge => ("application/merge-patch+json", json!({"amount": 500})),
        Verb::JsonPatch => (
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/amount", "value": 500}]),
        ),
        Verb::Increment => ("application/json", json!({"field": "amount", "by": 400})),
        Verb::Delete => return None,
    };
    Some(content)
}

/// A request as an operation of a batch.
fn operation(verb: Verb, id: i32, if_match: Header, if_none_match: Header) -> Value {
    let method = match verb {
        Verb::Post => "POST",
        Verb::Put => "PUT",
        Verb::PatchJson | Verb::PatchMerge | Verb::JsonPatch => "PATCH",
        Verb::Delete => "DELETE",
        Verb::Increment => "INCREMENT",
    };
    let mut operation = json!({ "method": method, "resource": "items" });
    if verb != Verb::Post {
        operation["id"] = json!(id.to_string());
    }
    for (name, header) in [("if_match", if_match), ("if_none_match", if_none_match)] {
        let lines = header.lines.iter().map(|line| std::str::from_utf8(line).unwrap());
        if !header.lines.is_empty() {
            operation[name] = json!(lines.collect::<Vec<_>>().join(", "));
        }
    }
    if let Some((media_type, body)) = content(verb, id) {
        operation["media_type"] = json!(media_type);
        operation["body"] = body;
    }
    operation
}

/// What the database holds of a record.
pub(super) struct Snapshot {
    pub(super) row: Value,
    logged: i64,
    pub(super) newest: String,
}

/// Named facts, in a fixed order.
type Facts = Vec<(&'static str, String)>;

fn row(id: i32, amount: i32, note: &str, version: i32) -> Value {
    json!({"id": id, "amount": amount, "note": note, "version": version})
}

pub(super) fn row_before(state: State, id: i32) -> Value {
    match state {
        State::Live => row(id, 100, "as it was", CURRENT),
        State::Deleted | State::NeverSeen => Value::Null,
    }
}

/// How many changes of the record were logged beforehand: one for each version, the deletion's too.
fn changes_before(state: State) -> i64 {
    match state {
        State::Live => 7,
        State::Deleted => 8,
        State::NeverSeen => 0,
    }
}

pub(super) fn row_after(verb: Verb, id: i32, version: i32) -> Value {
    match verb {
        Verb::Post | Verb::Put => row(id, 500, "new", version),
        _ => row(id, 500, "as it was", version),
    }
}

/// How an outcome shows, in the answer and in the database.
fn expected(cell: &Cell, id: i32, outcome: Outcome, settings: Settings) -> Facts {
    let minimal = cell.manner == Manner::Minimal;
    let holds = matches!(outcome, Outcome::Created(_) | Outcome::Written);
    let empty = outcome == Outcome::Removed || (minimal && holds);
    let told = matches!(outcome, Outcome::Conflict | Outcome::NothingToMatch | Outcome::Gone);
    let address = format!("/api/v1/items/{id}");
    let when = |condition: bool, text: &str| {
        if condition { text.to_owned() } else { String::new() }
    };
    let (status, code, tag, data) = answer(cell, id, outcome, settings);
    let [yours, theirs, kind, by] = details(cell, outcome, settings);
    let (row, log) = effect(cell, id, outcome);
    let media_type = match cell.manner {
        _ if empty => "",
        Manner::Problem if !code.is_empty() => "application/problem+json",
        _ => "application/json",
    };
    vec![
        ("status", status.to_string()),
        ("code", code.to_owned()),
        ("ETag", tag.map_or(String::new(), |version| format!("\"{version}\""))),
        ("Location", when(matches!(outcome, Outcome::Created(_)), &address)),
        ("Content-Location", when(holds && !minimal, &address)),
        ("Preference-Applied", when(holds && minimal, "return=minimal")),
        ("Cache-Control", when(told, "no-store")),
        ("Content-Type", media_type.to_owned()),
        ("Counterfoil-Result", String::new()),
        ("details.your_version", yours),
        ("details.current_version", theirs),
        ("details.kind", kind),
        ("details.changed_by", by),
        ("data", if empty { String::new() } else { data.to_string() }),
        ("the row stored", row.to_string()),
        ("the change logged", log),
    ]
}

/// Status, code, the version that `ETag` names, and `data`.
#[rustfmt::skip]
fn answer(
    cell: &Cell,
    id: i32,
    outcome: Outcome,
    settings: Settings,
) -> (u16, &'static str, Option<i32>, Value) {
    let current = row_before(State::Live, id);
    let last = row(id, 100, "as it was", CURRENT);
    let written = if cell.manner == Manner::Minimal { 204 } else { 200 };
    let conflict = settings.conflict_status;
    match outcome {
        Outcome::Created(v) =>     (201, "", Some(v), row_after(cell.verb, id, v)),
        Outcome::Written =>        (written, "", Some(8), row_after(cell.verb, id, 8)),
        Outcome::Removed =>        (204, "", None, Value::Null),
        Outcome::Malformed =>      (400, "INVALID_IF_MATCH", None, Value::Null),
        Outcome::NotFound =>       (404, "NOT_FOUND", None, Value::Null),
        Outcome::Gone =>           (410, "RECORD_DELETED", None, last),
        Outcome::Taken =>          (409, "ALREADY_EXISTS", Some(CURRENT), current),
        Outcome::NothingToMatch => (conflict, "WRITE_CONFLICT", None, Value::Null),
        Outcome::Conflict =>       (conflict, "WRITE_CONFLICT", Some(CURRENT), current),
        Outcome::Unwanted =>       (412, "PRECONDITION_FAILED", Some(CURRENT), current),
        Outcome::Required =>       (428, "PRECONDITION_REQUIRED", Some(CURRENT), current),
    }
}

/// `your_version`, `current_version`, `kind` and `changed_by`, as JSON; empty where it is not there.
#[rustfmt::skip]
fn details(cell: &Cell, outcome: Outcome, settings: Settings) -> [String; 4] {
    let yours = cell.if_match.demand(settings.strict_etags).newest();
    let yours = yours.map_or("null".to_owned(), |version| version.to_string());
    let met = if cell.verb == Verb::Delete { r#""delete_update""# } else { r#""update_update""# };
    let create = r#""create_create""#;
    match outcome {
        Outcome::Conflict =>       [&yours, "7", met, r#""mina""#],
        Outcome::Gone =>           [&yours, "8", r#""update_delete""#, r#""mina""#],
        Outcome::NothingToMatch => [&yours, "null", create, "null"],
        Outcome::Taken =>          ["", "7", create, ""],
        Outcome::Unwanted =>       ["", "7", "", ""],
        _ =>                       ["", "", "", ""],
    }
    .map(str::to_owned)
}

/// The row stored afterwards, and the change that was logged.
fn effect(cell: &Cell, id: i32, outcome: Outcome) -> (Value, String) {
    let unchanged = (row_before(cell.state, id), String::new());
    match outcome {
        _ if cell.manner == Manner::DryRun => unchanged,
        Outcome::Created(v) => (row_after(cell.verb, id, v), format!("create {v} by otto")),
        Outcome::Written => (row_after(cell.verb, id, 8), "update 8 by otto".to_owned()),
        Outcome::Removed => (Value::Null, "delete 8 by otto".to_owned()),
        _ => unchanged,
    }
}

fn found(cell: &Cell, reply: &Reply, after: &Snapshot) -> Facts {
    let failed = reply.status >= 400;
    let error = match cell.manner {
        Manner::Problem => &reply.json,
        _ => &reply.json["error"],
    };
    if failed && cell.manner == Manner::Problem {
        assert_eq!(error["status"], reply.status, "{}", reply.text);
    }
    let detail = |name: &str| match error["details"].get(name) {
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let header = |name: &str| reply.header(name).to_owned();
    vec![
        ("status", reply.status.to_string()),
        ("code", error["code"].as_str().unwrap_or_default().to_owned()),
        ("ETag", header("etag")),
        ("Location", header("location")),
        ("Content-Location", header("content-location")),
        ("Preference-Applied", header("preference-applied")),
        ("Cache-Control", header("cache-control")),
        ("Content-Type", header("content-type")),
        ("Counterfoil-Result", header("counterfoil-result")),
        ("details.your_version", detail("your_version")),
        ("details.current_version", detail("current_version")),
        ("details.kind", detail("kind")),
        ("details.changed_by", detail("changed_by")),
        (
            "data",
            match reply.json.get("data") {
                Some(data) => data.to_string(),
                None => reply.text.clone(),
            },
        ),
        ("the row stored", after.row.to_string()),
        (
            "the change logged",
            match after.logged - changes_before(cell.state) {
                0 => String::new(),
                1 => after.newest.clone(),
                more => format!("{more} changes"),
            },
        ),
    ]
}
