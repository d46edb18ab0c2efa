//! One value as base, yours and theirs have it, and who changed it.

use serde_json::{Map, Value};

use super::Resolve;
use super::comparison::same_json;

/// The three sides of one value; `None` is absent, which is not `null`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) base: Option<&'a Value>,
    pub(super) yours: Option<&'a Value>,
    pub(super) theirs: Option<&'a Value>,
}

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

impl<'a> Sides<'a> {
    /// The classification at the root of every three-way merge.
    pub(super) fn change(self, same: impl Fn(Option<&Value>, Option<&Value>) -> bool) -> Change {
        match (same(self.base, self.yours), same(self.base, self.theirs)) {
            (true, true) => Change::Nobody,
            (false, true) => Change::Yours,
            (true, false) => Change::Theirs,
            (false, false) if same(self.yours, self.theirs) => Change::Same,
            (false, false) => Change::Diverged,
        }
    }

    /// The three sides where each of them has what `part` asks for.
    pub(super) fn all<T>(self, part: impl Fn(&'a Value) -> Option<T>) -> Option<[T; 3]> {
        Some([part(self.base?)?, part(self.yours?)?, part(self.theirs?)?])
    }

    /// The three arrays; a base without a value counts as empty, for what both sides began.
    pub(super) fn arrays(self) -> Option<[&'a [Value]; 3]> {
        let base = match self.base {
            None | Some(Value::Null) => &[],
            Some(base) => base.as_array()?.as_slice(),
        };
        Some([base, self.yours?.as_array()?, self.theirs?.as_array()?])
    }
}

/// What a merge of one value came to.
#[derive(Debug)]
pub(super) struct Combined {
    /// The value, `None` where it was removed. With a clash: resolved one way.
    pub(super) value: Option<Value>,
    /// Whether the two changes truly clash somewhere in it.
    pub(super) clash: bool,
}

impl Combined {
    pub(super) fn clean(value: Option<&Value>) -> Self {
        Self {
            value: value.cloned(),
            clash: false,
        }
    }

    /// Both changes to the whole value cannot stand together.
    pub(super) fn clash(sides: Sides<'_>, resolve: Resolve) -> Self {
        Self {
            value: resolve.pick(sides.yours, sides.theirs).cloned(),
            clash: true,
        }
    }
}

/// Merges JSON values: objects key by key at every depth, anything else as one.
pub(super) fn merge_json(sides: Sides<'_>, resolve: Resolve) -> Combined {
    if let Some(objects) = sides.all(Value::as_object) {
        return merge_objects(objects, resolve);
    }
    match sides.change(|a, b| match (a, b) {
        (Some(a), Some(b)) => same_json(a, b),
        _ => a.is_none() && b.is_none(),
    }) {
        Change::Nobody | Change::Theirs | Change::Same => Combined::clean(sides.theirs),
        Change::Yours => Combined::clean(sides.yours),
        Change::Diverged => Combined::clash(sides, resolve),
    }
}

fn merge_objects([base, yours, theirs]: [&Map<String, Value>; 3], resolve: Resolve) -> Combined {
    let mut merged = Map::new();
    let mut clash = false;
    let new = yours.keys().filter(|key| !theirs.contains_key(*key));
    for key in theirs.keys().chain(new) {
        let sides = Sides {
            base: base.get(key),
            yours: yours.get(key),
            theirs: theirs.get(key),
        };
        let part = merge_json(sides, resolve);
        clash |= part.clash;
        merged.extend(part.value.map(|value| (key.clone(), value)));
    }
    Combined {
        value: Some(Value::Object(merged)),
        clash,
    }
}
