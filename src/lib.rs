//! Counterfoil puts PostgreSQL tables behind REST resources in which a lost update cannot happen
//! unseen. Every row has a version raised by the database; a write may name the version it was
//! based on, and the check is a predicate of the one UPDATE.

pub mod merge;
