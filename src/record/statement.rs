//! The SQL of records: one text per resource and shape. Names come only from the catalogue, values
//! only as parameters. Pure: what runs the statements is `store`.

mod compared;
mod given;
mod grouped;
mod raised;
mod stored;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use crate::catalog::{Column, Resource, quote_literal};
use crate::record::body::Assignments;
use crate::record::statement::compared::current;
use crate::record::statement::given::Given;
use crate::record::statement::stored::{assigned, inserted};

pub use given::Values;
pub use stored::value;

/// How many texts a resource keeps. Bodies with ever new sets of fields make ever new shapes.
const KEPT: usize = 500;

/// What a statement depends on besides its resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// The row of a key, all readable columns or these.
    Get(Option<Vec<usize>>),
    /// A new row with these columns.
    Insert(Vec<usize>),
    /// Columns assigned.
    Update(Columns),
    /// These columns set to a merge of two versions, which the change log is told of.
    Merge(Vec<usize>),
    /// The columns raised in place.
    Increment(Vec<usize>),
    /// The first of these columns that an increment would take beyond its bounds.
    Bounds(Vec<usize>),
    /// The row removed.
    Delete,
    /// Columns assigned in many rows at once as with [`Self::Each`], to each row others of those that
    /// are [`mixable`].
    Mixed,
    /// One of the above for many rows at once, each with its own key, precondition and body.
    Many(Box<Shape>),
    /// As [`Self::Many`], each by somebody else, and only rows that nobody holds locked.
    Each(Box<Shape>),
    /// The rows of many keys locked in the order of their keys, also against references to them.
    Lock {
        /// Whether rows are to be deleted.
        deletes: bool,
    },
    /// The row as it stands and its newest change; with an update's columns, also what the update
    /// would make of them.
    Current(Option<Columns>),
}

/// The columns that an update assigns, by their place in the resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Columns {
    /// Set from the body.
    set: Vec<usize>,
    /// Returned to their default.
    defaulted: Vec<usize>,
    /// Those of `set` that take a merge patch.
    merged: Vec<usize>,
}

impl From<&Assignments> for Columns {
    fn from(assignments: &Assignments) -> Self {
        let Assignments { set, defaulted, merged, .. } = assignments;
        Self { set: set.clone(), defaulted: defaulted.clone(), merged: merged.clone() }
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
        Shape::Insert(set) => insert(resource, set, Given::new_row(resource, set, 1)),
        Shape::Update(columns) => update(resource, columns, Given::one(resource, &columns.set)),
        Shape::Merge(set) => merge(resource, set),
        Shape::Increment(columns) => {
            raised::increment(resource, columns, Given::one(resource, &[]))
        }
        Shape::Bounds(columns) => raised::bounds(resource, columns),
        Shape::Delete => delete(resource, &Given::one(resource, &[])),
        Shape::Mixed => mixed(resource),
        Shape::Many(shape) => many(resource, shape),
        Shape::Each(shape) => each(resource, shape),
        Shape::Lock { deletes } => grouped::lock(resource, *deletes),
        Shape::Current(compared) => {
            current(resource, compared.as_ref(), &Given::compared(resource))
        }
    }
}

fn many(resource: &Resource, shape: &Shape) -> String {
    match shape {
        Shape::Get(select) => grouped::get(resource, select.as_deref()),
        Shape::Current(compared) => {
            current(resource, compared.as_ref(), &Given::many_compared(resource))
        }
        Shape::Insert(set) => insert(resource, set, Given::new_rows(resource, set, actor(1))),
        shape => listed(resource, shape, Given::many(resource, shape.set())),
    }
}

fn each(resource: &Resource, shape: &Shape) -> String {
    match shape {
        Shape::Insert(set) => {
            insert(resource, set, Given::new_rows(resource, set, grouped::writers(1)))
        }
        shape => {
            let given = Given::each(resource, shape.set(), *shape == Shape::Delete);
            listed(resource, shape, given)
        }
    }
}

fn listed(resource: &Resource, shape: &Shape, given: Given) -> String {
    match shape {
        Shape::Update(columns) => update(resource, columns, given),
        Shape::Increment(columns) => raised::increment(resource, columns, given),
        Shape::Delete => delete(resource, &given),
        one => write(resource, one),
    }
}

impl Shape {
    /// The columns whose values a body gives.
    pub fn set(&self) -> &[usize] {
        match self {
            Self::Insert(set) | Self::Merge(set) => set,
            Self::Update(columns) => &columns.set,
            _ => &[],
        }
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
    object(&list)
}

/// These columns as the text of a JSON object. Not by way of a row's name, which a column may have.
fn object(columns: &[String]) -> String {
    format!("(SELECT row_to_json(x.*)::text FROM (SELECT {}) AS x)", columns.join(", "))
}

/// Whether a key's part, the parameter `$1`, is what the object `$2` has under the column's name.
pub fn same_part(column: &Column) -> String {
    let Column { quoted, sql_type, cast_type, .. } = column;
    format!(
        "SELECT r.{quoted} = $1::{cast_type} FROM json_to_record($2::json) AS r({quoted} {sql_type})"
    )
}

/// `t`'s key equals the parameters from `$1` on, one per part.
pub fn key_predicate(resource: &Resource) -> String {
    key_equals(resource, &parameters(resource.key.len()))
}

fn parameters(count: usize) -> Vec<String> {
    (1..=count).map(|i| format!("${i}")).collect()
}

/// `t`'s key equals these texts, one per part.
fn key_equals(resource: &Resource, parts: &[String]) -> String {
    let parts = resource.key_columns().zip(parts);
    let parts: Vec<_> =
        parts.map(|(c, part)| format!("t.{} = {part}::{}", c.quoted, c.cast_type)).collect();
    parts.join(" AND ")
}

/// The id under which the change log knows the record whose key the parameters from `$1` on are: as
/// PostgreSQL spells the values, whatever spelling the client chose.
pub fn record_id(resource: &Resource) -> String {
    record_id_of(resource, &parameters(resource.key.len()))
}

fn record_id_of(resource: &Resource, key: &[String]) -> String {
    let cast = |(c, part): (&Column, &String)| format!("({part}::{})", c.cast_type);
    id(resource, &resource.key_columns().zip(key).map(cast).collect::<Vec<_>>())
}

/// The id under which the change log knows the row `t`.
pub fn row_id(resource: &Resource) -> String {
    let of_row = |c: &Column| format!("t.{}", c.quoted);
    id(resource, &resource.key_columns().map(of_row).collect::<Vec<_>>())
}

fn id(resource: &Resource, values: &[String]) -> String {
    let parts = resource.key_columns().zip(values);
    let parts: Vec<_> = parts.map(|(c, value)| c.canonical.replace("{}", value)).collect();
    match parts.as_slice() {
        [part] => part.clone(),
        parts => {
            let escape = |part| format!("replace(replace({part}, '%', '%25'), ',', '%2C')");
            parts.iter().map(escape).collect::<Vec<_>>().join(" || ',' || ")
        }
    }
}

/// The parts of `t`'s key as one text array.
pub fn key_parts(resource: &Resource) -> String {
    let parts: Vec<_> = resource.key_columns().map(|c| format!("t.{}::text", c.quoted)).collect();
    format!("ARRAY[{}]", parts.join(", "))
}

fn version(resource: &Resource) -> String {
    format!("t.{}", resource.version_column().quoted)
}

/// Names the actor to the change log, and the operation where one is given beside it, for this
/// statement only. It rides along in the statement, so that it costs no round trip.
fn actor(parameter: usize) -> Vec<String> {
    let (actor, operation) =
        (format!("(${parameter}::text[])[1]"), format!("(${parameter}::text[])[2]"));
    vec![
        format!("set_config('counterfoil.actor', {actor}, true)"),
        // Where none is named, that of the transaction stays.
        format!(
            "CASE WHEN {operation} IS NOT NULL \
             THEN set_config('counterfoil.operation', {operation}, true) END"
        ),
    ]
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

fn insert(resource: &Resource, set: &[usize], given: Given) -> String {
    let given = given.with_body(resource, set);
    let columns = || set.iter().map(|&i| (i, &resource.columns[i]));
    let names: String = columns().map(|(_, c)| c.quoted.clone() + ", ").collect();
    let value = |(i, c): (usize, &Column)| given.value(i, c).unwrap_or_else(|| inserted(c)) + ", ";
    let values: String = columns().map(value).collect();
    // New rows come back in the order of the list.
    let order = if given.listed { " ORDER BY g.place" } else { "" };
    format!(
        "{}INSERT INTO {} AS t ({names}{}) SELECT {values}1{}{order} RETURNING {}, {}, {}",
        given.preamble(),
        resource.table,
        resource.version_column().quoted,
        given.reading("FROM"),
        version(resource),
        row(resource, None),
        key_parts(resource),
    )
}

fn update(resource: &Resource, columns: &Columns, given: Given) -> String {
    let given = given.with_body(resource, &columns.set);
    let mut assignments = String::new();
    for &i in &columns.set {
        let column = &resource.columns[i];
        let value = given.value(i, column);
        let value = value.unwrap_or_else(|| assigned(column, columns.merged.contains(&i)));
        let _ = write!(assignments, "{} = {value}, ", column.quoted);
    }
    for &i in &columns.defaulted {
        let _ = write!(assignments, "{} = DEFAULT, ", resource.columns[i].quoted);
    }
    changed(resource, &given.unless_unread(resource), &assignments, "")
}

/// The columns that patches may set in one statement, each of them others: at most as many as a number has
/// bits to say which.
pub fn mixable(resource: &Resource) -> impl Iterator<Item = usize> {
    let plain = resource.writable().filter(|(_, column)| column.plain);
    plain.map(|(place, _)| place).take(63)
}

/// Whether an update may be one of [`Shape::Mixed`].
pub fn may_mix(resource: &Resource, shape: &Shape) -> bool {
    let Shape::Update(Columns { set, defaulted, merged }) = shape else { return false };
    // Both are in the order of the table, so one pass through them will do.
    let mut mixable = mixable(resource);
    defaulted.is_empty()
        && merged.is_empty()
        && set.iter().all(|place| mixable.any(|other| other == *place))
}

fn mixed(resource: &Resource) -> String {
    let columns: Vec<_> = mixable(resource).collect();
    let given = Given::mixed(resource, &columns);
    let mut assignments = String::new();
    for (bit, &i) in columns.iter().enumerate() {
        let column = &resource.columns[i];
        let (quoted, value) = (&column.quoted, given.value(i, column).unwrap_or_default());
        let _ = write!(
            assignments,
            "{quoted} = CASE WHEN g.sets & {} <> 0 THEN {value} ELSE t.{quoted} END, ",
            1_i64 << bit,
        );
    }
    changed(resource, &given.unless_unread(resource), &assignments, "")
}

/// An UPDATE that makes these assignments and raises the version, under this further condition.
fn changed(resource: &Resource, given: &Given, assignments: &str, condition: &str) -> String {
    let quoted = &resource.version_column().quoted;
    let write =
        format!("UPDATE {} AS t SET {assignments}{quoted} = t.{quoted} + 1", resource.table);
    format!(
        "{}{condition} RETURNING {}, {}{}",
        given.conditional(resource, &write, "FROM"),
        version(resource),
        row(resource, None),
        given.place(),
    )
}

/// Parameters: as an update's, then the versions merged.
fn merge(resource: &Resource, set: &[usize]) -> String {
    let parents = resource.key.len() + 4 + Values::of(resource, set).parameters();
    let mut given = Given::one(resource, set);
    given.acts.push(format!("set_config('counterfoil.merged_from', ${parents}, true)"));
    let columns = Columns { set: set.to_vec(), defaulted: Vec::new(), merged: Vec::new() };
    update(resource, &columns, given)
}

fn delete(resource: &Resource, given: &Given) -> String {
    let write = format!("DELETE FROM {} AS t", resource.table);
    format!(
        "{} RETURNING {}, NULL::text{}",
        given.conditional(resource, &write, "USING"),
        version(resource),
        given.place(),
    )
}

/// A moment in the spelling of RFC 3339, in UTC with microseconds.
pub fn moment(column: &str) -> String {
    format!("to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
}

/// A row of the change log as text, without what the caller may not know of. Where columns are hidden,
/// only those that the table has now are shown: another name of old may stand for what is hidden.
pub fn document(resource: &Resource, doc: &str) -> String {
    if resource.columns.iter().all(|c| !c.hidden) {
        return format!("{doc}::text");
    }
    let shown: Vec<_> = resource.readable().map(|c| quote_literal(&c.name)).collect();
    // Not by way of `jsonb`, which would sort the fields of a `json` column too.
    format!(
        "(SELECT '{{' || string_agg(to_json(m.key)::text || ':' || m.value::text, ',' ORDER BY m.place) || '}}' \
         FROM json_each({doc}) WITH ORDINALITY AS m(key, value, place) \
         WHERE m.key = ANY (ARRAY[{}]))",
        shown.join(", ")
    )
}
