//! What a body's values are to a column: read from its JSON as the row `r`, and stored so that a record which was
//! read and sent back is the same record.

use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};

/// The body's columns as a row `r`, read from a text.
pub(super) fn record(resource: &Resource, set: &[usize], body: &str) -> String {
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

/// What a new row stores in a column: SQL has no other NOT NULL value for JSON's null.
pub(super) fn inserted(column: &Column) -> String {
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

/// What an update stores in a column: the value of the body's row `r`, seen beside the row `t`.
///
/// Some values look alike in JSON: SQL NULL and JSON's null, arrays that begin at different
/// subscripts. Where the body says what the row says already, the row's value stays, so that a
/// record that was read and sent back is the same record.
pub(super) fn assigned(column: &Column, merged: bool) -> String {
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
