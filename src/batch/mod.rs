//! Several writes as one request: the same writes as single ones, in the order given, in one
//! transaction. Atomic, all of them hold or none; else each for itself.

mod answer;
pub mod http;
mod read;
pub mod store;

use std::sync::Mutex;

use crate::error::Error;
use crate::record::Write;
use crate::record::became::Became;

pub use read::read;

/// How many operations a batch may hold.
pub const MOST: usize = 500;

/// A batch that is ready to run.
#[derive(Debug)]
pub struct Batch {
    /// The operations in order; an error where one says nothing that could be done.
    pub operations: Vec<Result<Write, Error>>,
    /// Whether a refusal of one refuses all.
    pub atomic: bool,
    /// Whether to answer what would happen and write nothing.
    pub dry_run: bool,
    /// Whether the rows written are to be left out of the answer.
    pub minimal: bool,
    /// The request's id, which every refusal bears.
    pub request_id: String,
    /// What became of each operation when it last ran, to be counted.
    pub became: Mutex<Vec<Became>>,
}
