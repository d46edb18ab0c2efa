//! A first copy: the rows as they stand, page by page in the order of their keys, and the cursor from
//! which to pull what happened meanwhile. No snapshot of the database is held open in between.

pub mod store;

use serde::{Deserialize, Serialize};

use crate::feed::{Filter, Position};

/// How far a first copy came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The resource.
    pub resource: String,
    /// The parts of the last key; none where the resource was only come to.
    pub key: Vec<String>,
}

impl Place {
    /// Reads what [`Self::write`] wrote.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Writes it down.
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The resources of a filter that are still to be copied. Ordered by name, as the filter's are.
    pub fn ahead<'f>(&self, filter: &'f Filter) -> &'f [std::sync::Arc<crate::catalog::Resource>] {
        let done = filter.resources.partition_point(|r| r.name < self.resource);
        filter.resources.get(done..).unwrap_or_default()
    }
}

/// Where a first copy is to go on, and which log it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The log.
    pub epoch: i64,
    /// The place in it from which to pull afterwards: the end of the log before the first row was read.
    pub position: Position,
}
