//! What is left of a write whose answer was lost: the change log names the operation of every change.

pub mod store;

use crate::record::Outcome;

/// What the change log says of a write whose session has ended.
#[derive(Debug)]
pub enum Evidence {
    /// It was made, and came to this.
    Made(Outcome),
    /// It was not made and never will be.
    NotMade,
    /// The log does not say, as the resource keeps no history or the record's id is not known, and the
    /// record itself does not either.
    Unclear,
}
