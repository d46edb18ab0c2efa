//! The SQL of increments: numbers raised in place, within bounds that the same statement checks.

use std::fmt::Write as _;

use crate::catalog::Resource;
use crate::record::statement::given::Given;
use crate::record::statement::{changed, key_predicate, row, version};

/// The body is an object of `by0`, `min0`, `max0` for the first column, and so on.
pub(super) fn increment(resource: &Resource, columns: &[usize], mut given: Given) -> String {
    let (mut assignments, mut condition) = (String::new(), String::new());
    for (place, &column) in columns.iter().enumerate() {
        let raised = raised(resource, place, column);
        let _ = write!(assignments, "{} = {raised}, ", resource.columns[column].quoted);
        let _ = write!(condition, " AND {}", within(&raised, place));
    }
    given.sources.push(numbers(resource, columns, &given.body));
    changed(resource, &given.unless_unread(resource), &assignments, &condition)
}

/// Parameters: the key's parts, the body. Gives the row, and which column would leave its bounds.
pub(super) fn bounds(resource: &Resource, columns: &[usize]) -> String {
    let body = format!("${}", resource.key.len() + 1);
    let mut beyond = String::new();
    for (place, &column) in columns.iter().enumerate() {
        let within = within(&raised(resource, place, column), place);
        let _ = write!(beyond, "WHEN NOT {within} THEN {place} ");
    }
    format!(
        "SELECT {}, {}, CASE {beyond} END FROM {} AS t, {} WHERE {}",
        version(resource),
        row(resource, None),
        resource.table,
        numbers(resource, columns, &body),
        key_predicate(resource),
    )
}

fn raised(resource: &Resource, place: usize, column: usize) -> String {
    format!("coalesce(t.{}, 0) + r.by{place}", resource.columns[column].quoted)
}

fn within(raised: &str, place: usize) -> String {
    format!(
        "((r.min{place} IS NULL OR {raised} >= r.min{place}) \
         AND (r.max{place} IS NULL OR {raised} <= r.max{place}))"
    )
}

fn numbers(resource: &Resource, columns: &[usize], body: &str) -> String {
    let columns = columns.iter().enumerate().map(|(place, &column)| {
        let t = &resource.columns[column].cast_type;
        format!("by{place} {t}, min{place} {t}, max{place} {t}")
    });
    let columns: Vec<_> = columns.collect();
    format!("json_to_record({body}::json) AS r({})", columns.join(", "))
}
