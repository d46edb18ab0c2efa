//! Which requests may share a statement, and the way of a request through its lane. What a lane hands
//! back runs as it would without lanes.

pub mod store;

use std::sync::Arc;

use crate::catalog::Resource;
use crate::catalog::key::Key;

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
