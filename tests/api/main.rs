//! The promises of API.md, kept against a real PostgreSQL over real HTTP. One file per promise.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod support;

mod interleavings;
mod walkthrough;
