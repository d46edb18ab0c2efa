//! The classical three-way merge of two sequences of lines (diff3).

use std::ops::Range;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::Resolve;
use super::change::Change;

/// Merged lines, and whether two changes met in one place.
#[derive(Debug)]
pub(super) struct Merged<'a> {
    pub(super) lines: Vec<&'a str>,
    pub(super) clash: bool,
}

/// Merges both sides' changes against the base. Changes that overlap or touch, with no unchanged
/// line between them, clash unless they are the same; `resolve` says whose lines then stand.
pub(super) fn diff3<'a>(
    base: &[&'a str],
    yours: &[&'a str],
    theirs: &[&'a str],
    resolve: Resolve,
) -> Merged<'a> {
    let (yours_hunks, theirs_hunks) = (hunks(base, yours), hunks(base, theirs));
    let (mut yours_left, mut theirs_left) = (yours_hunks.as_slice(), theirs_hunks.as_slice());
    let mut merged = Merged { lines: Vec::new(), clash: false };
    let mut at = 0;
    while let Some(region) = Region::next(&mut yours_left, &mut theirs_left) {
        merged.lines.extend(&base[at..region.base.start]);
        let old = &base[region.base.clone()];
        let mine = region.rebuild(base, yours, region.yours);
        let other = region.rebuild(base, theirs, region.theirs);
        let change = Change::of(old, &mine, &other);
        merged.clash |= change == Change::Diverged;
        merged.lines.extend(change.pick(mine, other, resolve));
        at = region.base.end;
    }
    merged.lines.extend(&base[at..]);
    merged
}

/// Base lines that a side replaced, and by which of its lines.
struct Hunk {
    base: Range<usize>,
    side: Range<usize>,
}

fn hunks(base: &[&str], side: &[&str]) -> Vec<Hunk> {
    let ops = capture_diff_slices(Algorithm::Myers, base, side);
    let changes = ops.iter().filter(|op| op.tag() != DiffTag::Equal);
    changes.map(|op| Hunk { base: op.old_range(), side: op.new_range() }).collect()
}

/// A stretch of the base without a line that both sides left alone.
struct Region<'h> {
    base: Range<usize>,
    yours: &'h [Hunk],
    theirs: &'h [Hunk],
}

impl<'h> Region<'h> {
    /// Takes the next hunk and all that overlap or touch it, one after the other.
    fn next(yours: &mut &'h [Hunk], theirs: &mut &'h [Hunk]) -> Option<Self> {
        let first = |hunks: &[Hunk]| hunks.first().map(|hunk| hunk.base.start);
        let start = first(yours).into_iter().chain(first(theirs)).min()?;
        let (mut end, mut taken) = (start, [0, 0]);
        let reaches = |hunks: &[Hunk], at: usize, end: usize| {
            hunks.get(at).filter(|hunk| hunk.base.start <= end).map(|hunk| hunk.base.end.max(end))
        };
        loop {
            if let Some(further) = reaches(yours, taken[0], end) {
                (end, taken[0]) = (further, taken[0] + 1);
            } else if let Some(further) = reaches(theirs, taken[1], end) {
                (end, taken[1]) = (further, taken[1] + 1);
            } else {
                break;
            }
        }
        let (yours_taken, theirs_taken);
        (yours_taken, *yours) = yours.split_at(taken[0]);
        (theirs_taken, *theirs) = theirs.split_at(taken[1]);
        Some(Self { base: start..end, yours: yours_taken, theirs: theirs_taken })
    }

    /// The region as one side has it.
    fn rebuild<'a>(&self, base: &[&'a str], side: &[&'a str], hunks: &[Hunk]) -> Vec<&'a str> {
        let mut lines = Vec::new();
        let mut at = self.base.start;
        for hunk in hunks {
            lines.extend(&base[at..hunk.base.start]);
            lines.extend(&side[hunk.side.clone()]);
            at = hunk.base.end;
        }
        lines.extend(&base[at..self.base.end]);
        lines
    }
}
