//! Counters: what both sides added is added.

use serde_json::{Number, Value};

use super::decimal::{Decimal, sum};
use super::sides::Sides;

/// `theirs + (yours − base)`, exactly; `None` unless all three are numbers of sane length.
pub(super) fn total(sides: Sides<'_>) -> Option<Value> {
    let [base, yours, theirs] = sides.all(|value| Decimal::parse(value.as_number()?.as_str()))?;
    let total: Number = sum(&[theirs, yours, base.negated()])?.parse().ok()?;
    Some(Value::Number(total))
}
