//! JSON Patch (RFC 6902). It is said against the record as it stands, so the record is read first
//! and the UPDATE then demands exactly the version that was read.

use json_patch::PatchOperation;
use serde_json::{Map, Value};
use sqlx::PgConnection;

use crate::catalog::key::Key;
use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::json::{self, Member};
use crate::merge;
use crate::precondition::Standing;
use crate::record::reconcile::Told;
use crate::record::store::Newest;
use crate::record::{Outcome, Row, Write, body, conflict, merging, store};

/// How often the patch is said anew against a record that moved meanwhile.
const TRIES: usize = 5;

/// How large a document may grow: `copy` can double it with every operation.
const MOST_BYTES: usize = 4 << 20;

/// How many bytes of document one patch may walk through, operation after operation.
const MOST_WORK: usize = 64 << 20;

/// Reads a patch from a body.
///
/// # Errors
/// `INVALID_JSON` and its kin, or `INVALID_VALUE` where the JSON is no patch.
pub fn read(bytes: &[u8]) -> Result<json_patch::Patch, Error> {
    // Not by way of a `Value`, which would forget the sign of -0.
    serde_json::from_str(json::check(bytes)?)
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
        let Some(row) = current.row else {
            return store::explain(conn, write, None).await;
        };
        if write.precondition.standing(row.version) != Standing::Holds {
            return stale(conn, write, key, operations, current.told.base.unwrap_or(row.json))
                .await;
        }
        let assignments = patched(&row.json, operations)
            .and_then(|members| body::patch(&write.resource, key, members, false));
        let assignments = match assignments {
            Ok(assignments) => assignments,
            Err(error) if error.code() == Code::WriteConflict => {
                let (newest, told) = (current.newest, &current.told);
                return Ok(Some(Outcome::Refused(test_failed(write, row, newest, told, &error))));
            }
            Err(error) => {
                let shown = Some((row.version, row.json));
                return Ok(Some(Outcome::Refused(error.beside(shown))));
            }
        };
        let exactly = Write {
            resource: write.resource.clone(),
            key: write.key.clone(),
            verb: write.verb,
            change: Err(Error::new(Code::Internal, "")),
            precondition: store::based_on(write, row.version),
            had: None,
            on_conflict: None,
            actor: write.actor.clone(),
            operation: write.operation.clone(),
            run: write.run,
        };
        let outcome = store::update(conn, &exactly, key, &assignments, false).await?;
        if let Some(Outcome::Applied(_) | Outcome::Refused(_)) = outcome {
            return Ok(outcome);
        }
        // The record moved since it was read, or went: look again.
    }
    Err(Fault::Retry)
}

/// A patch under a stale tag was said against the record as the client had it: what it makes of that
/// is what the client wants.
async fn stale(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    operations: &json_patch::Patch,
    base: String,
) -> Result<Option<Outcome>, Fault> {
    let wanted = patched(&base, operations)
        .and_then(|members| body::patch(&write.resource, key, members, false));
    match (store::explain(conn, write, wanted.as_ref().ok()).await?, wanted) {
        (Some(Outcome::Conflict(conflict)), Ok(body)) => {
            merging::write(conn, write, key, &body, conflict).await
        }
        (outcome, _) => Ok(outcome),
    }
}

/// The members that differ after the patch. A member removed becomes null.
fn patched(row: &str, operations: &json_patch::Patch) -> Result<Vec<Member>, Error> {
    // Deeper than any body may be: somebody else stored it.
    let too_deep =
        |_| Error::new(Code::InvalidValue, "The record is nested too deeply for a JSON Patch");
    let before: Value = serde_json::from_str(row).map_err(too_deep)?;
    let mut after = before.clone();
    let mut bounds = Bounds { depth: json::depth(row).max(json::MAX_DEPTH), work: MOST_WORK };
    for (place, operation) in operations.iter().enumerate() {
        apply(&mut after, operation)
            .and_then(|()| bounds.hold(operation, &after))
            .map_err(|error| error.detail("operation", place))?;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Err(Error::new(Code::InvalidValue, "The patch must leave the record an object"));
    };
    differing(&before, &after)
}

fn apply(document: &mut Value, operation: &PatchOperation) -> Result<(), Error> {
    let PatchOperation::Test(test) = operation else {
        return json_patch::patch(document, std::slice::from_ref(operation)).map_err(|e| {
            let pointer = e.path.to_string();
            refused(
                Code::InvalidValue,
                &pointer,
                format!("The patch cannot be applied at {pointer}"),
            )
        });
    };
    let pointer = test.path.to_string();
    match document.pointer(&pointer) {
        Some(found) if equal(found, &test.value) => Ok(()),
        Some(_) => {
            let message = format!("The record's {pointer} is not what the patch expects");
            Err(refused(Code::WriteConflict, &pointer, message))
        }
        None => Err(refused(
            Code::InvalidValue,
            &pointer,
            format!("The record has nothing at {pointer}"),
        )),
    }
}

/// What the operations of one patch may make of a document between them. `move` and `copy` could
/// nest it ever deeper, and all that walks a document does so by recursion.
struct Bounds {
    depth: usize,
    work: usize,
}

impl Bounds {
    fn hold(&mut self, operation: &PatchOperation, document: &Value) -> Result<(), Error> {
        if matches!(operation, PatchOperation::Test(_) | PatchOperation::Remove(_)) {
            return Ok(());
        }
        let text = document.to_string();
        let problem = if json::depth(&text) > self.depth {
            "The patched record would be nested too deeply"
        } else if text.len() > MOST_BYTES {
            "The patched record would be too large"
        } else if text.len() > self.work {
            "The patch holds too many operations for a record of this size"
        } else {
            self.work -= text.len();
            return Ok(());
        };
        Err(Error::new(Code::InvalidValue, problem))
    }
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

fn refused(code: Code, pointer: &str, message: String) -> Error {
    let field = pointer.split('/').nth(1).unwrap_or_default();
    let field = field.replace("~1", "/").replace("~0", "~");
    Error::field(code, &field, message).detail("pointer", pointer)
}

/// A `test` that fails is a precondition that failed: the answer shows the row as it stands, and who
/// wrote it.
fn test_failed(
    write: &Write,
    row: Row,
    newest: Option<Newest>,
    told: &Told,
    error: &Error,
) -> Error {
    let found = store::conflicting(write, row, newest, told);
    let mut conflict = conflict::conflict(&write.resource, found);
    for (name, value) in error.details() {
        conflict = conflict.detail(name, value.clone());
    }
    conflict
}

/// Whether two values are equal as RFC 6902 §4.6 has it: numbers by their value, so that a `test`
/// for 1250 holds for the 1250.00 of a `numeric(10,2)`.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || by_value(&a.to_string()) == by_value(&b.to_string())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// One text for all spellings of a number.
fn by_value(number: &str) -> String {
    merge::canonical_number(number).unwrap_or_else(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_by_value() {
        for (a, b) in [("1250", "1250.00"), ("1e2", "100.0"), ("-0", "0.0"), ("0.010", "1E-2")] {
            assert_eq!(by_value(a), by_value(b), "{a} {b}");
        }
        for (a, b) in [
            ("1", "-1"),
            ("1", "10"),
            ("0.1", "0.01"),
            ("12345678901234567890", "12345678901234567891"),
        ] {
            assert_ne!(by_value(a), by_value(b), "{a} {b}");
        }
    }
}
