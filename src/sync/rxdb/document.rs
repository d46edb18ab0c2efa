//! Rows as documents of RxDB: with `_deleted`, and with a text as their key.

use serde_json::{Map, Number, Value};

use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::merge::Row as Fields;
use crate::version::Version;

/// The member that says that a document is gone.
const DELETED: &str = "_deleted";
/// What RxDB keeps in a document for itself.
const OWN: [&str; 4] = [DELETED, "_rev", "_meta", "_attachments"];

/// A document as a client has it.
#[derive(Debug)]
pub struct Document {
    /// Its fields.
    fields: Fields,
    /// Whether it is gone.
    pub deleted: bool,
}

impl Document {
    /// Takes apart what a client sent.
    pub fn new(sent: &Fields) -> Self {
        let fields = sent.iter().filter(|(name, _)| !OWN.contains(name));
        Self {
            fields: fields.map(|(name, value)| (name.to_owned(), value.clone())).collect(),
            deleted: sent.get(DELETED) == Some(&Value::Bool(true)),
        }
    }

    /// The text of the id; `None` where the key is no text and no number.
    pub fn id(&self, resource: &Resource) -> Option<String> {
        match self.fields.get(&resource.key_columns().next()?.name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The version that the client had; `None` where its documents bear none.
    pub fn version(&self, resource: &Resource) -> Option<Version> {
        let version = self.fields.get(&resource.version_column().name)?.as_i64()?;
        i32::try_from(version).ok().map(Version)
    }

    /// Whether a row has every field as the document has it, apart from those that the server keeps. A
    /// field that is no column is the client's own affair.
    pub fn is_in(&self, resource: &Resource, row: &Fields) -> bool {
        let rules = &resource.settings.merge;
        let same = |name: &str, value: &Value| {
            let there = row.get(name);
            rules.same(name, Some(value), there)
                || rules.same(name, Some(&rounded(value)), there.map(rounded).as_ref())
        };
        let columns = self.fields.iter().filter(|(name, _)| resource.column(name).is_some());
        columns.into_iter().all(|(name, value)| same(name, value))
    }

    /// What the client changed, as the body of a PATCH; `None` where that is nothing.
    pub fn changes(&self, resource: &Resource, assumed: &Self) -> Option<String> {
        let rules = &resource.settings.merge;
        let differs = |(name, value): &(&str, &Value)| {
            !rules.same(name, Some(value), assumed.fields.get(name))
        };
        let mut changes: Map<String, Value> = self
            .fields
            .iter()
            .filter(differs)
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        let emptied = self.emptied(resource, assumed).map(|name| (name.to_owned(), Value::Null));
        changes.extend(emptied);
        (!changes.is_empty()).then(|| Value::Object(changes).to_string())
    }

    /// Whether a row is as the client wants it, who took the server's for `assumed`.
    pub fn holds(&self, resource: &Resource, assumed: Option<&Self>, row: &Fields) -> bool {
        let empty = |name| row.get(name).is_none_or(Value::is_null);
        let emptied = assumed.into_iter().flat_map(|assumed| self.emptied(resource, assumed));
        self.is_in(resource, row) && emptied.into_iter().all(empty)
    }

    /// The fields that the client took out of the document: they are empty.
    fn emptied<'d>(&self, resource: &Resource, assumed: &'d Self) -> impl Iterator<Item = &'d str> {
        let gone = |name: &str| {
            self.fields.get(name).is_none() && resource.column(name).is_some_and(Column::writable)
        };
        let held = assumed.fields.iter().filter(|(_, value)| !value.is_null());
        held.map(|(name, _)| name).filter(move |name| gone(name))
    }

    /// The fields as JSON text.
    pub fn body(&self) -> String {
        serde_json::to_string(&self.fields).unwrap_or_default()
    }

    /// The document of a record that the server has not: it is gone.
    pub fn tombstone(&self) -> String {
        let mut fields = self.fields.clone();
        fields.set(DELETED, Value::Bool(true));
        serde_json::to_string(&fields).unwrap_or_default()
    }
}

/// A value as a client has it that reads numbers as doubles.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            let double = number.as_f64().and_then(Number::from_f64);
            Value::Number(double.unwrap_or_else(|| number.clone()))
        }
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), rounded(member))).collect()
        }
        other => other.clone(),
    }
}

/// Why a resource cannot be replicated; `None` where it can.
pub fn obstacle(resource: &Resource) -> Option<&'static str> {
    if resource.key.len() != 1 {
        return Some("its key has several parts, and RxDB's is one text");
    }
    let own = |name: &str| resource.column(name).is_some();
    OWN.into_iter().any(own).then_some("it has a column with a name that RxDB keeps for itself")
}

/// A row as the text of a document. That of a deletion bears the deletion's version.
pub fn told(resource: &Resource, row: &str, version: Version, deleted: bool) -> String {
    let key = resource.key_columns().next();
    let plain = key.is_none_or(|key| matches!(key.kind, Kind::Text(_) | Kind::Uuid));
    if plain
        && !deleted
        && let Some(rest) = row.strip_prefix('{')
    {
        return format!("{{\"{DELETED}\":false,{rest}");
    }
    let Ok(mut fields) = serde_json::from_str::<Fields>(row) else { return row.to_owned() };
    fields.set(resource.version_column().name.clone(), version.0.into());
    if let Some(key) = key
        && let Some(value) = fields.get(&key.name).filter(|value| !value.is_string())
    {
        let text = value.to_string();
        fields.set(key.name.clone(), Value::String(text));
    }
    fields.set(DELETED, Value::Bool(deleted));
    serde_json::to_string(&fields).unwrap_or_default()
}
