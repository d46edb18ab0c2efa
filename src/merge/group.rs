//! Groups of fields that clash as one, such as an amount and its currency.

use std::collections::BTreeSet;

use super::change::Change;
use super::row::Row;
use super::rules::Rules;
use super::sides::Sides;

/// The fields that somebody changed in a group that both sides touched and left different.
pub(super) fn clashing<'r>(
    base: &Row,
    yours: &Row,
    theirs: &Row,
    rules: &'r Rules,
) -> BTreeSet<&'r str> {
    let change = |field: &str| {
        let sides =
            Sides { base: base.get(field), yours: yours.get(field), theirs: theirs.get(field) };
        sides.change(rules.comparison(field))
    };
    let mut clashing = BTreeSet::new();
    for group in &rules.groups {
        let changes: Vec<Change> = group.iter().map(|field| change(field)).collect();
        if clashes(&changes) {
            let fields = group.iter().map(String::as_str).zip(&changes);
            clashing.extend(fields.filter(|(_, c)| **c != Change::Nobody).map(|(field, _)| field));
        }
    }
    clashing
}

fn clashes(changes: &[Change]) -> bool {
    let touched = |by: Change| {
        changes
            .iter()
            .any(|change| *change == by || matches!(change, Change::Same | Change::Diverged))
    };
    let different = changes.iter().any(|c| !matches!(c, Change::Nobody | Change::Same));
    different && touched(Change::Yours) && touched(Change::Theirs)
}
