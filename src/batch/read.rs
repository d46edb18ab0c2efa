//! Reads a batch. What is wrong with one operation refuses that operation.

use serde_json::value::RawValue;

use crate::batch::MOST;
use crate::catalog::Catalog;
use crate::catalog::key::Key;
use crate::error::{Code, Error};
use crate::json::{self, member};
use crate::merge::Resolve;
use crate::precondition::Precondition;
use crate::record::draft::{self, Draft};
use crate::record::{Run, Write};

/// Reads `{"atomic": true, "operations": […]}`. A batch that does not say so is atomic.
///
/// # Errors
/// Where the body is no batch.
pub fn read(
    catalog: &Catalog,
    actor: &str,
    bytes: &[u8],
) -> Result<(bool, Vec<Result<Write, Error>>), Error> {
    let (mut atomic, mut operations) = (true, None);
    for (name, value) in json::read_object(bytes)? {
        match name.as_str() {
            "atomic" => atomic = member::flag(&name, &value)?,
            "operations" => operations = Some(member::list(&name, &value, MOST)?),
            _ => {
                let message = format!("A batch has no member \"{name}\"");
                return Err(Error::field(Code::UnknownField, &name, message));
            }
        }
    }
    let operations = operations.ok_or_else(|| member::missing("operations"))?;
    let read = |operation: Box<RawValue>| {
        Operation::read(&operation).and_then(|operation| operation.write(catalog, actor))
    };
    Ok((atomic, operations.into_iter().map(read).collect()))
}

/// One operation as it came.
#[derive(Default)]
struct Operation {
    method: Option<String>,
    resource: Option<String>,
    id: Option<String>,
    if_match: Option<String>,
    if_none_match: Option<String>,
    media_type: String,
    on_conflict: Option<Resolve>,
    body: Option<Box<RawValue>>,
}

impl Operation {
    fn read(raw: &RawValue) -> Result<Self, Error> {
        let members = json::read_object(raw.get().as_bytes()).map_err(|_| {
            Error::new(Code::InvalidValue, "An operation must be an object of its parts")
        })?;
        let mut operation = Self::default();
        for (name, value) in members {
            match name.as_str() {
                "method" => operation.method = Some(member::text(&name, &value)?),
                "resource" => operation.resource = Some(member::text(&name, &value)?),
                "id" => operation.id = Some(member::id(&name, &value)?),
                "if_match" => operation.if_match = Some(header(&name, &value)?),
                "if_none_match" => operation.if_none_match = Some(header(&name, &value)?),
                "media_type" => {
                    operation.media_type = member::text(&name, &value)?.trim().to_ascii_lowercase();
                }
                "on_conflict" => operation.on_conflict = draft::on_conflict_member(&value)?,
                "body" => operation.body = Some(value),
                _ => {
                    let message = format!("An operation has no member \"{name}\"");
                    return Err(Error::field(Code::UnknownField, &name, message));
                }
            }
        }
        Ok(operation)
    }

    /// The write that a request of its own would be, judged in the same order.
    fn write(self, catalog: &Catalog, actor: &str) -> Result<Write, Error> {
        let method = self.method.ok_or_else(|| member::missing("method"))?;
        let name = self.resource.ok_or_else(|| member::missing("resource"))?;
        let resource = catalog.resource(&name).cloned().ok_or_else(|| {
            Error::new(Code::NotFound, format!("There is no resource \"{name}\""))
        })?;
        let key = match (&self.id, method.as_str()) {
            (Some(_), "POST") => {
                let message = "A POST says its id in the body";
                return Err(Error::field(Code::InvalidValue, "id", message));
            }
            (None, "POST") => None,
            (Some(id), _) => Some(Key::from_record_id(id, &resource)?),
            (None, _) => return Err(member::missing("id")),
        };
        if method == "PATCH" {
            draft::demand_patch_type(&self.media_type)?;
        } else if !matches!(self.media_type.as_str(), "" | "application/json") {
            return Err(draft::unsupported(&self.media_type, "application/json"));
        }
        let lines = |line: &Option<String>| line.clone().into_iter().collect::<Vec<_>>();
        let (if_match, if_none_match) = (lines(&self.if_match), lines(&self.if_none_match));
        let precondition = Precondition::from_headers(
            if_match.iter().map(String::as_bytes),
            if_none_match.iter().map(String::as_bytes),
            resource.settings.strict_etags,
        )?;
        let body = self.body.as_ref().map_or("", |body| body.get()).as_bytes();
        let draft = match (method.as_str(), key) {
            ("POST", None) => Draft::create(&resource, precondition, body),
            ("PUT", Some(key)) => Draft::replace(&resource, key, precondition, body),
            ("PATCH", Some(key)) => {
                Draft::patch(&resource, key, precondition, &self.media_type, body)
            }
            ("DELETE", Some(key)) => Draft::delete(key, precondition),
            ("INCREMENT", Some(key)) => Draft::increment(&resource, key, precondition, body),
            _ => {
                let message = "method must be POST, PUT, PATCH, DELETE or INCREMENT";
                return Err(Error::field(Code::InvalidValue, "method", message));
            }
        };
        Ok(draft.into_write(resource, self.on_conflict, actor.to_owned(), Run::Within))
    }
}

/// What a header would hold; a number is a version without quotes. Anything else is a broken header,
/// never an absent one.
fn header(name: &str, value: &RawValue) -> Result<String, Error> {
    member::text_or_number(value).ok_or_else(|| {
        let message = format!("{name} cannot be read: it must be what the header would hold");
        Error::field(Code::InvalidIfMatch, name, message)
    })
}
