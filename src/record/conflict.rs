//! The conflict reporter: what a refused client is told, so that its form can show what changed
//! rather than just refuse.

use serde_json::Value;

use crate::catalog::Resource;
use crate::error::{Code, Error};
use crate::record::reconcile::Verdicts;
use crate::record::{Authorship, Conflict, Gone, Row};
use crate::version::Version;

/// The code whose status a resource may choose (`conflict_status`).
pub const CODE: Code = Code::WriteConflict;

/// The answer to a write that met a newer row (API.md section 4.2).
pub fn conflict(resource: &Resource, conflict: Conflict) -> Error {
    let Conflict { current, yours, by, kind, sides } = conflict;
    let version = current.as_ref().map(|row| row.version);
    let message = match current {
        Some(_) => "This record changed since you loaded it",
        None => "There is no such record yet, so it cannot be at the version you named",
    };
    let error = Error::new(CODE, message)
        .with_status(resource.settings.conflict_status)
        .detail("your_version", number(yours))
        .detail("current_version", number(version))
        .detail("kind", kind)
        .header("cache-control", "no-store");
    let error = match sides.map(|sides| sides.verdicts(resource)) {
        Some(Verdicts { base_available, mergeable, fields }) => error
            .detail("base_available", base_available)
            .detail("mergeable", mergeable && kind == "update_update")
            .detail("fields", serde_json::to_value(fields).unwrap_or_default()),
        None => error,
    };
    authored(error, by).current(version, current.map(|row| row.json))
}

/// The answer to any request for a record that was deleted.
pub fn gone(gone: Gone) -> Error {
    let error = Error::new(Code::RecordDeleted, "This record was deleted")
        .detail("your_version", number(gone.yours))
        .detail("current_version", gone.version.0)
        .detail("kind", "update_delete")
        .header("cache-control", "no-store");
    // The tag of a deletion would be taken for that of a row; the version stands in the details.
    authored(error, Some(gone.by)).current(None, gone.last)
}

/// The answer to a write under `If-None-Match` that met what it named.
pub fn unwanted(found: Conflict) -> Error {
    let version = found.current.as_ref().map(|row| row.version);
    Error::new(
        Code::PreconditionFailed,
        "The record is there, at a version that If-None-Match names",
    )
    .detail("current_version", number(version))
    .current(version, found.current.map(|row| row.json))
}

/// The answer to a read under `If-Match` that met another version (RFC 9110 §13.1.1).
pub fn unmet(row: Row) -> Error {
    Error::new(Code::PreconditionFailed, "The record is at a version that If-Match does not name")
        .detail("current_version", row.version.0)
        .current(Some(row.version), Some(row.json))
}

/// The answer for a record that never was.
pub fn missing(resource: &Resource) -> Error {
    Error::new(Code::NotFound, format!("{} has no record with this id", resource.name))
}

fn authored(error: Error, by: Option<Authorship>) -> Error {
    let by = by.filter(|by| !by.by.is_empty());
    let (by, at) = by.map_or((Value::Null, Value::Null), |a| (a.by.into(), a.at.into()));
    error.detail("changed_by", by).detail("changed_at", at)
}

fn number(version: Option<Version>) -> Value {
    version.map_or(Value::Null, |version| version.0.into())
}
