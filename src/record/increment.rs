//! Increments: a number raised in place, by one atomic statement. The answer for values that many
//! writers raise at once, where a version check would turn every one of them into a conflict.

use crate::catalog::Resource;
use crate::catalog::kind::Kind;
use crate::error::{Code, Error};
use crate::json;

/// `by` is added to the column at `column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Increment {
    /// Where the column stands in the resource's columns.
    pub column: usize,
    /// The number as text, every digit kept.
    pub by: String,
}

/// Reads `{"field": "views", "by": 1}`; one is added where `by` is left out.
///
/// # Errors
/// `UNKNOWN_FIELD`, `MISSING_FIELD` or `INVALID_VALUE`, with the field.
pub fn read(resource: &Resource, bytes: &[u8]) -> Result<Increment, Error> {
    let (mut field, mut by) = (None, "1".to_owned());
    for (name, value) in json::read_object(bytes)? {
        match name.as_str() {
            "field" => {
                let read = serde_json::from_str::<String>(value.get()).map_err(|_| {
                    Error::field(Code::InvalidValue, "field", "field must be the name of a field")
                })?;
                field = Some(read);
            }
            "by" => value.get().clone_into(&mut by),
            name => {
                let message = format!("An increment has no member \"{name}\"");
                return Err(Error::field(Code::UnknownField, name, message));
            }
        }
    }
    let missing = || Error::field(Code::MissingField, "field", "field is required");
    let field = field.ok_or_else(missing)?;
    let place =
        resource.columns.iter().position(|c| c.name == field && !c.hidden).ok_or_else(|| {
            Error::field(
                Code::UnknownField,
                &field,
                format!("{} has no field \"{field}\"", resource.name),
            )
        })?;
    let column = &resource.columns[place];
    let invalid = |name: &str, message: String| Error::field(Code::InvalidValue, name, message);
    let counts = matches!(column.kind, Kind::Integer(_) | Kind::Numeric(_) | Kind::Float);
    if !counts || !column.writable() || resource.key.contains(&place) {
        return Err(invalid(&field, format!("{field} is not a number that can be raised")));
    }
    let number = serde_json::value::RawValue::from_string(by)
        .map_err(|_| invalid("by", "by must be a number".to_owned()))?;
    let number = column.kind.spelled(number);
    let by = number.get().to_owned();
    if !by.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Err(invalid("by", "by must be a number".to_owned()));
    }
    column.kind.check(&number).map_err(|wanted| invalid("by", format!("by must be {wanted}")))?;
    Ok(Increment { column: place, by })
}
