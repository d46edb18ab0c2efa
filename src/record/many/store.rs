//! Runs many writes of one shape as one statement.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::db::fault::Fault;
use crate::record::body::Assignments;
use crate::record::statement::{self, Shape};
use crate::record::store::{self, deletion_of, row_of};
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
    let mut outcomes = none(count);
    for row in rows {
        let outcome = match shape {
            Shape::Delete => Outcome::Deleted(deletion_of(row)?),
            _ => Outcome::Applied(row_of(row)?),
        };
        if let Some(slot) = place(row, 2)?.and_then(|place| outcomes.get_mut(place)) {
            *slot = Some(outcome);
        }
    }
    Ok(outcomes)
}

/// Explains writes of one shape that missed, as [`store::explain`] does each. `None` stands for
/// those that must run by themselves: nothing stands against them, they are to be merged, or what
/// their client had is not in the log.
///
/// # Errors
/// That of any of them; which one it was, their own runs tell.
pub async fn explain(
    conn: &mut PgConnection,
    shape: &Shape,
    writes: &[&Write],
) -> Result<Vec<Option<Outcome>>, Fault> {
    let Some(first) = writes.first() else { return Ok(Vec::new()) };
    let resource = &first.resource;
    let columns = match shape {
        Shape::Update(columns) => Some(columns.clone()),
        _ => None,
    };
    let compares = columns.is_some();
    let text = statement::text(resource, &Shape::Many(Box::new(Shape::Current(columns))));
    let keys: Vec<_> = writes.iter().filter_map(|write| write.key.as_ref()).collect();
    let yours = writes.iter().map(|w| w.precondition.newest_named().map(|version| version.0));
    let query = sqlx::query(AssertSqlSafe(text));
    let query = lists(resource, &keys).into_iter().fold(query, sqlx::query::Query::bind);
    let bodies: Vec<_> = writes.iter().map(|write| body(write).filter(|_| compares)).collect();
    let rows = query.bind(yours.collect::<Vec<_>>()).bind(bodies).fetch_all(conn).await?;
    let mut outcomes = none(writes.len());
    for row in &rows {
        let Some(place) = place(row, 10)? else { continue };
        let (Some(write), Some(slot)) = (writes.get(place), outcomes.get_mut(place)) else {
            continue;
        };
        let found = store::compared(resource, assignments(write).filter(|_| compares), row)?;
        *slot = store::judge(write, found).filter(|outcome| {
            write.on_conflict.is_none() && write.had.is_none()
                || !matches!(outcome, Outcome::Conflict(_))
        });
    }
    Ok(outcomes)
}

fn assignments(write: &Write) -> Option<&Assignments> {
    match write.change.as_ref().ok()? {
        Change::Replace(body) | Change::Patch(body) => Some(body),
        _ => None,
    }
}

fn none(count: usize) -> Vec<Option<Outcome>> {
    std::iter::repeat_with(|| None).take(count).collect()
}

/// Which of the list a row is.
fn place(row: &PgRow, column: usize) -> Result<Option<usize>, Fault> {
    Ok(usize::try_from(row.try_get::<i64, _>(column)? - 1).ok())
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
