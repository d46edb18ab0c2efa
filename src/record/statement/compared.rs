//! The SQL of a comparison: the row as it stands, its newest change, what the client had, and what its write
//! would make of it.

use crate::catalog::kind::Kind;
use crate::catalog::store::{name_literal, typed_default};
use crate::catalog::{Column, Resource};
use crate::record::statement::given::Given;
use crate::record::statement::stored::{assigned, record};
use crate::record::statement::{
    Columns, document, key_equals, moment, object, record_id_of, row, version,
};

/// Parameters: the key's parts, the client's version, and with `compared` the body.
pub(super) fn current(resource: &Resource, compared: Option<&Columns>, given: &Given) -> String {
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
