//! The record that has a unique value already, so that the loser of a race for it is shown the winner.

use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use crate::catalog::store::typed_default;
use crate::catalog::{Resource, quote_identifier};
use crate::db::fault::{Constraint, Fault};
use crate::record::body::Assignments;
use crate::record::run::store::recover;
use crate::record::{Row, Verb, Write, statement};
use crate::version::Version;

/// An index that lets only one record have a value.
pub(super) struct Index {
    /// The columns that it looks at, those inside its expressions too.
    pub(super) columns: Vec<String>,
    /// What it compares, as SQL: columns, or expressions on them.
    terms: Vec<String>,
    /// How it compares them.
    operators: Vec<String>,
    /// Which rows it looks at, as SQL.
    predicate: Option<String>,
}

impl Index {
    /// The primary key's.
    pub(super) fn of_key(resource: &Resource) -> Self {
        let columns: Vec<_> = resource.key_columns().map(|c| c.name.clone()).collect();
        Self {
            terms: columns.iter().map(|name| quote_identifier(name)).collect(),
            operators: vec!["=".to_owned(); columns.len()],
            columns,
            predicate: None,
        }
    }
}

/// The index behind a constraint, or that is one by itself.
pub(super) async fn find(
    conn: &mut PgConnection,
    constraint: &Constraint,
) -> Result<Option<Index>, Fault> {
    let found = sqlx::query(
        "SELECT (SELECT coalesce(array_agg(a.attname::text ORDER BY array_position(i.indkey::int2[], a.attnum), a.attnum), '{}') \
          FROM pg_attribute AS a WHERE a.attrelid = i.indrelid AND a.attnum > 0 AND (a.attnum = ANY (k.plain) \
          OR a.attnum IN (SELECT d.refobjsubid FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass \
          AND d.objid = i.indexrelid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid))), \
         k.terms, k.operators, pg_get_expr(i.indpred, i.indrelid) \
         FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid \
         LEFT JOIN pg_constraint AS x ON x.conindid = i.indexrelid AND x.contype = 'x' \
         CROSS JOIN LATERAL (SELECT array_agg(n.attnum) AS plain, \
          array_agg(pg_get_indexdef(i.indexrelid, n.place::int4, false) ORDER BY n.place) AS terms, \
          array_agg(coalesce('OPERATOR(' || quote_ident(s.nspname) || '.' || o.oprname || ')', '=') ORDER BY n.place) AS operators \
          FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS n(attnum, place) \
          LEFT JOIN pg_operator AS o ON o.oid = x.conexclop[n.place] \
          LEFT JOIN pg_namespace AS s ON s.oid = o.oprnamespace WHERE n.place <= i.indnkeyatts) AS k \
         WHERE c.relname = $1 AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $2)",
    )
    .bind(&constraint.name)
    .bind(&constraint.schema)
    .fetch_optional(conn)
    .await?;
    let Some(found) = found else { return Ok(None) };
    Ok(Some(Index {
        columns: found.try_get(0)?,
        terms: found.try_get(1)?,
        operators: found.try_get(2)?,
        predicate: found.try_get(3)?,
    }))
}

/// The record that has the values already.
pub(super) async fn winner(
    conn: &mut PgConnection,
    write: &Write,
    body: &Assignments,
    index: &Index,
) -> Result<Option<Row>, Fault> {
    let resource = &write.resource;
    let key = write.key.as_ref().filter(|_| write.verb != Verb::Create);
    let parts = key.map(|key| key.parts.as_slice()).unwrap_or_default();
    let text = statement(resource, body, index, parts.len());
    let mut query = sqlx::query_as::<_, (i32, String)>(AssertSqlSafe(text));
    for part in parts {
        query = query.bind(part);
    }
    let found = query.bind(body.json(resource)).bind(&index.columns).persistent(false);
    match found.fetch_optional(&mut *conn).await.map_err(Fault::from) {
        Ok(found) => Ok(found.map(|(version, json)| Row { version: Version(version), json })),
        // The winner is a courtesy; what cannot be compared has none.
        Err(fault) => match recover(conn, write.run, fault).await? {
            Fault::Value | Fault::Mismatch | Fault::Check(_) | Fault::Null(_) => Ok(None),
            fault => Err(fault),
        },
    }
}

/// Parameters: the addressed key's parts, where there are any, the body, the index's columns.
fn statement(resource: &Resource, body: &Assignments, index: &Index, parts: usize) -> String {
    let table = &resource.table;
    let addressed = statement::key_predicate(resource);
    // What the body does not set is compared as the addressed record has it, or as a new one would.
    let (base, others) = if parts > 0 {
        let row = format!("(SELECT ROW(t.*)::{table} FROM {table} AS t WHERE {addressed})");
        (row, format!(" AND NOT ({addressed})"))
    } else {
        ("NULL".to_owned(), String::new())
    };
    let defaults = resource
        .columns
        .iter()
        .enumerate()
        .filter(|(place, c)| {
            let lacking = parts == 0 && !body.set.contains(place);
            lacking && c.default.is_some() && !c.default_volatile && index.columns.contains(&c.name)
        })
        .map(|(_, c)| format!("{} AS {}", typed_default(c), c.quoted));
    let defaults: Vec<_> = defaults.collect();
    let same = index.terms.iter().zip(&index.operators).map(|(term, operator)| {
        format!("(SELECT {term} FROM (SELECT t.*) AS q) {operator} (SELECT {term} FROM (SELECT b.*) AS q)")
    });
    let same: Vec<_> = same.collect();
    let within = index.predicate.as_ref().map_or_else(String::new, |predicate| {
        format!(" AND (SELECT {predicate} FROM (SELECT t.*) AS q)")
    });
    format!(
        "SELECT t.{version}, {row} FROM json_populate_record({base}::{table}, (\
         SELECT json_object_agg(m.key, m.value) FROM (\
         SELECT d.key, d.value FROM json_each((SELECT row_to_json(x.*) FROM (SELECT {defaults}) AS x)) AS d \
         UNION ALL SELECT e.key, e.value FROM json_each(${body}::json) AS e WHERE e.key = ANY (${columns}::text[])) AS m)) AS b \
         JOIN {table} AS t ON {same}{within}{others} LIMIT 1",
        version = resource.version_column().quoted,
        row = statement::row(resource, None),
        defaults = defaults.join(", "),
        body = parts + 1,
        columns = parts + 2,
        same = same.join(" AND "),
    )
}
