//! Reads a push. What is wrong with one mutation refuses that mutation; what leaves its id in doubt
//! refuses the push.

use std::sync::Mutex;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::catalog::Catalog;
use crate::catalog::key::Key;
use crate::error::{Code, Error};
use crate::json::{self, Member, member};
use crate::merge::Resolve;
use crate::operation::fingerprint::Fingerprint;
use crate::precondition::{Condition, Precondition};
use crate::record::draft::{self, Draft};
use crate::record::many::record_of;
use crate::record::{Run, Write};
use crate::sync::{GREATEST_ID, MOST, Mutation, Push};
use crate::version::Version;

/// Reads `{"client_id": …, "mutations": […]}`.
///
/// # Errors
/// Where the body is no push.
pub fn read(
    catalog: &Catalog,
    actor: &str,
    bytes: &[u8],
    request_id: String,
    keep_days: i32,
) -> Result<Push, Error> {
    let (mut client, mut mutations, mut atomic, mut acknowledged) = (None, None, false, 0);
    for (name, value) in json::read_object(bytes)? {
        match name.as_str() {
            "client_id" => client = Some(client_id(&value)?),
            "mutations" => mutations = Some(member::list(&name, &value, MOST)?),
            "atomic" => atomic = member::flag(&name, &value)?,
            "ack_through" => acknowledged = number(&name, &value, 0)?,
            _ => {
                let message = format!("A push has no member \"{name}\"");
                return Err(Error::field(Code::UnknownField, &name, message));
            }
        }
    }
    let client = client.ok_or_else(|| member::missing("client_id"))?;
    let mutations = mutations.ok_or_else(|| member::missing("mutations"))?;
    let mutation = |(index, raw): (usize, Box<RawValue>)| {
        mutation(catalog, actor, &raw).map_err(|error| error.detail("index", index))
    };
    let mutations =
        mutations.into_iter().enumerate().map(mutation).collect::<Result<Vec<_>, _>>()?;
    let mut pairs = mutations.windows(2).map(|pair| (pair[0].id, pair[1].id));
    let gap = pairs.find(|(before, given)| *given != before + 1);
    let tenant = String::new();
    let became = Mutex::default();
    Ok(Push { tenant, client, atomic, acknowledged, mutations, gap, request_id, keep_days, became })
}

fn client_id(value: &RawValue) -> Result<Uuid, Error> {
    let text = member::text("client_id", value)?;
    Uuid::parse_str(&text).map_err(|_| {
        let message = "client_id must be a UUID, made once for each copy of the client";
        Error::field(Code::InvalidValue, "client_id", message)
    })
}

fn number(name: &str, value: &RawValue, least: i64) -> Result<i64, Error> {
    let number = member::integer(value);
    number.filter(|number| (least..=GREATEST_ID).contains(number)).ok_or_else(|| {
        let message = format!("{name} must be a whole number from {least} to {GREATEST_ID}");
        Error::field(Code::InvalidValue, name, message)
    })
}

fn mutation(catalog: &Catalog, actor: &str, raw: &RawValue) -> Result<Mutation, Error> {
    let members = json::read_object(raw.get().as_bytes()).map_err(|_| {
        let message = "A mutation must be an object of its parts";
        Error::field(Code::InvalidValue, "mutations", message)
    })?;
    let id = members.iter().find(|(name, _)| name == "id");
    let (name, id) = id.ok_or_else(|| member::missing("id"))?;
    let id = number(name, id, 1)?;
    let fingerprint = Fingerprint::of_json(raw.get());
    let parts = Parts::read(id, members);
    let (base, unconditional) = match &parts {
        Ok(parts) => (parts.base_mutation, parts.is_unconditional()),
        Err(_) => (None, false),
    };
    let write = parts.and_then(|parts| parts.write(catalog, actor));
    Ok(Mutation { id, fingerprint, write, base, unconditional })
}

/// A mutation as it came.
#[derive(Default)]
struct Parts {
    op: Option<String>,
    resource: Option<String>,
    record_id: Option<String>,
    base_version: Option<Version>,
    base_mutation: Option<i64>,
    on_conflict: Option<Resolve>,
    data: Option<Box<RawValue>>,
}

impl Parts {
    fn read(id: i64, members: Vec<Member>) -> Result<Self, Error> {
        let mut parts = Self::default();
        for (name, value) in members {
            match name.as_str() {
                "id" => {}
                "op" => parts.op = Some(member::text(&name, &value)?),
                "resource" => parts.resource = Some(member::text(&name, &value)?),
                "record_id" => parts.record_id = Some(member::id(&name, &value)?),
                "base_version" => parts.base_version = Some(version(&name, &value)?),
                "base_mutation" => {
                    let base = number(&name, &value, 1)?;
                    if base >= id {
                        let message = "base_mutation must be the id of an earlier mutation";
                        return Err(Error::field(Code::InvalidValue, &name, message));
                    }
                    parts.base_mutation = Some(base);
                }
                "on_conflict" => parts.on_conflict = draft::on_conflict_member(&value)?,
                "data" => parts.data = Some(value),
                _ => {
                    let message = format!("A mutation has no member \"{name}\"");
                    return Err(Error::field(Code::UnknownField, &name, message));
                }
            }
        }
        if parts.base_version.is_some() && parts.base_mutation.is_some() {
            let message = "A mutation is based on a version or on another mutation, not on both";
            return Err(Error::field(Code::InvalidValue, "base_mutation", message));
        }
        Ok(parts)
    }

    fn is_unconditional(&self) -> bool {
        self.op.as_deref() != Some("create")
            && self.base_version.is_none()
            && self.base_mutation.is_none()
    }

    /// What must hold beforehand. Until it is known what a mutation's base came to, nothing does.
    fn precondition(&self) -> Precondition {
        match (self.base_version, self.op.as_deref()) {
            (_, Some("create")) => Precondition::based_on(Version(0)),
            (Some(version), _) => Precondition::based_on(version),
            (None, _) if self.base_mutation.is_some() => {
                let nothing = Some(Condition::Versions(Vec::new()));
                Precondition { if_match: nothing, if_none_match: None }
            }
            (None, _) => Precondition::default(),
        }
    }

    /// The write that a request of its own would be.
    fn write(self, catalog: &Catalog, actor: &str) -> Result<Write, Error> {
        let precondition = self.precondition();
        let op = self.op.ok_or_else(|| member::missing("op"))?;
        let name = self.resource.ok_or_else(|| member::missing("resource"))?;
        let resource = catalog.resource(&name).cloned().ok_or_else(|| {
            Error::new(Code::NotFound, format!("There is no resource \"{name}\""))
        })?;
        let suits = match (op.as_str(), self.base_version) {
            ("create", Some(version)) => version == Version(0),
            ("patch" | "delete" | "increment", Some(version)) => version != Version(0),
            _ => true,
        };
        if !suits {
            let message = "base_version 0 stands for a record that is not there: create and put take \
                it, and create takes no other";
            return Err(Error::field(Code::InvalidValue, "base_version", message));
        }
        let key = self.record_id.map(|id| Key::from_record_id(&id, &resource)).transpose()?;
        let data = match &self.data {
            Some(data) => data.get().as_bytes(),
            None if op == "delete" => b"",
            None => return Err(member::missing("data")),
        };
        let into = |draft: Draft| {
            draft.into_write(resource.clone(), self.on_conflict, actor.to_owned(), Run::Within)
        };
        let draft = match (op.as_str(), key) {
            ("create", None) => {
                let write = into(Draft::create(&resource, Precondition::default(), data));
                // Where the body says the id, the write is the same as one that names it beside.
                let Some(key) = record_of(&write) else { return Ok(write) };
                let key = Key::from_record_id(&key.record_id(), &resource)?;
                Draft::replace(&resource, key, precondition, data)
            }
            ("create" | "put", Some(key)) => Draft::replace(&resource, key, precondition, data),
            ("patch", Some(key)) => Draft::patch(&resource, key, precondition, "", data),
            ("delete", Some(key)) => Draft::delete(key, precondition),
            ("increment", Some(key)) => Draft::increment(&resource, key, precondition, data),
            ("put" | "patch" | "delete" | "increment", None) => {
                return Err(member::missing("record_id"));
            }
            _ => {
                let message = "op must be create, put, patch, delete or increment";
                return Err(Error::field(Code::InvalidValue, "op", message));
            }
        };
        Ok(into(draft))
    }
}

fn version(name: &str, value: &RawValue) -> Result<Version, Error> {
    let version = member::integer(value).filter(|version| *version >= 0);
    version.map(Version).ok_or_else(|| {
        let message = format!("{name} must be the version of a record, or 0 where there is none");
        Error::field(Code::InvalidValue, name, message)
    })
}
