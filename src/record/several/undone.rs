//! Refusals of a request of which nothing holds, where what they tell may have come of the request
//! itself. Pure.

pub(super) mod store;

use serde_json::{Map, Value};

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::error::{Code, Error};
use crate::record::many::{one_spelling, record_of};
use crate::record::{Outcome, Write};

/// The facts of a refusal that say how a row stands.
const STANDING: [&str; 6] =
    ["current_version", "changed_by", "changed_at", "base_available", "mergeable", "fields"];

/// Words a refusal that stands only on what the same request had written before. Nothing is said of
/// rows that never were. `earlier` says which of the request's writes that was, where it is known: what
/// such a write is called, and its number.
pub fn word(error: &Error, kind: &str, earlier: Option<i64>) -> Error {
    let by = earlier.map_or_else(|| format!("another {kind}"), |by| format!("{kind} {by}"));
    let said = error.message();
    let message =
        format!("{said}. So it was after {by} of the same request, and nothing of that holds");
    let facts = error.details().iter().filter(|(name, _)| !STANDING.contains(&name.as_str()));
    let refusal = Error::new(error.code(), message).with_status(error.status());
    let refusal = facts.fold(refusal, |refusal, (name, fact)| refusal.detail(name, fact.clone()));
    let kept = error.headers().iter().filter(|(name, _)| *name == "cache-control");
    let refusal = kept.fold(refusal, |refusal, (name, value)| refusal.header(name, value.clone()));
    match earlier {
        Some(by) => refusal.detail(&format!("earlier_{kind}"), by),
        None => refusal,
    }
}

/// Which row a refusal tells of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tells {
    /// None.
    Nothing,
    /// The one with this id, of the resource that was written to.
    Record(String),
    /// One that cannot be told.
    Something,
}

impl Tells {
    pub(super) fn of(write: &Write, outcome: &Outcome) -> Self {
        let resource = &write.resource;
        let own = || Self::at(resource, record_of(write));
        match outcome {
            Outcome::Conflict(found) | Outcome::Unwanted(found) if found.current.is_some() => own(),
            Outcome::Gone(_) => own(),
            Outcome::Refused(error) => match (error.code(), error.data()) {
                (Code::Referenced, _) | (Code::AlreadyExists, None) => Self::Something,
                (Code::AlreadyExists, Some(row)) => Self::at(resource, key_in(resource, row)),
                (_, Some(_)) => own(),
                (_, None) => Self::Nothing,
            },
            _ => Self::Nothing,
        }
    }

    fn at(resource: &Resource, key: Option<Key>) -> Self {
        let key = key.filter(|_| one_spelling(resource));
        key.map_or(Self::Something, |key| Self::Record(key.record_id()))
    }
}

/// The key of a row.
fn key_in(resource: &Resource, row: &str) -> Option<Key> {
    let row: Map<String, Value> = serde_json::from_str(row).ok()?;
    let parts = resource.key_columns().map(|column| match row.get(&column.name)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    });
    Some(Key { parts: parts.collect::<Option<_>>()? })
}

/// The record that a write changed, by resource and id; `None` where it changed nothing.
pub(super) fn changed(write: &Write, outcome: &Outcome) -> Option<(String, String)> {
    let key = match outcome {
        Outcome::Created(_, key) => key.clone(),
        Outcome::Applied(_) | Outcome::Merged(..) | Outcome::Deleted(_) => record_of(write)?,
        _ => return None,
    };
    Some((write.resource.name.clone(), key.record_id()))
}

/// Whether two refusals say the same of different rows.
pub(super) fn alike(one: &Outcome, other: &Outcome) -> bool {
    match (one, other) {
        (Outcome::Refused(one), Outcome::Refused(other)) => one.code() == other.code(),
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}
