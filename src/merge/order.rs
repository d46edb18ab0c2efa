//! The order of a keyed array after both sides inserted, removed or moved elements.

use std::collections::{HashMap, HashSet};

use super::Resolve;

/// Keys in their merged order.
pub(super) struct Order<'a> {
    pub(super) keys: Vec<&'a str>,
    /// Whether both sides moved elements, each another way.
    pub(super) clash: bool,
}

/// Takes the order of the side that moved elements (theirs where nobody did) and inserts the
/// other side's new elements after the one they followed.
pub(super) fn merge_order<'a>(
    base: &[&'a str],
    yours: &[&'a str],
    theirs: &[&'a str],
    resolve: Resolve,
) -> Order<'a> {
    let lead = lead(base, yours, theirs);
    let yours_leads = match lead {
        Lead::Yours => true,
        Lead::Theirs => false,
        Lead::Neither => resolve == Resolve::Mine,
    };
    let (main, other) = if yours_leads { (yours, theirs) } else { (theirs, yours) };
    Order { keys: insert(base, main, other), clash: lead == Lead::Neither }
}

#[derive(PartialEq)]
enum Lead {
    Yours,
    Theirs,
    Neither,
}

/// Compares the order of the elements that both sides have, where base has them too.
fn lead<'a>(base: &[&'a str], yours: &[&'a str], theirs: &[&'a str]) -> Lead {
    let (in_base, in_yours, in_theirs) = (set(base), set(yours), set(theirs));
    let shared = |keys: &[&'a str]| -> Vec<&'a str> {
        let keys = keys.iter().copied();
        keys.filter(|key| in_yours.contains(key) && in_theirs.contains(key)).collect()
    };
    let (old, yours, theirs) = (shared(base), shared(yours), shared(theirs));
    let moved = |keys: &[&str]| !keys.iter().filter(|key| in_base.contains(*key)).eq(&old);
    match (moved(&yours), moved(&theirs)) {
        _ if yours == theirs => Lead::Theirs,
        (false, _) => Lead::Theirs,
        (true, false) => Lead::Yours,
        (true, true) => Lead::Neither,
    }
}

fn set<'a>(keys: &[&'a str]) -> HashSet<&'a str> {
    keys.iter().copied().collect()
}

/// Puts what only `other` has after the element it followed there, behind what `main` itself
/// added in that place: the committed side first, and merging again moves nothing.
fn insert<'a>(base: &[&str], main: &[&'a str], other: &[&'a str]) -> Vec<&'a str> {
    let (in_base, in_main) = (set(base), set(main));
    let mut after: HashMap<Option<&str>, Vec<&'a str>> = HashMap::new();
    let mut anchor = None;
    for key in other {
        if in_main.contains(key) {
            anchor = Some(*key);
        } else {
            after.entry(anchor).or_default().push(key);
        }
    }
    let mut waiting = after.remove(&None).unwrap_or_default();
    let mut order = Vec::with_capacity(main.len() + other.len());
    for key in main {
        if in_base.contains(key) {
            order.append(&mut waiting);
        }
        order.push(*key);
        waiting.extend(after.remove(&Some(*key)).unwrap_or_default());
    }
    order.append(&mut waiting);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(base: &str, yours: &str, theirs: &str) -> Option<String> {
        let [base, yours, theirs] =
            [base, yours, theirs].map(|text| text.split_whitespace().collect::<Vec<_>>());
        let merged = merge_order(&base, &yours, &theirs, Resolve::Fail);
        (!merged.clash).then(|| merged.keys.join(" "))
    }

    #[test]
    fn additions_stay_where_they_were_made() {
        assert_eq!(order("1 2", "1 2 y", "1 2 t").unwrap(), "1 2 t y");
        assert_eq!(order("1 2", "y 1 2", "1 t 2").unwrap(), "y 1 t 2");
        assert_eq!(order("1 2", "1 y z 2", "1 t 2").unwrap(), "1 t y z 2");
        assert_eq!(order("", "y", "t").unwrap(), "t y");
    }

    #[test]
    fn one_side_may_move_elements() {
        assert_eq!(order("1 2 3", "3 2 1", "1 2 t 3").unwrap(), "3 2 t 1");
        assert_eq!(order("1 2 3", "1 2 y 3", "3 2 1").unwrap(), "3 2 y 1");
        assert_eq!(order("1 2 3", "3 2 1", "3 2 1").unwrap(), "3 2 1");
    }

    #[test]
    fn two_movers_clash() {
        assert_eq!(order("1 2 3", "3 2 1", "2 1 3"), None);
        assert_eq!(
            order("1", "1 a b", "1 b a"),
            Some("1 b a".to_owned()),
            "nobody moved what was there"
        );
    }
}
