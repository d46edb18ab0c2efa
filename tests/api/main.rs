//! The promises of API.md, kept against a real PostgreSQL over real HTTP. One file per promise.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test that cannot go on is to fail, and nobody uses this crate"
)]

mod support;

mod demo;
mod interleavings;
mod retention;
mod values;
mod walkthrough;
