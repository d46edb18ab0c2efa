//! What only the console asks of the database: about how many rows a table has, and what was deleted.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use crate::catalog::store::name_literal;
use crate::catalog::{Column, Resource, quote_literal};
use crate::db::fault::Fault;
use crate::feed::store::number;
use crate::record::Authorship;
use crate::record::statement::moment;
use crate::version::Version;

/// Up to here rows are counted; above, PostgreSQL's estimate is shown.
const COUNTED: i64 = 1000;

/// About how many rows a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// So many.
    Exactly(i64),
    /// About so many, by the table's statistics.
    About(i64),
    /// More than so many; the table was never analysed.
    MoreThan(i64),
}

/// Counts, or estimates where counting would take long.
///
/// # Errors
/// Those of the database.
pub(super) async fn rows(conn: &mut PgConnection, resource: &Resource) -> Result<Rows, Fault> {
    let text = format!(
        "SELECT (SELECT count(*) FROM (SELECT FROM {table} LIMIT {more}) AS t), \
         (SELECT c.reltuples::int8 FROM pg_class AS c WHERE c.oid = {name}::regclass)",
        table = resource.table,
        more = COUNTED + 1,
        name = quote_literal(&resource.table),
    );
    let (counted, estimate): (i64, Option<i64>) =
        sqlx::query_as(AssertSqlSafe(text)).persistent(false).fetch_one(conn).await?;
    Ok(match estimate {
        _ if counted <= COUNTED => Rows::Exactly(counted),
        Some(estimate) if estimate > COUNTED => Rows::About(estimate),
        _ => Rows::MoreThan(COUNTED),
    })
}

/// How many changes one look for deletions goes through, at most, over all resources. The log has no index of
/// deletions: every write would pay for it.
const LOOKED_AT: i64 = 50_000;
/// For how long a page is filled from a log in which little was deleted.
const LOOKING: Duration = Duration::from_millis(500);

/// A deletion that nothing followed.
#[derive(Debug)]
pub(super) struct Deletion {
    /// The record id, as the change log has it.
    pub(super) id: String,
    /// The version of the deletion.
    pub(super) version: Version,
    /// Who deleted it, and when.
    pub(super) by: Authorship,
    /// What people called the record.
    pub(super) name: Option<String>,
}

/// A place in the log to go on from, towards older changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    /// The number of the transaction.
    pub(super) xid: u64,
    /// The place within it.
    pub(super) seq: i64,
}

/// The newest deletions of a resource before a place in the log, as many as fit or time allows, and the place to go
/// on from where that was not all.
///
/// # Errors
/// Those of the database.
pub(super) async fn deletions(
    conn: &mut PgConnection,
    resource: &Resource,
    title: Option<&Column>,
    mut before: Option<Before>,
    limit: usize,
) -> Result<(Vec<Deletion>, Option<Before>), Fault> {
    let begun = Instant::now();
    let mut deletions = Vec::new();
    loop {
        let left = limit - deletions.len();
        let (found, older) = look(conn, resource, title, before, left).await?;
        deletions.extend(found);
        if older.is_none() || deletions.len() == limit || begun.elapsed() > LOOKING {
            return Ok((deletions, older));
        }
        before = older;
    }
}

/// One look, back from a place in the log.
async fn look(
    conn: &mut PgConnection,
    resource: &Resource,
    title: Option<&Column>,
    before: Option<Before>,
    limit: usize,
) -> Result<(Vec<Deletion>, Option<Before>), Fault> {
    let name = title.map_or_else(
        || "NULL::text".to_owned(),
        |column| format!("c.doc ->> {}", quote_literal(&column.name)),
    );
    // The logged rows, which may be large, are fetched only for what is shown.
    let text = format!(
        "SELECT s.xid::text, s.seq, s.found, s.n, c.id, c.version, c.\"by\", {at}, {name} \
         FROM (SELECT w.*, w.resource = {resource} AND w.op = 'delete' AND NOT EXISTS (\
           SELECT FROM counterfoil.change AS l \
           WHERE l.resource = w.resource AND l.id = w.id AND l.version > w.version) AS found \
           FROM (SELECT o.*, row_number() OVER up AS n, lead(1) OVER up IS NULL AS last \
             FROM (SELECT c.resource, c.id, c.version, c.op, c.xid, c.seq \
               FROM counterfoil.change AS c WHERE (c.xid, c.seq) < ($1::text::xid8, $2) \
               ORDER BY c.xid DESC, c.seq DESC LIMIT {LOOKED_AT}) AS o \
             WINDOW up AS (ROWS UNBOUNDED PRECEDING)) AS w) AS s \
         JOIN counterfoil.change AS c USING (resource, id, version) \
         WHERE s.found OR s.last ORDER BY s.n LIMIT $3",
        at = moment("c.at"),
        resource = name_literal(resource),
    );
    let Before { xid, seq } = before.unwrap_or(Before { xid: u64::MAX, seq: i64::MAX });
    // One more tells whether there is more.
    let rows = sqlx::query(AssertSqlSafe(text))
        .bind(xid.to_string())
        .bind(seq)
        .bind(i64::try_from(limit + 1).unwrap_or(i64::MAX))
        .fetch_all(conn)
        .await?;
    let mut deletions = Vec::new();
    let mut place = None;
    for row in &rows {
        let found = row.try_get(2)?;
        if found && deletions.len() == limit {
            return Ok((deletions, place));
        }
        place = Some(Before { xid: number(row.try_get(0)?)?, seq: row.try_get(1)? });
        if found {
            let by = Authorship { by: row.try_get(6)?, at: row.try_get(7)? };
            let version = Version(row.try_get(5)?);
            deletions.push(Deletion { id: row.try_get(4)?, version, by, name: row.try_get(8)? });
        }
    }
    let looked_at: i64 = rows.last().map_or(Ok(0), |row| row.try_get(3))?;
    Ok((deletions, place.filter(|_| looked_at == LOOKED_AT)))
}
