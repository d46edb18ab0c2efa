//! Increments: numbers raised in place, by one atomic statement. The answer for values that many
//! writers raise at once, where a version check would turn every one of them into a conflict.

pub(super) mod store;

use std::fmt::Write as _;

use serde_json::value::RawValue;

use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::error::{Code, Error};
use crate::json::{self, Member};

/// Numbers that are raised together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Increment {
    /// Where their columns stand in the resource's columns.
    pub columns: Vec<usize>,
    /// Whether any of them has bounds.
    pub bounded: bool,
    /// What is added to each and its bounds, as the text of a JSON object: `by0`, `min0`, `max0`
    /// for the first column, and so on.
    pub json: String,
}

/// What is said of one field.
#[derive(Default)]
struct Raise {
    by: Option<Box<RawValue>>,
    min: Option<Box<RawValue>>,
    max: Option<Box<RawValue>>,
}

impl Raise {
    /// Takes `by`, `min` or `max`; gives back what is none of them.
    fn take(&mut self, (name, value): Member) -> Option<String> {
        match name.as_str() {
            "by" => self.by = Some(value),
            "min" => self.min = Some(value),
            "max" => self.max = Some(value),
            _ => return Some(name),
        }
        None
    }
}

/// Reads `{"field": "views", "by": 1}` or `{"fields": {"views": 1, "stock": {"by": -2, "min": 0}}}`.
/// One is added where `by` is left out.
///
/// # Errors
/// `UNKNOWN_FIELD`, `MISSING_FIELD` or `INVALID_VALUE`, with the field.
pub fn read(resource: &Resource, bytes: &[u8]) -> Result<Increment, Error> {
    let (mut field, mut fields, mut single) = (None, None, Raise::default());
    let mut said = false;
    for (name, value) in json::read_object(bytes)? {
        match name.as_str() {
            "field" => {
                let read = serde_json::from_str::<String>(value.get());
                field =
                    Some(read.map_err(|_| invalid("field", "field must be the name of a field"))?);
            }
            "fields" => fields = Some(value),
            _ => {
                said = true;
                if let Some(name) = single.take((name, value)) {
                    let message = format!("An increment has no member \"{name}\"");
                    return Err(Error::field(Code::UnknownField, &name, message));
                }
            }
        }
    }
    let mut reader = Reader { resource, increment: empty() };
    match (field, fields) {
        (Some(field), None) => reader.add(&field, &single, None)?,
        (None, Some(fields)) if !said => reader.add_all(&fields)?,
        (None, None) => {
            return Err(Error::field(Code::MissingField, "field", "field is required"));
        }
        _ => return Err(invalid("fields", "fields stands alone: what to add is said inside it")),
    }
    reader.increment.json.push('}');
    Ok(reader.increment)
}

fn empty() -> Increment {
    Increment { columns: Vec::new(), bounded: false, json: "{".to_owned() }
}

fn invalid(field: &str, message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::field(Code::InvalidValue, field, message)
}

struct Reader<'a> {
    resource: &'a Resource,
    increment: Increment,
}

impl Reader<'_> {
    fn add_all(&mut self, fields: &RawValue) -> Result<(), Error> {
        let members = json::read_object(fields.get().as_bytes())
            .map_err(|_| invalid("fields", "fields must be an object of fields"))?;
        if members.is_empty() {
            return Err(invalid("fields", "fields must name a field"));
        }
        for (field, value) in members {
            let mut raise = Raise::default();
            if value.get().starts_with('{') {
                for member in json::read_object(value.get().as_bytes())? {
                    if let Some(name) = raise.take(member) {
                        let message = format!("{field} has no member \"{name}\" here");
                        return Err(Error::field(Code::UnknownField, &field, message));
                    }
                }
            } else {
                raise.by = Some(value);
            }
            self.add(&field, &raise, Some(&field))?;
        }
        Ok(())
    }

    /// Adds a field. Of what is wrong with its numbers `blame` is told, else the number's own name.
    fn add(&mut self, field: &str, raise: &Raise, blame: Option<&str>) -> Result<(), Error> {
        let place = self.find(field)?;
        let column = &self.resource.columns[place];
        let index = self.increment.columns.len();
        self.increment.columns.push(place);
        for (name, value) in [("by", &raise.by), ("min", &raise.min), ("max", &raise.max)] {
            let text = match value {
                Some(value) if name != "by" && value.get() == "null" => continue,
                Some(value) => number(column, name, value, blame.unwrap_or(name))?,
                None if name == "by" => "1".to_owned(),
                None => continue,
            };
            self.increment.bounded |= name != "by";
            let comma = if self.increment.json.len() > 1 { "," } else { "" };
            let _ = write!(self.increment.json, "{comma}\"{name}{index}\":{text}");
        }
        Ok(())
    }

    fn find(&self, field: &str) -> Result<usize, Error> {
        let columns = &self.resource.columns;
        let place = columns.iter().position(|c| c.name == field && !c.hidden).ok_or_else(|| {
            let message = format!("{} has no field \"{field}\"", self.resource.name);
            Error::field(Code::UnknownField, field, message)
        })?;
        let column = &columns[place];
        let counts = matches!(column.kind, Kind::Integer(_) | Kind::Numeric(_) | Kind::Float);
        if !counts || !column.writable() || self.resource.key.contains(&place) {
            return Err(invalid(field, format!("{field} is not a number that can be raised")));
        }
        Ok(place)
    }
}

/// A number of the column's kind, as its text.
fn number(column: &Column, name: &str, value: &RawValue, blame: &str) -> Result<String, Error> {
    let spelled = column.kind.spelled(value.to_owned());
    if !spelled.get().starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Err(invalid(blame, format!("{name} must be a number")));
    }
    let wrong = |wanted| invalid(blame, format!("{name} must be {wanted}"));
    column.kind.check(&spelled).map_err(wrong)?;
    Ok(spelled.get().to_owned())
}
