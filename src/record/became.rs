//! What became of writes, as it is counted: one word each. Pure.

use crate::error::{Code, Error};
use crate::record::answer::Answer;
use crate::record::{Outcome, conflict};

/// What became of a write, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Became {
    /// It holds.
    Applied,
    /// It holds, combined with what others wrote meanwhile.
    Merged,
    /// The row held all of it already.
    AlreadyApplied,
    /// The row moved.
    Conflict,
    /// The row was deleted.
    Gone,
    /// There is no such row.
    Missing,
    /// The precondition, the body or a constraint stands against it.
    Refused,
    /// The service could not do it, or could not tell what became of it.
    Failed,
}

impl Became {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Merged => "merged",
            Self::AlreadyApplied => "already_applied",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Missing => "missing",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }

    /// Whether nothing was written.
    pub fn is_refusal(self) -> bool {
        !matches!(self, Self::Applied | Self::Merged | Self::AlreadyApplied)
    }

    /// What an answer says of its write.
    pub fn of(answer: &Result<Answer, Error>) -> Self {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Self::of_refusal(error),
        };
        let result = answer.headers.iter().find(|(name, _)| name == "counterfoil-result");
        match result.map(|(_, word)| word.as_str()) {
            Some("merged") => Self::Merged,
            Some("already-applied") => Self::AlreadyApplied,
            _ => Self::Applied,
        }
    }

    /// What a refusal says of its write.
    pub fn of_refusal(error: &Error) -> Self {
        match error.code() {
            conflict::CODE => Self::Conflict,
            Code::RecordDeleted => Self::Gone,
            Code::NotFound => Self::Missing,
            code if code.status() >= 500 => Self::Failed,
            _ => Self::Refused,
        }
    }
}

impl From<&Outcome> for Became {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Applied(_) | Outcome::Created(..) | Outcome::Deleted(_) => Self::Applied,
            Outcome::AlreadyApplied(_) => Self::AlreadyApplied,
            Outcome::Merged(..) => Self::Merged,
            Outcome::Conflict(_) => Self::Conflict,
            Outcome::Gone(_) => Self::Gone,
            Outcome::Missing => Self::Missing,
            Outcome::Unwanted(_) => Self::Refused,
            Outcome::Refused(error) => Self::of_refusal(error),
        }
    }
}
