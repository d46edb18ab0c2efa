//! The promises of API.md, kept against a real PostgreSQL over real HTTP. One file per promise.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test that cannot go on is to fail, and nobody uses this crate"
)]

mod preconditions;
mod support;

mod batch;
mod catalogue;
mod console;
mod demo;
mod errors;
mod feed;
mod fuzzed;
mod idempotency;
mod increments;
mod interleavings;
mod lanes;
mod lists;
mod merging;
mod metrics;
mod model;
mod openapi;
mod operations;
mod push;
mod retention;
mod rxdb;
mod values;
mod walkthrough;
