//! The SQL of records: one text per resource and shape. Names come only from the catalogue, values
//! only as parameters. Pure: what runs the statements is `store`.

mod given;
mod grouped;
mod raised;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use crate::catalog::kind::Kind;
use crate::catalog::store::{name_literal, typed_default};
use crate::catalog::{Column, Resource, quote_literal};
use crate::record::body::Assignments;
use crate::record::statement::given::Given;

pub use given::Values;

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

/// The body's columns as a row `r`, read from a text.
fn record(resource: &Resource, set: &[usize], body: &str) -> String {
    let columns: Vec<_> = set
        .iter()
        .map(|&i| &resource.columns[i])
        .map(|c| format!("{} {}", c.quoted, expanded_type(c)))
        .collect();
    format!("json_to_record({body}::json) AS r({})", columns.join(", "))
}

/// The type that a column of a body is read as.
fn expanded_type(column: &Column) -> &str {
    // PostgreSQL takes an array inside an array for a further dimension, but the elements of this
    // one may be arrays themselves; and it makes vectors of arrays that it cannot read again.
    let as_json = column.kind.json_elements().is_some() || column.kind == Kind::Vector;
    if as_json { "json" } else { &column.sql_type }
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

/// What a new row stores in a column: SQL has no other NOT NULL value for JSON's null.
fn inserted(column: &Column) -> String {
    match column.kind {
        Kind::Json { .. } if column.not_null => format!("coalesce(r.{}, 'null')", column.quoted),
        _ => value(column),
    }
}

/// The value of the body's row `r`.
pub fn value(column: &Column) -> String {
    let Column { quoted, sql_type, .. } = column;
    if column.kind == Kind::Vector {
        return format!("translate(r.{quoted}::text, '[\",]', '   ')::{sql_type}");
    }
    match column.kind.json_elements() {
        Some(element) => format!(
            "CASE WHEN r.{quoted} IS NOT NULL THEN ARRAY(SELECT nullif(e.value::text, 'null')::{element} \
             FROM json_array_elements(r.{quoted}) WITH ORDINALITY AS e(value, place) \
             ORDER BY e.place)::{sql_type} END"
        ),
        None => format!("r.{quoted}"),
    }
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
pub fn mixable(resource: &Resource) -> Vec<usize> {
    let plain = resource.writable().filter(|(_, column)| column.plain);
    plain.map(|(place, _)| place).take(63).collect()
}

/// Whether an update may be one of [`Shape::Mixed`].
pub fn may_mix(resource: &Resource, shape: &Shape) -> bool {
    let Shape::Update(Columns { set, defaulted, merged }) = shape else { return false };
    defaulted.is_empty() && merged.is_empty() && {
        let mixable = mixable(resource);
        set.iter().all(|place| mixable.contains(place))
    }
}

fn mixed(resource: &Resource) -> String {
    let columns = mixable(resource);
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
            let value = format!("coalesce(r.{quoted}, {null})");
            // `json` keeps the spelling it was written in, and so do we.
            if *binary { value } else { kept(column, &value, &same_json(quoted)) }
        }
        Kind::Array(_) | Kind::Composite => {
            let new = if column.kind.json_elements().is_some() {
                format!("r.{quoted}::text")
            } else {
                format!("to_json(r.{quoted})::text")
            };
            kept(column, &value(column), &format!("{new} = to_json(t.{quoted})::text"))
        }
        _ => value(column),
    }
}

/// The row's own value where the body says the same, else `value`.
fn kept(Column { quoted, .. }: &Column, value: &str, same: &str) -> String {
    format!("CASE WHEN {same} THEN t.{quoted} ELSE {value} END")
}

/// Whether a `json` of the body is that of the row, but for what JSON does not keep: space around
/// it, and how a text that stands alone is escaped.
fn same_json(quoted: &str) -> String {
    let trimmed = |row| format!("btrim({row}.{quoted}::text, E' \\t\\n\\r')");
    format!(
        "({} = {} OR json_typeof(r.{quoted}) = 'string' AND json_typeof(t.{quoted}) = 'string' \
         AND r.{quoted} #>> '{{}}' = t.{quoted} #>> '{{}}')",
        trimmed("r"),
        trimmed("t")
    )
}

/// Parameters: the key's parts, the client's version, and with `compared` the body.
fn current(resource: &Resource, compared: Option<&Columns>, given: &Given) -> String {
    let body = &given.body;
    let (nothing_new, sets, source) = match compared {
        None => ("false".to_owned(), "NULL::text".to_owned(), String::new()),
        Some(columns) => {
            let source = if columns.set.is_empty() {
                format!("CROSS JOIN (SELECT {body}::text) AS r")
            } else {
                format!("CROSS JOIN {}", record(resource, &columns.set, body))
            };
            (nothing_new(resource, columns), sets(resource, columns), source)
        }
    };
    let version = version(resource);
    format!(
        "SELECT {version}, {row}, {nothing_new}, c.version, c.op = 'delete', c.\"by\", {at}, \
         CASE WHEN {version} IS NULL THEN {last} END, \
         (SELECT {base} FROM counterfoil.change AS b WHERE b.resource = {name} AND b.id = {id} \
         AND b.version = {yours}::int4 AND b.op <> 'delete'), {sets}{place} \
         FROM {from} LEFT JOIN {table} AS t ON {key} \
         LEFT JOIN LATERAL (SELECT * FROM counterfoil.change AS c \
         WHERE c.resource = {name} AND c.id = {id} ORDER BY c.version DESC LIMIT 1) AS c ON true {source}",
        row = row(resource, None),
        at = moment("c.at"),
        last = document(resource, "c.doc"),
        base = document(resource, "b.doc"),
        table = resource.table,
        key = key_equals(resource, &given.key),
        name = name_literal(resource),
        id = record_id_of(resource, &given.key),
        yours = given.wanted,
        place = given.place(),
        from = given.sources.first().map_or("(SELECT) AS one", String::as_str),
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

/// What an update sets, as the row's JSON has it: spelled by PostgreSQL, with its defaults. A default
/// that differs each time is nobody's wish and is left out.
fn sets(resource: &Resource, columns: &Columns) -> String {
    let set = columns.set.iter().map(|&i| format!("r.{}", resource.columns[i].quoted));
    let defaulted = columns
        .defaulted
        .iter()
        .map(|&i| &resource.columns[i])
        .filter(|c| !c.default_volatile)
        .map(|c| format!("{} AS {}", typed_default(c), c.quoted));
    let all: Vec<_> = set.chain(defaulted).collect();
    object(&all)
}

/// Whether an update would leave every column as it is. Compared as `jsonb`, by value: 1 is 1.0 and
/// a moment is the same in every time zone. A default that differs each time cannot tell a retry
/// from a change and is left out.
fn nothing_new(resource: &Resource, columns: &Columns) -> String {
    let same = |column: &Column, value: &str| {
        let current = format!("t.{}", column.quoted);
        let same = format!("to_jsonb({value}) IS NOT DISTINCT FROM to_jsonb({current})");
        match column.kind {
            // Not all that `json` holds fits into `jsonb`: 1e1000000.
            Kind::Json { binary: false } => {
                format!("CASE WHEN ({value})::text = {current}::text THEN true ELSE {same} END")
            }
            _ => same,
        }
    };
    let set = columns.set.iter().map(|&i| {
        let column = &resource.columns[i];
        same(column, &assigned(column, columns.merged.contains(&i)))
    });
    let defaulted = columns
        .defaulted
        .iter()
        .map(|&i| &resource.columns[i])
        .filter(|c| !c.default_volatile)
        .map(|c| same(c, &typed_default(c)));
    let all: Vec<_> = set.chain(defaulted).collect();
    if all.is_empty() { "true".to_owned() } else { format!("({})", all.join(" AND ")) }
}
