//! Lists that name their records, as those who look up what they refer to ask for them. They take the
//! lanes: twenty clients who look up ten records each are one statement.

use std::sync::atomic::Ordering;

use uuid::Uuid;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::catalog::kind::Kind;
use crate::record::list::Page;
use crate::record::query::{Filter, Order, Query, Test};
use crate::record::store::Found;

/// How many records such a list may name.
const MOST: usize = 64;

/// The records that a list names, in their order.
#[derive(Debug)]
pub struct Ids {
    /// Each once, from low to high.
    pub keys: Vec<Key>,
    /// Whether they are asked for from high to low.
    pub descending: bool,
}

impl Ids {
    /// The records that a query names, where it asks for nothing but records by their ids; `None` for
    /// any other, and where their order is for the database to know.
    pub fn of(resource: &Resource, query: &Query) -> Option<Self> {
        let Query { filters, order, limit, after: None, .. } = query else { return None };
        let ([key], [Filter::Compare(column, Test::In(ids))]) =
            (resource.key.as_slice(), filters.as_slice())
        else {
            return None;
        };
        let descending = match order.as_slice() {
            [] => false,
            [Order { column, descending, .. }] if column == key => *descending,
            _ => return None,
        };
        // Rows that may be too many bytes for a page are the usual way's to measure.
        let large = resource.large.load(Ordering::Relaxed);
        if column != key || ids.len() > MOST.min(*limit) || large {
            return None;
        }
        let mut ids = ids.iter().map(|id| ordered(&resource.columns[*key].kind, id));
        let mut ids = ids.by_ref().collect::<Option<Vec<_>>>()?;
        ids.sort_unstable();
        ids.dedup();
        let keys = ids.into_iter().map(|(_, id)| Key { parts: vec![id] });
        Some(Self { keys: keys.collect(), descending }).filter(|ids| !ids.keys.is_empty())
    }
}

/// An id by its rank among all of its type, in the one spelling of its value.
fn ordered(kind: &Kind, id: &str) -> Option<(u128, String)> {
    match kind {
        Kind::Uuid => {
            let id = Uuid::try_parse(id).ok()?;
            Some((id.as_u128(), id.to_string()))
        }
        Kind::Integer(bytes) => {
            let number: i64 = id.parse().ok()?;
            let least = match bytes {
                2 => i64::from(i16::MIN),
                4 => i64::from(i32::MIN),
                _ => i64::MIN,
            };
            let fits = (least..=-(least + 1)).contains(&number);
            let rank = u128::from(number.abs_diff(i64::MIN));
            fits.then(|| (rank, number.to_string()))
        }
        _ => None,
    }
}

impl Page {
    /// The page of the records that were found.
    pub fn of(found: Vec<Found>, descending: bool, count: bool) -> Self {
        let rows = found.into_iter().filter_map(|found| match found {
            Found::Row(row) => Some(row.json),
            Found::Gone(_) | Found::Missing => None,
        });
        let mut rows: Vec<_> = rows.collect();
        if descending {
            rows.reverse();
        }
        let length = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        Self {
            rows: format!("[{}]", rows.join(",")),
            length,
            next: None,
            total: count.then_some(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(kind: &Kind, id: &str) -> Option<u128> {
        ordered(kind, id).map(|(rank, _)| rank)
    }

    #[test]
    fn ids_have_the_order_of_their_type_and_one_spelling() {
        let ids = ["-9223372036854775808", "-7", "0", "5", "10", "9223372036854775807"];
        let ranks: Vec<_> = ids.iter().map(|id| rank(&Kind::Integer(8), id).unwrap()).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(ordered(&Kind::Integer(4), "007").unwrap().1, "7");
        let upper = "01A11E82-D0BC-7367-9C39-5E9873953DDE";
        assert_eq!(ordered(&Kind::Uuid, upper).unwrap().1, upper.to_lowercase());
    }

    #[test]
    fn what_is_no_id_of_the_type_is_left_to_the_database() {
        for (kind, id) in [
            (Kind::Integer(2), "32768"),
            (Kind::Integer(2), "-32769"),
            (Kind::Integer(4), "2147483648"),
            (Kind::Integer(8), "9223372036854775808"),
            (Kind::Integer(8), "1.0"),
            (Kind::Uuid, "7"),
            (Kind::Text(None), "7"),
        ] {
            assert_eq!(rank(&kind, id), None, "{id}");
        }
        assert!(rank(&Kind::Integer(2), "-32768").is_some());
    }
}
