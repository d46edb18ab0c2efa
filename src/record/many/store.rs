//! Runs many writes of one shape as one statement.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::db::fault::Fault;
use crate::record::statement::{self, Shape};
use crate::record::store::{deletion_of, row_of};
use crate::record::{Change, Outcome, Write};

/// Locks the records of these keys that are there, in the order of their keys, so that everybody who
/// writes several records takes them in the same order.
///
/// # Errors
/// Those of the database.
pub async fn lock(
    conn: &mut PgConnection,
    resource: &Resource,
    keys: &[&Key],
    deletes: bool,
) -> Result<(), Fault> {
    let text = statement::text(resource, &Shape::Lock { deletes });
    let mut query = sqlx::query(AssertSqlSafe(text));
    for list in lists(resource, keys) {
        query = query.bind(list);
    }
    query.execute(conn).await?;
    Ok(())
}

/// One list per part of the key.
fn lists(resource: &Resource, keys: &[&Key]) -> Vec<Vec<String>> {
    let part = |part: usize| keys.iter().map(|key| key.parts[part].clone()).collect();
    (0..resource.key.len()).map(part).collect()
}

/// Runs writes of one shape and one resource, each to a record of its own. `None` stands for those
/// that missed; why, their own run tells.
///
/// # Errors
/// That of any of them; nothing of the statement holds then, and which one it was, their own runs
/// tell.
pub async fn write(
    conn: &mut PgConnection,
    shape: &Shape,
    writes: &[&Write],
) -> Result<Vec<Option<Outcome>>, Fault> {
    let Some(first) = writes.first() else { return Ok(Vec::new()) };
    let text = statement::text(&first.resource, &Shape::Many(Box::new(shape.clone())));
    let bodies: Vec<_> = writes.iter().map(|write| body(write)).collect();
    let query = sqlx::query(AssertSqlSafe(text));
    if matches!(shape, Shape::Insert(_)) {
        let rows = query.bind(bodies).bind(first.named()).fetch_all(conn).await?;
        return created(writes, &rows);
    }
    let keys: Vec<_> = writes.iter().filter_map(|write| write.key.as_ref()).collect();
    let query = lists(&first.resource, &keys).into_iter().fold(query, sqlx::query::Query::bind);
    let list = |versions: fn(&Write) -> Option<Vec<i32>>| -> Vec<Option<String>> {
        writes.iter().map(|write| versions(write).as_deref().map(array)).collect()
    };
    let query = query
        .bind(list(|write| write.precondition.wanted()))
        .bind(list(|write| write.precondition.unwanted()))
        .bind(bodies)
        .bind(first.named());
    placed(shape, writes.len(), &query.fetch_all(conn).await?)
}

/// The rows of a list of new records, in its order.
fn created(writes: &[&Write], rows: &[PgRow]) -> Result<Vec<Option<Outcome>>, Fault> {
    if rows.len() != writes.len() {
        // A trigger of the table's owner left rows out: which ones, only their own runs tell.
        return Err(Fault::Value);
    }
    let outcome =
        |row: &PgRow| Ok(Some(Outcome::Created(row_of(row)?, Key { parts: row.try_get(2)? })));
    rows.iter().map(outcome).collect()
}

/// The outcomes of a list, each at its place.
fn placed(shape: &Shape, count: usize, rows: &[PgRow]) -> Result<Vec<Option<Outcome>>, Fault> {
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    outcomes.resize_with(count, || None);
    for row in rows {
        let place: i64 = row.try_get(2)?;
        let outcome = match shape {
            Shape::Delete => Outcome::Deleted(deletion_of(row)?),
            _ => Outcome::Applied(row_of(row)?),
        };
        let slot = usize::try_from(place - 1).ok().and_then(|place| outcomes.get_mut(place));
        if let Some(slot) = slot {
            *slot = Some(outcome);
        }
    }
    Ok(outcomes)
}

fn body(write: &Write) -> Option<&str> {
    match write.change.as_ref().ok()? {
        Change::Create(body) | Change::Replace(body) | Change::Patch(body) => Some(&body.json),
        Change::Increment(increment) => Some(&increment.json),
        Change::Delete | Change::JsonPatch(_) | Change::Merge(..) => None,
    }
}

/// The text of an array of versions.
fn array(versions: &[i32]) -> String {
    let versions: Vec<_> = versions.iter().map(i32::to_string).collect();
    format!("{{{}}}", versions.join(","))
}
