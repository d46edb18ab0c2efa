//! Runs a write: one statement where it applies, a second one that explains it where it misses.

use std::time::{Duration, Instant};

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres, Row as _};

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::precondition::{Condition, Standing};
use crate::record::body::Assignments;
use crate::record::creation::store::{create, nothing_to_match};
use crate::record::increment::store::raise;
use crate::record::reconcile::{Sides, Told};
use crate::record::run::store::{execute, recover};
use crate::record::statement::{self, Shape};
use crate::record::{
    Authorship, Change, Conflict, Gone, Outcome, Row, Run, Verb, Write, body, merging, patch,
    refusal,
};
use crate::version::Version;

/// How often a request is tried: after a deadlock, or when the row came, went or changed between the
/// statement that missed and the one that was to explain the miss. Where many create and delete one
/// record, that happens several times in a row.
const TRIES: usize = 16;

/// How long it is tried anew. Each deadlock takes PostgreSQL a second to see.
const TRYING: Duration = Duration::from_secs(2);

/// Runs one write to its outcome. After an outcome inside somebody's transaction, all that was done
/// since the mark is the write.
///
/// # Errors
/// What the database could not do; everything that the request itself is to blame for is an
/// [`Outcome`].
pub async fn write(conn: &mut PgConnection, write: &Write) -> Result<Outcome, Fault> {
    run(conn, write, false).await
}

/// As [`write()`], for a write that found no row to change when it shared a statement, or was left
/// out of it: begins with the explanation.
///
/// # Errors
/// As [`write()`].
pub async fn write_after_miss(conn: &mut PgConnection, write: &Write) -> Result<Outcome, Fault> {
    run(conn, write, true).await
}

async fn run(
    conn: &mut PgConnection,
    write: &Write,
    mut has_missed: bool,
) -> Result<Outcome, Fault> {
    let begun = Instant::now();
    let mut tried = 0;
    let mut missed = false;
    loop {
        tried += 1;
        let last = tried == TRIES || begun.elapsed() > TRYING;
        match attempt(conn, write, std::mem::take(&mut has_missed)).await {
            Ok(Some(Outcome::Refused(error))) if !last && refusal::is_over(write, &error) => {}
            Ok(Some(outcome)) => return Ok(outcome),
            Ok(None) if !last => {
                // Nothing stands against the write, and still it finds no row to change.
                let unmoved =
                    if missed { refusal::unmoved(conn, &write.resource).await? } else { None };
                if let Some(error) = unmoved {
                    return Ok(Outcome::Refused(error));
                }
                missed = true;
            }
            // Whoever owns the transaction starts it over as a whole.
            Err(Fault::Retry) if !last && write.run != Run::Within => {}
            Ok(None) => return Err(Fault::Retry),
            Err(fault) => return Err(fault),
        }
    }
}

/// One attempt; `None` where it must start over on fresh ground.
async fn attempt(
    conn: &mut PgConnection,
    write: &Write,
    has_missed: bool,
) -> Result<Option<Outcome>, Fault> {
    let change = match &write.change {
        Ok(change) => change,
        Err(_) if write.key.is_none() && write.precondition.if_match.is_some() => {
            return Ok(Some(nothing_to_match(write)));
        }
        Err(error) => return refuse(conn, write, error.clone()).await.map(Some),
    };
    match (change, &write.key) {
        (Change::Create(body), key) => create(conn, write, key.as_ref(), body).await,
        (_, None) => Ok(Some(Outcome::Missing)),
        // Only a record that is not there fulfils `If-None-Match: *`.
        (_, Some(_)) if write.precondition.demands_absence() => explain(conn, write, None).await,
        (Change::Replace(body) | Change::Patch(body), Some(key)) => {
            update(conn, write, key, body, has_missed).await
        }
        (Change::Merge(body, base), Some(key)) => {
            merging::decided(conn, write, key, body, *base).await
        }
        (Change::JsonPatch(operations), Some(key)) => {
            patch::write(conn, write, key, operations).await
        }
        (Change::Increment(increment), Some(key)) => raise(conn, write, key, increment).await,
        (Change::Delete, Some(key)) => {
            let text = statement::text(&write.resource, &Shape::Delete);
            let query = conditional(&text, write, key);
            let result = if has_missed { Ok(None) } else { execute(conn, write.run, query).await };
            let deleted = |row: PgRow| Ok(Outcome::Deleted(deletion_of(&row)?));
            settle(conn, write, None, result, deleted).await
        }
    }
}

/// The conditional UPDATE.
pub(super) async fn update(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    body: &Assignments,
    has_missed: bool,
) -> Result<Option<Outcome>, Fault> {
    if let Some(error) = contradiction(conn, write, key, body).await? {
        return refuse(conn, write, error).await.map(Some);
    }
    let text = statement::text(&write.resource, &Shape::Update(body.into()));
    let query = bind_values(conditional(&text, write, key), &write.resource, body);
    let result = if has_missed { Ok(None) } else { execute(conn, write.run, query).await };
    let outcome =
        settle(conn, write, Some(body), result, |row| Ok(Outcome::Applied(row_of(&row)?))).await?;
    match outcome {
        Some(Outcome::Conflict(conflict)) => merging::write(conn, write, key, body, conflict).await,
        outcome => Ok(outcome),
    }
}

/// Whether a body names another key than the address, where that is more than a matter of spelling.
pub(super) async fn contradiction(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    body: &Assignments,
) -> Result<Option<Error>, Fault> {
    for claim in &body.claimed {
        let column = &write.resource.columns[write.resource.key[claim.part]];
        let text = statement::same_part(column);
        let query = sqlx::query_scalar::<_, Option<bool>>(AssertSqlSafe(text)).persistent(false);
        let same = query.bind(&key.parts[claim.part]).bind(&claim.json).fetch_one(&mut *conn).await;
        match same.map_err(Fault::from) {
            Ok(Some(true)) => {}
            Ok(_) => return Ok(Some(body::contradiction(column))),
            Err(fault) => match recover(conn, write.run, fault).await? {
                Fault::Value | Fault::Check(_) | Fault::Drifted | Fault::Mismatch => {
                    return Ok(Some(body::contradiction(column)));
                }
                fault => return Err(fault),
            },
        }
    }
    Ok(None)
}

/// Starts a conditional statement with its parameters: key, versions wanted and not wanted, actor.
pub(super) fn conditional<'q>(
    text: &std::sync::Arc<str>,
    write: &'q Write,
    key: &'q Key,
) -> Query<'q, Postgres, PgArguments> {
    bind_key(sqlx::query(AssertSqlSafe(text.clone())), key)
        .bind(write.precondition.wanted())
        .bind(write.precondition.unwanted())
        .bind(write.named())
}

pub(super) fn bind_key<'q>(
    mut query: Query<'q, Postgres, PgArguments>,
    key: &'q Key,
) -> Query<'q, Postgres, PgArguments> {
    for part in &key.parts {
        query = query.bind(part);
    }
    query
}

/// The values that a body gives, as [`statement::Values`] has them.
pub(super) fn bind_values<'q>(
    mut query: Query<'q, Postgres, PgArguments>,
    resource: &'q Resource,
    body: &'q Assignments,
) -> Query<'q, Postgres, PgArguments> {
    let statement::Values { body: object, .. } = statement::Values::of(resource, &body.set);
    for (_, text) in body.texts(resource) {
        query = query.bind(text);
    }
    if object { query.bind(body.structured(resource)) } else { query }
}

/// From what a conditional statement gave to what became of the write.
pub(super) async fn settle(
    conn: &mut PgConnection,
    write: &Write,
    body: Option<&Assignments>,
    result: Result<Option<PgRow>, Fault>,
    applied: impl FnOnce(PgRow) -> Result<Outcome, Fault>,
) -> Result<Option<Outcome>, Fault> {
    match result {
        Ok(Some(row)) => applied(row).map(Some),
        Ok(None) => explain(conn, write, body).await,
        Err(fault) => {
            let error = refusal::explain(conn, write, body, fault).await?;
            if error.code() == Code::InvalidId {
                return Ok(Some(Outcome::Refused(error)));
            }
            refuse(conn, write, error).await.map(Some)
        }
    }
}

/// The one place that turns a miss into an answer: reads the row as it stands, by a statement of its
/// own, because the one that missed saw the row as it was before it waited. `None` where nothing
/// stands against the write (any more).
pub(super) async fn explain(
    conn: &mut PgConnection,
    write: &Write,
    body: Option<&Assignments>,
) -> Result<Option<Outcome>, Fault> {
    let found = match current(conn, write, body).await {
        // What cannot even be compared with the row is not what the row holds already.
        // (A text of a type such as `tsvector` that cannot be read is a `Mismatch`.)
        Err(fault) if body.is_some() && (fault.is_refusal() || fault == Fault::Mismatch) => {
            recover(conn, write.run, fault).await?;
            current(conn, write, None).await?
        }
        found => found?,
    };
    Ok(judge(write, found))
}

/// Refuses a write for what its body says, unless its record or its precondition stands against it
/// already: a stale tag with a body that cannot be stored is the conflict. The record is shown either
/// way.
pub(super) async fn refuse(
    conn: &mut PgConnection,
    write: &Write,
    error: Error,
) -> Result<Outcome, Fault> {
    let found = current(conn, write, None).await?;
    let row = found.row.clone();
    let refused = |row| Outcome::Refused(error.beside(row));
    if write.key.is_none() {
        return Ok(refused(None));
    }
    Ok(judge(write, found).unwrap_or_else(|| refused(row.map(|row| (row.version, row.json)))))
}

/// What stands against a write, as its record is; `None` where nothing does.
pub(super) fn judge(write: &Write, found: Current) -> Option<Outcome> {
    let Current { row, nothing_new, newest, told } = found;
    let Some(row) = row else {
        // Where a record is to come to be, its absence stands against nothing.
        let creates = write.verb == Verb::Create && write.precondition.if_match.is_none();
        let yours = write.precondition.newest_named();
        return if creates { None } else { Some(absent(newest, yours)) };
    };
    match write.precondition.standing(row.version) {
        Standing::Holds => None,
        Standing::Unwanted => Some(Outcome::Unwanted(conflicting(write, row, newest, &told))),
        Standing::Stale if nothing_new && !counts(write) => Some(Outcome::AlreadyApplied(row)),
        Standing::Stale => Some(Outcome::Conflict(conflicting(write, row, newest, &told))),
    }
}

/// Whether a write is to be merged and sets a counter: two who each count one are two, also where both
/// arrive at the same number.
fn counts(write: &Write) -> bool {
    let Ok(Change::Replace(body) | Change::Patch(body)) = &write.change else { return false };
    let counters = &write.resource.settings.merge.counter;
    write.on_conflict.is_some()
        && body.set.iter().any(|&place| counters.contains(&write.resource.columns[place].name))
}

/// What became of a write to a row that is not there.
fn absent(newest: Option<Newest>, yours: Option<Version>) -> Outcome {
    match newest {
        Some(Newest { version, deleted: true, by, last }) => {
            Outcome::Gone(Gone { version, by, last, yours })
        }
        _ => Outcome::Missing,
    }
}

pub(super) fn conflicting(
    write: &Write,
    row: Row,
    newest: Option<Newest>,
    told: &Told,
) -> Conflict {
    let yours = write.precondition.newest_named();
    // The row as it stands needs no log to be the base.
    let current = (yours == Some(row.version)).then(|| row.json.clone());
    let told = Told { base: told.base.clone().or(current), ..told.clone() };
    Conflict {
        yours,
        by: newest.filter(|newest| newest.version == row.version).map(|newest| newest.by),
        kind: match write.verb {
            Verb::Create if write.precondition.if_match.is_none() => "create_create",
            Verb::Delete => "delete_update",
            _ => "update_update",
        },
        sides: Sides::new(&told, &row.json),
        current: Some(row),
    }
}

/// Compares a write with the row as it stands, whether or not its precondition holds.
///
/// # Errors
/// As [`write()`].
pub async fn compare(conn: &mut PgConnection, write: &Write) -> Result<Outcome, Fault> {
    let body = match &write.change {
        Ok(Change::Patch(body) | Change::Replace(body)) => Some(body),
        _ => None,
    };
    let found = match current(conn, write, body).await {
        Err(Fault::Value | Fault::Check(_) | Fault::Mismatch) => {
            let error = refusal::explain(conn, write, body, Fault::Value).await?;
            return Ok(Outcome::Refused(error));
        }
        found => found?,
    };
    let yours = write.precondition.newest_named();
    let Some(row) = found.row else {
        return Ok(absent(found.newest, yours));
    };
    Ok(Outcome::Conflict(conflicting(write, row, found.newest, &found.told)))
}

/// A row as it stands, with its newest change.
pub(super) struct Current {
    pub(super) row: Option<Row>,
    /// Whether the update asked about would leave the row as it is.
    nothing_new: bool,
    pub(super) newest: Option<Newest>,
    /// What the conflict would be about, were it one.
    pub(super) told: Told,
}

pub(super) struct Newest {
    version: Version,
    deleted: bool,
    by: Authorship,
    last: Option<String>,
}

pub(super) async fn current(
    conn: &mut PgConnection,
    write: &Write,
    body: Option<&Assignments>,
) -> Result<Current, Fault> {
    let Some(key) = &write.key else {
        return Ok(Current { row: None, nothing_new: false, newest: None, told: Told::default() });
    };
    let yours = write.precondition.newest_named();
    let mut found = read_current(conn, &write.resource, key, yours, body).await?;
    if let Some(had) = &write.had {
        found.told.base = Some(had.clone());
    }
    Ok(found)
}

async fn read_current(
    conn: &mut PgConnection,
    resource: &Resource,
    key: &Key,
    yours: Option<Version>,
    body: Option<&Assignments>,
) -> Result<Current, Fault> {
    let text = statement::text(resource, &Shape::Current(body.map(Into::into)));
    let mut query =
        bind_key(sqlx::query(AssertSqlSafe(text)), key).bind(yours.map(|version| version.0));
    if let Some(body) = body {
        query = query.bind(body.json(resource));
    }
    compared(resource, body, &query.fetch_one(conn).await?)
}

/// From what a comparison gave to what it says.
pub(super) fn compared(
    resource: &Resource,
    body: Option<&Assignments>,
    found: &PgRow,
) -> Result<Current, Fault> {
    let row = match found.try_get::<Option<i32>, _>(0)? {
        Some(version) => Some(Row { version: Version(version), json: found.try_get(1)? }),
        None => None,
    };
    let newest = match found.try_get::<Option<i32>, _>(3)? {
        Some(version) => Some(Newest {
            version: Version(version),
            deleted: found.try_get(4)?,
            by: Authorship { by: found.try_get(5)?, at: found.try_get(6)? },
            last: found.try_get(7)?,
        }),
        None => None,
    };
    let merge_patched = body.map_or_else(Vec::new, |body| {
        body.merged.iter().map(|&place| resource.columns[place].name.clone()).collect()
    });
    Ok(Current {
        row,
        nothing_new: found.try_get::<Option<bool>, _>(2)?.unwrap_or(false),
        newest,
        told: Told { base: found.try_get(8)?, sets: found.try_get(9)?, merge_patched },
    })
}

/// What a read found.
#[derive(Debug)]
pub enum Found {
    /// The row.
    Row(Row),
    /// It was deleted.
    Gone(Gone),
    /// There never was one.
    Missing,
}

/// Reads one record; a second statement only where it is not there.
///
/// # Errors
/// Those of the database.
pub async fn read(
    conn: &mut PgConnection,
    resource: &Resource,
    key: &Key,
    select: Option<Vec<usize>>,
) -> Result<Found, Fault> {
    let text = statement::text(resource, &Shape::Get(select));
    for _ in 0..TRIES {
        let query = bind_key(sqlx::query(AssertSqlSafe(text.clone())), key);
        match query.fetch_optional(&mut *conn).await.map_err(Fault::from) {
            Ok(Some(row)) => return Ok(Found::Row(row_of(&row)?)),
            Ok(None) => {}
            // Either the table changed, or the id names nothing: `regclass`.
            Err(fault @ (Fault::Drifted | Fault::Mismatch)) => {
                let valid = refusal::key_is_valid(conn, resource, &key.parts, Run::Alone).await?;
                return Err(if valid { fault } else { Fault::Value });
            }
            Err(fault) => return Err(fault),
        }
        match read_current(conn, resource, key, None, None).await? {
            Current { row: Some(_), .. } => {} // Created in between.
            Current { newest: Some(Newest { version, deleted: true, by, last }), .. } => {
                return Ok(Found::Gone(Gone { version, by, last, yours: None }));
            }
            _ => return Ok(Found::Missing),
        }
    }
    Err(Fault::Retry)
}

/// The version of a deletion, one above that of the row which the statement gives.
pub(super) fn deletion_of(row: &PgRow) -> Result<Version, Fault> {
    let last: i32 = row.try_get(0)?;
    Ok(Version(last.saturating_add(1)))
}

pub(super) fn row_of(row: &PgRow) -> Result<Row, Fault> {
    Ok(Row { version: Version(row.try_get(0)?), json: row.try_get(1)? })
}

/// A copy of a write that demands exactly this version.
pub(super) fn based_on(write: &Write, version: Version) -> crate::precondition::Precondition {
    crate::precondition::Precondition {
        if_match: Some(Condition::Versions(vec![version])),
        if_none_match: write.precondition.if_none_match.clone(),
    }
}
