//! The SQL of first copies.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::Resource;
use crate::db::fault::Fault;
use crate::feed::Filter;
use crate::feed::page::Change;
use crate::feed::snapshot::{Begun, Place};
use crate::feed::store::{BYTES, NEWEST, position};
use crate::record::statement::{key_parts, row, row_id};

/// Fixes the cursor of a copy that begins now.
///
/// # Errors
/// Those of the database.
pub async fn begin(conn: &mut PgConnection) -> Result<Begun, Fault> {
    let text = format!(
        "SELECT f.epoch, n.xid::text, n.seq \
         FROM counterfoil.feed AS f LEFT JOIN LATERAL ({NEWEST}) AS n ON true"
    );
    let (epoch, xid, seq) = sqlx::query_as(AssertSqlSafe(text)).fetch_one(conn).await?;
    Ok(Begun { epoch, position: position(xid, seq)? })
}

/// Reads the next rows of a copy, as many as fit, and the place to go on from; `None` where it is whole.
///
/// # Errors
/// Those of the database.
pub async fn page(
    conn: &mut PgConnection,
    filter: &Filter,
    place: &Place,
    limit: usize,
) -> Result<(Vec<Change>, Option<Place>), Fault> {
    let mut changes = Vec::new();
    let mut bytes = BYTES;
    for resource in place.ahead(filter) {
        let after = if resource.name == place.resource { place.key.as_slice() } else { &[] };
        let left = limit - changes.len();
        if left == 0 || bytes <= 0 {
            return Ok((changes, Some(Place { resource: resource.name.clone(), key: Vec::new() })));
        }
        let rows = rows(conn, resource, after, left, bytes).await?;
        bytes -= rows.bytes;
        changes.extend(rows.changes);
        if let Some(key) = rows.next {
            return Ok((changes, Some(Place { resource: resource.name.clone(), key })));
        }
    }
    Ok((changes, None))
}

/// The next rows of one resource.
struct Rows {
    changes: Vec<Change>,
    bytes: i64,
    /// The key of the last one, where there are more.
    next: Option<Vec<String>>,
}

async fn rows(
    conn: &mut PgConnection,
    resource: &Resource,
    after: &[String],
    limit: usize,
    bytes: i64,
) -> Result<Rows, Fault> {
    let text = statement(resource, !after.is_empty());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut query = sqlx::query(AssertSqlSafe(text)).bind(limit).bind(bytes);
    for part in after {
        query = query.bind(part);
    }
    let mut found = Vec::new();
    for row in query.fetch_all(conn).await? {
        found.push((row.try_get::<i64, _>("n")?, row));
    }
    // A join keeps no order.
    found.sort_unstable_by_key(|(n, _)| *n);
    let mut rows = Rows { changes: Vec::with_capacity(found.len()), bytes: 0, next: None };
    for (_, row) in &found {
        rows.changes.push(Change {
            resource: resource.name.clone(),
            id: row.try_get("id")?,
            version: row.try_get("version")?,
            deleted: false,
            row: Some(row.try_get("row")?),
            by: None,
            at: None,
            origin: None,
        });
        rows.bytes = row.try_get("total")?;
    }
    if let Some((n, row)) = found.last()
        && row.try_get::<i64, _>("all_rows")? > *n
    {
        rows.next = Some(row.try_get("key")?);
    }
    Ok(rows)
}

/// At most `$1` rows of about `$2` bytes, after the key from `$3` on. What is to be shown of them is
/// fetched only for those that fit.
fn statement(resource: &Resource, goes_on: bool) -> String {
    let key: Vec<_> = resource.key_columns().map(|c| format!("t.{}", c.quoted)).collect();
    let key = key.join(", ");
    let after = if goes_on {
        let given: Vec<_> = resource
            .key_columns()
            .enumerate()
            .map(|(i, c)| format!("${}::{}", i + 3, c.cast_type))
            .collect();
        format!(" WHERE ({key}) > ({})", given.join(", "))
    } else {
        String::new()
    };
    let names = |table: &str| -> Vec<_> {
        (0..resource.key.len()).map(|i| format!("{table}.k{i}")).collect()
    };
    let keys: Vec<_> = resource
        .key_columns()
        .enumerate()
        .map(|(i, c)| format!("t.{} AS k{i}", c.quoted))
        .collect();
    format!(
        "SELECT p.n, p.total::int8 AS total, p.all_rows, {id} AS id, t.{version} AS version, {row} AS row, {parts} AS key \
         FROM (SELECT {names}, w.n, w.total, w.weight, w.all_rows FROM (\
         SELECT r.*, row_number() OVER up AS n, sum(r.weight) OVER up AS total, count(*) OVER () AS all_rows \
         FROM (SELECT {keys}, {weight} AS weight FROM {table} AS t{after} ORDER BY {key} LIMIT $1::int8 + 1) AS r \
         WINDOW up AS (ROWS UNBOUNDED PRECEDING)) AS w \
         WHERE w.n <= $1 AND w.total - w.weight < $2::int8) AS p \
         JOIN {table} AS t ON ({key}) = ({joined})",
        id = row_id(resource),
        version = resource.version_column().quoted,
        row = row(resource, None),
        parts = key_parts(resource),
        names = names("w").join(", "),
        keys = keys.join(", "),
        weight = weight(resource),
        table = resource.table,
        joined = names("p").join(", "),
    )
}

/// What a row counts: as much as it takes where it lies, and more where it lies there compressed.
fn weight(resource: &Resource) -> String {
    let columns: Vec<_> = resource
        .readable()
        .filter(|c| !c.kind.is_small())
        .map(|c| {
            let c = format!("t.{}", c.quoted);
            format!(
                " + least(coalesce(pg_column_size({c}), 0), 8000000) * \
                 CASE WHEN pg_column_compression({c}) IS NULL THEN 1 ELSE 16 END"
            )
        })
        .collect();
    format!("(100::int8{})", columns.concat())
}
