//! Which requests may share a statement, and the way of a request through its lane. What a lane hands
//! back runs as it would without lanes.

pub mod store;

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::record::statement::Shape;
use crate::record::{Change, Run, Write, many};

/// A read of one record.
#[derive(Debug)]
pub struct Read {
    /// The table, as the catalogue had it when the request came.
    pub resource: Arc<Resource>,
    /// The record.
    pub key: Key,
    /// All that the caller may read, or these columns.
    pub select: Option<Vec<usize>>,
}

/// A write that may share its statement.
#[derive(Debug)]
pub struct Shared {
    write: Arc<Write>,
    shape: Shape,
}

impl Shared {
    /// A write that may go through a lane; `None` for one that must run by itself: whoever needs a
    /// transaction, and whatever the tables own rules could take for something else in company.
    pub fn of(write: &Arc<Write>) -> Option<Self> {
        if write.run != Run::Alone || write.resource.alone {
            return None;
        }
        let shape = many::shape(write)?;
        // Whom a deletion takes along is not known beforehand.
        let takes_along = write.resource.referred && matches!(write.change, Ok(Change::Delete));
        (!takes_along).then(|| Self { write: write.clone(), shape })
    }

    /// The number of its lane: the same for all writes to one record.
    pub fn lane(&self) -> Option<usize> {
        let key = self.write.key.as_ref()?;
        let hash = BuildHasherDefault::<DefaultHasher>::default();
        let hash = hash.hash_one((&self.write.resource.name, key));
        Some(usize::try_from(hash >> 32).unwrap_or(0))
    }
}
