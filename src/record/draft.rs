//! From the parts of a request to a write, whatever carries them: a request of its own or a line of a
//! batch. What is wrong with a body becomes the write's change, to be told after existence and
//! preconditions were checked.

use std::sync::Arc;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::error::{Code, Error};
use crate::json::{self, member};
use crate::merge::Resolve;
use crate::precondition::Precondition;
use crate::record::{Change, Run, Verb, Write, body, increment, patch as json_patch};

/// The media types that PATCH takes.
pub const PATCH_TYPES: &str =
    "application/merge-patch+json, application/json, application/json-patch+json";

/// A write before it is known who does it and how.
#[derive(Debug)]
pub struct Draft {
    /// The record, where the request names it.
    pub key: Option<Key>,
    /// Which request it is.
    pub verb: Verb,
    change: Result<Change, Error>,
    precondition: Precondition,
}

impl Draft {
    /// A new record.
    pub fn create(resource: &Resource, precondition: Precondition, bytes: &[u8]) -> Self {
        let change = json::read_object(bytes)
            .and_then(|members| body::create(resource, None, members))
            .map(Change::Create);
        Self { key: None, verb: Verb::Create, change, precondition }
    }

    /// A whole replacement; under `If-None-Match: *` a new record.
    pub fn replace(
        resource: &Resource,
        key: Key,
        precondition: Precondition,
        bytes: &[u8],
    ) -> Self {
        let members = json::read_object(bytes);
        let (verb, change) = if precondition.demands_absence() {
            let body = members.and_then(|m| body::create(resource, Some(&key), m));
            (Verb::Create, body.map(Change::Create))
        } else {
            let body = members.and_then(|m| body::replace(resource, &key, m));
            (Verb::Replace, body.map(Change::Replace))
        };
        Self { key: Some(key), verb, change, precondition }
    }

    /// A partial change, said in this media type.
    pub fn patch(
        resource: &Resource,
        key: Key,
        precondition: Precondition,
        media_type: &str,
        bytes: &[u8],
    ) -> Self {
        let change = if media_type == "application/json-patch+json" {
            json_patch::read(bytes).map(Change::JsonPatch)
        } else {
            let merge = media_type == "application/merge-patch+json";
            json::read_object(bytes)
                .and_then(|members| body::patch(resource, &key, members, merge))
                .map(Change::Patch)
        };
        Self { key: Some(key), verb: Verb::Patch, change, precondition }
    }

    /// A record's end.
    pub fn delete(key: Key, precondition: Precondition) -> Self {
        Self { key: Some(key), verb: Verb::Delete, change: Ok(Change::Delete), precondition }
    }

    /// Numbers raised in place.
    pub fn increment(
        resource: &Resource,
        key: Key,
        precondition: Precondition,
        bytes: &[u8],
    ) -> Self {
        let change = increment::read(resource, bytes).map(Change::Increment);
        Self { key: Some(key), verb: Verb::Increment, change, precondition }
    }

    /// The write.
    pub fn into_write(
        mut self,
        resource: Arc<Resource>,
        on_conflict: Option<Resolve>,
        actor: String,
        run: Run,
    ) -> Write {
        self.demand_if_match(&resource);
        let Self { key, verb, change, precondition } = self;
        let operation = (run == Run::Alone).then(|| Uuid::now_v7().to_string());
        Write {
            resource,
            key,
            verb,
            change,
            precondition,
            had: None,
            on_conflict,
            actor,
            operation,
            run,
        }
    }

    /// Lets the write fail, where the record is there, for want of an `If-Match` that the resource
    /// insists on. That comes ahead of what `If-None-Match` says and of what the body says.
    fn demand_if_match(&mut self, resource: &Resource) {
        let needed = self.verb != Verb::Create && self.precondition.if_match.is_none();
        if resource.settings.require_if_match && needed {
            let message =
                "This resource takes no write without If-Match: read the record and send its ETag";
            self.change = Err(Error::new(Code::PreconditionRequired, message));
            self.precondition = Precondition::default();
        }
    }
}

/// Whether PATCH takes a media type; none named is plain JSON.
///
/// # Errors
/// `UNSUPPORTED_MEDIA_TYPE`.
pub fn demand_patch_type(media_type: &str) -> Result<(), Error> {
    if media_type.is_empty() || PATCH_TYPES.split(", ").any(|taken| taken == media_type) {
        return Ok(());
    }
    Err(unsupported(media_type, PATCH_TYPES).header("accept-patch", PATCH_TYPES))
}

/// The answer to a media type that is not taken.
pub fn unsupported(given: &str, taken: &str) -> Error {
    let message = format!("The body is {given}; this request takes {taken} (Content-Type)");
    Error::new(Code::UnsupportedMediaType, message)
}

/// Reads what `on_conflict` asks for.
///
/// # Errors
/// The words it takes, where it is none of them.
pub fn on_conflict(word: &str) -> Result<Option<Resolve>, &'static str> {
    match word {
        "fail" => Ok(None),
        "merge" => Ok(Some(Resolve::Fail)),
        "merge_mine" => Ok(Some(Resolve::Mine)),
        "merge_theirs" => Ok(Some(Resolve::Theirs)),
        _ => Err("fail, merge, merge_mine or merge_theirs"),
    }
}

/// Reads the member `on_conflict` of a write that is one of several.
///
/// # Errors
/// `INVALID_VALUE`.
pub fn on_conflict_member(value: &RawValue) -> Result<Option<Resolve>, Error> {
    on_conflict(&member::text("on_conflict", value)?).map_err(|wanted| {
        let message = format!("on_conflict must be {wanted}");
        Error::field(Code::InvalidValue, "on_conflict", message)
    })
}
