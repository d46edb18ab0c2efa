//! Counters: what both sides added is added.

use serde_json::{Number, Value};

use super::Resolve;
use super::decimal::{Decimal, sum};
use super::sides::{Combined, Sides};

/// `theirs + (yours − base)`, exactly. Equal changes count twice: two who each count one are two.
pub(super) fn merge_counter(sides: Sides<'_>, resolve: Resolve) -> Combined {
    match added(sides) {
        Some(total) => Combined {
            value: Some(Value::Number(total)),
            clash: false,
        },
        None => Combined::clash(sides, resolve),
    }
}

fn added(sides: Sides<'_>) -> Option<Number> {
    let [base, yours, theirs] = sides.all(|value| Decimal::parse(value.as_number()?.as_str()))?;
    sum(&[theirs, yours, base.negated()])?.parse().ok()
}
