//! Reads the catalogue from PostgreSQL.

use std::collections::HashMap;

use serde::Deserialize;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::catalog::kind::Kind;
use crate::catalog::{
    Catalog, Column, Reference, Resource, Settings, quote_identifier, quote_literal,
};

/// What the catalogue query gives.
#[derive(Deserialize)]
struct Found {
    resources: Vec<FoundResource>,
    types: Vec<FoundType>,
}

#[derive(Deserialize)]
struct FoundResource {
    name: String,
    schema: String,
    table: String,
    version_column: String,
    history: bool,
    alone: bool,
    referred: bool,
    log: String,
    comment: Option<String>,
    key: Vec<String>,
    columns: Vec<FoundColumn>,
    references: Vec<FoundReference>,
}

#[derive(Deserialize)]
struct FoundColumn {
    name: String,
    sql_type: String,
    cast_type: String,
    canonical: String,
    #[serde(rename = "type")]
    type_oid: u32,
    modifier: i32,
    not_null: bool,
    default: Option<String>,
    managed: bool,
    comment: Option<String>,
}

#[derive(Deserialize)]
struct FoundReference {
    columns: Vec<String>,
    schema: String,
    table: String,
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct FoundType {
    oid: u32,
    name: String,
    builtin: bool,
    /// `pg_type.typtype`: b, c, d, e, r, …
    class: String,
    category: String,
    element: u32,
    base: u32,
    modifier: i32,
    not_null: bool,
    labels: Vec<String>,
}

/// Reads every adopted table.
///
/// # Errors
/// Those of the database.
pub async fn load(conn: &mut PgConnection) -> sqlx::Result<Catalog> {
    let mut tx = conn.begin().await?;
    // Types and defaults are to be printed with their schemas, whatever the role's search path is.
    sqlx::query("SELECT set_config('search_path', 'pg_catalog', true)").execute(&mut *tx).await?;
    let (fingerprint, found): (String, String) =
        sqlx::query_as(include_str!("load.sql")).fetch_one(&mut *tx).await?;
    tx.commit().await?;
    let found: Found =
        serde_json::from_str(&found).map_err(|e| sqlx::Error::Decode(Box::new(e)))?;
    let types: HashMap<u32, &FoundType> = found.types.iter().map(|t| (t.oid, t)).collect();
    let resources = found.resources.into_iter().map(|resource| build(resource, &types));
    Ok(Catalog::new(resources, fingerprint))
}

/// A text that changes whenever an adopted table does.
///
/// # Errors
/// Those of the database.
pub async fn fingerprint(conn: &mut PgConnection) -> sqlx::Result<String> {
    sqlx::query_scalar("SELECT counterfoil.fingerprint()").fetch_one(conn).await
}

/// What is committed and what is not, as PostgreSQL writes it.
///
/// # Errors
/// Those of the database.
pub async fn snapshot(conn: &mut PgConnection) -> sqlx::Result<String> {
    sqlx::query_scalar("SELECT pg_current_snapshot()::text").fetch_one(conn).await
}

/// Makes a table a resource; gives one line per step, for people.
///
/// # Errors
/// Those of the database; a refusal has the SQLSTATE `CF001`.
pub async fn adopt(
    conn: &mut PgConnection,
    table: &str,
    name: Option<&str>,
    history: bool,
    version_column: &str,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar("SELECT counterfoil.adopt($1::regclass, $2, $3, $4)")
        .bind(table)
        .bind(name)
        .bind(history)
        .bind(version_column)
        .fetch_all(conn)
        .await
}

/// Undoes an adoption, by resource name or by table.
///
/// # Errors
/// Those of the database.
pub async fn release(
    conn: &mut PgConnection,
    name: &str,
    drop_version: bool,
) -> sqlx::Result<Vec<String>> {
    let known: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM counterfoil.resource WHERE name = $1)")
            .bind(name)
            .fetch_one(&mut *conn)
            .await?;
    let argument = if known { "$1::text" } else { "$1::regclass" };
    sqlx::query_scalar(AssertSqlSafe(format!("SELECT counterfoil.release({argument}, $2)")))
        .bind(name)
        .bind(drop_version)
        .fetch_all(conn)
        .await
}

fn build(found: FoundResource, types: &HashMap<u32, &FoundType>) -> Resource {
    let columns: Vec<Column> =
        found.columns.into_iter().map(|c| build_column(c, &found.version_column, types)).collect();
    let position = |name: &String| columns.iter().position(|c| &c.name == name);
    let mut resource = Resource {
        table: format!("{}.{}", quote_identifier(&found.schema), quote_identifier(&found.table)),
        version: position(&found.version_column).unwrap_or_default(),
        key: found.key.iter().filter_map(position).collect(),
        history: found.history,
        alone: found.alone,
        referred: found.referred,
        log: found.log,
        comment: found.comment,
        references: found.references.into_iter().map(build_reference).collect(),
        settings: Settings::default(),
        statements: crate::record::statement::Cache::default(),
        large: false.into(),
        name: found.name,
        columns,
    };
    resource.describe_fields();
    resource
}

fn build_column(
    found: FoundColumn,
    version_column: &str,
    types: &HashMap<u32, &FoundType>,
) -> Column {
    Column {
        quoted: quote_identifier(&found.name),
        kind: kind(found.type_oid, found.modifier, types),
        not_null: found.not_null || refuses_null(found.type_oid, types),
        default_volatile: found.default.as_deref().is_some_and(is_volatile),
        managed: found.managed || found.name == version_column,
        default: found.default,
        plain: PLAIN.contains(&found.cast_type.as_str()),
        sql_type: found.sql_type,
        cast_type: found.cast_type,
        canonical: found.canonical,
        comment: found.comment,
        name: found.name,
        read_only: false,
        hidden: false,
    }
}

/// The types that are [`Column::plain`]. Their names without modifiers are nobody else's, and a cast to
/// them cuts nothing off; what a modifier demands is demanded when the value is assigned.
const PLAIN: [&str; 14] = [
    "bigint",
    "boolean",
    "character varying",
    "date",
    "double precision",
    "integer",
    "numeric",
    "real",
    "smallint",
    "text",
    "time without time zone",
    "timestamp with time zone",
    "timestamp without time zone",
    "uuid",
];

/// Whether a type is a domain that refuses NULL, or is over one that does.
fn refuses_null(oid: u32, types: &HashMap<u32, &FoundType>) -> bool {
    types
        .get(&oid)
        .filter(|found| found.class == "d")
        .is_some_and(|found| found.not_null || refuses_null(found.base, types))
}

fn build_reference(found: FoundReference) -> Reference {
    Reference {
        columns: found.columns,
        table: format!("{}.{}", quote_identifier(&found.schema), quote_identifier(&found.table)),
        targets: found.targets,
    }
}

fn kind(oid: u32, modifier: i32, types: &HashMap<u32, &FoundType>) -> Kind {
    let Some(found) = types.get(&oid) else {
        return Kind::Other;
    };
    match found.class.as_str() {
        "d" => return kind(found.base, found.modifier, types),
        "e" => return Kind::Enum(found.labels.clone()),
        "c" => return Kind::Composite,
        _ => {}
    }
    if found.builtin && matches!(found.name.as_str(), "int2vector" | "oidvector") {
        return Kind::Vector;
    }
    if found.category == "A" && found.element != 0 {
        return Kind::Array(Box::new(kind(found.element, modifier, types)));
    }
    if !found.builtin {
        return Kind::Other;
    }
    // varchar, char and numeric keep their modifier 4 higher than what was declared.
    let declared = (modifier >= 4).then(|| modifier - 4);
    match found.name.as_str() {
        "bool" => Kind::Bool,
        "int2" => Kind::Integer(2),
        "int4" => Kind::Integer(4),
        "int8" => Kind::Integer(8),
        "float4" | "float8" => Kind::Float,
        // The scale is a signed number of eleven bits (negative from PostgreSQL 15 on).
        "numeric" => Kind::Numeric(declared.map(|m| (m >> 16, ((m & 0x7ff) ^ 1024) - 1024))),
        "text" => Kind::Text(None),
        "varchar" | "bpchar" => Kind::Text(declared.and_then(|m| usize::try_from(m).ok())),
        "name" => Kind::Name,
        "uuid" => Kind::Uuid,
        "date" => Kind::Date,
        "timestamp" => Kind::Timestamp,
        "timestamptz" => Kind::TimestampTz,
        "time" | "timetz" => Kind::Time,
        "json" => Kind::Json { binary: false },
        "jsonb" => Kind::Json { binary: true },
        "bytea" => Kind::Bytea,
        _ => Kind::Other,
    }
}

/// Whether a default may differ from one evaluation to the next. PostgreSQL does not tell, so any
/// call counts; a constant is all that needs to be known for certain.
fn is_volatile(expression: &str) -> bool {
    let outside_quotes: String = expression.split('\'').step_by(2).collect();
    outside_quotes.contains('(')
        || outside_quotes.contains("CURRENT_")
        || outside_quotes.contains("LOCALTIME")
}

/// The text of a column's default as an SQL value of the column's type.
pub fn typed_default(column: &Column) -> String {
    column.default.as_ref().map_or_else(
        || format!("NULL::{}", column.sql_type),
        |default| format!("({default})::{}", column.sql_type),
    )
}

/// The resource's name as an SQL literal.
pub fn name_literal(resource: &Resource) -> String {
    quote_literal(&resource.name)
}

#[cfg(test)]
mod tests {
    use super::is_volatile;

    #[test]
    fn calls_are_told_from_constants() {
        for constant in ["0", "'draft'::text", "'a(b'::text", "NULL::text", "true"] {
            assert!(!is_volatile(constant), "{constant}");
        }
        for call in ["now()", "CURRENT_DATE", "nextval('s'::regclass)", "gen_random_uuid()"] {
            assert!(is_volatile(call), "{call}");
        }
    }
}
