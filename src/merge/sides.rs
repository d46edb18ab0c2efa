//! One value as base, yours and theirs have it, and what a merge makes of it.

use serde_json::{Map, Value};

use super::Resolve;
use super::change::Change;
use super::comparison::Comparison;

/// The three sides of one value; `None` is absent, which is not `null`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) base: Option<&'a Value>,
    pub(super) yours: Option<&'a Value>,
    pub(super) theirs: Option<&'a Value>,
}

impl<'a> Sides<'a> {
    /// Who changed the value, under the equality of its field.
    pub(super) fn change(self, comparison: Comparison) -> Change {
        let same = |a, b| comparison.same(a, b);
        Change::by(same, self.base, self.yours, self.theirs)
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
    /// Both changes to the whole value cannot stand together.
    pub(super) fn clash(sides: Sides<'_>, resolve: Resolve) -> Self {
        Self { value: resolve.pick(sides.yours, sides.theirs).cloned(), clash: true }
    }
}

/// Merges JSON values: objects key by key at every depth, anything else as one.
pub(super) fn merge_json(sides: Sides<'_>, resolve: Resolve) -> Combined {
    if let Some(objects) = sides.all(Value::as_object) {
        return merge_objects(objects, resolve);
    }
    let change = sides.change(Comparison::Json);
    let value = change.pick(sides.yours, sides.theirs, resolve).cloned();
    Combined { value, clash: change == Change::Diverged }
}

fn merge_objects([base, yours, theirs]: [&Map<String, Value>; 3], resolve: Resolve) -> Combined {
    let mut merged = Map::new();
    let mut clash = false;
    let new = yours.keys().filter(|key| !theirs.contains_key(*key));
    for key in theirs.keys().chain(new) {
        let sides = Sides { base: base.get(key), yours: yours.get(key), theirs: theirs.get(key) };
        let part = merge_json(sides, resolve);
        clash |= part.clash;
        merged.extend(part.value.map(|value| (key.clone(), value)));
    }
    Combined { value: Some(Value::Object(merged)), clash }
}
