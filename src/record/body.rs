//! From the members of a body to the columns they set, checked by name and kind.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::catalog::key::Key;
use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::error::{Code, Error};
use crate::json::{self, Member};

/// The columns that a write sets, and to what.
#[derive(Debug, Default, Clone)]
pub struct Assignments {
    /// Columns set, by their place in the resource, in order.
    pub set: Vec<usize>,
    /// What each of `set` is set to, as JSON text.
    pub values: Vec<String>,
    /// Columns that return to their default.
    pub defaulted: Vec<usize>,
    /// Columns of `set` that hold JSON and take a merge patch instead of a value (RFC 7396).
    pub merged: Vec<usize>,
    /// Parts of the key that the body spells otherwise than the address.
    pub claimed: Vec<Claim>,
}

impl Assignments {
    /// What is set, as the text of a JSON object.
    pub fn json(&self, resource: &Resource) -> String {
        self.object(resource, |_| true)
    }

    /// What is set of the columns that a statement reads from JSON; see [`Column::plain`].
    pub fn structured(&self, resource: &Resource) -> Option<String> {
        let structured = |place: usize| !resource.columns[place].plain;
        let any = self.set.iter().any(|&place| structured(place));
        any.then(|| self.object(resource, structured))
    }

    /// What is set of the columns that a statement reads from texts, in order.
    pub fn texts<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> impl Iterator<Item = (usize, Option<Cow<'a, str>>)> {
        let set = self.set.iter().zip(&self.values);
        set.filter(|(place, _)| resource.columns[**place].plain)
            .map(|(place, value)| (*place, text(value)))
    }

    fn object(&self, resource: &Resource, wanted: impl Fn(usize) -> bool) -> String {
        let mut json = "{".to_owned();
        for (&place, value) in self.set.iter().zip(&self.values).filter(|(set, _)| wanted(**set)) {
            let comma = if json.len() > 1 { "," } else { "" };
            let name = serde_json::Value::from(resource.columns[place].name.as_str());
            let _ = write!(json, "{comma}{name}:{value}");
        }
        json.push('}');
        json
    }
}

/// A value of JSON as PostgreSQL's functions take it for a column of a simple type: the text in a string,
/// anything else as it is spelled. `None` for null.
fn text(json: &str) -> Option<Cow<'_, str>> {
    let inside = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inside {
        None if json == "null" => None,
        None => Some(Cow::Borrowed(json)),
        Some(inside) if !inside.contains('\\') => Some(Cow::Borrowed(inside)),
        Some(_) => Some(Cow::Owned(serde_json::from_str(json).unwrap_or_default())),
    }
}

/// A part of the key that a body names too, in a spelling that only PostgreSQL can compare.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Which part of the key.
    pub part: usize,
    /// The value as JSON text, under the column's name in an object.
    pub json: String,
}

/// Which body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Create,
    Replace,
    Patch { merge: bool },
}

/// Reads the body of a new record. The key, where the path gives it, must not be contradicted.
///
/// # Errors
/// `UNKNOWN_FIELD`, `MISSING_FIELD` or `INVALID_VALUE`, with the field.
pub fn create(
    resource: &Resource,
    key: Option<&Key>,
    members: Vec<Member>,
) -> Result<Assignments, Error> {
    Reader { resource, key, purpose: Purpose::Create }.read(members)
}

/// Reads the body of a whole replacement: writable columns left out return to their default.
///
/// # Errors
/// As [`create`].
pub fn replace(resource: &Resource, key: &Key, members: Vec<Member>) -> Result<Assignments, Error> {
    Reader { resource, key: Some(key), purpose: Purpose::Replace }.read(members)
}

/// Reads the body of a partial change. With `merge`, an object for a JSON column is merged into it.
///
/// # Errors
/// As [`create`], without `MISSING_FIELD`.
pub fn patch(
    resource: &Resource,
    key: &Key,
    members: Vec<Member>,
    merge: bool,
) -> Result<Assignments, Error> {
    Reader { resource, key: Some(key), purpose: Purpose::Patch { merge } }.read(members)
}

/// Reads what brings a deleted record back as it was: `changes`, and over the rest all that its last row holds,
/// also what no body sets. Only what the database gives by itself is left to it.
///
/// # Errors
/// As [`create`].
pub fn revive(
    resource: &Resource,
    key: &Key,
    last: Vec<Member>,
    changes: Vec<Member>,
) -> Result<Assignments, Error> {
    let reader = Reader { resource, key: Some(key), purpose: Purpose::Create };
    let (mut values, claimed) = reader.values(changes)?;
    for (name, value) in last {
        // A column may have been dropped since.
        let place = resource.columns.iter().position(|c| c.name == name && !c.managed);
        if let Some(place) = place.filter(|&place| values[place].is_none()) {
            values[place] = Some(value.get().to_owned());
        }
    }
    reader.complete(&mut values)?;
    Ok(Assignments { claimed, ..reader.assign(values) })
}

struct Reader<'a> {
    resource: &'a Resource,
    key: Option<&'a Key>,
    purpose: Purpose,
}

impl Reader<'_> {
    fn read(&self, members: Vec<Member>) -> Result<Assignments, Error> {
        let (mut values, claimed) = self.values(members)?;
        self.complete(&mut values)?;
        Ok(Assignments { claimed, ..self.assign(values) })
    }

    /// The value of each column that the members set, and the parts of the key that they name.
    fn values(&self, members: Vec<Member>) -> Result<(Vec<Option<String>>, Vec<Claim>), Error> {
        let mut values: Vec<Option<String>> = vec![None; self.resource.columns.len()];
        let mut claimed = Vec::new();
        for (name, value) in members {
            let place = self.resource.columns.iter().position(|c| c.name == name && !c.hidden);
            let Some(place) = place else {
                let message = format!("{} has no field \"{name}\"", self.resource.name);
                return Err(Error::field(Code::UnknownField, &name, message));
            };
            let column = &self.resource.columns[place];
            let value = column.kind.spelled(value);
            match self.taken(place, column, value.get()) {
                Taken::Stored => {
                    check(column, &value)?;
                    values[place] = Some(value.get().to_owned());
                }
                Taken::Claimed(part) => {
                    check(column, &value)?;
                    let name = serde_json::Value::from(name);
                    claimed.push(Claim { part, json: format!("{{{name}:{}}}", value.get()) });
                }
                // The same text in another form of JSON, such as 7 for "7", is not the same value.
                Taken::Same => check(column, &value)?,
                Taken::Ignored => {}
                Taken::Contradiction => return Err(contradiction(column)),
            }
        }
        Ok((values, claimed))
    }

    /// What becomes of a value; a client may send back the whole row it read.
    fn taken(&self, place: usize, column: &Column, value: &str) -> Taken {
        let part = self.resource.key.iter().position(|&k| k == place);
        let (Some(part), Some(key)) = (part, self.key) else {
            return if column.writable() { Taken::Stored } else { Taken::Ignored };
        };
        match key.part_equals(part, value, column) {
            Some(true) => Taken::Same,
            Some(false) => Taken::Contradiction,
            None => Taken::Claimed(part),
        }
    }

    /// Adds what the body may leave out, and finds what it may not.
    fn complete(&self, values: &mut [Option<String>]) -> Result<(), Error> {
        if let Purpose::Patch { .. } = self.purpose {
            return Ok(());
        }
        if self.purpose == Purpose::Create {
            self.give_key(values);
        }
        for (place, column) in self.resource.columns.iter().enumerate() {
            let in_path = self.purpose == Purpose::Replace && self.resource.key.contains(&place);
            if column.required() && values[place].is_none() && !in_path {
                let message = format!("{} is required", column.name);
                return Err(Error::field(Code::MissingField, &column.name, message));
            }
        }
        if self.purpose == Purpose::Create { self.addressable(values) } else { Ok(()) }
    }

    /// Refuses an id that no address can hold: in a path these stand for something else.
    fn addressable(&self, values: &[Option<String>]) -> Result<(), Error> {
        let [place] = self.resource.key.as_slice() else { return Ok(()) };
        let lost = matches!(values[*place].as_deref(), Some(r#""""# | r#"".""# | r#""..""#));
        if lost {
            let name = &self.resource.columns[*place].name;
            let message = format!(
                "{name} is the id in the address, so it must not be empty, \".\" or \"..\""
            );
            return Err(Error::field(Code::InvalidValue, name, message));
        }
        Ok(())
    }

    /// The key of a new record: from the path, from the body, from the column's default, or made.
    fn give_key(&self, values: &mut [Option<String>]) {
        for (part, &place) in self.resource.key.iter().enumerate() {
            let column = &self.resource.columns[place];
            let text = match self.key {
                Some(key) => key.parts.get(part).cloned(),
                None if values[place].is_some() || column.default.is_some() => None,
                None if column.kind == Kind::Uuid => Some(Uuid::now_v7().to_string()),
                None => None,
            };
            if let Some(text) = text {
                values[place] = Some(serde_json::Value::String(text).to_string());
            }
        }
    }

    fn assign(&self, values: Vec<Option<String>>) -> Assignments {
        let mut assignments = Assignments::default();
        for (place, (column, value)) in self.resource.columns.iter().zip(values).enumerate() {
            match value {
                Some(value) => {
                    assignments.set.push(place);
                    let merge = self.purpose == Purpose::Patch { merge: true };
                    if merge && matches!(column.kind, Kind::Json { .. }) && value.starts_with('{') {
                        assignments.merged.push(place);
                    }
                    assignments.values.push(value);
                }
                None if self.purpose == Purpose::Replace
                    && column.writable()
                    && !self.resource.key.contains(&place) =>
                {
                    assignments.defaulted.push(place);
                }
                None => {}
            }
        }
        assignments
    }
}

/// What becomes of one value of a body.
enum Taken {
    Stored,
    Ignored,
    /// It is this part of the key.
    Same,
    /// It may or may not be this part of the key.
    Claimed(usize),
    Contradiction,
}

/// The answer to a body that names another key than the address.
pub(super) fn contradiction(column: &Column) -> Error {
    let message = format!("{} differs from the id in the address", column.name);
    Error::field(Code::InvalidValue, &column.name, message)
}

fn check(column: &Column, value: &RawValue) -> Result<(), Error> {
    let invalid = |wanted: &str| {
        let message = format!("{} must be {wanted}", column.name);
        Error::field(Code::InvalidValue, &column.name, message)
    };
    let json = value.get();
    if json::holds_nul(json) {
        return Err(invalid("free of the character NUL"));
    }
    if json == "null" {
        let refused = column.not_null && !matches!(column.kind, Kind::Json { .. });
        return if refused { Err(invalid("something other than null")) } else { Ok(()) };
    }
    column.kind.check(value).map_err(|wanted| invalid(&wanted))
}
