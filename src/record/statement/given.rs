//! Where the values of a conditional statement stand: in its parameters, or in lists of them.

use crate::catalog::Resource;
use crate::precondition::Precondition;
use crate::record::statement::{actor, key_equals, parameters, version};

/// Where a conditional statement takes its values from.
pub(super) struct Given {
    /// The parts of the key.
    pub(super) key: Vec<String>,
    pub(super) wanted: String,
    pub(super) unwanted: String,
    pub(super) body: String,
    /// What goes ahead of the statement: who acts, and where the list is made beforehand, it.
    pub(super) ahead: String,
    /// The list that the others are columns of, as it stands in FROM.
    pub(super) list: Option<String>,
}

impl Given {
    /// Parameters: the key's parts, the versions wanted and those not wanted, the actor, the body.
    pub(super) fn one(resource: &Resource) -> Self {
        let k = resource.key.len();
        Self {
            key: parameters(k),
            wanted: format!("${}", k + 1),
            unwanted: format!("${}", k + 2),
            ahead: actor(k + 3),
            body: format!("${}", k + 4),
            list: None,
        }
    }

    /// Parameters of a comparison: the key's parts, the version that the client named, the body.
    /// Nothing is written, so nobody acts.
    pub(super) fn compared(resource: &Resource) -> Self {
        let k = resource.key.len();
        let (wanted, body) = (format!("${}", k + 1), format!("${}", k + 2));
        Self {
            key: parameters(k),
            wanted,
            unwanted: String::new(),
            ahead: String::new(),
            body,
            list: None,
        }
    }

    /// What else the statement reads: who acts, the list, and the body's values `r`.
    pub(super) fn sources(&self, record: Option<String>) -> String {
        let all = ["actor".to_owned()].into_iter().chain(self.list.clone()).chain(record);
        all.collect::<Vec<_>>().join(", ")
    }

    /// What comes back beside the row: which of the list it is, and the key it
    /// was asked for by.
    pub(super) fn place(&self) -> String {
        match self.list {
            Some(_) => format!(", g.place, {}", self.key.join(", ")),
            None => String::new(),
        }
    }

    /// The whole of a conditional statement.
    pub(super) fn conditional(&self, resource: &Resource, write: &str, bring: &str) -> String {
        format!(
            "{} {write} {bring} WHERE {} AND {}",
            self.ahead,
            key_equals(resource, &self.key),
            Precondition::predicate(&version(resource), &self.wanted, &self.unwanted),
        )
    }
}
