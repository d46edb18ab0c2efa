//! What of several writes may run together, and which rows are to be locked in which order. Pure.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::record::many::{record_of, shape};
use crate::record::statement::Shape;
use crate::record::{Change, Write};

/// A record's resource, by name, and its key.
pub(super) type Record = (String, Key);

/// The record that a write is about.
pub(super) fn record(write: &Write) -> Option<Record> {
    Some((write.resource.name.clone(), record_of(write)?))
}

/// How many writes from the first of these on may share a statement, and which.
pub(super) fn together<'w>(
    writes: impl Iterator<Item = Option<&'w Write>>,
) -> Option<(Shape, usize)> {
    let mut writes = writes.map_while(|write| write).peekable();
    let first = *writes.peek()?;
    let shared = shape(first)?;
    let mut seen = HashSet::new();
    let alike = writes.take_while(|write| {
        Arc::ptr_eq(&write.resource, &first.resource)
            && shape(write).as_ref() == Some(&shared)
            && record_of(write).is_none_or(|key| seen.insert(key))
    });
    let count = alike.count();
    (count > 1).then_some((shared, count))
}

/// The rows of one resource that are to be locked.
pub(super) struct Locked<'a> {
    pub(super) resource: &'a Resource,
    pub(super) keys: Vec<&'a Key>,
    pub(super) deletes: bool,
}

/// The rows that writes change, resource by resource in the order of their names. Empty where a
/// single row needs no order.
pub(super) fn locks<'w>(writes: impl Iterator<Item = &'w Write>) -> Vec<Locked<'w>> {
    let mut locks: BTreeMap<&str, Locked<'_>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for write in writes {
        let Some(key) = &write.key else { continue };
        if matches!(write.change, Err(_) | Ok(Change::Create(_))) {
            continue;
        }
        let name = write.resource.name.as_str();
        let lock = locks.entry(name).or_insert_with(|| Locked {
            resource: &write.resource,
            keys: Vec::new(),
            deletes: false,
        });
        lock.deletes |= matches!(write.change, Ok(Change::Delete));
        if seen.insert((name, key)) {
            lock.keys.push(key);
        }
    }
    if seen.len() < 2 { Vec::new() } else { locks.into_values().collect() }
}
