//! The promises of API.md, kept against a real PostgreSQL over real HTTP. One file per promise.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on is to fail"
)]

mod support;

mod console;
mod walkthrough;
