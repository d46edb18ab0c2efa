//! Which requests may share a statement, and the way of a request through its lane. What a lane hands
//! back runs as it would without lanes.

pub mod store;

use std::sync::Arc;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::db::lane::{Left, Mark};
use crate::record::statement::{self, Shape};
use crate::record::{Change, Outcome, Run, Write, many};

/// The most bytes that a write may bring into company: the others wait for it.
const LARGE: usize = 64 << 10;

/// A read of one record, or of several.
#[derive(Debug)]
pub struct Read {
    /// The table, as the catalogue had it when the request came.
    pub resource: Arc<Resource>,
    /// The records.
    pub keys: Vec<Key>,
    /// All that the caller may read, or these columns.
    pub select: Option<Vec<usize>>,
    /// Who reads.
    pub party: Mark,
}

/// A write that may share its statement.
#[derive(Debug)]
pub struct Shared {
    write: Arc<Write>,
    shape: Shape,
    /// Whether others may set other columns in the same statement.
    mixes: bool,
    /// Its record; `None` for one that is to come to be.
    row: Option<Mark>,
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
        let large = match &write.change {
            Ok(Change::Create(body) | Change::Replace(body) | Change::Patch(body)) => {
                body.values.iter().map(String::len).sum::<usize>() > LARGE
            }
            _ => false,
        };
        let shape = many::shape(write).filter(|_| !large)?;
        // Whom a deletion takes along is not known beforehand.
        let takes_along = write.resource.referred && matches!(write.change, Ok(Change::Delete));
        if takes_along {
            return None;
        }
        let row = write.key.as_ref().map(|key| Mark::of((&write.resource.name, key)));
        let mixes = statement::may_mix(&write.resource, &shape);
        Some(Self { write: write.clone(), shape, mixes, row, witness: witness.clone() })
    }

    /// Where to go on with a write that missed though nothing stands against it: it is to be merged, or somebody
    /// has its row locked.
    pub fn unexplained(&self) -> Left {
        let merges = self.write.on_conflict.is_some() || self.write.had.is_some();
        if merges { Left::Missed } else { Left::Waits }
    }

    /// The number of its lane: the same for all writes to one record.
    pub fn lane(&self) -> Option<usize> {
        self.row.map(|row| usize::try_from(row.0 >> 32).unwrap_or(0))
    }
}
