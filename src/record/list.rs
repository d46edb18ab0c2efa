//! A page of records: filters and order to SQL, and the keyset cursor from page to page.

pub mod ids;
mod page;

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::QueryAs;
use sqlx::{AssertSqlSafe, Postgres};

use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::record::list::page::Parts;
use crate::record::query::{Filter, Order, Query, Test};

pub use crate::record::list::page::BYTES;

/// A page of rows.
#[derive(Debug)]
pub struct Page {
    /// The rows as one JSON array.
    pub rows: String,
    /// How many they are.
    pub length: i64,
    /// The cursor of the next page, where there is one.
    pub next: Option<String>,
    /// How many rows the filters let through in all, where that was asked.
    pub total: Option<i64>,
}

/// Reads a page.
///
/// # Errors
/// The inner error is the request's doing: `INVALID_QUERY` or `INVALID_CURSOR`.
pub async fn read(
    conn: &mut PgConnection,
    resource: &Resource,
    query: &Query,
    count: bool,
) -> Result<Result<Page, Error>, Fault> {
    let order = total_order(resource, &query.order);
    let after = match query.after.as_deref().map(|cursor| read_cursor(resource, &order, cursor)) {
        None => None,
        Some(Ok(values)) => Some(values),
        Some(Err(error)) => return Ok(Err(error)),
    };
    let mut sql = Sql { resource, binds: Vec::new() };
    let parts = Parts {
        resource,
        select: query.select.as_deref(),
        limit: query.limit,
        filter: sql.all(&query.filters),
        after: after.map_or_else(String::new, |v| format!(" AND {}", sql.after(&order, &v))),
        order: sql.order(&order),
        keys: order.iter().map(|term| sql.column(term.column)).collect(),
        count,
    };
    match fill(conn, &parts, &sql.binds).await {
        Ok((rows, length, last, total, _)) => {
            let next = last.map(|values| write_cursor(resource, &order, &values));
            Ok(Ok(Page { rows, length, next, total }))
        }
        Err(fault @ (Fault::Value | Fault::Mismatch | Fault::Check(_) | Fault::Drifted)) => {
            match blame(conn, resource, query).await? {
                Some(error) => Ok(Err(error)),
                // Nothing of the query's: the table changed meanwhile.
                None if fault == Fault::Drifted => Err(fault),
                None => Ok(Err(unanswerable(query))),
            }
        }
        Err(fault) => Err(fault),
    }
}

/// The answer to a query that the database refuses for no part of it that could be named.
fn unanswerable(query: &Query) -> Error {
    if query.after.is_some() {
        let message = "after is not a cursor of this list";
        return Error::field(Code::InvalidCursor, "after", message);
    }
    Error::new(Code::InvalidQuery, "The query cannot be answered as it is written")
}

/// The order asked for, made total by the key, so that ties neither lose nor repeat a row.
fn total_order(resource: &Resource, asked: &[Order]) -> Vec<Order> {
    let mut order = asked.to_vec();
    for &column in &resource.key {
        if order.iter().all(|term| term.column != column) {
            order.push(Order { column, descending: false, nulls_first: false });
        }
    }
    order
}

/// A parameter of a list's statement.
enum Bind {
    Text(String),
    Texts(Vec<String>),
}

/// The rows as one JSON array, how many they are, the key of the last where there are more, how many there are
/// in all, and the size of the largest.
type Filled = (String, i64, Option<String>, Option<i64>, i64);

type PageQuery<'q> = QueryAs<'q, Postgres, Filled, PgArguments>;

impl Bind {
    fn to<'q>(&'q self, query: PageQuery<'q>) -> PageQuery<'q> {
        match self {
            Self::Text(text) => query.bind(text),
            Self::Texts(texts) => query.bind(texts),
        }
    }
}

/// Reads the rows of a page: in the usual way, and where they are too large for it, once more within bounds.
/// Where the page before was of large rows, at once.
async fn fill(conn: &mut PgConnection, parts: &Parts<'_>, binds: &[Bind]) -> Result<Filled, Fault> {
    let large = &parts.resource.large;
    if !large.load(Ordering::Relaxed) {
        let filled = run(conn, parts.usual(), binds).await?;
        if filled.4 <= parts.share() {
            return Ok(filled);
        }
    }
    let filled = run(conn, parts.bounded(), binds).await?;
    large.store(filled.4 > parts.share(), Ordering::Relaxed);
    Ok(filled)
}

async fn run(conn: &mut PgConnection, text: String, binds: &[Bind]) -> Result<Filled, Fault> {
    let statement = binds.iter().fold(sqlx::query_as(AssertSqlSafe(text)), |s, bind| bind.to(s));
    Ok(statement.fetch_one(conn).await?)
}

/// Writes conditions and collects their parameters.
struct Sql<'a> {
    resource: &'a Resource,
    binds: Vec<Bind>,
}

impl Sql<'_> {
    fn column(&self, place: usize) -> String {
        format!("t.{}", self.resource.columns[place].quoted)
    }

    fn bind(&mut self, bind: Bind) -> String {
        self.binds.push(bind);
        format!("${}", self.binds.len())
    }

    /// A value of the column's type.
    fn value(&mut self, column: &Column, text: &str) -> String {
        let parameter = self.bind(Bind::Text(text.to_owned()));
        format!("{parameter}::{}", column.cast_type)
    }

    fn all(&mut self, filters: &[Filter]) -> String {
        self.joined(filters, " AND ", "true")
    }

    fn joined(&mut self, filters: &[Filter], with: &str, empty: &str) -> String {
        let parts: Vec<_> = filters.iter().map(|filter| self.filter(filter)).collect();
        if parts.is_empty() { empty.to_owned() } else { format!("({})", parts.join(with)) }
    }

    fn filter(&mut self, filter: &Filter) -> String {
        match filter {
            Filter::And(filters) => self.joined(filters, " AND ", "true"),
            Filter::Or(filters) => self.joined(filters, " OR ", "false"),
            Filter::Not(filter) => format!("NOT ({})", self.filter(filter)),
            Filter::Compare(place, test) => self.test(*place, test),
        }
    }

    fn test(&mut self, place: usize, test: &Test) -> String {
        let resource = self.resource;
        let column = &resource.columns[place];
        let left = self.column(place);
        match test {
            Test::Operator(operator, value) => {
                format!("{left} {operator} {}", self.value(column, value))
            }
            Test::Distinct(value) => {
                format!("{left} IS DISTINCT FROM {}", self.value(column, value))
            }
            Test::Is(what) => format!("{left} IS {what}"),
            Test::Pattern(operator, pattern) => {
                let cast = if matches!(column.kind, Kind::Text(_)) { "" } else { "::text" };
                format!("{left}{cast} {operator} {}", self.bind(Bind::Text(pattern.clone())))
            }
            Test::In(values) if matches!(column.kind, Kind::Array(_)) => {
                let same: Vec<_> =
                    values.iter().map(|v| format!("{left} = {}", self.value(column, v))).collect();
                if same.is_empty() {
                    "false".to_owned()
                } else {
                    format!("({})", same.join(" OR "))
                }
            }
            Test::In(values) => {
                let parameter = self.bind(Bind::Texts(values.clone()));
                format!("{left} = ANY({parameter}::{}[])", column.cast_type)
            }
            Test::FullText(function, language, words) => {
                let language = language.as_ref().map_or_else(String::new, |language| {
                    format!("{}::regconfig, ", self.bind(Bind::Text(language.clone())))
                });
                let words = self.bind(Bind::Text(words.clone()));
                let vector = if column.cast_type == "tsvector" {
                    left
                } else {
                    format!("to_tsvector({language}{left}::text)")
                };
                format!("{vector} @@ {function}({language}{words})")
            }
        }
    }

    fn order(&self, order: &[Order]) -> String {
        let terms: Vec<_> = order
            .iter()
            .map(|term| {
                let direction = if term.descending { " DESC" } else { "" };
                // Said only where it differs from PostgreSQL's default, so that an index serves.
                let nulls = match (term.descending, term.nulls_first) {
                    _ if self.resource.columns[term.column].not_null => "",
                    (false, true) => " NULLS FIRST",
                    (true, false) => " NULLS LAST",
                    _ => "",
                };
                format!("{}{direction}{nulls}", self.column(term.column))
            })
            .collect();
        terms.join(", ")
    }

    /// Strictly after these values in this order.
    fn after(&mut self, order: &[Order], values: &[Option<String>]) -> String {
        let resource = self.resource;
        let descending = order.first().is_some_and(|term| term.descending);
        let comparable = order.iter().zip(values).all(|(term, value)| {
            term.descending == descending
                && value.is_some()
                && resource.columns[term.column].not_null
        });
        if comparable {
            // A comparison of rows is one index condition.
            let columns: Vec<_> = order.iter().map(|term| self.column(term.column)).collect();
            let values: Vec<_> = order
                .iter()
                .zip(values.iter().flatten())
                .map(|(term, value)| self.value(&resource.columns[term.column], value))
                .collect();
            let operator = if descending { "<" } else { ">" };
            return format!("({}) {operator} ({})", columns.join(", "), values.join(", "));
        }
        let mut alternatives = Vec::new();
        let mut equal = String::new();
        for (term, value) in order.iter().zip(values) {
            let column = self.column(term.column);
            let (after, same) = match value {
                None if term.nulls_first => {
                    (format!("{column} IS NOT NULL"), format!("{column} IS NULL"))
                }
                None => ("false".to_owned(), format!("{column} IS NULL")),
                Some(value) => {
                    let value = self.value(&resource.columns[term.column], value);
                    let operator = if term.descending { "<" } else { ">" };
                    let nulls = if term.nulls_first {
                        String::new()
                    } else {
                        format!(" OR {column} IS NULL")
                    };
                    (format!("({column} {operator} {value}{nulls})"), format!("{column} = {value}"))
                }
            };
            alternatives.push(format!("({equal}{after})"));
            let _ = write!(equal, "{same} AND ");
        }
        format!("({})", alternatives.join(" OR "))
    }
}

/// What a cursor was made for; a cursor of another list must not be taken for one of this.
fn signature(resource: &Resource, order: &[Order]) -> String {
    order.iter().fold(resource.name.clone(), |mut signature, term| {
        let Order { column, descending, nulls_first } = *term;
        let _ = write!(signature, "/{}/{descending}/{nulls_first}", resource.columns[column].name);
        signature
    })
}

fn write_cursor(resource: &Resource, order: &[Order], values: &str) -> String {
    let signature = serde_json::Value::from(signature(resource, order));
    BASE64_URL_SAFE_NO_PAD.encode(format!("[{signature},{values}]"))
}

fn read_cursor(
    resource: &Resource,
    order: &[Order],
    cursor: &str,
) -> Result<Vec<Option<String>>, Error> {
    let invalid = || {
        Error::field(
            Code::InvalidCursor,
            "after",
            "after is not a cursor of this list in this order",
        )
    };
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| invalid())?;
    let (made_for, values): (String, Vec<Option<String>>) =
        serde_json::from_slice(&bytes).map_err(|_| invalid())?;
    let fits = made_for == signature(resource, order)
        && values.len() == order.len()
        && values.iter().flatten().all(|value| !value.contains('\0'));
    if fits { Ok(values) } else { Err(invalid()) }
}

/// Finds the condition or the order that PostgreSQL could not read, to name it.
async fn blame(
    conn: &mut PgConnection,
    resource: &Resource,
    query: &Query,
) -> Result<Option<Error>, Fault> {
    let mut conditions = Vec::new();
    for filter in &query.filters {
        compared(filter, &mut conditions);
    }
    for (place, test) in conditions {
        let mut sql = Sql { resource, binds: Vec::new() };
        let condition = match test {
            // NULL would not be compared, and what is wrong with a pattern not be found.
            Test::Pattern(operator, pattern) => {
                format!("'' {operator} {}", sql.bind(Bind::Text(pattern.clone())))
            }
            test => sql.test(place, test),
        };
        let column = &resource.columns[place];
        if refused(conn, column, &format!("SELECT {condition}"), "", &sql.binds).await? {
            let message = format!("{} cannot be compared in this way with this value", column.name);
            return Ok(Some(Error::field(Code::InvalidQuery, &column.name, message)));
        }
    }
    for term in &query.order {
        let column = &resource.columns[term.column];
        let order = format!(" ORDER BY t.{}", column.quoted);
        if refused(conn, column, "SELECT 1", &order, &[]).await? {
            let message = format!("{} cannot be ordered by", column.name);
            return Ok(Some(Error::field(Code::InvalidQuery, &column.name, message)));
        }
    }
    Ok(None)
}

/// Whether the database cannot do this with a column, tried out on a row where it is NULL.
async fn refused(
    conn: &mut PgConnection,
    column: &Column,
    select: &str,
    order: &str,
    binds: &[Bind],
) -> Result<bool, Fault> {
    // OFFSET keeps the planner from seeing that the column is NULL and skipping the value.
    let text = format!(
        "{select} FROM (SELECT NULL::{} AS {} OFFSET 0) AS t{order}",
        column.cast_type, column.quoted
    );
    let mut probe = sqlx::query(AssertSqlSafe(text)).persistent(false);
    for bind in binds {
        probe = match bind {
            Bind::Text(text) => probe.bind(text),
            Bind::Texts(texts) => probe.bind(texts),
        };
    }
    match probe.execute(conn).await.map_err(Fault::from) {
        Ok(_) => Ok(false),
        Err(Fault::Value | Fault::Mismatch | Fault::Check(_) | Fault::Drifted) => Ok(true),
        Err(fault) => Err(fault),
    }
}

fn compared<'f>(filter: &'f Filter, found: &mut Vec<(usize, &'f Test)>) {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => {
            for filter in filters {
                compared(filter, found);
            }
        }
        Filter::Not(filter) => compared(filter, found),
        Filter::Compare(place, test) => found.push((*place, test)),
    }
}
