//! Runs many writes of one shape as one statement.

use std::borrow::Cow;

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres, Row as _};

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::db::fault::Fault;
use crate::record::body::Assignments;
use crate::record::statement::{self, Shape};
use crate::record::store::{self, deletion_of, row_of};
use crate::record::{Change, Outcome, Row, Write, many};

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
fn lists<'a>(resource: &Resource, keys: &[&'a Key]) -> Vec<Vec<&'a str>> {
    let part = |part: usize| keys.iter().map(|key| key.parts[part].as_str()).collect();
    (0..resource.key.len()).map(part).collect()
}

/// Reads the records of these keys. Gives a row for each key, in their order; `None` where there is
/// none, for which its own read has the words.
///
/// # Errors
/// Those of the database.
pub async fn read(
    conn: &mut PgConnection,
    resource: &Resource,
    select: Option<Vec<usize>>,
    keys: &[&Key],
) -> Result<Vec<Option<Row>>, Fault> {
    let text = statement::text(resource, &Shape::Many(Box::new(Shape::Get(select))));
    let query =
        lists(resource, keys).into_iter().fold(sqlx::query(AssertSqlSafe(text)), Query::bind);
    let mut found = none(keys.len());
    for row in &query.fetch_all(conn).await? {
        *slot(&mut found, keys, row, 2)? = Some(row_of(row)?);
    }
    Ok(found)
}

/// The place of a row among those asked for. The row says in this column which it is, and its key
/// behind it says so again.
fn place(keys: &[&Key], row: &PgRow, column: usize) -> Result<usize, Fault> {
    let place: i64 = row.try_get(column)?;
    let place = usize::try_from(place - 1).unwrap_or(usize::MAX);
    let Some(key) = keys.get(place) else { return Err(misrouted()) };
    for (part, text) in key.parts.iter().enumerate() {
        if row.try_get::<&str, _>(column + 1 + part)? != text {
            return Err(misrouted());
        }
    }
    Ok(place)
}

/// What stands at the place of a row; see [`place`].
fn slot<'a, T>(
    places: &'a mut [T],
    keys: &[&Key],
    row: &PgRow,
    column: usize,
) -> Result<&'a mut T, Fault> {
    places.get_mut(place(keys, row, column)?).ok_or_else(misrouted)
}

/// An answer that is nobody's: a defect of ours.
fn misrouted() -> Fault {
    tracing::error!("a row came back that was not asked for");
    Fault::Unexpected("misrouted".to_owned())
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
    let query = addressed(sqlx::query(AssertSqlSafe(text)), shape, writes).bind(first.named());
    answers(shape, writes, &values(query, shape, writes).fetch_all(conn).await?)
}

/// As [`write()`], where each is somebody else's and the statement is its own transaction. `None`
/// also stands for a record that somebody holds locked.
///
/// # Errors
/// As [`write()`]; [`Fault::OutcomeUnknown`] where it may hold all the same.
pub async fn write_each(
    conn: &mut PgConnection,
    shape: &Shape,
    writes: &[&Write],
) -> Result<Vec<Option<Outcome>>, Fault> {
    let Some(first) = writes.first() else { return Ok(Vec::new()) };
    let text = match shape {
        Shape::Mixed => statement::text(&first.resource, shape),
        shape => statement::text(&first.resource, &Shape::Each(Box::new(shape.clone()))),
    };
    let query = addressed(sqlx::query(AssertSqlSafe(text)), shape, writes);
    let rows =
        values(query.bind(many::writers(shape, writes)), shape, writes).fetch_all(conn).await;
    let rows = rows.map_err(|error| Fault::from(error).of_a_write())?;
    // It is done: what cannot be told from its rows, only the change log tells.
    answers(shape, writes, &rows).map_err(|_| Fault::OutcomeUnknown)
}

/// Starts a statement of many writes with the records and the preconditions of each.
fn addressed<'q>(
    query: Query<'q, Postgres, PgArguments>,
    shape: &Shape,
    writes: &[&'q Write],
) -> Query<'q, Postgres, PgArguments> {
    if matches!(shape, Shape::Insert(_)) {
        return query;
    }
    let parts = writes.first().map_or(0, |first| first.resource.key.len());
    let part = |part: usize| -> Vec<Option<&str>> {
        let key = |write: &&'q Write| write.key.as_ref()?.parts.get(part).map(String::as_str);
        writes.iter().map(key).collect()
    };
    let query = (0..parts).map(part).fold(query, Query::bind);
    let list = |versions: fn(&Write) -> Option<Vec<i32>>| -> Vec<Option<String>> {
        writes.iter().map(|write| versions(write).as_deref().map(array)).collect()
    };
    query
        .bind(list(|write| write.precondition.wanted()))
        .bind(list(|write| write.precondition.unwanted()))
}

/// Goes on with what each of them sets, as [`statement::Values`] has it.
fn values<'q>(
    mut query: Query<'q, Postgres, PgArguments>,
    shape: &Shape,
    writes: &[&'q Write],
) -> Query<'q, Postgres, PgArguments> {
    let Some(first) = writes.first() else { return query };
    let resource = &first.resource;
    let mixable;
    let set = match shape {
        Shape::Mixed => {
            mixable = statement::mixable(resource).collect::<Vec<_>>();
            mixable.as_slice()
        }
        shape => shape.set(),
    };
    let statement::Values { plain, body } = statement::Values::of(resource, set);
    let mut lists = vec![vec![None; writes.len()]; plain.len()];
    let mut sets = vec![0_i64; writes.len()];
    for (nth, write) in writes.iter().enumerate() {
        for (place, text) in
            assignments(write).into_iter().flat_map(|body| body.texts(&write.resource))
        {
            let Some(column) = plain.iter().position(|plain| *plain == place) else { continue };
            lists[column][nth] = text;
            sets[nth] |= 1 << (column % 64);
        }
    }
    query = lists.into_iter().fold(query, Query::bind);
    if body {
        let body = |write: &&'q Write| match write.change.as_ref().ok()? {
            Change::Increment(increment) => Some(Cow::Borrowed(increment.json.as_str())),
            _ => assignments(write)?.structured(&write.resource).map(Cow::Owned),
        };
        query = query.bind(writes.iter().map(body).collect::<Vec<_>>());
    }
    if *shape == Shape::Mixed { query.bind(sets) } else { query }
}

/// What became of each of a list.
fn answers(
    shape: &Shape,
    writes: &[&Write],
    rows: &[PgRow],
) -> Result<Vec<Option<Outcome>>, Fault> {
    if matches!(shape, Shape::Insert(_)) {
        created(writes, rows)
    } else {
        placed(shape, writes, rows)
    }
}

/// The rows of a list of new records, in its order.
fn created(writes: &[&Write], rows: &[PgRow]) -> Result<Vec<Option<Outcome>>, Fault> {
    if rows.len() != writes.len() {
        // A trigger of the table's owner left rows out: which ones, only their own runs tell.
        return Err(Fault::Value);
    }
    let outcome = |(write, row): (&&Write, &PgRow)| {
        let key = Key { parts: row.try_get(2)? };
        let asked = many::record_of(write).filter(|_| many::one_spelling(&write.resource));
        if asked.is_some_and(|asked| asked != key) {
            return Err(misrouted());
        }
        Ok(Some(Outcome::Created(row_of(row)?, key)))
    };
    writes.iter().zip(rows).map(outcome).collect()
}

/// The outcomes of a list, each at its place.
fn placed(shape: &Shape, writes: &[&Write], rows: &[PgRow]) -> Result<Vec<Option<Outcome>>, Fault> {
    let keys: Vec<_> = writes.iter().filter_map(|write| write.key.as_ref()).collect();
    let mut outcomes = none(writes.len());
    for row in rows {
        let outcome = match shape {
            Shape::Delete => Outcome::Deleted(deletion_of(row)?),
            _ => Outcome::Applied(row_of(row)?),
        };
        *slot(&mut outcomes, &keys, row, 2)? = Some(outcome);
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
    let query = lists(resource, &keys).into_iter().fold(query, Query::bind);
    let body = |write: &&Write| Some(assignments(write).filter(|_| compares)?.json(resource));
    let bodies: Vec<_> = writes.iter().map(body).collect();
    let rows = query.bind(yours.collect::<Vec<_>>()).bind(bodies).fetch_all(conn).await?;
    let mut outcomes = none(writes.len());
    for row in &rows {
        let place = place(&keys, row, 10)?;
        let (Some(write), Some(slot)) = (writes.get(place), outcomes.get_mut(place)) else {
            return Err(misrouted());
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
        Change::Create(body) | Change::Replace(body) | Change::Patch(body) => Some(body),
        _ => None,
    }
}

fn none<T>(count: usize) -> Vec<Option<T>> {
    std::iter::repeat_with(|| None).take(count).collect()
}

/// The text of an array of versions.
fn array(versions: &[i32]) -> String {
    let versions: Vec<_> = versions.iter().map(i32::to_string).collect();
    format!("{{{}}}", versions.join(","))
}
