//! JSON Patch (RFC 6902). It is said against the record as it stands, so the record is read first
//! and the UPDATE then demands exactly the version that was read.

use json_patch::PatchErrorKind;
use serde_json::{Map, Number, Value};
use sqlx::PgConnection;

use crate::catalog::key::Key;
use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::json::{self, Member};
use crate::precondition::Standing;
use crate::record::{Conflict, Outcome, Row, Write, body, conflict, store};

/// How often the patch is said anew against a record that moved meanwhile.
const TRIES: usize = 5;

/// How large a document may grow: `copy` can double it with every operation.
const MOST_BYTES: usize = 4 << 20;

/// Reads a patch from a body.
///
/// # Errors
/// `INVALID_JSON` and its kin, or `INVALID_VALUE` where the JSON is no patch.
pub fn read(bytes: &[u8]) -> Result<json_patch::Patch, Error> {
    let text = json::check(bytes)?;
    serde_json::from_str::<Value>(text)
        .and_then(|mut value| {
            normalize_numbers(&mut value);
            serde_json::from_value(value)
        })
        .map_err(|_| Error::new(Code::InvalidValue, "The body is not a JSON Patch (RFC 6902)"))
}

/// Reads the record, patches it, and writes the columns that differ, if it is still what was read.
///
/// # Errors
/// As [`store::write`].
pub(super) async fn write(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    operations: &json_patch::Patch,
) -> Result<Option<Outcome>, Fault> {
    for _ in 0..TRIES {
        let current = store::current(conn, write, None).await?;
        let Some(row) = current.row else { return store::explain(conn, write, None).await };
        let patched = patched(&row, operations);
        match write.precondition.standing(row.version) {
            Standing::Holds => {}
            Standing::Stale if patched.as_ref().is_ok_and(Vec::is_empty) => {
                return Ok(Some(Outcome::AlreadyApplied(row)));
            }
            Standing::Stale | Standing::Unwanted => return store::explain(conn, write, None).await,
        }
        let assignments =
            patched.and_then(|members| body::patch(&write.resource, key, members, false));
        let assignments = match assignments {
            Ok(assignments) => assignments,
            Err(error) if error.code() == Code::WriteConflict => {
                return Ok(Some(Outcome::Refused(test_failed(write, row, &error))));
            }
            Err(error) => return Ok(Some(Outcome::Refused(error))),
        };
        let exactly = Write {
            resource: write.resource.clone(),
            key: write.key.clone(),
            verb: write.verb,
            change: Err(Error::new(Code::Internal, "")),
            precondition: store::based_on(write, row.version),
            actor: write.actor.clone(),
            dry_run: write.dry_run,
        };
        match store::update(conn, &exactly, key, &assignments).await? {
            Some(Outcome::Conflict(_) | Outcome::AlreadyApplied(_)) | None => {}
            outcome => return Ok(outcome),
        }
    }
    Err(Fault::Retry)
}

/// The members that differ after the patch. A member removed becomes null.
fn patched(row: &Row, operations: &json_patch::Patch) -> Result<Vec<Member>, Error> {
    let broken = |_| Error::new(Code::Internal, "The record could not be read as JSON");
    let mut before: Value = serde_json::from_str(&row.json).map_err(broken)?;
    normalize_numbers(&mut before);
    let mut after = before.clone();
    for operation in operations.iter() {
        json_patch::patch(&mut after, std::slice::from_ref(operation)).map_err(|e| refused(&e))?;
        if after.to_string().len() > MOST_BYTES {
            return Err(Error::new(Code::InvalidValue, "The patched record would be too large"));
        }
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Err(Error::new(Code::InvalidValue, "The patch must leave the record an object"));
    };
    differing(&before, &after)
}

fn differing(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Result<Vec<Member>, Error> {
    let removed = before.keys().filter(|name| !after.contains_key(*name));
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    changed
        .chain(removed.map(|name| (name, &Value::Null)))
        .map(|(name, value)| {
            serde_json::value::to_raw_value(value)
                .map(|value| (name.clone(), value))
                .map_err(|_| Error::new(Code::Internal, "The patched record could not be written"))
        })
        .collect()
}

fn refused(error: &json_patch::PatchError) -> Error {
    let pointer = error.path.to_string();
    let field = pointer.split('/').nth(1).unwrap_or_default().to_owned();
    let (code, message) = match error.kind {
        PatchErrorKind::TestFailed => {
            (Code::WriteConflict, format!("The record's {pointer} is not what the patch expects"))
        }
        _ => (Code::InvalidValue, format!("The patch cannot be applied at {pointer}")),
    };
    Error::field(code, &field, message)
        .detail("pointer", pointer)
        .detail("operation", error.operation)
}

/// A `test` that fails is a precondition that failed: the answer shows the row as it stands.
fn test_failed(write: &Write, row: Row, error: &Error) -> Error {
    let mut conflict = conflict::conflict(
        &write.resource,
        Conflict {
            yours: write.precondition.newest_named(),
            current: Some(row),
            by: None,
            kind: "update_update",
        },
    );
    for (name, value) in error.details() {
        conflict = conflict.detail(name, value.clone());
    }
    conflict
}

/// Writes every decimal without the zeros at its end, so that a `test` for 1250 holds for the
/// 1250.00 of a `numeric(10,2)` (RFC 6902 §4.6: numbers are equal where their values are).
fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            if text.contains('.') && !text.contains(['e', 'E']) {
                let short = text.trim_end_matches('0').trim_end_matches('.');
                if let Ok(short) = short.parse::<Number>() {
                    *number = short;
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(normalize_numbers),
        Value::Object(members) => members.values_mut().for_each(normalize_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
