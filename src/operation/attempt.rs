//! Attempts that came to nothing: what they leave behind, and when an operation is blocked.

use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::operation::Claimed;
use crate::record::failure;

/// How many attempts may fail before an operation is blocked.
pub const MOST: i32 = 5;

/// How many failed attempts are kept as evidence, the newest.
pub const KEPT: i32 = 20;

/// Why an attempt is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The service or the database failed at it. Trying again is likely to end in the same way.
    Within,
    /// The connection was lost under COMMIT, and the database stayed away. It is found not to have
    /// been done.
    Unknown,
}

impl Failed {
    /// The word for it in the evidence: an error code.
    pub fn code(self) -> &'static str {
        match self {
            Self::Within => Code::Internal.as_str(),
            Self::Unknown => Code::OutcomeUnknown.as_str(),
        }
    }

    /// How many attempts there may be before this one blocks; `None` where it never does: that the
    /// database was away says nothing against the operation.
    pub fn most(self) -> Option<i32> {
        (self == Self::Within).then_some(MOST)
    }

    /// Whether an attempt is one to write down. Refusals use no key up, and what passes by itself,
    /// such as a lock or a full queue, is no failure of the operation.
    pub fn of(attempt: &Result<Claimed, Fault>) -> Option<Self> {
        let internal = |error: &Error| error.code() == Code::Internal;
        match attempt {
            Err(Fault::OutcomeUnknown | Fault::Settled) => Some(Self::Unknown),
            Err(fault) => internal(&failure::failure(fault)).then_some(Self::Within),
            Ok(Claimed::First(Err(error))) => internal(error).then_some(Self::Within),
            Ok(_) => None,
        }
    }
}
