//! The statements of a page. Pure: what runs them is `list`.
//!
//! The usual one takes no row that is larger than its share of a page, and says how large the largest is.
//! Where one is larger, [`Parts::bounded`] reads the page anew and ends it where it is full. To add up the
//! sizes always would cost every page a tenth of its time; this costs it a hundredth.

use crate::catalog::Resource;
use crate::record::statement;

/// How large the rows of one answer may become together, in bytes of JSON, about. The first row comes whatever
/// its size.
pub const BYTES: i64 = 8 << 20;

/// What the statements of a page are made of.
pub(super) struct Parts<'a> {
    pub(super) resource: &'a Resource,
    /// The columns to show, where not all.
    pub(super) select: Option<&'a [usize]>,
    /// Rows on the page.
    pub(super) limit: usize,
    /// The condition on the rows `t`.
    pub(super) filter: String,
    /// The condition that they come after the page before, with its `AND`.
    pub(super) after: String,
    /// The terms of the order.
    pub(super) order: String,
    /// The columns of the order.
    pub(super) keys: Vec<String>,
    /// Whether all rows are to be counted.
    pub(super) count: bool,
}

impl Parts<'_> {
    /// The largest row that a page has room for however many there are, in bytes.
    pub(super) fn share(&self) -> i64 {
        BYTES / i64::try_from(self.limit).unwrap_or(i64::MAX)
    }

    /// The usual statement: the rows as one JSON array, how many they are, the key of the last where there are
    /// more, how many there are in all, and the size of the largest. Holds only where that is within its share.
    pub(super) fn usual(&self) -> String {
        // The aggregate takes the rows as the ordered subquery gives them: sorting them again would cost a
        // tenth of the whole. Only the last row's key is written out, into the cursor.
        format!(
            "SELECT coalesce('[' || string_agg(p.j, ',') \
             FILTER (WHERE p.n <= {limit} AND octet_length(p.j) <= {share}) || ']', '[]'), \
             least(count(*), {limit}), \
             CASE WHEN count(*) > {limit} THEN max({key}) FILTER (WHERE p.n = {limit}) END, {total}, \
             coalesce(max(octet_length(p.j)), 0)::int8 \
             FROM (SELECT s.*, row_number() OVER () AS n FROM (\
             SELECT {row} AS j, {keys} {from}) AS s) AS p",
            limit = self.limit,
            share = self.share(),
            key = self.key("p"),
            total = self.total(),
            row = statement::row(self.resource, self.select),
            keys = self.keys(),
            from = self.from(),
        )
    }

    /// As [`Self::usual`], of a page that ends where it is full. What lies outside of the table is fetched, and
    /// JSON made, only of rows that can find room by what they take where they lie; then the JSON is measured.
    pub(super) fn bounded(&self) -> String {
        let columns = &self.resource.columns;
        let shown: Vec<_> = match self.select {
            Some(places) => places.iter().map(|&place| (place, &columns[place])).collect(),
            None => columns.iter().enumerate().filter(|(_, column)| !column.hidden).collect(),
        };
        let join = |parts: Vec<String>, with| parts.join(with);
        let given = shown.iter().map(|(i, c)| format!("t.{} AS c{i}", c.quoted)).collect();
        let taken = shown.iter().map(|(i, c)| format!("p.c{i} AS {}", c.quoted)).collect();
        let weights = shown.iter().filter(|(_, column)| !column.kind.is_small());
        let weights =
            weights.map(|(_, c)| format!(" + coalesce(pg_column_size(t.{}), 0)", c.quoted));
        let fits = format!("r.size - octet_length(r.j) < {BYTES}");
        format!(
            "SELECT coalesce('[' || string_agg(r.j, ',') FILTER (WHERE {fits}) || ']', '[]'), \
             count(*) FILTER (WHERE {fits}), \
             CASE WHEN max(r.found) > count(*) FILTER (WHERE {fits}) \
             THEN (array_agg({key} ORDER BY r.n DESC) FILTER (WHERE {fits}))[1] END, {total}, \
             coalesce(max(octet_length(r.j)), 0)::int8 \
             FROM (SELECT q.*, sum(octet_length(q.j)) OVER up AS size FROM (\
             SELECT p.*, (SELECT row_to_json(x.*)::text FROM (SELECT {taken}) AS x) AS j \
             FROM (SELECT s.*, row_number() OVER up AS n, sum(s.w) OVER up AS stored, count(*) OVER () AS found \
             FROM (SELECT {given}, {keys}, 0::int8{weights} AS w {from}) AS s \
             WINDOW up AS (ROWS UNBOUNDED PRECEDING)) AS p \
             WHERE p.n <= {limit} AND p.stored - p.w < {BYTES} OFFSET 0) AS q \
             WINDOW up AS (ROWS UNBOUNDED PRECEDING)) AS r",
            key = self.key("r"),
            total = self.total(),
            taken = join(taken, ", "),
            given = join(given, ", "),
            keys = self.keys(),
            weights = weights.collect::<String>(),
            from = self.from(),
            limit = self.limit,
        )
    }

    /// The rows in their order, one more than the page has: it tells whether there is a next one.
    fn from(&self) -> String {
        format!(
            "FROM {} AS t WHERE {}{} ORDER BY {} LIMIT {}",
            self.resource.table,
            self.filter,
            self.after,
            self.order,
            self.limit + 1
        )
    }

    fn keys(&self) -> String {
        let keys = self.keys.iter().enumerate().map(|(i, column)| format!("{column} AS k{i}"));
        keys.collect::<Vec<_>>().join(", ")
    }

    /// The key of a row of this name, as the cursor holds it.
    fn key(&self, row: &str) -> String {
        let parts: Vec<_> = (0..self.keys.len()).map(|i| format!("{row}.k{i}::text")).collect();
        format!("json_build_array({})::text", parts.join(", "))
    }

    fn total(&self) -> String {
        if self.count {
            format!("(SELECT count(*) FROM {} AS t WHERE {})", self.resource.table, self.filter)
        } else {
            "NULL::int8".to_owned()
        }
    }
}
