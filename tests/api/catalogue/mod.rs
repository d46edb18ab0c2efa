//! The catalogue: tables as they come, as they change under a running server, and as the
//! configuration and the command line speak of them.

mod changes;
mod commands;
mod configuration;
mod northwind;
mod partitions;
