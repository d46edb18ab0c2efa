//! The promises of API.md, kept against a real PostgreSQL over real HTTP. One file per promise.

mod support;

mod fuzzed;
mod openapi;
mod walkthrough;
