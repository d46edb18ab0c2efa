//! The SQL of many writes at once: one statement whose rows come from lists, each with its own key,
//! precondition and body, and whose answers say which of the list they are.

use crate::catalog::Resource;
use crate::record::statement::given::Given;
use crate::record::statement::{actor, inserted, key_parts, record, row, version};

impl Given {
    /// Parameters: a list per part of the key, the lists of the versions wanted, of those not
    /// wanted, and of the bodies, the actor.
    pub(super) fn many(resource: &Resource) -> Self {
        let k = resource.key.len();
        let names: Vec<_> = (0..k).map(|part| format!("k{part}")).collect();
        let lists: Vec<_> = (1..=k + 3).map(|i| format!("${i}::text[]")).collect();
        let list = format!(
            "unnest({}) WITH ORDINALITY AS g({}, wanted, unwanted, body, place)",
            lists.join(", "),
            names.join(", "),
        );
        Self {
            key: names.iter().map(|name| format!("g.{name}")).collect(),
            wanted: "g.wanted".to_owned(),
            unwanted: "g.unwanted".to_owned(),
            body: "g.body".to_owned(),
            actor: k + 4,
            list: Some(list),
        }
    }
}

impl Given {
    /// Parameters: a list per part of the key, the lists of the versions that the clients named and
    /// of the bodies.
    pub(super) fn many_compared(resource: &Resource) -> Self {
        let k = resource.key.len();
        let names: Vec<_> = (0..k).map(|part| format!("k{part}")).collect();
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

/// Parameters: the list of the bodies, the actor. The rows come back in the order of the list.
pub(super) fn insert(resource: &Resource, set: &[usize]) -> String {
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
        actor(2),
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
        if deletes { "UPDATE" } else { "NO KEY UPDATE" },
    )
}
