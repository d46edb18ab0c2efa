//! The matrix for the mutations of a push: {create, put, patch, delete, increment} × every base ×
//! {live, deleted, never seen}. What must come of them is what comes of the requests that they stand
//! for; only its words are those of a push.

use serde_json::{Value, json};

use super::cell::{Bench, content, row_after, row_before};
use super::rules::{CURRENT, DEFAULTS, Demand, Outcome, Settings, State, TOMBSTONE, Verb, outcome};
use crate::support::Reply;

/// A base as a mutation names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    None,
    Version(&'static [i32]),
    Absence,
    Malformed,
}

const BASES: [Base; 6] = [
    Base::None,
    Base::Version(&[CURRENT]),
    Base::Version(&[CURRENT - 1]),
    Base::Version(&[CURRENT + 2]),
    Base::Absence,
    Base::Malformed,
];

/// POST stands for `create`.
const VERBS: [Verb; 5] = [Verb::Post, Verb::Put, Verb::PatchJson, Verb::Delete, Verb::Increment];

#[derive(Clone, Copy, Debug)]
struct Cell {
    verb: Verb,
    state: State,
    base: Base,
}

impl Cell {
    fn all() -> impl Iterator<Item = Self> {
        let bases = VERBS.into_iter().flat_map(|verb| BASES.map(|base| (verb, base)));
        bases.flat_map(|(verb, base)| State::ALL.map(|state| Self { verb, state, base }))
    }

    fn mutation(self, number: usize, id: i32) -> Value {
        let op = match self.verb {
            Verb::Post => "create",
            Verb::Put => "put",
            Verb::Delete => "delete",
            Verb::Increment => "increment",
            _ => "patch",
        };
        let mut mutation = json!({"id": number, "op": op, "resource": "items", "record_id": id});
        match self.base {
            Base::None => {}
            Base::Version(version) => mutation["base_version"] = json!(version[0]),
            Base::Absence => mutation["base_version"] = json!(0),
            Base::Malformed => mutation["base_version"] = json!(null),
        }
        if let Some((_, body)) = content(self.verb, id) {
            mutation["data"] = body;
        }
        mutation
    }

    /// What must be said, and what the database must hold: status, code, kind, version, data, row stored,
    /// change logged.
    fn expected(self, id: i32, settings: Settings) -> [Value; 7] {
        let before = row_before(self.state, id);
        let log = match self.state {
            State::Live => format!("update {CURRENT} by mina"),
            State::Deleted => format!("delete {TOMBSTONE} by mina"),
            State::NeverSeen => String::new(),
        };
        let current = row_before(State::Live, id);
        let null = Value::Null;
        let refused = |status: &str, code: &str, kind: Value, data: &Value| {
            let (said, held) = (data.clone(), before.clone());
            [json!(status), json!(code), kind, Value::Null, said, held, json!(log)]
        };
        let written = |op: &str, version: i32, row: Value| {
            let log = json!(format!("{op} {version} by otto"));
            [json!("applied"), null.clone(), null.clone(), json!(version), row.clone(), row, log]
        };
        match self.outcome(settings) {
            None => refused("rejected", "INVALID_VALUE", Value::Null, &null),
            Some(Outcome::Created(v)) => written("create", v, row_after(Verb::Put, id, v)),
            Some(Outcome::Written) => {
                written("update", CURRENT + 1, row_after(self.verb, id, CURRENT + 1))
            }
            Some(Outcome::Removed) => written("delete", TOMBSTONE, Value::Null),
            Some(Outcome::NotFound) => refused("rejected", "NOT_FOUND", Value::Null, &null),
            Some(Outcome::Gone) if self.wants_it_gone() => {
                let mut said = refused("noop", "", Value::Null, &null);
                said[1] = Value::Null;
                said[3] = json!(TOMBSTONE);
                said
            }
            Some(Outcome::Gone) => {
                let last = row_before(State::Live, id);
                refused("conflict", "RECORD_DELETED", json!("update_delete"), &last)
            }
            Some(Outcome::Unwanted) => {
                refused("conflict", "WRITE_CONFLICT", json!("create_create"), &current)
            }
            Some(Outcome::Conflict) => {
                let delete = self.verb == Verb::Delete;
                let kind = if delete { "delete_update" } else { "update_update" };
                refused("conflict", "WRITE_CONFLICT", json!(kind), &current)
            }
            Some(Outcome::Required) => {
                refused("rejected", "PRECONDITION_REQUIRED", Value::Null, &current)
            }
            Some(other) => panic!("{self:?} comes to {other:?}"),
        }
    }

    /// A version that no deletion had is of another record than the one that was deleted.
    fn wants_it_gone(self) -> bool {
        let newer = matches!(self.base, Base::Version(version) if version[0] > TOMBSTONE);
        self.verb == Verb::Delete && !newer
    }

    /// What comes of the request that it stands for; `None` where it says nothing that could be done.
    fn outcome(self, settings: Settings) -> Option<Outcome> {
        let (if_match, if_none_match) = match (self.verb, self.base) {
            (_, Base::Malformed)
            | (Verb::Post, Base::Version(_))
            | (Verb::PatchJson | Verb::Delete | Verb::Increment, Base::Absence) => return None,
            (Verb::Post, _) | (_, Base::Absence) => (Demand::Absent, Demand::Any),
            (_, Base::None) => (Demand::Absent, Demand::Absent),
            (_, Base::Version(version)) => (Demand::Versions(version), Demand::Absent),
        };
        let verb = if self.verb == Verb::Post { Verb::Put } else { self.verb };
        Some(outcome(verb, self.state, if_match, if_none_match, settings))
    }
}

async fn send(bench: &Bench, mutations: &[Value]) -> Vec<Value> {
    let body = json!({"client_id": "0193aaaa-0000-7000-8000-000000000001", "mutations": mutations});
    let request =
        bench.server.request(reqwest::Method::POST, "/sync/push").header("x-actor", "otto");
    let reply = Reply::of(crate::support::json(request, &body.to_string())).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data()["results"].as_array().unwrap().clone()
}

/// Pushes every cell on two records each, so many in one push.
async fn try_every_cell(settings: Settings, at_once: usize) {
    let cells: Vec<_> = Cell::all().flat_map(|cell| [cell, cell]).collect();
    let mut bench = Bench::new(settings, cells.len()).await;
    let cells: Vec<_> = cells.into_iter().map(|cell| (cell, bench.record(cell.state))).collect();
    let mut lines = Vec::new();
    let mutations = cells.iter().zip(1..).map(|((cell, id), number)| cell.mutation(number, *id));
    for part in mutations.collect::<Vec<_>>().chunks(at_once) {
        lines.extend(send(&bench, part).await);
    }
    let mut differences = Vec::new();
    for ((cell, id), line) in cells.iter().zip(&lines) {
        let after = bench.snapshot(*id).await;
        let error = &line["error"];
        let found = [
            line["status"].clone(),
            error["code"].clone(),
            error["details"]["kind"].clone(),
            line["version"].clone(),
            line["data"].clone(),
            after.row,
            json!(after.newest),
        ];
        let expected = cell.expected(*id, settings);
        if found != expected {
            differences.push(format!("{cell:?}:\n  {found:?}\n  not {expected:?}"));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[tokio::test]
async fn a_mutation_is_judged_as_the_request_that_it_stands_for() {
    try_every_cell(DEFAULTS, 1).await;
}

#[tokio::test]
async fn mutations_that_share_a_push_are_judged_each_for_itself() {
    try_every_cell(DEFAULTS, 500).await;
}

#[tokio::test]
async fn a_push_heeds_what_a_resource_insists_on() {
    let settings = Settings { strict_etags: true, require_if_match: true, conflict_status: 412 };
    try_every_cell(settings, 7).await;
}
