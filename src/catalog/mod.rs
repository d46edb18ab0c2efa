//! The catalogue: what PostgreSQL says the adopted tables are. It is read from the database, never
//! configured twice; `counterfoil.toml` only adds behaviour ([`Settings`]).

pub mod key;
pub mod kind;
pub mod store;
pub mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::catalog::kind::Kind;
use crate::merge::{Comparison, Rules};

/// Every resource of one moment. A request holds the catalogue it began with.
#[derive(Debug, Default)]
pub struct Catalog {
    resources: BTreeMap<String, Arc<Resource>>,
    /// Changes whenever an adopted table does; see `counterfoil.fingerprint()`.
    pub fingerprint: String,
}

impl Catalog {
    /// Collects resources under their names.
    pub fn new(resources: impl IntoIterator<Item = Resource>, fingerprint: String) -> Self {
        let resources = resources.into_iter().map(|r| (r.name.clone(), Arc::new(r))).collect();
        Self { resources, fingerprint }
    }

    /// The resource of this name.
    pub fn resource(&self, name: &str) -> Option<&Arc<Resource>> {
        self.resources.get(name)
    }

    /// The resource of this name, for changes before anybody else holds the catalogue.
    pub fn resource_mut(&mut self, name: &str) -> Option<&mut Resource> {
        self.resources.get_mut(name).and_then(Arc::get_mut)
    }

    /// Takes a resource out.
    pub fn withhold(&mut self, name: &str) {
        self.resources.remove(name);
    }

    /// All resources, by name.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}

/// An adopted table.
#[derive(Debug)]
pub struct Resource {
    /// The name in the path.
    pub name: String,
    /// The table as SQL names it: quoted, with its schema.
    pub table: String,
    /// Where `version` stands in `columns`.
    pub version: usize,
    /// Where the parts of the primary key stand in `columns`, in key order.
    pub key: Vec<usize>,
    /// The columns in table order.
    pub columns: Vec<Column>,
    /// Whether accepted creates and updates are logged (deletes always are).
    pub history: bool,
    /// Whether the table has rules of its owner that could take a write for something else in the
    /// company of others: triggers, rules, row security, defaults that read a setting.
    pub alone: bool,
    /// Whether a deletion may change other tables.
    pub referred: bool,
    /// Which log of its name it has; another one once something may have been written unlogged.
    pub log: String,
    /// The table's comment, for people.
    pub comment: Option<String>,
    /// The foreign keys to other tables, for people and forms.
    pub references: Vec<Reference>,
    /// What the configuration adds.
    pub settings: Settings,
    /// Statement texts made so far.
    pub statements: crate::record::statement::Cache,
    /// Whether the page of it that was read last held large rows. A guess that saves work, no more.
    pub large: AtomicBool,
}

impl Resource {
    /// The column of this name that the caller may know of.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name && !c.hidden)
    }

    /// The columns of the primary key, in key order.
    pub fn key_columns(&self) -> impl Iterator<Item = &Column> {
        self.key.iter().map(|&i| &self.columns[i])
    }

    /// The version column.
    pub fn version_column(&self) -> &Column {
        &self.columns[self.version]
    }

    /// The columns that the caller may read, in table order.
    pub fn readable(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|c| !c.hidden)
    }

    /// Tells the merge how each field compares: by its type, or not at all where the server keeps it.
    pub fn describe_fields(&mut self) {
        let comparisons = self.columns.iter().enumerate().map(|(place, column)| {
            let kept = self.key.contains(&place) || !column.writable();
            let comparison = if kept { Comparison::Managed } else { column.kind.comparison() };
            (column.name.clone(), comparison)
        });
        self.settings.merge.comparisons = comparisons.collect();
    }

    /// The columns that a body may set, apart from the key.
    pub fn writable(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(i, c)| !self.key.contains(i) && c.writable())
    }
}

/// A column of an adopted table.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own in the catalogue")]
pub struct Column {
    /// The name, as it stands in JSON.
    pub name: String,
    /// The name as SQL has it, quoted.
    pub quoted: String,
    /// The type as SQL has it, with modifiers: `numeric(10,2)`.
    pub sql_type: String,
    /// The type without modifiers: a cast to `varchar(5)` would cut a key off silently.
    pub cast_type: String,
    /// The text by which the change log knows a value of a key, as an SQL expression on `{}`: one
    /// for all spellings that are equal.
    pub canonical: String,
    /// What values the type takes.
    pub kind: Kind,
    /// Whether the type takes its values from the text that stands in JSON, without anything lost or
    /// added on the way: built in, and neither an array, a row, JSON itself nor a domain.
    pub plain: bool,
    /// Whether NULL is refused, by the column or by its domain.
    pub not_null: bool,
    /// The default expression as SQL text.
    pub default: Option<String>,
    /// Whether the default may differ from one evaluation to the next (`now()`, a sequence).
    pub default_volatile: bool,
    /// Whether the database alone gives the value: generated, identity `ALWAYS`, the version.
    pub managed: bool,
    /// Whether the configuration says that bodies do not set it.
    pub read_only: bool,
    /// Whether callers may not know of it.
    pub hidden: bool,
    /// The column's comment, for people.
    pub comment: Option<String>,
}

impl Column {
    /// Whether a body may set it.
    pub fn writable(&self) -> bool {
        !self.managed && !self.read_only && !self.hidden
    }

    /// Whether a new row must name it.
    pub fn required(&self) -> bool {
        self.writable() && self.not_null && self.default.is_none()
    }
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The columns that refer, by name.
    pub columns: Vec<String>,
    /// The table they refer to, as SQL names it.
    pub table: String,
    /// The columns they refer to, by name.
    pub targets: Vec<String>,
}

/// What `counterfoil.toml` adds to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The status of a write conflict: 409, or 412 for clients that insist.
    pub conflict_status: u16,
    /// Whether a write without `If-Match` is refused with 428.
    pub require_if_match: bool,
    /// Whether weak tags never match.
    pub strict_etags: bool,
    /// How fields compare and merge.
    pub merge: Rules,
    /// How much history to keep; all of it where nothing is said.
    pub retention: Option<Retention>,
}

/// How much history a resource keeps. What either bound lets go is let go; the newest version of
/// every record and every deletion stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Versions older than this many days.
    pub days: Option<i32>,
    /// Versions beyond this many of one record.
    pub versions: Option<i32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            conflict_status: 409,
            require_if_match: false,
            strict_etags: false,
            merge: Rules::default(),
            retention: None,
        }
    }
}

/// Quotes an identifier for SQL. The one function through which names reach a statement.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text literal for SQL, for texts that come from the catalogue.
pub fn quote_literal(text: &str) -> String {
    if text.contains('\\') {
        format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

#[cfg(test)]
impl Column {
    /// A column as tests need one.
    pub fn sample(name: &str, kind: Kind, not_null: bool) -> Self {
        Self {
            name: name.to_owned(),
            quoted: quote_identifier(name),
            sql_type: String::new(),
            cast_type: String::new(),
            canonical: String::new(),
            kind,
            plain: false,
            not_null,
            default: None,
            default_volatile: false,
            managed: false,
            read_only: false,
            hidden: false,
            comment: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_cannot_leave_their_quotes() {
        assert_eq!(quote_identifier(r#"a"b"#), r#""a""b""#);
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal(r"a\'b"), r"E'a\\''b'");
    }
}
