//! From a constraint that stands against a row to the answer that names the field. Runs only where a
//! write failed; the extra statements cost the happy path nothing.

use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::catalog::{Resource, quote_identifier};
use crate::db::fault::{Constraint, Fault};
use crate::error::{Code, Error};
use crate::record::body::Assignments;
use crate::record::run::store::recover;
use crate::record::{Row, Run, Verb, Write, unique};

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
        Fault::Forbidden => Ok(forbidden()),
        // A text that is to name something, and names nothing: `regclass`.
        Fault::Drifted | Fault::Mismatch => match invalid_field(conn, write, body).await? {
            Some(field) => Ok(unfit(&write.resource, &field)),
            None if key_is_refused(conn, write).await? => Ok(invalid_key()),
            None => Err(fault),
        },
        other => Err(other),
    }
}

/// A trigger of the table's owner returned NULL: no row, no error.
pub(super) fn swallowed(resource: &Resource) -> Error {
    let message = format!("A rule of {} let the write do nothing", resource.name);
    Error::new(Code::CheckFailed, message)
}

/// The answer to a write that found no row to change although nothing stands against it, where
/// something of the table's owner explains that: row security, a trigger ahead of it, a rewrite rule.
pub(super) async fn unmoved(
    conn: &mut PgConnection,
    resource: &Resource,
) -> Result<Option<Error>, Fault> {
    let text = "SELECT row_security_active(c.oid), c.relhasrules OR EXISTS (\
        SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
        AND t.tgtype & 3 = 3 AND t.tgname NOT LIKE 'zz\\_counterfoil\\_%') \
        FROM pg_class AS c WHERE c.oid = $1::regclass";
    let (secured, ruled): (bool, bool) =
        sqlx::query_as(text).bind(&resource.table).fetch_one(conn).await?;
    Ok(match (secured, ruled) {
        (true, _) => Some(forbidden()),
        (false, true) => Some(swallowed(resource)),
        (false, false) => None,
    })
}

fn forbidden() -> Error {
    Error::new(Code::NotAllowed, "The service may not write this record")
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
    let index = unique::find(conn, constraint).await?;
    let winner = match (body, &index) {
        (Some(body), Some(index)) => unique::winner(conn, write, body, index).await?,
        _ => None,
    };
    let columns = index.map_or_else(Vec::new, |index| index.columns);
    Ok(already_exists(write, &columns, winner, &constraint.name))
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
    let key = unique::Index::of_key(&write.resource);
    let winner = unique::winner(conn, write, body, &key).await?;
    Ok(winner.map(|winner| already_exists(write, &key.columns, Some(winner), "")))
}

fn already_exists(
    write: &Write,
    columns: &[String],
    winner: Option<Row>,
    constraint: &str,
) -> Error {
    let resource = &write.resource;
    let creates = write.verb == Verb::Create;
    let told = Told::of(resource, columns, constraint);
    let message = if told.fields.is_empty() {
        format!("Another record of {} stands against this one", resource.name)
    } else {
        format!("Another record of {} has this {}", resource.name, told.fields.join(", "))
    };
    let error = told.to(Error::new(Code::AlreadyExists, message));
    let error = if creates { error.detail("kind", "create_create") } else { error };
    match winner {
        // A tag in the answer to a write of one record must not be that of another.
        Some(row) => error
            .detail("current_version", row.version.0)
            .current(creates.then_some(row.version), Some(row.json)),
        None => error,
    }
}

/// Whether the record that had the values first has gone by now, so that trying again may do. As a
/// rule it has where the answer cannot show it, and where a PUT that was to create did not find it at
/// its own address.
pub(super) fn is_over(write: &Write, error: &Error) -> bool {
    let Some(fields) = error.details().get("fields").and_then(Value::as_array) else {
        return false;
    };
    let own_key = || write.resource.key_columns().map(|c| c.name.as_str());
    let addressed = write.key.is_some() && write.verb == Verb::Create;
    error.code() == Code::AlreadyExists
        && (error.data().is_none()
            || addressed && fields.iter().filter_map(Value::as_str).eq(own_key()))
}

/// What a caller may be told of a rule: the fields that it may know of, and the rule's name unless
/// it speaks of others too, because names of rules are made of those of columns.
struct Told<'a> {
    fields: Vec<&'a str>,
    rule: Option<&'a str>,
}

impl<'a> Told<'a> {
    fn of(resource: &Resource, columns: &'a [String], rule: &'a str) -> Self {
        let known = |name: &&str| resource.column(name).is_some();
        let fields: Vec<_> = columns.iter().map(String::as_str).filter(known).collect();
        let whole = fields.len() == columns.len() && !rule.is_empty();
        Self { fields, rule: whole.then_some(rule) }
    }

    fn to(&self, mut error: Error) -> Error {
        if let Some(first) = self.fields.first() {
            error = error.detail("field", *first).detail("fields", self.fields.clone());
        }
        match self.rule {
            Some(rule) => error.detail("constraint", rule),
            None => error,
        }
    }
}

async fn reference(
    conn: &mut PgConnection,
    write: &Write,
    constraint: &Constraint,
) -> Result<Error, Fault> {
    if write.verb == Verb::Delete || !is_own(conn, write, constraint).await? {
        let message = format!("Other records refer to this one ({})", constraint.table);
        return Ok(Error::new(Code::Referenced, message)
            .detail("table", constraint.table.as_str())
            .detail("constraint", constraint.name.as_str()));
    }
    let columns = constraint_columns(conn, constraint).await?;
    let told = Told::of(&write.resource, &columns, &constraint.name);
    let message = match told.fields.as_slice() {
        [] => "The record refers to another that is not there".to_owned(),
        fields => format!("{} refers to a record that is not there", fields.join(", ")),
    };
    Ok(told.to(Error::new(Code::ReferenceNotFound, message)))
}

/// Whether a constraint is one of the resource's table, or of a partition of it.
async fn is_own(
    conn: &mut PgConnection,
    write: &Write,
    constraint: &Constraint,
) -> Result<bool, Fault> {
    let table =
        format!("{}.{}", quote_identifier(&constraint.schema), quote_identifier(&constraint.table));
    let text = "SELECT $1::regclass IN ($2::regclass, pg_partition_root($2::regclass)) IS TRUE";
    let own = sqlx::query_scalar(text).bind(&write.resource.table).bind(table);
    Ok(own.fetch_one(conn).await?)
}

fn null(body: Option<&Assignments>, resource: &Resource, constraint: &Constraint) -> Error {
    let name = &constraint.column;
    if resource.column(name).is_none() {
        // Neither given by the client nor to be named to it: the table's own rules made it so.
        return rule(resource, &[], "");
    }
    let given = body
        .is_some_and(|body| body.set.iter().any(|&place| &resource.columns[place].name == name));
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
    let mut columns = constraint_columns(conn, constraint).await?;
    if columns.is_empty() {
        columns.extend(invalid_field(conn, write, body).await?);
    }
    Ok(rule(&write.resource, &columns, &constraint.name))
}

/// A rule stands against the record.
fn rule(resource: &Resource, columns: &[String], name: &str) -> Error {
    let told = Told::of(resource, columns, name);
    let message = match (told.fields.as_slice(), told.rule) {
        ([], None) => format!("A rule of {} does not allow this record", resource.name),
        ([], Some(rule)) => format!("The rule {rule} does not allow this record"),
        (fields, None) => format!("A rule does not allow this {}", fields.join(", ")),
        (fields, Some(rule)) => {
            format!("The rule {rule} does not allow this {}", fields.join(", "))
        }
    };
    told.to(Error::new(Code::CheckFailed, message))
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
    if key_is_refused(conn, write).await? {
        return Ok(invalid_key());
    }
    if let Ok(crate::record::Change::Increment(increment)) = &write.change {
        let columns = increment.columns.iter().map(|&place| &write.resource.columns[place]);
        let names: Vec<_> = columns.map(|column| column.name.as_str()).collect();
        let message = format!("{} cannot be raised so far", names.join(", "));
        return Ok(Error::field(Code::InvalidValue, names[0], message));
    }
    Ok(Error::new(Code::InvalidValue, "A value computed from the record cannot be stored"))
}

fn unfit(resource: &Resource, field: &str) -> Error {
    let wanted = resource.column(field).map_or("its type", |c| c.sql_type.as_str());
    let message = format!("{field} holds a value that {wanted} cannot take");
    Error::field(Code::InvalidValue, field, message)
}

/// What is wrong with a body of which a value cannot be stored; `None` where all of them can.
///
/// # Errors
/// Those of the database.
pub(super) async fn unfit_value(
    conn: &mut PgConnection,
    write: &Write,
    body: &Assignments,
) -> Result<Option<Error>, Fault> {
    let field = invalid_field(conn, write, Some(body)).await?;
    Ok(field.map(|field| unfit(&write.resource, &field)))
}

/// The first column of the body whose value its type refuses, as PostgreSQL judges it, where it may be named.
async fn invalid_field(
    conn: &mut PgConnection,
    write: &Write,
    body: Option<&Assignments>,
) -> Result<Option<String>, Fault> {
    let Some(body) = body else { return Ok(None) };
    let field: Option<String> =
        sqlx::query_scalar("SELECT counterfoil.invalid_field($1::regclass, $2::json)")
            .bind(&write.resource.table)
            .bind(body.json(&write.resource))
            .fetch_one(conn)
            .await?;
    let hidden = |name: &str| write.resource.columns.iter().any(|c| c.name == name && c.hidden);
    Ok(field.filter(|name| !hidden(name)))
}

fn invalid_key() -> Error {
    Error::new(Code::InvalidId, "The id cannot be one of this resource's")
}

async fn key_is_refused(conn: &mut PgConnection, write: &Write) -> Result<bool, Fault> {
    match &write.key {
        Some(key) => Ok(!key_is_valid(conn, &write.resource, &key.parts, write.run).await?),
        None => Ok(false),
    }
}

/// Whether the parts of a key are values of their columns' types.
///
/// # Errors
/// Those of the database.
pub(super) async fn key_is_valid(
    conn: &mut PgConnection,
    resource: &Resource,
    parts: &[String],
    run: Run,
) -> Result<bool, Fault> {
    for (part, column) in parts.iter().zip(resource.key_columns()) {
        let text = format!("SELECT $1::{} IS NULL", column.cast_type);
        let cast = sqlx::query(AssertSqlSafe(text)).bind(part).persistent(false);
        match cast.execute(&mut *conn).await.map_err(Fault::from) {
            Ok(_) => {}
            Err(fault) => match recover(conn, run, fault).await? {
                Fault::Value | Fault::Check(_) | Fault::Drifted | Fault::Mismatch => {
                    return Ok(false);
                }
                fault => return Err(fault),
            },
        }
    }
    Ok(true)
}
