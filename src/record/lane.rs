//! Which requests may share a statement, and the way of a request through its lane. What a lane hands
//! back runs as it would without lanes.

pub mod store;

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::record::statement::Shape;
use crate::record::{Change, Outcome, Run, Write, many};

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
    witness: Witness,
}

/// Is told of every write that ran to its outcome, whether or not its client still waits.
#[derive(Clone)]
pub struct Witness(pub Arc<Told>);

type Told = dyn Fn(&Write, &Outcome) + Send + Sync;

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Witness")
    }
}

impl Witness {
    /// Tells of a write. A rehearsal is none.
    pub fn tell(&self, write: &Write, outcome: &Outcome) {
        if write.run == Run::Alone {
            self.0(write, outcome);
        }
    }
}

impl Shared {
    /// A write that may go through a lane; `None` for one that must run by itself: whoever needs a
    /// transaction, and whatever the table's own rules could take for something else in company.
    pub fn of(write: &Arc<Write>, witness: &Witness) -> Option<Self> {
        if write.run != Run::Alone || write.resource.alone {
            return None;
        }
        let shape = many::shape(write)?;
        // Whom a deletion takes along is not known beforehand.
        let takes_along = write.resource.referred && matches!(write.change, Ok(Change::Delete));
        (!takes_along).then(|| Self { write: write.clone(), shape, witness: witness.clone() })
    }

    /// The number of its lane: the same for all writes to one record.
    pub fn lane(&self) -> Option<usize> {
        let key = self.write.key.as_ref()?;
        let hash = BuildHasherDefault::<DefaultHasher>::default();
        let hash = hash.hash_one((&self.write.resource.name, key));
        Some(usize::try_from(hash >> 32).unwrap_or(0))
    }
}
