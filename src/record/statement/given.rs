//! Where the values of a statement stand: in its parameters, or in lists of them.

use crate::catalog::{Column, Resource};
use crate::precondition::Precondition;
use crate::record::statement::stored::record;
use crate::record::statement::{actor, key_equals, parameters, version};

/// Where a statement takes its values from.
#[derive(Default)]
pub(super) struct Given {
    /// The parts of the key.
    pub(super) key: Vec<String>,
    pub(super) wanted: String,
    pub(super) unwanted: String,
    /// The values of plain columns, as texts.
    pub(super) values: Vec<(usize, String)>,
    /// The JSON that has all other values.
    pub(super) body: String,
    /// What tells the change log who acts.
    pub(super) acts: Vec<String>,
    /// What else goes ahead of the statement.
    pub(super) ahead: Option<String>,
    /// What else the statement reads.
    pub(super) sources: Vec<String>,
    /// Whether its rows come from a list, of which what comes back says which it is.
    pub(super) listed: bool,
}

/// How the values of a write go down: those of plain columns as texts, all others in one JSON object.
/// Reading them from JSON costs PostgreSQL a quarter of the plainest UPDATE.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// The plain columns.
    pub plain: Vec<usize>,
    /// Whether there is an object. Where there is nothing else, it is there too, so that a list of
    /// writes is as long as it is.
    pub body: bool,
}

impl Values {
    /// The values of these columns.
    pub fn of(resource: &Resource, set: &[usize]) -> Self {
        let plain: Vec<_> =
            set.iter().copied().filter(|&place| resource.columns[place].plain).collect();
        let body = plain.is_empty() || plain.len() < set.len();
        Self { plain, body }
    }

    /// How many parameters they are.
    pub(super) fn parameters(&self) -> usize {
        self.plain.len() + usize::from(self.body)
    }
}

impl Given {
    /// Parameters: the key's parts, the versions wanted and those not wanted, who acts, the values.
    pub(super) fn one(resource: &Resource, set: &[usize]) -> Self {
        let k = resource.key.len();
        Self {
            key: parameters(k),
            wanted: format!("${}", k + 1),
            unwanted: format!("${}", k + 2),
            ..Self::new_row(resource, set, k + 3)
        }
    }

    /// Parameters, from this one on: who acts, the values.
    pub(super) fn new_row(resource: &Resource, set: &[usize], first: usize) -> Self {
        let Values { plain, .. } = Values::of(resource, set);
        let value = |(nth, place): (usize, usize)| (place, format!("${}", first + 1 + nth));
        Self {
            body: format!("${}", first + 1 + plain.len()),
            values: plain.into_iter().enumerate().map(value).collect(),
            acts: actor(first),
            ..Self::default()
        }
    }

    /// Parameters of a comparison: the key's parts, the version that the client named, the body.
    /// Nothing is written, so nobody acts.
    pub(super) fn compared(resource: &Resource) -> Self {
        let k = resource.key.len();
        let (wanted, body) = (format!("${}", k + 1), format!("${}", k + 2));
        Self { key: parameters(k), wanted, body, ..Self::default() }
    }

    /// Where nobody would read who acts, it need not be told: that is a fifth of what a single UPDATE
    /// costs.
    pub(super) fn unless_unread(mut self, resource: &Resource) -> Self {
        if !resource.history && !resource.alone {
            self.acts.clear();
        }
        self
    }

    /// Takes the columns of `set` that are not plain from the body, as the row `r`.
    pub(super) fn with_body(mut self, resource: &Resource, set: &[usize]) -> Self {
        let structured: Vec<_> =
            set.iter().copied().filter(|&place| !resource.columns[place].plain).collect();
        if !structured.is_empty() {
            self.sources.push(record(resource, &structured, &self.body));
        }
        self
    }

    /// The value of a plain column, of its type.
    pub(super) fn value(&self, place: usize, column: &Column) -> Option<String> {
        let (_, text) = self.values.iter().find(|(of, _)| *of == place)?;
        Some(format!("{text}::{}", column.cast_type))
    }

    /// What comes back beside the row: which of the list it is, and the key it
    /// was asked for by.
    pub(super) fn place(&self) -> String {
        if self.listed { format!(", g.place, {}", self.key.join(", ")) } else { String::new() }
    }

    /// What goes ahead of the statement, as it stands there.
    pub(super) fn preamble(&self) -> String {
        let acts = self.acts.join(", ");
        let actor = (!acts.is_empty()).then(|| format!("actor AS MATERIALIZED (SELECT {acts})"));
        let all: Vec<_> = actor.into_iter().chain(self.ahead.clone()).collect();
        if all.is_empty() { String::new() } else { format!("WITH {} ", all.join(", ")) }
    }

    /// What the statement reads, behind this word.
    pub(super) fn reading(&self, word: &str) -> String {
        let actor = (!self.acts.is_empty()).then(|| "actor".to_owned());
        let all: Vec<_> = actor.into_iter().chain(self.sources.iter().cloned()).collect();
        if all.is_empty() { String::new() } else { format!(" {word} {}", all.join(", ")) }
    }

    /// The whole of a conditional statement.
    pub(super) fn conditional(&self, resource: &Resource, write: &str, bring: &str) -> String {
        format!(
            "{}{write}{} WHERE {} AND {}",
            self.preamble(),
            self.reading(bring),
            key_equals(resource, &self.key),
            Precondition::predicate(&version(resource), &self.wanted, &self.unwanted),
        )
    }
}
