//! Arrays declared as sets: every addition and every removal counts, order and repeats do not.

use std::collections::HashSet;

use serde_json::Value;

use super::Resolve;
use super::comparison::canonical;
use super::sides::{Combined, Sides};

/// Keeps what both still have and what either added, in theirs' order and then yours'.
pub(super) fn merge_set(sides: Sides<'_>, resolve: Resolve) -> Combined {
    let Some([base, yours, theirs]) = sides.arrays() else {
        return Combined::clash(sides, resolve);
    };
    let members = |array: &[Value]| array.iter().map(canonical).collect::<HashSet<_>>();
    let (in_base, in_yours, in_theirs) = (members(base), members(yours), members(theirs));
    let mut seen = HashSet::new();
    let kept = theirs.iter().chain(yours).filter(|item| {
        let item = canonical(item);
        let stays =
            !in_base.contains(&item) || (in_yours.contains(&item) && in_theirs.contains(&item));
        stays && seen.insert(item)
    });
    Combined { value: Some(kept.cloned().collect()), clash: false }
}
