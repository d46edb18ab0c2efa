//! Every way in which a client can be refused, and what it is told.

mod constraints;
mod limits;
mod protocol;
mod rules;
mod waiting;
