//! How the statements of a write run.

pub mod store;

/// How the statements of a write run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// By themselves: the one that writes is its own transaction.
    Alone,
    /// In a transaction that is rolled back, to answer what would happen.
    Rehearsal,
    /// In somebody's transaction, who marked the place where the write begins
    /// ([`crate::db::transaction::mark`]).
    Within,
}
