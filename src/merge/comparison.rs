//! When two values are the same: by meaning, not by spelling.

use serde_json::Value;

use super::decimal::Decimal;
use super::instant::Instant;

/// How the values of one field are compared, given by its type in the catalogue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// By JSON value: numbers by amount, objects whatever the order of their keys.
    #[default]
    Json,
    /// By amount, also where one side is written as a string: `1`, `1.0`, `"1e0"`.
    Number,
    /// Timestamps by instant, whatever their offset.
    Instant,
    /// Texts exactly.
    Text,
    /// Kept by the server (the version, generated and read-only columns): never compared, and a
    /// merge takes the current value.
    Managed,
}

impl Comparison {
    /// Whether two values of a field are the same; `None` is an absent field and not `null`.
    pub fn same(self, a: Option<&Value>, b: Option<&Value>) -> bool {
        match (a, b) {
            _ if self == Self::Managed => true,
            (None, None) => true,
            (Some(a), Some(b)) => self.same_value(a, b),
            _ => false,
        }
    }

    fn same_value(self, a: &Value, b: &Value) -> bool {
        match self {
            Self::Number => same_amount(a, b),
            Self::Instant => same_instant(a, b),
            Self::Json | Self::Text | Self::Managed => same_json(a, b),
        }
    }
}

/// Whether two JSON values are the same: `1` is `1.0`, the order of keys says nothing.
pub(super) fn same_json(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_digits(a.as_str(), b.as_str()),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_json(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_json(a, b)))
        }
        _ => a == b,
    }
}

/// One text per JSON value: [`same_json`] values have the same text.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => canonical_number(number.as_str()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let mut fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
                .collect();
            fields.sort_unstable();
            format!("{{{}}}", fields.join(","))
        }
        scalar => scalar.to_string(),
    }
}

fn canonical_number(text: &str) -> String {
    Decimal::parse(text).map_or_else(|| text.to_owned(), |number| number.canonical())
}

fn same_digits(a: &str, b: &str) -> bool {
    a == b || canonical_number(a) == canonical_number(b)
}

/// `NaN` and `Infinity` arrive as strings, and so may any number that a client does not trust to
/// its JSON library.
fn same_amount(a: &Value, b: &Value) -> bool {
    match (written_number(a), written_number(b)) {
        (Some(a), Some(b)) => same_digits(a, b) || a.eq_ignore_ascii_case(b),
        _ => same_json(a, b),
    }
}

fn written_number(value: &Value) -> Option<&str> {
    match value {
        Value::Number(number) => Some(number.as_str()),
        Value::String(text) => Some(text.trim()),
        _ => None,
    }
}

fn same_instant(a: &Value, b: &Value) -> bool {
    let instant = |value: &Value| value.as_str().and_then(Instant::parse);
    match (instant(a), instant(b)) {
        (Some(a), Some(b)) => a == b,
        _ => same_json(a, b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(comparison: Comparison, a: &str, b: &str) -> bool {
        let read = |text| serde_json::from_str::<Value>(text).unwrap();
        let (a, b) = (read(a), read(b));
        let forth = comparison.same(Some(&a), Some(&b));
        assert_eq!(forth, comparison.same(Some(&b), Some(&a)), "symmetric");
        if comparison == Comparison::Json {
            assert_eq!(forth, canonical(&a) == canonical(&b), "{a} and {b}: canonical text");
        }
        forth
    }

    #[test]
    fn json_is_compared_by_value() {
        use Comparison::Json;
        assert!(same(Json, r#"{"a":1,"b":[1.0,"x"]}"#, r#"{"b":[1e0,"x"],"a":1.00}"#));
        assert!(!same(Json, r#"{"a":null}"#, "{}"));
        assert!(!same(Json, r#"{"a":1}"#, r#"{"b":1}"#));
        assert!(!same(Json, "[1,2]", "[2,1]"));
        assert!(!same(Json, "[1]", "[1,1]"));
        assert!(!same(Json, "1", "\"1\""));
        assert!(!same(Json, "0", "false"));
        assert!(!same(Json, "\"\"", "null"));
        assert!(!same(Json, r#"["a,b"]"#, r#"["a","b"]"#));
    }

    #[test]
    fn numbers_are_compared_by_amount() {
        use Comparison::Number;
        assert!(same(Number, "1", "1.0"));
        assert!(same(Number, "1", "\"1.00\""));
        assert!(same(Number, "1e400", &format!("1{}", "0".repeat(400))));
        assert!(!same(Number, "9007199254740992", "9007199254740993"));
        assert!(same(Number, "\"NaN\"", "\"nan\""));
        assert!(!same(Number, "\"NaN\"", "\"Infinity\""));
        assert!(!same(Number, "0", "null"));
        assert!(same(Number, "1e99999999999999999999", "1e99999999999999999999"));
    }

    #[test]
    fn timestamps_are_compared_by_instant() {
        use Comparison::Instant;
        assert!(same(Instant, "\"2026-11-30T09:00:00Z\"", "\"2026-11-30 10:00:00+01\""));
        assert!(!same(Instant, "\"2026-11-30T09:00:00Z\"", "\"2026-11-30 09:00:00+01\""));
        assert!(same(Instant, "\"tomorrow\"", "\"tomorrow\""));
        assert!(!same(Instant, "\"infinity\"", "null"));
    }

    #[test]
    fn texts_are_compared_exactly() {
        use Comparison::Text;
        assert!(!same(Text, "\"1\"", "\"1.0\""));
        assert!(!same(Text, "\"a\"", "\"a \""));
        assert!(!same(Text, "\"\\u00e9\"", "\"e\\u0301\""));
        assert!(!same(Text, "\"\"", "null"));
    }

    #[test]
    fn absent_is_not_null() {
        assert!(!Comparison::Json.same(None, Some(&Value::Null)));
        assert!(Comparison::Json.same(None, None));
        assert!(Comparison::Managed.same(None, Some(&Value::Null)));
    }
}
