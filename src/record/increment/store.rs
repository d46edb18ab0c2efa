//! Runs an increment, and says which bound stood against it.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::key::Key;
use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::record::increment::Increment;
use crate::record::run::store::execute;
use crate::record::statement::{self, Shape};
use crate::record::store::{bind_key, conditional, row_of, settle};
use crate::record::{Outcome, Write};

/// The one statement; where it misses, others explain it.
///
/// # Errors
/// As [`crate::record::store::write`].
pub(in crate::record) async fn raise(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    increment: &Increment,
) -> Result<Option<Outcome>, Fault> {
    let text = statement::text(&write.resource, &Shape::Increment(increment.columns.clone()));
    let query = conditional(&text, write, key).bind(&increment.json);
    let result = execute(conn, write.run, query).await;
    let applied = settle(conn, write, None, result, |row| Ok(Outcome::Applied(row_of(&row)?)));
    match applied.await? {
        None if increment.bounded => beyond(conn, write, key, increment).await,
        outcome => Ok(outcome),
    }
}

/// The refusal of the bound that the record as it stands would leave; `None` where it would not
/// (any more).
async fn beyond(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    increment: &Increment,
) -> Result<Option<Outcome>, Fault> {
    let text = statement::text(&write.resource, &Shape::Bounds(increment.columns.clone()));
    let query = bind_key(sqlx::query(AssertSqlSafe(text)), key).bind(&increment.json);
    let Some(found) = query.fetch_optional(conn).await? else { return Ok(None) };
    let place = found.try_get::<Option<i32>, _>(2)?.and_then(|place| usize::try_from(place).ok());
    let Some(&column) = place.and_then(|place| increment.columns.get(place)) else {
        return Ok(None);
    };
    let row = row_of(&found)?;
    let name = &write.resource.columns[column].name;
    let message = format!("{name} would leave the bounds that the request sets");
    let error = Error::field(Code::CheckFailed, name, message);
    Ok(Some(Outcome::Refused(error.current(Some(row.version), Some(row.json)))))
}
