//! Line endings, merged as a value of their own.

use super::Resolve;
use super::change::Change;

/// How a text ends its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It has one line only.
    Unknown,
    Lf,
    CrLf,
    Mixed,
}

impl Ending {
    pub(super) fn of(text: &str) -> Self {
        match (text.matches('\n').count(), text.matches("\r\n").count()) {
            (0, _) => Self::Unknown,
            (_, 0) => Self::Lf,
            (all, crlf) if all == crlf => Self::CrLf,
            _ => Self::Mixed,
        }
    }

    /// What ends the lines of the merged text, and whether the two sides clash over it.
    pub(super) fn merge(
        [base, yours, theirs]: [Self; 3],
        resolve: Resolve,
    ) -> (&'static str, bool) {
        let known = |ending| {
            if ending == Self::Unknown { base } else { ending }
        };
        let (yours, theirs) = (known(yours), known(theirs));
        let change = Change::of(&base, &yours, &theirs);
        let crlf = change.pick(yours, theirs, resolve) == Self::CrLf;
        (if crlf { "\r\n" } else { "\n" }, change == Change::Diverged)
    }
}
