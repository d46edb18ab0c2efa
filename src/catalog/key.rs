//! The id of a record: the primary key as text. One part stands for itself; the parts of a composite
//! key are joined by commas, each percent-encoded (`10248,11`).

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use uuid::Uuid;

use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::error::{Code, Error};

/// What must be encoded in a path segment (RFC 3986 §3.3) so that it comes back as it was.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The key of one record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The parts in key order, as PostgreSQL writes them.
    pub parts: Vec<String>,
}

impl Key {
    /// Reads a key from a raw path segment.
    ///
    /// # Errors
    /// `INVALID_ID` where it cannot be a key of this resource.
    pub fn from_segment(segment: &str, resource: &Resource) -> Result<Self, Error> {
        let composite = resource.key.len() > 1;
        // A client that encodes the id as one text sends the commas between the parts as %2C, too.
        let segment = match percent_decode_str(segment).decode_utf8() {
            Ok(decoded) if composite && !segment.contains(',') => decoded,
            _ => segment.into(),
        };
        let raw: Vec<&str> =
            if composite { segment.split(',').collect() } else { vec![segment.as_ref()] };
        let parts = raw
            .into_iter()
            .map(|part| percent_decode_str(part).decode_utf8().map(Into::into))
            .collect::<Result<Vec<String>, _>>()
            .map_err(|_| Error::new(Code::InvalidId, "The id is not UTF-8 text"))?;
        Self::new(parts, resource)
    }

    /// Reads a key from its record id, the form that stands in the change log.
    ///
    /// # Errors
    /// As [`Self::from_segment`].
    pub fn from_record_id(id: &str, resource: &Resource) -> Result<Self, Error> {
        if resource.key.len() == 1 {
            Self::new(vec![id.to_owned()], resource)
        } else {
            Self::from_segment(id, resource)
        }
    }

    fn new(parts: Vec<String>, resource: &Resource) -> Result<Self, Error> {
        if parts.len() != resource.key.len() {
            let wanted: Vec<_> = resource.key_columns().map(|c| c.name.as_str()).collect();
            let message = format!("The id must have {} parts: {}", wanted.len(), wanted.join(","));
            return Err(Error::new(Code::InvalidId, message));
        }
        let parts = parts
            .into_iter()
            .zip(resource.key_columns())
            .map(|(part, column)| canonical(part, column))
            .collect::<Result<_, _>>()?;
        Ok(Self { parts })
    }

    /// The record id: what stands in the change log.
    pub fn record_id(&self) -> String {
        match self.parts.as_slice() {
            [part] => part.clone(),
            parts => {
                let escaped = parts.iter().map(|p| p.replace('%', "%25").replace(',', "%2C"));
                escaped.collect::<Vec<_>>().join(",")
            }
        }
    }

    /// The path segment that addresses the record.
    pub fn segment(&self) -> String {
        let mut segment = String::new();
        for (i, part) in self.parts.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let encoded = utf8_percent_encode(part, SEGMENT).to_string();
            let encoded = if self.parts.len() > 1 { encoded.replace(',', "%2C") } else { encoded };
            let _ = write!(segment, "{comma}{encoded}");
        }
        segment
    }

    /// Whether a JSON value in a body stands for the same part of the key; `None` where the two are
    /// spelled differently and only PostgreSQL can tell whether they mean the same.
    pub fn part_equals(&self, part: usize, json: &str, column: &Column) -> Option<bool> {
        let text = match serde_json::from_str::<String>(json) {
            Ok(text) => text,
            Err(_) => json.to_owned(),
        };
        let one_spelling = matches!(column.kind, Kind::Uuid | Kind::Integer(_));
        match canonical(text, column) {
            Ok(text) if self.parts.get(part) == Some(&text) => Some(true),
            _ if one_spelling => Some(false),
            _ => None,
        }
    }
}

/// The spelling that PostgreSQL gives the value, for the types whose rules are short: clients write
/// a UUID in upper case or an integer with a sign, and the change log must find the same row.
fn canonical(part: String, column: &Column) -> Result<String, Error> {
    let invalid = |wanted: String| {
        Error::field(
            Code::InvalidId,
            &column.name,
            format!("The id's part {} must be {wanted}", column.name),
        )
    };
    if part.contains('\0') {
        return Err(invalid("free of the character NUL".to_owned()));
    }
    match &column.kind {
        Kind::Uuid => match Uuid::parse_str(&part) {
            Ok(uuid) => Ok(uuid.to_string()),
            Err(_) => Err(invalid("a UUID".to_owned())),
        },
        Kind::Integer(_) => {
            column.kind.check_text(&part).map_err(invalid)?;
            Ok(part.parse::<i64>().map_or(part, |number| number.to_string()))
        }
        Kind::Text(_) => Ok(part),
        other => other.check_text(&part).map(|()| part).map_err(invalid),
    }
}
