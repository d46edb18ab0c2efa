//! What of a batch may run together, and which rows it is to lock in which order. Pure.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::error::Error;
use crate::record::many::{record_of, shape};
use crate::record::statement::Shape;
use crate::record::{Change, Write};

/// A record as a batch knows it: its resource's name and its key.
pub(super) type Record = (String, Key);

/// The record that an operation is about.
pub(super) fn record(write: &Write) -> Option<Record> {
    Some((write.resource.name.clone(), record_of(write)?))
}

/// How many operations from the first of these on may share a statement, and which.
pub(super) fn together(
    operations: &[Result<Write, Error>],
    places: &[usize],
) -> Option<(Shape, usize)> {
    let write = |place: &usize| operations.get(*place).and_then(|o| o.as_ref().ok());
    let first = places.first().and_then(write)?;
    let shared = shape(first)?;
    let mut seen = HashSet::new();
    let alike = places.iter().map_while(write).take_while(|write| {
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

/// The rows that a batch changes, resource by resource in the order of their names. Empty where a
/// single row needs no order.
pub(super) fn locks(operations: &[Result<Write, Error>]) -> Vec<Locked<'_>> {
    let mut locks: BTreeMap<&str, Locked<'_>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for write in operations.iter().flatten() {
        let Some(key) = &write.key else { continue };
        if write.change.is_err() {
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
