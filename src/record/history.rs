//! History: the versions of a record as the change log has them.

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::key::Key;
use crate::catalog::store::name_literal;
use crate::catalog::{Resource, quote_literal};
use crate::db::fault::Fault;
use crate::record::list::BYTES;
use crate::record::statement::{document, moment, record_id};
use crate::record::store::{Found, bind_key};
use crate::record::{Authorship, Gone, Row};
use crate::version::Version;

/// One version of a record.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// The version.
    pub version: i32,
    /// `create`, `update`, `delete`; `baseline` for a row that was there before the log was.
    pub op: String,
    /// RFC 3339, by the database's clock.
    pub at: String,
    /// The actor of the request, else the database role; `None` for a baseline.
    pub by: Option<String>,
    /// The fields that differ from the version before, in table order.
    pub changed: Vec<String>,
    /// The versions that this one is a merge of: the client's, and the one it was written over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_from: Option<Vec<i32>>,
    /// The row at this version; for a deletion the last one.
    pub data: Box<RawValue>,
}

/// The versions below `before` (all where it is `None`), newest first, at most `limit` and as many as fit on a
/// page; and whether there are more.
///
/// # Errors
/// Those of the database.
pub async fn read(
    conn: &mut PgConnection,
    resource: &Resource,
    key: &Key,
    before: Option<Version>,
    limit: usize,
) -> Result<(Vec<Entry>, bool), Fault> {
    let query = |text| {
        bind_key(sqlx::query(AssertSqlSafe(text)), key)
            .bind(before.map(|version| version.0))
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    };
    let logged = match query(statement(resource, Compared::ByValue)).fetch_all(&mut *conn).await {
        Ok(logged) => logged,
        Err(error) => match Fault::from(error) {
            // Either the id is none, or a `json` column holds what has no value in `jsonb` (1e1000000): then
            // what changed is told by how it is spelled.
            Fault::Value => {
                query(statement(resource, Compared::BySpelling)).fetch_all(conn).await?
            }
            fault => return Err(fault),
        },
    };
    let found: i64 = logged.first().map_or(Ok(0), |row| row.try_get("found"))?;
    let entries = logged.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    let more = usize::try_from(found).is_ok_and(|found| found > entries.len());
    Ok((entries, more))
}

/// How it is found out which fields changed.
#[derive(Clone, Copy)]
enum Compared {
    ByValue,
    BySpelling,
}

/// Parameters: the key's parts, the version before which to begin, how many at most. A page that is full ends
/// early: first by what the rows take where they lie, so that not all of a large page is fetched, then by what
/// they are as text.
fn statement(resource: &Resource, compared: Compared) -> String {
    let value = |row: &str| match compared {
        Compared::ByValue => format!("({row}.doc::jsonb -> f.name)"),
        Compared::BySpelling => format!("({row}.doc -> f.name)::text"),
    };
    let columns: Vec<_> = resource
        .readable()
        .filter(|c| c.name != resource.version_column().name)
        .map(|c| quote_literal(&c.name))
        .collect();
    format!(
        "SELECT c.version, c.op, {at} AS at, c.\"by\" AS \"by\", c.merged_from, c.shown AS doc, c.found, \
         CASE WHEN c.op IN ('delete', 'baseline') THEN '{{}}'::text[] ELSE ARRAY( \
           SELECT f.name FROM unnest(ARRAY[{columns}]::text[]) WITH ORDINALITY AS f(name, place) \
           WHERE {yours} IS DISTINCT FROM {theirs} \
           ORDER BY f.place) END AS changed \
         FROM (SELECT c.*, sum(octet_length(c.shown)) OVER up AS size \
           FROM (SELECT c.*, {doc} AS shown \
             FROM (SELECT c.*, row_number() OVER up AS n, count(*) OVER () AS found, \
               sum(pg_column_size(c.doc)) OVER up AS stored \
               FROM (SELECT c.* FROM counterfoil.change AS c \
                 WHERE c.resource = {name} AND c.id = {id} AND (${before}::int4 IS NULL OR c.version < ${before}::int4) \
                 ORDER BY c.version DESC LIMIT ${most}::int8 + 1) AS c \
               WINDOW up AS (ROWS UNBOUNDED PRECEDING)) AS c \
             WHERE c.n <= ${most}::int8 AND c.stored - pg_column_size(c.doc) < {BYTES} OFFSET 0) AS c \
           WINDOW up AS (ROWS UNBOUNDED PRECEDING)) AS c \
         LEFT JOIN LATERAL (SELECT p.doc FROM counterfoil.change AS p WHERE p.resource = c.resource \
           AND p.id = c.id AND p.version < c.version AND p.op <> 'delete' AND c.op <> 'create' \
           ORDER BY p.version DESC LIMIT 1) AS p ON true \
         WHERE c.size - octet_length(c.shown) < {BYTES} ORDER BY c.version DESC",
        yours = value("c"),
        theirs = value("p"),
        id = record_id(resource),
        before = resource.key.len() + 1,
        most = resource.key.len() + 2,
        at = moment("c.at"),
        doc = document(resource, "c.doc"),
        columns = columns.join(", "),
        name = name_literal(resource),
    )
}

fn entry(row: &PgRow) -> Result<Entry, Fault> {
    let data = RawValue::from_string(row.try_get("doc")?)
        .map_err(|_| Fault::Unexpected("a logged row is no JSON".to_owned()))?;
    Ok(Entry {
        version: row.try_get("version")?,
        op: row.try_get("op")?,
        at: row.try_get("at")?,
        by: Some(row.try_get("by")?).filter(|by: &String| !by.is_empty()),
        changed: row.try_get("changed")?,
        merged_from: row.try_get("merged_from")?,
        data,
    })
}

/// Reads one version of a record; missing too where the log no longer keeps it.
///
/// # Errors
/// Those of the database.
pub async fn read_version(
    conn: &mut PgConnection,
    resource: &Resource,
    key: &Key,
    version: Version,
) -> Result<Found, Fault> {
    let (at, document) = (moment("c.at"), document(resource, "c.doc"));
    let columns = format!("c.op = 'delete', c.\"by\", {at}, {document}");
    let Some(found) = logged(conn, resource, key, version, &columns).await? else {
        return Ok(Found::Missing);
    };
    let json: String = found.try_get(3)?;
    Ok(if found.try_get(0)? {
        let by = Authorship { by: found.try_get(1)?, at: found.try_get(2)? };
        Found::Gone(Gone { version, by, last: Some(json), yours: None })
    } else {
        Found::Row(Row { version, json })
    })
}

/// Reads one version of a record whole, with what callers may not know of; `None` where the log no longer keeps it.
///
/// # Errors
/// Those of the database.
pub async fn read_whole(
    conn: &mut PgConnection,
    resource: &Resource,
    key: &Key,
    version: Version,
) -> Result<Option<String>, Fault> {
    let found = logged(conn, resource, key, version, "c.doc::text").await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

/// These columns of a version's row in the log.
async fn logged(
    conn: &mut PgConnection,
    resource: &Resource,
    key: &Key,
    version: Version,
    columns: &str,
) -> Result<Option<PgRow>, Fault> {
    let text = format!(
        "SELECT {columns} FROM counterfoil.change AS c \
         WHERE c.resource = {} AND c.id = {} AND c.version = ${}",
        name_literal(resource),
        record_id(resource),
        resource.key.len() + 1,
    );
    let query = bind_key(sqlx::query(AssertSqlSafe(text)), key).bind(version.0);
    Ok(query.fetch_optional(conn).await?)
}
