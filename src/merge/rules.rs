//! What the configuration says about merging the fields of one resource.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::Resolve;
use super::comparison::Comparison;
use super::sides::{Combined, Sides, merge_json};
use super::{counter::total, keyed::merge_keyed, set::merge_set, text::merge_text};

/// How the fields of a resource merge: the `merge.*` options of a resource, and how each field
/// compares, which the catalogue adds.
///
/// A field named by no rule is one value, except that JSON objects merge key by key.
///
/// ```
/// let rules: counterfoil::merge::Rules = toml::from_str(r#"
///     groups = [["amount", "currency"]]
///     set = ["tags"]
///     keyed = { lines = "id" }
///     counter = ["views"]
///     text = ["notes"]
/// "#)?;
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Fields that only make sense together, and clash as one.
    pub groups: Vec<Vec<String>>,
    /// Arrays whose elements are merged as a set.
    pub set: BTreeSet<String>,
    /// Arrays of objects whose elements are matched by the named key.
    pub keyed: BTreeMap<String, String>,
    /// Numbers to which both sides' differences are added.
    pub counter: BTreeSet<String>,
    /// Long texts merged line by line.
    pub text: BTreeSet<String>,
    /// How fields compare; [`Comparison::Json`] where nothing is said.
    #[serde(skip)]
    pub comparisons: BTreeMap<String, Comparison>,
}

/// What is wrong with the rules of a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// A rule names a field that the resource has not.
    #[error("merge.{rule} names \"{field}\", which is no field of this resource")]
    UnknownField {
        /// The option.
        rule: &'static str,
        /// The name nobody knows.
        field: String,
    },
    /// A field can follow one rule only.
    #[error("\"{field}\" stands in merge.{first} and again in merge.{second}")]
    NamedTwice {
        /// The field.
        field: String,
        /// The option that named it first.
        first: &'static str,
        /// The option that names it again.
        second: &'static str,
    },
    /// A group of one field is a mistake.
    #[error("a group in merge.groups needs at least two fields")]
    SmallGroup,
}

impl Rules {
    /// Checks that every rule names a known field, and every field follows one rule at most.
    pub fn validate<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> Result<(), RulesError> {
        let known: BTreeSet<&str> = known.into_iter().collect();
        let mut seen = BTreeMap::new();
        for (rule, field) in self.named() {
            let field = field.to_owned();
            if !known.contains(field.as_str()) {
                return Err(RulesError::UnknownField { rule, field });
            }
            if let Some(first) = seen.insert(field.clone(), rule) {
                return Err(RulesError::NamedTwice { field, first, second: rule });
            }
        }
        let small = self.groups.iter().any(|group| group.len() < 2);
        if small { Err(RulesError::SmallGroup) } else { Ok(()) }
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let groups = self.groups.iter().flatten().map(|field| ("groups", field));
        let sets = self.set.iter().map(|field| ("set", field));
        let keyed = self.keyed.keys().map(|field| ("keyed", field));
        let counters = self.counter.iter().map(|field| ("counter", field));
        let texts = self.text.iter().map(|field| ("text", field));
        let all = groups.chain(sets).chain(keyed).chain(counters).chain(texts);
        all.map(|(rule, field)| (rule, field.as_str()))
    }

    /// How a field compares.
    pub fn comparison(&self, field: &str) -> Comparison {
        self.comparisons.get(field).copied().unwrap_or_default()
    }

    /// Whether two values of a field are the same; `None` is absent.
    pub fn same(&self, field: &str, a: Option<&Value>, b: Option<&Value>) -> bool {
        self.comparison(field).same(a, b)
    }

    /// The total of a counter; equal differences count twice: two who each count one are two.
    pub(super) fn counted(&self, field: &str, sides: Sides<'_>) -> Option<Value> {
        self.counter.contains(field).then(|| total(sides)).flatten()
    }

    /// Combines what both sides made of a field, by the rule it is named in.
    pub(super) fn combine(&self, field: &str, sides: Sides<'_>, resolve: Resolve) -> Combined {
        if self.set.contains(field) {
            merge_set(sides, resolve)
        } else if let Some(key) = self.keyed.get(field) {
            merge_keyed(sides, key, resolve)
        } else if let Some(total) = self.counted(field, sides) {
            Combined { value: Some(total), clash: false }
        } else if self.text.contains(field) {
            merge_text(sides, resolve)
        } else {
            merge_json(sides, resolve)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Rules {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn an_unknown_field_is_named() {
        let rules = rules("set = ['tags']\nkeyed = { linez = 'id' }");
        let error = rules.validate(["tags", "lines"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "merge.keyed names \"linez\", which is no field of this resource"
        );
        assert_eq!(rules.validate(["tags", "linez"]), Ok(()));
    }

    #[test]
    fn a_field_follows_one_rule() {
        let error = rules("set = ['a']\ncounter = ['a']").validate(["a"]).unwrap_err();
        assert_eq!(error.to_string(), "\"a\" stands in merge.set and again in merge.counter");
        assert!(rules("groups = [['a', 'b'], ['b', 'c']]").validate(["a", "b", "c"]).is_err());
        assert_eq!(rules("groups = [['a']]").validate(["a"]), Err(RulesError::SmallGroup));
    }

    #[test]
    fn an_unknown_rule_is_refused() {
        assert!(toml::from_str::<Rules>("sets = ['tags']").is_err());
        assert!(toml::from_str::<Rules>("comparisons = {}").is_err());
        assert_eq!(rules(""), Rules::default());
    }
}
