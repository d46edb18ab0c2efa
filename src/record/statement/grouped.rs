//! The SQL of many writes at once: one statement whose rows come from lists, each with its own key,
//! precondition and body, and whose answers say which of the list they are.

use crate::catalog::Resource;
use crate::record::statement::given::Given;
use crate::record::statement::{actor, inserted, key_equals, key_parts, record, row, version};

impl Given {
    /// Parameters: a list per part of the key, the lists of the versions wanted, of those not
    /// wanted, and of the bodies, the actor.
    pub(super) fn many(resource: &Resource) -> Self {
        Self::listed(resource, actor(resource.key.len() + 4), list(resource))
    }

    /// As [`Self::many`], but for the last parameter, which names each one's actor and operation. Rows
    /// that somebody holds locked are left out.
    pub(super) fn each(resource: &Resource, deletes: bool) -> Self {
        let names = names(resource);
        let keys: Vec<_> = names.iter().map(|name| format!("g.{name}")).collect();
        let order: Vec<_> = resource.key_columns().map(|c| format!("t.{}", c.quoted)).collect();
        let ahead = format!(
            "{}, free AS MATERIALIZED (SELECT g.* FROM {} JOIN {} AS t ON {} ORDER BY {} \
             FOR {} OF t SKIP LOCKED)",
            writers(resource.key.len() + 4),
            list(resource),
            resource.table,
            key_equals(resource, &keys),
            order.join(", "),
            strength(deletes),
        );
        Self::listed(resource, ahead, "free AS g".to_owned())
    }

    fn listed(resource: &Resource, ahead: String, list: String) -> Self {
        Self {
            key: names(resource).iter().map(|name| format!("g.{name}")).collect(),
            wanted: "g.wanted".to_owned(),
            unwanted: "g.unwanted".to_owned(),
            body: "g.body".to_owned(),
            ahead,
            list: Some(list),
        }
    }
}

impl Given {
    /// Parameters: a list per part of the key, the lists of the versions that the clients named and
    /// of the bodies.
    pub(super) fn many_compared(resource: &Resource) -> Self {
        let (k, names) = (resource.key.len(), names(resource));
        let lists: Vec<_> = (1..=k).map(|i| format!("${i}::text[]")).collect();
        let list = format!(
            "unnest({}, ${}::int4[], ${}::text[]) WITH ORDINALITY AS g({}, yours, body, place)",
            lists.join(", "),
            k + 1,
            k + 2,
            names.join(", "),
        );
        Self {
            key: names.iter().map(|name| format!("g.{name}")).collect(),
            wanted: "g.yours".to_owned(),
            body: "g.body".to_owned(),
            list: Some(list),
            ..Self::compared(resource)
        }
    }
}

/// The names of the key's parts in a list.
fn names(resource: &Resource) -> Vec<String> {
    (0..resource.key.len()).map(|part| format!("k{part}")).collect()
}

/// The list of what each write gives, made of parameters.
fn list(resource: &Resource) -> String {
    let lists: Vec<_> = (1..=resource.key.len() + 3).map(|i| format!("${i}::text[]")).collect();
    format!(
        "unnest({}) WITH ORDINALITY AS g({}, wanted, unwanted, body, place)",
        lists.join(", "),
        names(resource).join(", "),
    )
}

/// Names each write's actor and operation to the change log, for this statement only.
pub(super) fn writers(parameter: usize) -> String {
    format!(
        "WITH actor AS MATERIALIZED (SELECT set_config('counterfoil.writers', ${parameter}, true))"
    )
}

fn strength(deletes: bool) -> &'static str {
    if deletes { "UPDATE" } else { "NO KEY UPDATE" }
}

/// Parameters: a list per part of the key. Gives the rows that are there, with the place and the key
/// that each was asked for by.
pub(super) fn get(resource: &Resource, select: Option<&[usize]>) -> String {
    let k = resource.key.len();
    let lists: Vec<_> = (1..=k).map(|i| format!("${i}::text[]")).collect();
    let names = names(resource);
    let keys: Vec<_> = names.iter().map(|name| format!("g.{name}")).collect();
    format!(
        "SELECT {}, {}, g.place, {} FROM unnest({}) WITH ORDINALITY AS g({}, place) JOIN {} AS t ON {}",
        version(resource),
        row(resource, select),
        keys.join(", "),
        lists.join(", "),
        names.join(", "),
        resource.table,
        key_equals(resource, &keys),
    )
}

/// Parameters: the list of the bodies, and who acts, which stands `ahead`. The rows come back in the
/// order of the list.
pub(super) fn insert(resource: &Resource, set: &[usize], ahead: &str) -> String {
    let columns = set.iter().map(|&i| &resource.columns[i]);
    let names: String = columns.clone().map(|c| c.quoted.clone() + ", ").collect();
    let values: String = columns.map(|c| inserted(c) + ", ").collect();
    let body = if set.is_empty() {
        String::new()
    } else {
        format!(", {}", record(resource, set, "g.body"))
    };
    format!(
        "{} INSERT INTO {} AS t ({names}{}) SELECT {values}1 FROM actor, \
         unnest($1::text[]) WITH ORDINALITY AS g(body, place){body} ORDER BY g.place \
         RETURNING {}, {}, {}",
        ahead,
        resource.table,
        resource.version_column().quoted,
        version(resource),
        row(resource, None),
        key_parts(resource),
    )
}

/// Parameters: a list per part of the key.
pub(super) fn lock(resource: &Resource, deletes: bool) -> String {
    let lists: Vec<_> = (1..=resource.key.len()).map(|i| format!("${i}::text[]")).collect();
    let names: Vec<_> = (0..resource.key.len()).map(|part| format!("k{part}")).collect();
    let same = resource.key_columns().zip(&names);
    let same: Vec<_> =
        same.map(|(c, name)| format!("t.{} = g.{name}::{}", c.quoted, c.cast_type)).collect();
    let order: Vec<_> = resource.key_columns().map(|c| format!("t.{}", c.quoted)).collect();
    format!(
        "SELECT count(*) FROM (SELECT FROM {} AS t JOIN unnest({}) AS g({}) ON {} ORDER BY {} \
         FOR {} OF t) AS locked",
        resource.table,
        lists.join(", "),
        names.join(", "),
        same.join(" AND "),
        order.join(", "),
        strength(deletes),
    )
}
