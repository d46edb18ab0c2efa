//! From a constraint that stands against a row to the answer that names the field. Runs only where a
//! write failed; the extra statements cost the happy path nothing.

use sqlx::{AssertSqlSafe, PgConnection};

use crate::catalog::{Resource, quote_identifier};
use crate::db::fault::{Constraint, Fault};
use crate::error::{Code, Error};
use crate::record::body::Assignments;
use crate::record::{Row, Verb, Write, statement};
use crate::version::Version;

/// Says in the contract's words why the database refused a row.
///
/// # Errors
/// The fault itself, where it is not the request's doing.
pub(super) async fn explain(
    conn: &mut PgConnection,
    write: &Write,
    body: Option<&Assignments>,
    fault: Fault,
) -> Result<Error, Fault> {
    match fault {
        Fault::Taken(constraint) => taken(conn, write, body, &constraint).await,
        Fault::Reference(constraint) => reference(conn, write, &constraint).await,
        Fault::Null(constraint) if constraint.column.is_empty() => {
            // A domain inside an array or a composite.
            invalid_value(conn, write, body).await
        }
        Fault::Null(constraint) => Ok(null(body, &write.resource, &constraint)),
        Fault::Check(constraint) => check(conn, write, body, &constraint).await,
        Fault::Value => invalid_value(conn, write, body).await,
        Fault::Forbidden => {
            Ok(Error::new(Code::NotAllowed, "The service may not write this record"))
        }
        // A text that is to name something, and names nothing: `regclass`.
        Fault::Drifted | Fault::Mismatch => match invalid_field(conn, write, body).await? {
            Some(field) => Ok(unfit(&write.resource, &field)),
            None => Err(fault),
        },
        other => Err(other),
    }
}

/// A trigger of the table's owner returned NULL: no row, no error.
pub(super) fn swallowed(resource: &Resource) -> Error {
    let message = format!("A rule of {} did not let the record in", resource.name);
    Error::new(Code::CheckFailed, message)
}

async fn taken(
    conn: &mut PgConnection,
    write: &Write,
    body: Option<&Assignments>,
    constraint: &Constraint,
) -> Result<Error, Fault> {
    if constraint.schema == "counterfoil" {
        // The change log knows this version already: an insert overtook a delete. Start over.
        return Err(Fault::Retry);
    }
    let columns = index_columns(conn, constraint).await?;
    let winner = match body {
        Some(body) if !columns.is_empty() => winner(conn, write, body, &columns).await?,
        _ => None,
    };
    Ok(already_exists(&write.resource, &columns, winner, &constraint.name))
}

/// Whether the key that a new record's body names is taken, as the answer that says so.
pub(super) async fn taken_key(
    conn: &mut PgConnection,
    write: &Write,
    body: &Assignments,
) -> Result<Option<Error>, Fault> {
    let named = write.resource.key.iter().all(|place| body.set.contains(place));
    if !named {
        return Ok(None);
    }
    let columns: Vec<_> = write.resource.key_columns().map(|c| c.name.clone()).collect();
    let winner = winner(conn, write, body, &columns).await?;
    Ok(winner.map(|winner| already_exists(&write.resource, &columns, Some(winner), "")))
}

fn already_exists(
    resource: &Resource,
    columns: &[String],
    winner: Option<Row>,
    constraint: &str,
) -> Error {
    let visible: Vec<&str> =
        columns.iter().map(String::as_str).filter(|name| resource.column(name).is_some()).collect();
    let message = if visible.is_empty() {
        format!("Another record of {} stands against this one", resource.name)
    } else {
        format!("Another record of {} has this {}", resource.name, visible.join(", "))
    };
    let mut error = Error::new(Code::AlreadyExists, message).detail("kind", "create_create");
    if let Some(first) = visible.first() {
        error = error.detail("field", *first).detail("fields", visible.clone());
    }
    if !constraint.is_empty() {
        error = error.detail("constraint", constraint);
    }
    match winner {
        Some(row) => error
            .detail("current_version", row.version.0)
            .current(Some(row.version), Some(row.json)),
        None => error,
    }
}

/// The columns of the index behind a constraint, in its order; none where it holds expressions.
async fn index_columns(
    conn: &mut PgConnection,
    constraint: &Constraint,
) -> Result<Vec<String>, Fault> {
    let columns: Option<Vec<Option<String>>> = sqlx::query_scalar(
        "SELECT array_agg(a.attname::text ORDER BY k.place) \
         FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid \
         CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place) \
         LEFT JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0 \
         WHERE c.relname = $1 AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $2) \
         AND k.place <= i.indnkeyatts",
    )
    .bind(&constraint.name)
    .bind(&constraint.schema)
    .fetch_one(conn)
    .await?;
    Ok(columns.unwrap_or_default().into_iter().collect::<Option<_>>().unwrap_or_default())
}

/// The record that has the values already.
async fn winner(
    conn: &mut PgConnection,
    write: &Write,
    body: &Assignments,
    columns: &[String],
) -> Result<Option<Row>, Fault> {
    let resource = &write.resource;
    let key = write.key.as_ref().filter(|_| write.verb != Verb::Create);
    let k = key.map_or(0, |key| key.parts.len());
    // Columns that the body does not set are compared as the addressed record has them.
    let base = if key.is_some() {
        let predicate = statement::key_predicate(resource);
        format!("(SELECT t FROM {} AS t WHERE {predicate})", resource.table)
    } else {
        format!("NULL::{}", resource.table)
    };
    let same: Vec<_> = columns
        .iter()
        .map(|name| quote_identifier(name))
        .map(|name| format!("t.{name} = b.{name}"))
        .collect();
    let text = format!(
        "SELECT t.{}, {} FROM json_populate_record({base}, ${}::json) AS b \
         JOIN {} AS t ON {} LIMIT 1",
        resource.version_column().quoted,
        statement::row(resource, None),
        k + 1,
        resource.table,
        same.join(" AND "),
    );
    let mut query = sqlx::query_as::<_, (i32, String)>(AssertSqlSafe(text));
    for part in key.map(|key| key.parts.as_slice()).unwrap_or_default() {
        query = query.bind(part);
    }
    let found = query.bind(&body.json).persistent(false).fetch_optional(conn).await?;
    Ok(found.map(|(version, json)| Row { version: Version(version), json }))
}

async fn reference(
    conn: &mut PgConnection,
    write: &Write,
    constraint: &Constraint,
) -> Result<Error, Fault> {
    let own_table =
        format!("{}.{}", quote_identifier(&constraint.schema), quote_identifier(&constraint.table));
    if write.verb == Verb::Delete || own_table != write.resource.table {
        let message = format!("Other records refer to this one ({})", constraint.table);
        return Ok(Error::new(Code::Referenced, message)
            .detail("table", constraint.table.as_str())
            .detail("constraint", constraint.name.as_str()));
    }
    let fields = constraint_columns(conn, constraint).await?;
    let message = format!("{} refers to a record that is not there", fields.join(", "));
    Ok(with_fields(Error::new(Code::ReferenceNotFound, message), &fields)
        .detail("constraint", constraint.name.as_str()))
}

fn null(body: Option<&Assignments>, resource: &Resource, constraint: &Constraint) -> Error {
    let given = body.is_some_and(|body| {
        body.set.iter().any(|&place| resource.columns[place].name == constraint.column)
    });
    let name = &constraint.column;
    if given {
        Error::field(Code::InvalidValue, name, format!("{name} must be something other than null"))
    } else {
        Error::field(Code::MissingField, name, format!("{name} is required"))
    }
}

async fn check(
    conn: &mut PgConnection,
    write: &Write,
    body: Option<&Assignments>,
    constraint: &Constraint,
) -> Result<Error, Fault> {
    let mut fields = constraint_columns(conn, constraint).await?;
    if fields.is_empty() {
        fields.extend(invalid_field(conn, write, body).await?);
    }
    let message = match (fields.as_slice(), constraint.name.as_str()) {
        ([], "") => format!("A rule of {} does not allow this record", write.resource.name),
        ([], name) => format!("The rule {name} does not allow this record"),
        (fields, "") => format!("A rule does not allow this {}", fields.join(", ")),
        (fields, name) => format!("The rule {name} does not allow this {}", fields.join(", ")),
    };
    let error = with_fields(Error::new(Code::CheckFailed, message), &fields);
    Ok(match constraint.name.as_str() {
        "" => error,
        name => error.detail("constraint", name),
    })
}

fn with_fields(error: Error, fields: &[String]) -> Error {
    match fields {
        [] => error,
        [first, ..] => error.detail("field", first.as_str()).detail("fields", fields.to_vec()),
    }
}

/// The columns that a table constraint speaks of.
async fn constraint_columns(
    conn: &mut PgConnection,
    constraint: &Constraint,
) -> Result<Vec<String>, Fault> {
    let columns: Option<Vec<String>> = sqlx::query_scalar(
        "SELECT array_agg(a.attname::text ORDER BY k.place) FROM pg_constraint AS o \
         JOIN pg_class AS c ON c.oid = o.conrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace \
         CROSS JOIN LATERAL unnest(o.conkey) WITH ORDINALITY AS k(attnum, place) \
         JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.attnum \
         WHERE n.nspname = $1 AND c.relname = $2 AND o.conname = $3",
    )
    .bind(&constraint.schema)
    .bind(&constraint.table)
    .bind(&constraint.name)
    .fetch_one(conn)
    .await?;
    Ok(columns.unwrap_or_default())
}

async fn invalid_value(
    conn: &mut PgConnection,
    write: &Write,
    body: Option<&Assignments>,
) -> Result<Error, Fault> {
    if let Some(field) = invalid_field(conn, write, body).await? {
        return Ok(unfit(&write.resource, &field));
    }
    if let Some(key) = &write.key
        && !key_is_valid(conn, &write.resource, &key.parts).await?
    {
        return Ok(Error::new(Code::InvalidId, "The id cannot be one of this resource's"));
    }
    if let Ok(crate::record::Change::Increment(increment)) = &write.change {
        let name = &write.resource.columns[increment.column].name;
        let message = format!("{name} cannot be raised so far");
        return Ok(Error::field(Code::InvalidValue, name, message));
    }
    Ok(Error::new(Code::InvalidValue, "A value computed from the record cannot be stored"))
}

fn unfit(resource: &Resource, field: &str) -> Error {
    let wanted = resource.column(field).map_or("its type", |c| c.sql_type.as_str());
    let message = format!("{field} holds a value that {wanted} cannot take");
    Error::field(Code::InvalidValue, field, message)
}

/// The first column of the body whose value its type refuses, as PostgreSQL judges it.
async fn invalid_field(
    conn: &mut PgConnection,
    write: &Write,
    body: Option<&Assignments>,
) -> Result<Option<String>, Fault> {
    let Some(body) = body else { return Ok(None) };
    Ok(sqlx::query_scalar("SELECT counterfoil.invalid_field($1::regclass, $2::json)")
        .bind(&write.resource.table)
        .bind(&body.json)
        .fetch_one(conn)
        .await?)
}

/// Whether the parts of a key are values of their columns' types.
///
/// # Errors
/// Those of the database.
pub(super) async fn key_is_valid(
    conn: &mut PgConnection,
    resource: &Resource,
    parts: &[String],
) -> Result<bool, Fault> {
    for (part, column) in parts.iter().zip(resource.key_columns()) {
        let text = format!("SELECT $1::{} IS NULL", column.cast_type);
        let cast = sqlx::query(AssertSqlSafe(text)).bind(part).persistent(false);
        match cast.execute(&mut *conn).await.map_err(Fault::from) {
            Ok(_) => {}
            Err(Fault::Value | Fault::Check(_)) => return Ok(false),
            Err(fault) => return Err(fault),
        }
    }
    Ok(true)
}
