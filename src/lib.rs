//! Counterfoil puts PostgreSQL tables behind REST resources in which a lost update cannot happen
//! unseen. Every row has a version raised by the database; a write may name the version it was
//! based on, and the check is a predicate of the one UPDATE.
//!
//! The map, in reading order:
//! - [`version`] and [`precondition`]: from the header `If-Match` to the predicate.
//! - [`record`]: the compare-and-set, and what becomes of a write that misses.
//! - [`merge`]: three-way merge of rows, field by field.
//! - [`feed`]: the change log as an order that readers can go on in.
//! - [`catalog`]: what PostgreSQL says the tables are.
//! - [`db`]: connections, migrations, and what the database's errors mean.
//! - [`http`]: routes, envelope, the accept loop.
//! - [`config`], [`service`], [`cli`]: put together and started.
//! - [`postgres`]: the private database of `dev` and the tests.

pub mod batch;
pub mod catalog;
pub mod cli;
pub mod config;
mod console;
pub mod db;
pub mod error;
pub mod feed;
pub mod heavy;
pub mod http;
pub mod json;
pub mod merge;
pub mod operation;
pub mod postgres;
pub mod precondition;
pub mod record;
pub mod service;
pub mod sync;
pub mod version;
