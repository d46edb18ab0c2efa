//! Records that are still to come.

pub(in crate::record) mod store;
