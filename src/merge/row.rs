//! A row as the engine sees it: named values in column order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Named values in the order the caller gave them, each name once.
///
/// A field that is missing is *absent*, which is not the same as `null`. The derived equality
/// compares spelling and order; to ask whether two rows hold the same values, see whether
/// [`verdicts`](super::verdicts) without a base finds nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row(Vec<(String, Value)>);

impl Row {
    /// The value of a field, or `None` where the row has no such field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.iter().find(|(name, _)| *name == field).map(|(_, value)| value)
    }

    /// Sets a field, in its old place or at the end.
    pub fn set(&mut self, field: impl Into<String>, value: Value) {
        let field = field.into();
        match self.0.iter_mut().find(|(name, _)| *name == field) {
            Some((_, old)) => *old = value,
            None => self.0.push((field, value)),
        }
    }

    /// The fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// A name that comes twice keeps its first place and its last value.
impl FromIterator<(String, Value)> for Row {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(fields: I) -> Self {
        let mut row = Row::default();
        for (name, value) in fields {
            row.set(name, value);
        }
        row
    }
}

impl From<Map<String, Value>> for Row {
    fn from(fields: Map<String, Value>) -> Self {
        Row(fields.into_iter().collect())
    }
}

impl From<Row> for Map<String, Value> {
    fn from(row: Row) -> Self {
        row.0.into_iter().collect()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Reads a JSON object and keeps the order of its fields.
impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = Row;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row as a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Row, A::Error> {
        let mut row = Row::default();
        while let Some((name, value)) = fields.next_entry::<String, Value>()? {
            row.set(name, value);
        }
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_column_order_and_digits_through_json() {
        let text = r#"{"z":1.10,"a":123456789012345678901234567890,"m":{"k":null}}"#;
        let row: Row = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&row).unwrap(), text);
    }

    #[test]
    fn absent_is_not_null() {
        let row: Row = serde_json::from_str(r#"{"memo":null}"#).unwrap();
        assert_eq!(row.get("memo"), Some(&Value::Null));
        assert_eq!(row.get("amount"), None);
    }

    #[test]
    fn a_field_set_again_keeps_its_place() {
        let mut row: Row = serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap();
        row.set("b", json!(3));
        assert_eq!(serde_json::to_string(&row).unwrap(), r#"{"b":3,"a":2}"#);
    }
}
