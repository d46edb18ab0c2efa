//! What only the console asks of the database: about how many rows a table has.

use sqlx::{AssertSqlSafe, PgConnection};

use crate::catalog::{Resource, quote_literal};
use crate::db::fault::Fault;

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
