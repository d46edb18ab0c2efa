//! What a conflict is about: the row the client had, the row it wants, the row as it stands, field
//! by field. Pure; the merge itself is [`crate::merge`]'s.

use serde_json::Value;

use crate::catalog::Resource;
use crate::merge::{self, FieldVerdict, Merge, Resolve, Row, Verdict};

/// What the database told of a conflict, as JSON text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The row at the version that the client named, where the change log still has it.
    pub base: Option<String>,
    /// What the write sets, in the spelling that PostgreSQL gives the values.
    pub sets: Option<String>,
    /// The columns of `sets` that take a merge patch (RFC 7396), by name.
    pub merge_patched: Vec<String>,
}

/// The three sides of a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    base: Option<Row>,
    yours: Row,
    theirs: Row,
    /// Whether it is known what the client wants: a deletion wants no value, and a body that cannot
    /// be used says nothing.
    wished: bool,
}

/// The verdicts on a conflict, as API.md section 4.2 has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// Whether the row that the client had is known.
    pub base_available: bool,
    /// Whether no field truly clashes.
    pub mergeable: bool,
    /// The fields that anybody changed.
    pub fields: Vec<FieldVerdict>,
}

impl Sides {
    /// Puts the sides together; `None` where a text is no row.
    ///
    /// A client that replaces is compared with the row it *had*: compared with the current row, all
    /// that it merely sent back would look like its wish.
    pub fn new(told: &Told, theirs: &str) -> Option<Self> {
        let theirs: Row = serde_json::from_str(theirs).ok()?;
        let base: Option<Row> = match &told.base {
            Some(base) => Some(serde_json::from_str(base).ok()?),
            None => None,
        };
        let mut yours = base.clone().unwrap_or_else(|| theirs.clone());
        if let Some(sets) = &told.sets {
            let sets: Row = serde_json::from_str(sets).ok()?;
            for (field, value) in sets.iter() {
                let value = if told.merge_patched.iter().any(|name| name == field) {
                    patched(yours.get(field), value)
                } else {
                    value.clone()
                };
                yours.set(field, value);
            }
        }
        Some(Self { base, yours, theirs, wished: told.sets.is_some() })
    }

    /// Who changed what.
    pub fn verdicts(&self, resource: &Resource) -> Verdicts {
        let rules = &resource.settings.merge;
        let mut fields = merge::verdicts(self.base.as_ref(), &self.yours, &self.theirs, rules);
        if !self.wished {
            for field in &mut fields {
                field.yours = None;
            }
        }
        let clash = fields.iter().any(|field| field.verdict == Verdict::Both);
        let base_available = self.base.is_some();
        Verdicts { base_available, mergeable: base_available && !clash && self.wished, fields }
    }

    /// Whether it is known what the client wants.
    pub fn wished(&self) -> bool {
        self.wished
    }

    /// The merge of both changes; `None` without a base, where a clash is left to the client, and where it is
    /// not known what the client wants: a merge with nothing would lose its change unseen.
    pub fn merge(&self, resource: &Resource, resolve: Resolve) -> Option<(Row, Vec<FieldVerdict>)> {
        let base = self.base.as_ref().filter(|_| self.wished)?;
        let rules = &resource.settings.merge;
        let Merge { merged, fields } =
            merge::merge(base, &self.yours, &self.theirs, rules, resolve);
        Some((merged?, fields))
    }

    /// The row that the client wants.
    pub fn yours(&self) -> &Row {
        &self.yours
    }

    /// The row as it stands.
    pub fn theirs(&self) -> &Row {
        &self.theirs
    }
}

/// The fields of `merged` that differ from `theirs`, which the merge is to be written over.
pub fn differing<'r>(
    resource: &Resource,
    merged: &'r Row,
    theirs: &Row,
) -> Vec<(&'r str, &'r Value)> {
    let rules = &resource.settings.merge;
    merged.iter().filter(|(name, value)| !rules.same(name, Some(value), theirs.get(name))).collect()
}

fn patched(target: Option<&Value>, patch: &Value) -> Value {
    let mut value = target.cloned().unwrap_or(Value::Null);
    json_patch::merge(&mut value, patch);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(base: &str, sets: &str) -> Told {
        Told { base: Some(base.to_owned()), sets: Some(sets.to_owned()), ..Told::default() }
    }

    #[test]
    fn what_was_merely_sent_back_is_nobodys_change() {
        let base = r#"{"amount": 1000, "memo": null}"#;
        let sides = Sides::new(&told(base, base), r#"{"amount": 1100, "memo": null}"#).unwrap();
        assert_eq!(sides.yours, sides.base.unwrap());
    }

    #[test]
    fn a_merge_patch_is_said_against_the_base() {
        let mut told = told(r#"{"meta": {"a": 1, "b": 2}}"#, r#"{"meta": {"b": null, "c": 3}}"#);
        told.merge_patched = vec!["meta".to_owned()];
        let sides = Sides::new(&told, r#"{"meta": {"a": 9}}"#).unwrap();
        let wanted: Value = serde_json::from_str(r#"{"a": 1, "c": 3}"#).unwrap();
        assert_eq!(sides.yours.get("meta"), Some(&wanted));
    }
}
