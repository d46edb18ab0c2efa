//! Who changed a value: the classification at the root of every three-way merge.

use super::Resolve;

/// Who changed a value since the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Nobody,
    Yours,
    Theirs,
    /// Both, to the same value.
    Same,
    /// Both, to different values.
    Diverged,
}

impl Change {
    pub(super) fn of<T: PartialEq + ?Sized>(base: &T, yours: &T, theirs: &T) -> Self {
        Self::by(T::eq, base, yours, theirs)
    }

    /// The change under an equality of the caller's own.
    pub(super) fn by<T: Copy>(same: impl Fn(T, T) -> bool, base: T, yours: T, theirs: T) -> Self {
        match (same(base, yours), same(base, theirs)) {
            (true, true) => Self::Nobody,
            (false, true) => Self::Yours,
            (true, false) => Self::Theirs,
            (false, false) if same(yours, theirs) => Self::Same,
            (false, false) => Self::Diverged,
        }
    }

    /// The side that has the outcome: who changed it, and theirs where that says nothing.
    pub(super) fn pick<T>(self, yours: T, theirs: T, resolve: Resolve) -> T {
        match self {
            Self::Yours => yours,
            Self::Nobody | Self::Theirs | Self::Same => theirs,
            Self::Diverged => resolve.pick(yours, theirs),
        }
    }
}
