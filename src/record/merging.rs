//! Merging on the server: a write that met a newer row is combined with it, and what comes of that is
//! written by the same conditional UPDATE, on the version it was merged against.

use sqlx::{AssertSqlSafe, PgConnection};

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::db::fault::Fault;
use crate::heavy;
use crate::merge::{FieldVerdict, Resolve, Row as Fields};
use crate::record::body::Assignments;
use crate::record::reconcile::{self, Sides};
use crate::record::run::store::execute;
use crate::record::statement::{self, Shape};
use crate::record::{Conflict, Merged, Outcome, Row, Run, Write};
use crate::record::{refusal, store};
use crate::version::Version;

/// How often a merge is made anew because the row moved again meanwhile.
const TRIES: usize = 16;

/// Merges a conflict and writes the merge; gives the conflict back where a clash is the client's to
/// decide, or the base is not known.
///
/// # Errors
/// As [`store::write`].
pub(super) async fn write(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    body: &Assignments,
    mut conflict: Conflict,
) -> Result<Option<Outcome>, Fault> {
    let Some(resolve) = write.on_conflict else {
        return Ok(Some(Outcome::Conflict(conflict)));
    };
    if conflict.sides.as_ref().is_some_and(|sides| !sides.wished())
        && let Some(error) = refusal::unfit_value(conn, write, body).await?
    {
        return Ok(Some(Outcome::Refused(error)));
    }
    for _ in 0..TRIES {
        let size = conflict.current.as_ref().map_or(0, |row| row.json.len());
        let planned = heavy::compute(size, || plan(&write.resource, &conflict, resolve));
        let Some(plan) = planned else {
            break;
        };
        match attempt(conn, write, key, &plan).await? {
            Some(outcome) => return Ok(Some(outcome)),
            None => match store::explain(conn, write, Some(body)).await? {
                Some(Outcome::Conflict(moved)) => conflict = moved,
                other => return Ok(other),
            },
        }
    }
    Ok(Some(Outcome::Conflict(conflict)))
}

/// Writes a merge that was decided elsewhere, by a person: over exactly the version that the
/// precondition names, with `base`, which the client had, as its other parent.
///
/// # Errors
/// As [`store::write`].
pub(super) async fn decided(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    body: &Assignments,
    base: Version,
) -> Result<Option<Outcome>, Fault> {
    let parents = match write.precondition.newest_named() {
        Some(onto) => format!("{{{base},{onto}}}"),
        None => format!("{{{base}}}"),
    };
    let text = statement::text(&write.resource, &Shape::Merge(body.set.clone()));
    let query = store::conditional(&text, write, key);
    let query = store::bind_values(query, &write.resource, body).bind(parents);
    let result = execute(conn, write.run, query).await;
    store::settle(conn, write, Some(body), result, |row| Ok(Outcome::Applied(store::row_of(&row)?)))
        .await
}

/// A merge that is to be written.
struct Plan {
    assignments: Assignments,
    current: Row,
    base: Version,
    yours: Fields,
    fields: Vec<FieldVerdict>,
}

fn plan(resource: &Resource, conflict: &Conflict, resolve: Resolve) -> Option<Plan> {
    let Conflict { current: Some(current), yours: Some(base), sides: Some(sides), .. } = conflict
    else {
        return None;
    };
    let (merged, fields) = sides.merge(resource, resolve)?;
    let assignments = assignments(resource, &merged, sides);
    let yours = sides.yours().clone();
    Some(Plan { assignments, current: current.clone(), base: *base, yours, fields })
}

fn assignments(resource: &Resource, merged: &Fields, sides: &Sides) -> Assignments {
    let mut assignments = Assignments::default();
    for (name, value) in reconcile::differing(resource, merged, sides.theirs()) {
        if let Some(place) = resource.columns.iter().position(|column| column.name == name) {
            assignments.set.push(place);
            assignments.values.push(value.to_string());
        }
    }
    assignments
}

/// Writes the merge; `None` where the row moved again.
async fn attempt(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    plan: &Plan,
) -> Result<Option<Outcome>, Fault> {
    let onto = plan.current.version;
    let exactly = store::based_on(write, onto);
    let text = statement::text(&write.resource, &Shape::Merge(plan.assignments.set.clone()));
    let query = store::bind_key(sqlx::query(AssertSqlSafe(text)), key)
        .bind(exactly.wanted())
        .bind(exactly.unwanted())
        .bind(write.named());
    let query = store::bind_values(query, &write.resource, &plan.assignments)
        .bind(format!("{{{},{onto}}}", plan.base));
    match execute(conn, write.run, query).await {
        Ok(Some(row)) => {
            forget_parents(conn, write).await?;
            let (base, yours) = (plan.base, plan.yours.clone());
            let merged = Merged { base, onto, yours, fields: plan.fields.clone() };
            Ok(Some(Outcome::Merged(store::row_of(&row)?, merged)))
        }
        Ok(None) => Ok(None),
        Err(fault) => {
            let body = Some(&plan.assignments);
            let error = refusal::explain(conn, write, body, fault).await?;
            Ok(Some(Outcome::Refused(error.detail("merged", true))))
        }
    }
}

/// Lets later writes of the same transaction be merges of nothing.
async fn forget_parents(conn: &mut PgConnection, write: &Write) -> Result<(), Fault> {
    if write.run == Run::Within {
        sqlx::query("SELECT set_config('counterfoil.merged_from', '', true)").execute(conn).await?;
    }
    Ok(())
}
