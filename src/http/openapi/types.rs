//! From a column's kind to the JSON Schema of its values: as they are read, and as they may be
//! written, which is more (`"7"` for 7), because a client sends back what it has.

use serde_json::{Number, Value, json};

use crate::catalog::Column;
use crate::catalog::kind::Kind;

/// Whether values come from the service or go to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
}

/// A text that PostgreSQL can store.
const NUL_FREE: &str = r"^[^\x00]*$";
/// The same that a path can hold: not empty, and neither `.` nor `..`.
const SEGMENT: &str = r"^([^.\x00][^\x00]*|\.[^.\x00][^\x00]*|\.\.[^\x00]+)$";
pub(super) const UUID: &str =
    "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
const CLOCK: &str = r"(([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?|24:00(:00)?)";
const DECIMAL: &str = r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?";
const BYTES: &str = r"^\\x([0-9a-fA-F]{2})*$";
/// Digits within which a bound is written exactly by every reader of JSON.
const EXACT: i32 = 15;

/// The values of a column, NULL included where it takes NULL.
pub(super) fn column(column: &Column, way: Way) -> Value {
    let schema = of(&column.kind, column, way);
    if column.not_null { schema } else { or_null(schema) }
}

fn of(kind: &Kind, column: &Column, way: Way) -> Value {
    match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Integer(size) => integer(*size, way),
        Kind::Float => float(&column.sql_type, way),
        Kind::Numeric(declared) => numeric(*declared, way),
        Kind::Text(most) => text(*most, way),
        Kind::Uuid => json!({ "type": "string", "format": "uuid" }),
        Kind::Date => moment("date", way, "[0-9]{4,7}-[0-9]{2}-[0-9]{2}( BC)?"),
        Kind::Timestamp => timestamp(way, ""),
        Kind::TimestampTz => timestamp(way, "[-+][0-9]{2}:[0-9]{2}(:[0-9]{2})?"),
        Kind::Time => json!({
            "type": "string", "pattern": format!("^{CLOCK}([-+][0-9]{{2}}(:[0-9]{{2}})?)?$"),
        }),
        Kind::Json { .. } => json!({ "description": "Any JSON value" }),
        Kind::Bytea => json!({
            "type": "string", "pattern": BYTES, "description": "Bytes in hexadecimal: `\\x0aff`",
        }),
        Kind::Enum(labels) => json!({ "type": "string", "enum": labels }),
        Kind::Array(element) => array(&or_null(of(element, column, way))),
        Kind::Name => json!({ "type": "string", "maxLength": 63 }),
        Kind::Vector => json!({ "type": "array", "items": { "type": "integer" } }),
        Kind::Composite => json!({ "type": "object", "description": "A row type" }),
        Kind::Other => other(column, way),
    }
}

/// The same values and `null`.
pub(super) fn or_null(mut schema: Value) -> Value {
    if let Some(Value::String(name)) = schema.get("type").cloned() {
        schema["type"] = json!([name, "null"]);
        if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
            values.push(Value::Null);
        }
        schema
    } else if let Some(alternatives) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        alternatives.push(json!({ "type": "null" }));
        schema
    } else {
        // Without a type it takes everything already.
        schema
    }
}

/// A whole number that a column of this many bytes holds.
pub(super) fn whole(size: u8) -> Value {
    match size {
        2 => json!({ "type": "integer", "minimum": i16::MIN, "maximum": i16::MAX }),
        4 => json!({
            "type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX,
        }),
        _ => json!({
            "type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX,
        }),
    }
}

/// How many digits always fit into an integer of this many bytes.
pub(super) fn digits(size: u8) -> usize {
    match size {
        2 => 4,
        4 => 9,
        _ => 18,
    }
}

fn integer(size: u8, way: Way) -> Value {
    let number = whole(size);
    if way == Way::Read {
        return number;
    }
    let pattern = format!("^[-+]?[0-9]{{1,{}}}$", digits(size));
    json!({ "anyOf": [number, { "type": "string", "pattern": pattern }] })
}

fn float(sql_type: &str, way: Way) -> Value {
    let mut number = json!({ "type": "number" });
    if sql_type == "real" && way == Way::Write {
        number["minimum"] = json!(-3.4e38);
        number["maximum"] = json!(3.4e38);
    }
    let specials = json!({ "type": "string", "enum": ["NaN", "Infinity", "-Infinity"] });
    json!({ "anyOf": [number, specials] })
}

/// A number that `numeric` keeps to the last digit; readers that would round it may send a text.
fn numeric(declared: Option<(i32, i32)>, way: Way) -> Value {
    let number = number(declared);
    let text = match (way, declared) {
        (Way::Read, Some(_)) => json!({ "type": "string", "const": "NaN" }),
        (Way::Read, None) => json!({ "type": "string", "enum": ["NaN", "Infinity", "-Infinity"] }),
        (Way::Write, Some((precision, scale))) => {
            let whole = (precision - scale).max(1);
            let pattern = format!(r"^([-+]?[0-9]{{1,{whole}}}(\.[0-9]+)?|NaN)$");
            json!({ "type": "string", "pattern": pattern })
        }
        (Way::Write, None) => {
            let pattern = format!("^({DECIMAL}|NaN|-?Infinity)$");
            json!({ "type": "string", "maxLength": 1000, "pattern": pattern })
        }
    };
    json!({ "anyOf": [number, text] })
}

/// A JSON number within what `numeric(precision, scale)` can hold.
pub(super) fn number(declared: Option<(i32, i32)>) -> Value {
    let mut number = json!({ "type": "number" });
    if let Some((precision, scale)) = declared
        && let Some(most) = largest(precision, scale)
        && let Some(least) = format!("-{most}").parse::<Number>().ok()
    {
        number["minimum"] = Value::Number(least);
        number["maximum"] = Value::Number(most);
    }
    number
}

/// The largest `numeric(precision, scale)`, where every reader reads it exactly.
fn largest(precision: i32, scale: i32) -> Option<Number> {
    if precision.max(scale).max(precision - scale) > EXACT {
        return None;
    }
    let nines = "9".repeat(usize::try_from(precision).ok()?);
    let text = match usize::try_from(scale) {
        Ok(0) => nines,
        Ok(scale) if scale >= nines.len() => format!("0.{nines:0>scale$}"),
        Ok(scale) => {
            let (whole, fraction) = nines.split_at(nines.len() - scale);
            format!("{whole}.{fraction}")
        }
        Err(_) => nines + &"0".repeat(usize::try_from(-scale).ok()?),
    };
    text.parse().ok()
}

/// Narrows a text that is the whole id of a record to what can stand in an address.
pub(super) fn address(schema: &mut Value) {
    if schema["pattern"] == NUL_FREE {
        schema["pattern"] = json!(SEGMENT);
    }
}

fn text(most: Option<usize>, way: Way) -> Value {
    let mut schema = json!({ "type": "string" });
    if let Some(most) = most {
        schema["maxLength"] = json!(most);
    }
    if way == Way::Write {
        schema["pattern"] = json!(NUL_FREE);
    }
    schema
}

/// A date or date and time; PostgreSQL's reach further than RFC 3339 does.
fn moment(format: &str, way: Way, further: &str) -> Value {
    let rfc = json!({ "type": "string", "format": format });
    let further = match way {
        Way::Read => json!({ "type": "string", "pattern": format!("^({further}|-?infinity)$") }),
        Way::Write => json!({ "type": "string", "enum": ["infinity", "-infinity"] }),
    };
    json!({ "anyOf": [rfc, further] })
}

fn timestamp(way: Way, zone: &str) -> Value {
    let date = "[0-9]{4,6}-[0-9]{2}-[0-9]{2}";
    let clock = r"T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?";
    let mut schema = moment("date-time", way, &format!("{date}{clock}{zone}( BC)?"));
    if way == Way::Write
        && zone.is_empty()
        && let Some(alternatives) = schema["anyOf"].as_array_mut()
    {
        alternatives.push(json!({ "type": "string", "pattern": format!("^{date}{clock}$") }));
    }
    schema
}

/// PostgreSQL's array types do not say how many dimensions their values have.
fn array(element: &Value) -> Value {
    json!({ "anyOf": [
        { "type": "array", "items": element },
        { "type": "array", "items": { "type": "array" }, "description": "More dimensions nest" },
    ]})
}

/// A type that goes as PostgreSQL's text of it. Types of extensions may have a form of their own in
/// JSON; those of PostgreSQL have none.
fn other(column: &Column, way: Way) -> Value {
    let name = &column.cast_type;
    let description = format!("A value of the type {name}, as PostgreSQL writes it");
    let mut schema = json!({ "type": "string", "format": name, "description": description });
    match way {
        Way::Write => schema["pattern"] = json!(NUL_FREE),
        Way::Read if name.contains('.') => schema = json!({ "description": description }),
        Way::Read => {}
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numeric_is_bounded_by_its_precision_and_scale() {
        let largest = |p, s| largest(p, s).map(|n| n.to_string());
        assert_eq!(largest(12, 2).as_deref(), Some("9999999999.99"));
        assert_eq!(largest(5, 0).as_deref(), Some("99999"));
        assert_eq!(largest(2, 4).as_deref(), Some("0.0099"));
        assert_eq!(largest(2, 2).as_deref(), Some("0.99"));
        assert_eq!(largest(3, -2).as_deref(), Some("99900"));
        assert_eq!(largest(38, 10), None);
    }

    #[test]
    fn null_joins_whatever_form_a_schema_has() {
        let labels = json!({ "type": "string", "enum": ["a"] });
        assert_eq!(or_null(labels), json!({ "type": ["string", "null"], "enum": ["a", null] }));
        assert_eq!(or_null(integer(2, Way::Write))["anyOf"][2], json!({ "type": "null" }));
        assert_eq!(or_null(json!({})), json!({}));
    }
}
