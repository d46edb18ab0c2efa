//! The document as YAML, for people: the heads first, everything else in order of name.

use serde::ser::{Error as _, SerializeMap as _};
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

/// Writes the document; the same document always gives the same text.
///
/// # Errors
/// Those of the writer.
pub fn to_yaml(document: &Value) -> Result<String, yaml_serde::Error> {
    yaml_serde::to_string(&Plain(document))
}

/// What stands at the head of an object; the order is that of the OpenAPI specification.
const HEADS: [&str; 9] = [
    "openapi",
    "info",
    "servers",
    "security",
    "tags",
    "paths",
    "components",
    "operationId",
    "summary",
];

/// JSON as any serializer takes it: `serde_json` hides numbers of arbitrary precision from others.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Number(value) => number(value, serializer),
            Value::String(value) => serializer.serialize_str(value),
            Value::Array(values) => serializer.collect_seq(values.iter().map(Plain)),
            Value::Object(members) => object(members, serializer),
        }
    }
}

fn number<S: Serializer>(value: &Number, serializer: S) -> Result<S::Ok, S::Error> {
    if let Some(value) = value.as_i64() {
        serializer.serialize_i64(value)
    } else if let Some(value) = value.as_f64() {
        serializer.serialize_f64(value)
    } else {
        Err(S::Error::custom("a number that YAML cannot hold"))
    }
}

fn object<S: Serializer>(members: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    let place = |name: &str| HEADS.iter().position(|head| *head == name).unwrap_or(HEADS.len());
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| (place(name), *name));
    let mut map = serializer.serialize_map(Some(members.len()))?;
    for (name, value) in members {
        map.serialize_entry(name, &Plain(value))?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_first_and_numbers_stay_numbers() {
        let document =
            serde_json::json!({ "a": [1.5, -9_223_372_036_854_775_808_i64], "openapi": "3.1.0" });
        let text = to_yaml(&document).unwrap();
        assert_eq!(text, "openapi: 3.1.0\na:\n- 1.5\n- -9223372036854775808\n");
    }
}
