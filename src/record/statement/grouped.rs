//! The SQL of many writes at once: one statement whose rows come from lists, each with its own key,
//! precondition and body, and whose answers say which of the list they are.

use crate::catalog::Resource;
use crate::record::statement::given::{Given, Values};
use crate::record::statement::{actor, key_equals, row, version};

impl Given {
    /// Parameters: a list per part of the key, the lists of the versions wanted and of those not
    /// wanted, who acts, the lists of the values.
    pub(super) fn many(resource: &Resource, set: &[usize]) -> Self {
        let list = Lists::of_writes(resource, set).source();
        let acts = actor(resource.key.len() + 3);
        Self { acts, sources: vec![list], ..Self::listed(resource, set) }
    }

    /// As [`Self::many`], but for who acts: a text that names each one's actor and operation. Rows that
    /// somebody holds locked are left out.
    pub(super) fn each(resource: &Resource, set: &[usize], deletes: bool) -> Self {
        Self::free(resource, set, deletes, &Lists::of_writes(resource, set))
    }

    /// As [`Self::each`], where not every row sets all of `set`: one more list has a number for each,
    /// whose bits say which of them it does.
    pub(super) fn mixed(resource: &Resource, set: &[usize]) -> Self {
        let mut lists = Lists::of_writes(resource, set);
        let last = resource.key.len() + 3 + Values::of(resource, set).parameters();
        lists.push("sets", "int8", last + 1);
        Self::free(resource, set, false, &lists)
    }

    fn free(resource: &Resource, set: &[usize], deletes: bool, lists: &Lists) -> Self {
        let free = format!(
            "free AS MATERIALIZED (SELECT g.* FROM {} JOIN {} AS t ON {} ORDER BY {} \
             FOR {} OF t SKIP LOCKED)",
            lists.source(),
            resource.table,
            key_equals(resource, &keys(resource)),
            order(resource),
            strength(deletes),
        );
        let sources = vec!["free AS g".to_owned()];
        let acts = writers(resource.key.len() + 3);
        Self { acts, ahead: Some(free), sources, ..Self::listed(resource, set) }
    }

    fn listed(resource: &Resource, set: &[usize]) -> Self {
        let value = |(nth, place): (usize, usize)| (place, format!("g.v{nth}"));
        Self {
            key: keys(resource),
            wanted: "g.wanted".to_owned(),
            unwanted: "g.unwanted".to_owned(),
            values: Values::of(resource, set).plain.into_iter().enumerate().map(value).collect(),
            body: "g.body".to_owned(),
            listed: true,
            ..Self::default()
        }
    }

    /// Parameters: who acts, the lists of the values.
    pub(super) fn new_rows(resource: &Resource, set: &[usize], acts: Vec<String>) -> Self {
        let mut lists = Lists::default();
        lists.values(&Values::of(resource, set), 2);
        Self { acts, sources: vec![lists.source()], ..Self::listed(resource, set) }
    }

    /// Parameters: a list per part of the key, the lists of the versions that the clients named and
    /// of the bodies.
    pub(super) fn many_compared(resource: &Resource) -> Self {
        let k = resource.key.len();
        let mut lists = Lists::keys(resource);
        lists.push("yours", "int4", k + 1);
        lists.push("body", "text", k + 2);
        Self {
            wanted: "g.yours".to_owned(),
            sources: vec![lists.source()],
            ..Self::listed(resource, &[])
        }
    }
}

/// Lists of equal length, each a parameter.
#[derive(Default)]
struct Lists {
    names: Vec<String>,
    parameters: Vec<String>,
}

impl Lists {
    fn keys(resource: &Resource) -> Self {
        let mut lists = Self::default();
        for (part, name) in names(resource).iter().enumerate() {
            lists.push(name, "text", part + 1);
        }
        lists
    }

    fn of_writes(resource: &Resource, set: &[usize]) -> Self {
        let k = resource.key.len();
        let mut lists = Self::keys(resource);
        lists.push("wanted", "text", k + 1);
        lists.push("unwanted", "text", k + 2);
        lists.values(&Values::of(resource, set), k + 4);
        lists
    }

    fn values(&mut self, values: &Values, first: usize) {
        for nth in 0..values.plain.len() {
            self.push(&format!("v{nth}"), "text", first + nth);
        }
        if values.body {
            self.push("body", "text", first + values.plain.len());
        }
    }

    fn push(&mut self, name: &str, kind: &str, parameter: usize) {
        self.names.push(name.to_owned());
        self.parameters.push(format!("${parameter}::{kind}[]"));
    }

    /// The rows that they are, as they stand in FROM.
    fn source(&self) -> String {
        let (lists, names) = (self.parameters.join(", "), self.names.join(", "));
        format!("unnest({lists}) WITH ORDINALITY AS g({names}, place)")
    }
}

/// The names of the key's parts in a list.
fn names(resource: &Resource) -> Vec<String> {
    (0..resource.key.len()).map(|part| format!("k{part}")).collect()
}

/// The parts of the key in a row of a list.
fn keys(resource: &Resource) -> Vec<String> {
    names(resource).iter().map(|name| format!("g.{name}")).collect()
}

/// The order in which everybody takes rows.
fn order(resource: &Resource) -> String {
    let order: Vec<_> = resource.key_columns().map(|c| format!("t.{}", c.quoted)).collect();
    order.join(", ")
}

/// Names each write's actor and operation to the change log, for this statement only.
pub(super) fn writers(parameter: usize) -> Vec<String> {
    vec![format!("set_config('counterfoil.writers', ${parameter}, true)")]
}

fn strength(deletes: bool) -> &'static str {
    if deletes { "UPDATE" } else { "NO KEY UPDATE" }
}

/// Parameters: a list per part of the key. Gives the rows that are there, with the place and the key
/// that each was asked for by.
pub(super) fn get(resource: &Resource, select: Option<&[usize]>) -> String {
    let keys = keys(resource);
    format!(
        "SELECT {}, {}, g.place, {} FROM {} JOIN {} AS t ON {}",
        version(resource),
        row(resource, select),
        keys.join(", "),
        Lists::keys(resource).source(),
        resource.table,
        key_equals(resource, &keys),
    )
}

/// Parameters: a list per part of the key.
pub(super) fn lock(resource: &Resource, deletes: bool) -> String {
    format!(
        "SELECT count(*) FROM (SELECT FROM {} AS t JOIN {} ON {} ORDER BY {} FOR {} OF t) AS locked",
        resource.table,
        Lists::keys(resource).source(),
        key_equals(resource, &keys(resource)),
        order(resource),
        strength(deletes),
    )
}
