//! The statement that makes a record.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::key::Key;
use crate::db::fault::Fault;
use crate::record::body::Assignments;
use crate::record::run::store::execute;
use crate::record::statement::{self, Shape};
use crate::record::store::{bind_values, contradiction, explain, refuse, row_of};
use crate::record::{Conflict, Outcome, Write, refusal};

/// The INSERT. It decides by itself who of several wins: the key's uniqueness is the predicate.
pub(in crate::record) async fn create(
    conn: &mut PgConnection,
    write: &Write,
    key: Option<&Key>,
    body: &Assignments,
) -> Result<Option<Outcome>, Fault> {
    if write.precondition.if_match.is_some() {
        return against_if_match(conn, write, key, body).await.map(Some);
    }
    if let Some(key) = key
        && let Some(error) = contradiction(conn, write, key, body).await?
    {
        return refuse(conn, write, error).await.map(Some);
    }
    let text = statement::text(&write.resource, &Shape::Insert(body.set.clone()));
    let query = sqlx::query(AssertSqlSafe(text)).bind(write.named());
    let query = bind_values(query, &write.resource, body);
    match execute(conn, write.run, query).await {
        Ok(Some(row)) => {
            let parts: Vec<String> = row.try_get(2)?;
            Ok(Some(Outcome::Created(row_of(&row)?, Key { parts })))
        }
        Ok(None) => Ok(Some(Outcome::Refused(refusal::swallowed(&write.resource)))),
        Err(fault) => {
            // A PUT that was to create is answered by the record, where there is one, whatever else
            // stands against it.
            if key.is_some()
                && fault.is_refusal()
                && let Some(outcome) = explain(conn, write, Some(body)).await?
            {
                return Ok(Some(outcome));
            }
            let error = refusal::explain(conn, write, Some(body), fault).await?;
            Ok(Some(Outcome::Refused(error)))
        }
    }
}

/// A record that is to be created is not there yet, so `If-Match` cannot hold for it.
async fn against_if_match(
    conn: &mut PgConnection,
    write: &Write,
    key: Option<&Key>,
    body: &Assignments,
) -> Result<Outcome, Fault> {
    if key.is_some() {
        // Addressed by PUT: judged like every other write to that address.
        return Ok(explain(conn, write, None).await?.unwrap_or(Outcome::Missing));
    }
    let taken = refusal::taken_key(conn, write, body).await?;
    Ok(taken.map_or_else(|| nothing_to_match(write), Outcome::Refused))
}

/// A record still to be created is at no version that a client could name.
pub(in crate::record) fn nothing_to_match(write: &Write) -> Outcome {
    Outcome::Conflict(Conflict {
        current: None,
        yours: write.precondition.newest_named(),
        by: None,
        kind: "create_create",
        sides: None,
    })
}
