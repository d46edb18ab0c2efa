//! Reads a batch. What is wrong with one operation refuses that operation.

use serde_json::value::RawValue;

use crate::batch::MOST;
use crate::catalog::Catalog;
use crate::catalog::key::Key;
use crate::error::{Code, Error};
use crate::json;
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
            "atomic" => atomic = flag(&value)?,
            "operations" => operations = Some(list(&value)?),
            _ => {
                let message = format!("A batch has no member \"{name}\"");
                return Err(Error::field(Code::UnknownField, &name, message));
            }
        }
    }
    let operations = operations
        .ok_or_else(|| Error::field(Code::MissingField, "operations", "operations is required"))?;
    let read = |operation: Box<RawValue>| {
        Operation::read(&operation).and_then(|operation| operation.write(catalog, actor))
    };
    Ok((atomic, operations.into_iter().map(read).collect()))
}

fn flag(value: &RawValue) -> Result<bool, Error> {
    serde_json::from_str(value.get())
        .map_err(|_| Error::field(Code::InvalidValue, "atomic", "atomic must be true or false"))
}

fn list(value: &RawValue) -> Result<Vec<Box<RawValue>>, Error> {
    let invalid = |message: String| Error::field(Code::InvalidValue, "operations", message);
    let list: Vec<Box<RawValue>> = serde_json::from_str(value.get())
        .map_err(|_| invalid("operations must be a list".to_owned()))?;
    if list.len() > MOST {
        let message = format!("A batch holds at most {MOST} operations");
        return Err(invalid(message).detail("max_operations", MOST));
    }
    Ok(list)
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
                "method" => operation.method = Some(text(&name, &value)?),
                "resource" => operation.resource = Some(text(&name, &value)?),
                "id" => operation.id = Some(id(&value)?),
                "if_match" => operation.if_match = Some(header(&name, &value)?),
                "if_none_match" => operation.if_none_match = Some(header(&name, &value)?),
                "media_type" => {
                    operation.media_type = text(&name, &value)?.trim().to_ascii_lowercase();
                }
                "on_conflict" => operation.on_conflict = on_conflict(&text(&name, &value)?)?,
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
        let missing =
            |name: &str| Error::field(Code::MissingField, name, format!("{name} is required"));
        let method = self.method.ok_or_else(|| missing("method"))?;
        let name = self.resource.ok_or_else(|| missing("resource"))?;
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
            (None, _) => return Err(missing("id")),
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

fn text(name: &str, value: &RawValue) -> Result<String, Error> {
    serde_json::from_str(value.get())
        .map_err(|_| Error::field(Code::InvalidValue, name, format!("{name} must be a text")))
}

fn id(value: &RawValue) -> Result<String, Error> {
    text_or_number(value)
        .ok_or_else(|| Error::field(Code::InvalidId, "id", "id must be a text or a number"))
}

fn text_or_number(value: &RawValue) -> Option<String> {
    let number = || value.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
    match serde_json::from_str(value.get()) {
        Ok(text) => Some(text),
        Err(_) => number().then(|| value.get().to_owned()),
    }
}

/// What a header would hold; a number is a version without quotes. Anything else is a broken header,
/// never an absent one.
fn header(name: &str, value: &RawValue) -> Result<String, Error> {
    text_or_number(value).ok_or_else(|| {
        let message = format!("{name} cannot be read: it must be what the header would hold");
        Error::field(Code::InvalidIfMatch, name, message)
    })
}

fn on_conflict(word: &str) -> Result<Option<Resolve>, Error> {
    draft::on_conflict(word).map_err(|wanted| {
        let message = format!("on_conflict must be {wanted}");
        Error::field(Code::InvalidValue, "on_conflict", message)
    })
}
