//! Offline sync, the way up: mutations that a client made while it was away, applied in order and exactly
//! once. Each is the write that a request of its own would be; its result is stored with it.

mod answer;
pub mod http;
pub mod purge;
mod read;
pub mod rxdb;
pub mod store;

use std::sync::Mutex;

use uuid::Uuid;

use crate::error::Error;
use crate::operation::fingerprint::Fingerprint;
use crate::record::Write;
use crate::record::became::Became;

pub use read::read;

/// How many mutations one push may hold.
pub const MOST: usize = 500;

/// The greatest id of a mutation: all whole numbers up to here are ones in every client's language.
pub const GREATEST_ID: i64 = (1 << 53) - 1;

/// A push that is ready to run.
#[derive(Debug)]
pub struct Push {
    /// Whose clients are meant. One tenant, until there is authentication.
    pub tenant: String,
    /// The client.
    pub client: Uuid,
    /// Whether a refusal of one refuses all.
    pub atomic: bool,
    /// The client has the results up to this one.
    pub acknowledged: i64,
    /// The mutations; their ids rise by one, but for a gap.
    pub mutations: Vec<Mutation>,
    /// The first two ids that follow each other and are not in a row. Such a push is refused.
    pub gap: Option<(i64, i64)>,
    /// The request's id, which every refusal bears.
    pub request_id: String,
    /// For how many days the results are kept.
    pub keep_days: i32,
    /// What became of the mutations when they last ran, each by its place, to be counted.
    pub became: Mutex<Vec<(usize, Became)>>,
}

/// One mutation.
#[derive(Debug)]
pub struct Mutation {
    /// Its number in the client's queue.
    pub id: i64,
    /// What tells it, sent again, from another one under the same id.
    pub fingerprint: Fingerprint,
    /// The write; an error where the mutation says nothing that could be done.
    pub write: Result<Write, Error>,
    /// The mutation that it is based on.
    pub base: Option<i64>,
    /// Whether it names no version that it is based on.
    pub unconditional: bool,
}
