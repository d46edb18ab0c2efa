//! The query string of a list, in PostgREST's well-known spelling, read against the catalogue.
//! Pure: the SQL made of it is `list`'s.

use std::borrow::Cow;

use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::error::{Code, Error};
use crate::json::number::whole;

/// Rows on a page where the client does not say.
pub const DEFAULT_LIMIT: usize = 50;
/// The most rows on a page.
pub const MOST_ROWS: usize = 1000;
/// How many conditions one query may hold; a bound on what a stranger can make the planner do.
const MOST_CONDITIONS: usize = 100;
/// How deeply `and`, `or` and `not` may be nested.
const MOST_NESTING: usize = 16;

/// What a list is asked for.
#[derive(Debug, Default)]
pub struct Query {
    /// The conditions; all must hold.
    pub filters: Vec<Filter>,
    /// The order asked for, without the key that makes it total.
    pub order: Vec<Order>,
    /// The columns asked for, the version among them; `None` for all.
    pub select: Option<Vec<usize>>,
    /// Rows on a page.
    pub limit: usize,
    /// The cursor of the page before.
    pub after: Option<String>,
}

/// A condition on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every one holds.
    And(Vec<Filter>),
    /// At least one holds.
    Or(Vec<Filter>),
    /// It does not hold.
    Not(Box<Filter>),
    /// A column compared.
    Compare(usize, Test),
}

/// How a column is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// An SQL operator and the text of its right side, cast to the column's type.
    Operator(&'static str, String),
    /// An SQL operator on the column as text: `LIKE`, `~`.
    Pattern(&'static str, String),
    /// Equal to one of these.
    In(Vec<String>),
    /// `IS NULL`, `IS TRUE`, …
    Is(&'static str),
    /// `IS DISTINCT FROM`
    Distinct(String),
    /// Full text search: the function that makes the query, its language, the words.
    FullText(&'static str, Option<String>, String),
}

/// One term of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The column.
    pub column: usize,
    /// From high to low.
    pub descending: bool,
    /// Whether NULL comes ahead of every value.
    pub nulls_first: bool,
}

/// Reads the parameters of a list, in order, percent-decoded.
///
/// # Errors
/// `INVALID_QUERY` with the name of what does not exist or cannot be read.
pub fn read(resource: &Resource, parameters: &[(String, String)]) -> Result<Query, Error> {
    let mut query = Query { limit: DEFAULT_LIMIT, ..Query::default() };
    let mut reader = Reader { resource, conditions: 0 };
    let mut seen = std::collections::HashSet::new();
    for (name, value) in parameters {
        let once = matches!(name.as_str(), "select" | "order" | "limit" | "after");
        if once && !seen.insert(name.as_str()) {
            return Err(invalid(name, format!("{name} stands twice in the query")));
        }
        if value.contains('\0') {
            return Err(invalid(name, format!("{name} must be free of the character NUL")));
        }
        match name.as_str() {
            "select" => query.select = Some(select(resource, value)?),
            "order" => query.order = order(resource, value)?,
            "limit" => query.limit = limit(value)?,
            "after" => query.after = Some(value.clone()),
            "and" | "or" | "not.and" | "not.or" => {
                query.filters.push(reader.tree(name, value, MOST_NESTING)?);
            }
            name => query.filters.push(reader.condition(name, value)?),
        }
    }
    Ok(query)
}

/// Reads `select=id,amount`; the version always comes along.
///
/// # Errors
/// `INVALID_QUERY` with the unknown name.
pub fn select(resource: &Resource, value: &str) -> Result<Vec<usize>, Error> {
    let mut places = Vec::new();
    for name in split_terms(value).into_iter().filter(|name| !name.is_empty()) {
        if name == "*" {
            places.extend((0..resource.columns.len()).filter(|&i| !resource.columns[i].hidden));
        } else {
            places.push(place(resource, name)?);
        }
    }
    places.push(resource.version);
    let mut unique = Vec::with_capacity(places.len());
    for place in places {
        if !unique.contains(&place) {
            unique.push(place);
        }
    }
    if unique.len() == 1 && value.trim().is_empty() {
        return Err(invalid("select", "select names no field".to_owned()));
    }
    Ok(unique)
}

fn order(resource: &Resource, value: &str) -> Result<Vec<Order>, Error> {
    let mut terms: Vec<Order> = Vec::new();
    for term in split_terms(value) {
        // Names may hold dots, so the words of the order are taken from the end.
        let (mut name, mut descending, mut nulls_first) = (term, None, None);
        while let Some((rest, word)) = name.rsplit_once('.') {
            match word {
                "asc" if descending.is_none() => descending = Some(false),
                "desc" if descending.is_none() => descending = Some(true),
                "nullsfirst" if descending.or(nulls_first).is_none() => nulls_first = Some(true),
                "nullslast" if descending.or(nulls_first).is_none() => nulls_first = Some(false),
                _ => break,
            }
            name = rest;
        }
        let column = place(resource, name)?;
        if matches!(resource.columns[column].kind, Kind::Json { binary: false }) {
            return Err(invalid(name, format!("{name} cannot be ordered by")));
        }
        let descending = descending.unwrap_or(false);
        let nulls_first = nulls_first.unwrap_or(descending);
        if terms.iter().all(|t| t.column != column) {
            terms.push(Order { column, descending, nulls_first });
        }
    }
    Ok(terms)
}

/// Reads `limit`.
///
/// # Errors
/// `INVALID_QUERY`.
pub fn limit(value: &str) -> Result<usize, Error> {
    match value.parse::<usize>() {
        Ok(limit) if (1..=MOST_ROWS).contains(&limit) => Ok(limit),
        _ => Err(invalid("limit", format!("limit must be a whole number from 1 to {MOST_ROWS}"))),
    }
}

struct Reader<'a> {
    resource: &'a Resource,
    conditions: usize,
}

impl Reader<'_> {
    /// `status` `eq.draft`, `not.in.(a,b)`.
    fn condition(&mut self, name: &str, value: &str) -> Result<Filter, Error> {
        self.conditions += 1;
        if self.conditions > MOST_CONDITIONS {
            let message = format!("The query holds more than {MOST_CONDITIONS} conditions");
            return Err(invalid(name, message));
        }
        let place = place(self.resource, name)?;
        if let Some(rest) = value.strip_prefix("not.") {
            let test = test(&self.resource.columns[place], rest)?;
            return Ok(Filter::Not(Box::new(Filter::Compare(place, test))));
        }
        Ok(Filter::Compare(place, test(&self.resource.columns[place], value)?))
    }

    /// `or` `(a.eq.1,not.and(b.gt.2,c.is.null))`.
    fn tree(&mut self, operator: &str, value: &str, nesting: usize) -> Result<Filter, Error> {
        let broken = || invalid(operator, format!("{operator} wants a list in parentheses"));
        if nesting == 0 {
            return Err(invalid(operator, "The query is nested too deeply".to_owned()));
        }
        let inner = value.strip_prefix('(').and_then(|v| v.strip_suffix(')')).ok_or_else(broken)?;
        let parts = split_outside(inner).ok_or_else(broken)?;
        let mut filters = Vec::with_capacity(parts.len());
        for part in parts {
            filters.push(self.branch(part, nesting)?);
        }
        let (negated, operator) =
            operator.strip_prefix("not.").map_or((false, operator), |rest| (true, rest));
        let tree = if operator == "or" { Filter::Or(filters) } else { Filter::And(filters) };
        Ok(if negated { Filter::Not(Box::new(tree)) } else { tree })
    }

    fn branch(&mut self, part: &str, nesting: usize) -> Result<Filter, Error> {
        for operator in ["not.and", "not.or", "and", "or"] {
            if let Some(rest) = part.strip_prefix(operator)
                && rest.starts_with('(')
            {
                return self.tree(operator, rest, nesting - 1);
            }
        }
        let (name, value) = self.split_name(part)?;
        self.condition(name, &unquoted_operand(value))
    }

    /// The longest name of a column that the part begins with; names may hold dots.
    fn split_name<'p>(&self, part: &'p str) -> Result<(&'p str, &'p str), Error> {
        part.match_indices('.')
            .map(|(at, _)| (&part[..at], &part[at + 1..]))
            .rfind(|(name, _)| place(self.resource, name).is_ok())
            .ok_or_else(|| {
                let name = part.split('.').next().unwrap_or_default();
                unknown(self.resource, name)
            })
    }
}

/// A column by its name, which may stand in double quotes: names may hold commas and dots.
fn place(resource: &Resource, name: &str) -> Result<usize, Error> {
    let named = |name: &str| resource.columns.iter().position(|c| c.name == name && !c.hidden);
    named(name).or_else(|| named(&unquoted(name)?)).ok_or_else(|| unknown(resource, name))
}

fn unknown(resource: &Resource, name: &str) -> Error {
    invalid(name, format!("{} has no field \"{name}\"", resource.name))
}

fn invalid(field: &str, message: String) -> Error {
    Error::field(Code::InvalidQuery, field, message)
}

/// What stands between double quotes, where nothing stands outside them.
fn unquoted(text: &str) -> Option<String> {
    let mut chars = text.strip_prefix('"')?.chars();
    let mut inner = String::new();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(inner),
            '\\' => inner.push(chars.next()?),
            c => inner.push(c),
        }
    }
}

/// `eq."a,b"` without the quotes that kept its comma from dividing the list around it.
fn unquoted_operand(value: &str) -> Cow<'_, str> {
    let start = if value.starts_with("not.") { 4 } else { 0 };
    let operand = value[start..].find('.').map(|at| start + at + 1);
    match operand.and_then(|at| Some((at, unquoted(&value[at..])?))) {
        Some((at, operand)) => Cow::Owned(format!("{}{operand}", &value[..at])),
        None => Cow::Borrowed(value),
    }
}

/// The operators that compare a column with a value of its own type.
const OPERATORS: [(&str, &str); 15] = [
    ("eq", "="),
    ("neq", "<>"),
    ("gt", ">"),
    ("gte", ">="),
    ("lt", "<"),
    ("lte", "<="),
    ("cs", "@>"),
    ("cd", "<@"),
    ("ov", "&&"),
    ("sl", "<<"),
    ("sr", ">>"),
    ("nxr", "&<"),
    ("nxl", "&>"),
    ("adj", "-|-"),
    ("isdistinct", "IS DISTINCT FROM"),
];

fn test(column: &Column, value: &str) -> Result<Test, Error> {
    let (operator, operand) = value.split_once('.').ok_or_else(|| {
        let message = format!("{} wants an operator and a value, such as eq.1", column.name);
        invalid(&column.name, message)
    })?;
    let name = &column.name;
    if let Some((_, sql)) = OPERATORS.iter().find(|(word, _)| *word == operator) {
        let operand = compared(column, sql, operand)?;
        return Ok(match *sql {
            "IS DISTINCT FROM" => Test::Distinct(operand),
            sql => Test::Operator(sql, operand),
        });
    }
    // Only a search takes a word in parentheses, its language.
    let (word, language) = match operator.strip_suffix(')').and_then(|o| o.split_once('(')) {
        Some((word, language)) if word.ends_with("fts") => (word, Some(language)),
        _ => (operator, None),
    };
    let search =
        |function| Ok(Test::FullText(function, language.map(str::to_owned), operand.to_owned()));
    match word {
        "like" => like(name, "LIKE", operand),
        "ilike" => like(name, "ILIKE", operand),
        "match" => Ok(Test::Pattern("~", operand.to_owned())),
        "imatch" => Ok(Test::Pattern("~*", operand.to_owned())),
        "fts" => search("to_tsquery"),
        "plfts" => search("plainto_tsquery"),
        "phfts" => search("phraseto_tsquery"),
        "wfts" => search("websearch_to_tsquery"),
        "in" => {
            let values = in_list(operand)
                .ok_or_else(|| invalid(name, format!("{name}: in wants a list such as (a,b)")))?;
            let values = values.iter().map(|value| compared(column, "=", value));
            Ok(Test::In(values.collect::<Result<_, _>>()?))
        }
        "is" => match operand.to_ascii_lowercase().as_str() {
            "null" => Ok(Test::Is("NULL")),
            "not_null" => Ok(Test::Is("NOT NULL")),
            "true" if column.kind == Kind::Bool => Ok(Test::Is("TRUE")),
            "false" if column.kind == Kind::Bool => Ok(Test::Is("FALSE")),
            "unknown" if column.kind == Kind::Bool => Ok(Test::Is("UNKNOWN")),
            _ => Err(invalid(name, format!("{name} cannot be compared by is.{operand}"))),
        },
        _ => Err(invalid(name, format!("{name}: there is no operator \"{operator}\""))),
    }
}

fn like(name: &str, operator: &'static str, operand: &str) -> Result<Test, Error> {
    let escapes = operand.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if !escapes.is_multiple_of(2) {
        let message = format!("{name}: the pattern ends within an escape");
        return Err(invalid(name, message));
    }
    Ok(Test::Pattern(operator, operand.replace('*', "%")))
}

/// The value that a column is compared with, in the column's spelling. Refuses what the short rules of a type can
/// tell ahead of PostgreSQL.
fn compared(column: &Column, operator: &str, operand: &str) -> Result<String, Error> {
    let name = &column.name;
    let ordered = matches!(operator, "=" | "<>" | "<" | "<=" | ">" | ">=" | "IS DISTINCT FROM");
    let operand = match &column.kind {
        Kind::Json { binary: false } => {
            return Err(invalid(name, format!("{name} cannot be compared")));
        }
        Kind::Integer(_) if ordered => whole(operand).unwrap_or_else(|_| operand.to_owned()),
        _ => operand.to_owned(),
    };
    match &column.kind {
        Kind::Integer(_)
        | Kind::Uuid
        | Kind::Enum(_)
        | Kind::Date
        | Kind::Timestamp
        | Kind::TimestampTz
        | Kind::Time
            if ordered =>
        {
            let checked = column.kind.check_text(&operand);
            checked.map_err(|wanted| invalid(name, format!("{name} must be {wanted}")))?;
        }
        _ => {}
    }
    Ok(operand)
}

/// The terms of `select` and `order`: split at commas, but not at those of a term in quotes.
fn split_terms(list: &str) -> Vec<&str> {
    let (mut terms, mut quoted, mut escaped, mut start) = (Vec::new(), false, false, 0);
    for (at, c) in list.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' if quoted => quoted = false,
            '"' if list[start..at].trim().is_empty() => quoted = true,
            ',' if !quoted => {
                terms.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(list[start..].trim());
    terms
}

/// Splits at commas that stand outside parentheses and quotes.
fn split_outside(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut quoted, mut escaped, mut start) =
        (Vec::new(), 0_usize, false, false, 0);
    for (at, c) in list.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    (depth == 0 && !quoted && parts.iter().all(|p| !p.is_empty())).then_some(parts)
}

/// `(a,"b,c",d)`; a quoted element may hold commas, and quotes behind a backslash.
fn in_list(operand: &str) -> Option<Vec<String>> {
    let inner = operand.strip_prefix('(')?.strip_suffix(')')?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let mut values = Vec::new();
    let mut chars = inner.chars().peekable();
    loop {
        let mut value = String::new();
        if chars.next_if_eq(&'"').is_some() {
            loop {
                match chars.next()? {
                    '"' => break,
                    '\\' => value.push(chars.next()?),
                    c => value.push(c),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| *c != ',') {
                value.push(c);
            }
        }
        values.push(value);
        match chars.next() {
            None => return Some(values),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_values_are_read_with_their_quotes() {
        assert_eq!(in_list("(a,b)"), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(in_list(r#"("a,b","c\"d",e)"#).unwrap(), ["a,b", "c\"d", "e"]);
        assert_eq!(in_list("()"), Some(vec![]));
        assert_eq!(in_list("a,b"), None);
        assert_eq!(in_list("(\"a)"), None);
        assert_eq!(in_list("(\"a\"b)"), None);
    }

    #[test]
    fn names_and_operands_may_stand_in_quotes() {
        assert_eq!(split_terms(r#"a, "b,c".desc ,d"e,f"#), ["a", r#""b,c".desc"#, r#"d"e"#, "f"]);
        assert_eq!(unquoted(r#""a\"b\\,""#).as_deref(), Some(r#"a"b\,"#));
        assert_eq!(unquoted(r#""a"b""#), None);
        assert_eq!(unquoted_operand(r#"not.eq."a,b""#), "not.eq.a,b");
        assert_eq!(unquoted_operand(r#"in.("a,b")"#), r#"in.("a,b")"#);
    }

    #[test]
    fn trees_split_outside_parentheses_and_quotes() {
        assert_eq!(
            split_outside("a.eq.1,or(b.eq.2,c.eq.3)").unwrap(),
            ["a.eq.1", "or(b.eq.2,c.eq.3)"]
        );
        assert_eq!(split_outside(r#"a.in.("x,y",z),b.eq.1"#).unwrap().len(), 2);
        for broken in ["a.eq.1,", "(a", "a)", "\"a"] {
            assert_eq!(split_outside(broken), None, "{broken}");
        }
    }
}
