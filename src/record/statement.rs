//! The SQL of records: one text per resource and shape. Names come only from the catalogue, values
//! only as parameters. Pure: what runs the statements is `store`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use crate::catalog::kind::Kind;
use crate::catalog::store::{name_literal, typed_default};
use crate::catalog::{Column, Resource};
use crate::precondition::Precondition;
use crate::record::body::Assignments;

/// How many texts a resource keeps. Bodies with ever new sets of fields make ever new shapes.
const KEPT: usize = 500;

/// What a statement depends on besides its resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// The row of a key, all readable columns or these.
    Get(Option<Vec<usize>>),
    /// A new row with these columns.
    Insert(Vec<usize>),
    /// These columns set, these returned to their default, these of the first merged.
    Update(Vec<usize>, Vec<usize>, Vec<usize>),
    /// The column raised in place.
    Increment(usize),
    /// The row removed.
    Delete,
    /// The row as it stands and its newest change; with an update's columns, also whether the
    /// update would change nothing.
    Current(Option<(Vec<usize>, Vec<usize>, Vec<usize>)>),
}

impl Shape {
    /// The update that these assignments ask for.
    pub fn update(a: &Assignments) -> Self {
        Self::Update(a.set.clone(), a.defaulted.clone(), a.merged.clone())
    }

    /// The explanation of that update's miss.
    pub fn current(a: Option<&Assignments>) -> Self {
        Self::Current(a.map(|a| (a.set.clone(), a.defaulted.clone(), a.merged.clone())))
    }
}

/// The texts made so far for one resource.
#[derive(Debug, Default)]
pub struct Cache(RwLock<HashMap<Shape, Arc<str>>>);

/// The text of a statement.
pub fn text(resource: &Resource, shape: &Shape) -> Arc<str> {
    let cache = &resource.statements.0;
    if let Some(text) = cache.read().unwrap_or_else(PoisonError::into_inner).get(shape) {
        return text.clone();
    }
    let text: Arc<str> = write(resource, shape).into();
    let mut kept = cache.write().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < KEPT {
        kept.insert(shape.clone(), text.clone());
    }
    text
}

fn write(resource: &Resource, shape: &Shape) -> String {
    match shape {
        Shape::Get(select) => get(resource, select.as_deref()),
        Shape::Insert(set) => insert(resource, set),
        Shape::Update(set, defaulted, merged) => update(resource, set, defaulted, merged),
        Shape::Increment(column) => increment(resource, *column),
        Shape::Delete => delete(resource),
        Shape::Current(compared) => current(resource, compared.as_ref()),
    }
}

/// The row `t` as JSON text: all that the caller may read, or the columns selected.
pub fn row(resource: &Resource, select: Option<&[usize]>) -> String {
    let hidden = resource.columns.iter().any(|c| c.hidden);
    let columns: Vec<&Column> = match select {
        None if !hidden => return "row_to_json(t.*)::text".to_owned(),
        None => resource.readable().collect(),
        Some(places) => places.iter().map(|&i| &resource.columns[i]).collect(),
    };
    let list: Vec<_> = columns.iter().map(|c| format!("t.{}", c.quoted)).collect();
    format!("row_to_json((SELECT x FROM (SELECT {}) AS x))::text", list.join(", "))
}

/// `t`'s key equals the parameters from `$1` on, one per part.
pub fn key_predicate(resource: &Resource) -> String {
    let parts = resource.key_columns().enumerate();
    let parts: Vec<_> =
        parts.map(|(i, c)| format!("t.{} = ${}::{}", c.quoted, i + 1, c.cast_type)).collect();
    parts.join(" AND ")
}

/// The parts of `t`'s key as one text array.
fn key_parts(resource: &Resource) -> String {
    let parts: Vec<_> = resource.key_columns().map(|c| format!("t.{}::text", c.quoted)).collect();
    format!("ARRAY[{}]", parts.join(", "))
}

fn version(resource: &Resource) -> String {
    format!("t.{}", resource.version_column().quoted)
}

/// The body's columns as a row `r`, read from a parameter.
fn record(resource: &Resource, set: &[usize], parameter: usize) -> String {
    let columns: Vec<_> = set
        .iter()
        .map(|&i| &resource.columns[i])
        .map(|c| format!("{} {}", c.quoted, c.sql_type))
        .collect();
    format!("json_to_record(${parameter}::json) AS r({})", columns.join(", "))
}

/// Names the actor to the change log, for this statement only. It rides along in the statement, so
/// that it costs no round trip.
fn actor(parameter: usize) -> String {
    format!(
        "WITH actor AS MATERIALIZED (SELECT set_config('counterfoil.actor', ${parameter}, true))"
    )
}

fn get(resource: &Resource, select: Option<&[usize]>) -> String {
    format!(
        "SELECT {}, {} FROM {} AS t WHERE {}",
        version(resource),
        row(resource, select),
        resource.table,
        key_predicate(resource)
    )
}

/// Parameters: the body, the actor.
fn insert(resource: &Resource, set: &[usize]) -> String {
    let names: String =
        set.iter().fold(String::new(), |s, &i| s + &resource.columns[i].quoted + ", ");
    let values = set.iter().fold(String::new(), |s, &i| s + &inserted(&resource.columns[i]) + ", ");
    let body =
        if set.is_empty() { "(SELECT $1::json) AS r".to_owned() } else { record(resource, set, 1) };
    format!(
        "{} INSERT INTO {} AS t ({names}{}) SELECT {values}1 FROM {body}, actor RETURNING {}, {}, {}",
        actor(2),
        resource.table,
        resource.version_column().quoted,
        version(resource),
        row(resource, None),
        key_parts(resource),
    )
}

/// What a new row stores in a column: SQL has no other NOT NULL value for JSON's null.
fn inserted(column: &Column) -> String {
    match column.kind {
        Kind::Json { .. } if column.not_null => format!("coalesce(r.{}, 'null')", column.quoted),
        _ => format!("r.{}", column.quoted),
    }
}

/// The version's predicate and the actor come after the key's parts in every conditional write:
/// `$k+1` the versions wanted, `$k+2` those not wanted, `$k+3` the actor, `$k+4` what the write
/// brings along.
fn conditional(resource: &Resource, write: &str, bring: &str) -> String {
    let k = resource.key.len();
    format!(
        "{} {write} {bring} WHERE {} AND {}",
        actor(k + 3),
        key_predicate(resource),
        Precondition::predicate(&version(resource), &format!("${}", k + 1), &format!("${}", k + 2)),
    )
}

fn update(resource: &Resource, set: &[usize], defaulted: &[usize], merged: &[usize]) -> String {
    let mut assignments = String::new();
    for &i in set {
        let column = &resource.columns[i];
        let value = assigned(column, merged.contains(&i));
        let _ = write!(assignments, "{} = {value}, ", column.quoted);
    }
    for &i in defaulted {
        let _ = write!(assignments, "{} = DEFAULT, ", resource.columns[i].quoted);
    }
    changed(resource, &assignments, set)
}

/// An UPDATE that makes these assignments and raises the version.
fn changed(resource: &Resource, assignments: &str, set: &[usize]) -> String {
    let body = if set.is_empty() {
        String::new()
    } else {
        record(resource, set, resource.key.len() + 4) + ", "
    };
    let quoted = &resource.version_column().quoted;
    let write =
        format!("UPDATE {} AS t SET {assignments}{quoted} = t.{quoted} + 1", resource.table);
    let update = conditional(resource, &write, &format!("FROM {body}actor"));
    format!("{update} RETURNING {}, {}", version(resource), row(resource, None))
}

fn increment(resource: &Resource, column: usize) -> String {
    let Column { quoted, cast_type, .. } = &resource.columns[column];
    let by = resource.key.len() + 4;
    let assignment = format!("{quoted} = coalesce(t.{quoted}, 0) + ${by}::{cast_type}, ");
    changed(resource, &assignment, &[])
}

fn delete(resource: &Resource) -> String {
    let write = format!("DELETE FROM {} AS t", resource.table);
    format!("{} RETURNING {}", conditional(resource, &write, "USING actor"), version(resource))
}

/// What an update stores in a column: the value of the body's row `r`, seen beside the row `t`.
///
/// Some values look alike in JSON: SQL NULL and JSON's null, arrays that begin at different
/// subscripts. Where the body says what the row says already, the row's value stays, so that a
/// record that was read and sent back is the same record.
fn assigned(column: &Column, merged: bool) -> String {
    let Column { quoted, .. } = column;
    match &column.kind {
        Kind::Json { binary } => {
            let name = if *binary { "jsonb" } else { "json" };
            if merged {
                let merge = format!(
                    "counterfoil.json_merge_patch(t.{quoted}::jsonb, r.{quoted}::jsonb)::{name}"
                );
                return merge;
            }
            let null = if column.not_null {
                format!("'null'::{name}")
            } else {
                format!("CASE WHEN {name}_typeof(t.{quoted}) = 'null' THEN t.{quoted} END")
            };
            format!("coalesce(r.{quoted}, {null})")
        }
        Kind::Array(_) => format!(
            "CASE WHEN to_json(r.{quoted})::text = to_json(t.{quoted})::text \
             THEN t.{quoted} ELSE r.{quoted} END"
        ),
        _ => format!("r.{quoted}"),
    }
}

/// Parameters: the key's parts, the record id, and with `compared` the body.
fn current(resource: &Resource, compared: Option<&(Vec<usize>, Vec<usize>, Vec<usize>)>) -> String {
    let k = resource.key.len();
    let (nothing_new, body) = match compared {
        Some((set, defaulted, merged)) if !set.is_empty() => (
            nothing_new(resource, set, defaulted, merged),
            format!("CROSS JOIN {}", record(resource, set, k + 2)),
        ),
        Some((set, defaulted, merged)) => (
            format!(
                "${}::text IS NOT NULL AND {}",
                k + 2,
                nothing_new(resource, set, defaulted, merged)
            ),
            String::new(),
        ),
        None => ("false".to_owned(), String::new()),
    };
    let hidden: Vec<_> = resource
        .columns
        .iter()
        .filter(|c| c.hidden)
        .map(|c| crate::catalog::quote_literal(&c.name))
        .collect();
    let last = if hidden.is_empty() {
        "c.doc::text".to_owned()
    } else {
        format!("(c.doc::jsonb - ARRAY[{}])::text", hidden.join(", "))
    };
    format!(
        "SELECT {version}, {row}, {nothing_new}, c.version, c.op = 'delete', c.\"by\", \
         to_char(c.at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), \
         CASE WHEN {version} IS NULL THEN {last} END \
         FROM (SELECT) AS one LEFT JOIN {table} AS t ON {key} \
         LEFT JOIN LATERAL (SELECT * FROM counterfoil.change AS c \
         WHERE c.resource = {name} AND c.id = ${id} ORDER BY c.version DESC LIMIT 1) AS c ON true {body}",
        version = version(resource),
        row = row(resource, None),
        table = resource.table,
        key = key_predicate(resource),
        name = name_literal(resource),
        id = k + 1,
    )
}

/// Whether an update would leave every column as it is. Compared as `jsonb`, by value: 1 is 1.0 and
/// a moment is the same in every time zone. A default that differs each time cannot tell a retry
/// from a change and is left out.
fn nothing_new(
    resource: &Resource,
    set: &[usize],
    defaulted: &[usize],
    merged: &[usize],
) -> String {
    let same = |column: &Column, value: &str| {
        format!("to_jsonb({value}) IS NOT DISTINCT FROM to_jsonb(t.{})", column.quoted)
    };
    let set = set.iter().map(|&i| {
        let column = &resource.columns[i];
        same(column, &assigned(column, merged.contains(&i)))
    });
    let defaulted = defaulted
        .iter()
        .map(|&i| &resource.columns[i])
        .filter(|c| !c.default_volatile)
        .map(|c| same(c, &typed_default(c)));
    let all: Vec<_> = set.chain(defaulted).collect();
    if all.is_empty() { "true".to_owned() } else { format!("({})", all.join(" AND ")) }
}
