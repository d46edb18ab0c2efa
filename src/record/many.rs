//! Which writes may share a statement. What they come to is the same as one after the other.

pub mod store;

use crate::catalog::key::Key;
use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::json::member::text_or_number;
use crate::record::statement::Shape;
use crate::record::{Change, Write};

/// The statement that a write may share with others of the same shape, each to a row of its own;
/// `None` where it must run by itself.
pub fn shape(write: &Write) -> Option<Shape> {
    let (resource, precondition) = (&write.resource, &write.precondition);
    match write.change.as_ref().ok()? {
        Change::Create(body) if precondition.if_match.is_none() && body.claimed.is_empty() => {
            Some(Shape::Insert(body.set.clone()))
        }
        _ if precondition.demands_absence() || !one_spelling(resource) => None,
        Change::Replace(body) | Change::Patch(body) if body.claimed.is_empty() => {
            Some(Shape::Update(body.into()))
        }
        Change::Increment(increment) => Some(Shape::Increment(increment.columns.clone())),
        Change::Delete => Some(Shape::Delete),
        Change::Create(_)
        | Change::Replace(_)
        | Change::Patch(_)
        | Change::JsonPatch(_)
        | Change::Merge(..) => None,
    }
}

/// Whether two keys that are spelled differently are two records: a statement changes a row once,
/// however many of its list name it.
pub(super) fn one_spelling(resource: &Resource) -> bool {
    resource.key_columns().all(|column| match column.kind {
        Kind::Uuid | Kind::Integer(_) => true,
        _ => is_plain_text(column),
    })
}

fn is_plain_text(column: &Column) -> bool {
    matches!(column.cast_type.as_str(), "text" | "character varying")
}

/// The record that a write is about, where the request says it: in its address or in its body.
pub fn record_of(write: &Write) -> Option<Key> {
    let Some(key) = &write.key else {
        let Ok(Change::Create(body)) = &write.change else { return None };
        let parts = write.resource.key.iter().map(|place| {
            let nth = body.set.iter().position(|set| set == place)?;
            let value = serde_json::value::RawValue::from_string(body.values.get(nth)?.clone());
            text_or_number(&value.ok()?)
        });
        return Some(Key { parts: parts.collect::<Option<_>>()? });
    };
    Some(key.clone())
}

/// Who makes each of these writes and under which operation, as the change log is to have it: by the
/// record's id, or for new records, whose ids may be still to be given, in their order.
pub(super) fn writers(shape: &Shape, writes: &[&Write]) -> String {
    let creates = matches!(shape, Shape::Insert(_));
    let mut text = String::with_capacity(writes.len() * 128);
    for write in writes {
        text.push(match text.is_empty() {
            true if creates => '[',
            true => '{',
            false => ',',
        });
        if let (false, Some(key)) = (creates, &write.key) {
            push_json(&mut text, &key.record_id());
            text.push(':');
        }
        text.push('[');
        push_json(&mut text, &write.actor);
        text.push(',');
        match &write.operation {
            Some(operation) => push_json(&mut text, operation),
            None => text.push_str("null"),
        }
        text.push(']');
    }
    text.push(if creates { ']' } else { '}' });
    text
}

fn push_json(text: &mut String, value: &str) {
    // PostgreSQL's jsonb holds every text but one with NUL, which no actor and no key has.
    text.push_str(&serde_json::Value::from(value).to_string());
}
