//! `counterfoil.toml`: what it adds to the catalogue, checked against it. Nothing else reads the
//! file; flags and environment variables are the command line's.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroU16};
use std::path::Path;

use serde::Deserialize;

use crate::catalog::kind::Kind;
use crate::catalog::{Catalog, Resource, Retention, Settings, quote_identifier};
use crate::merge::Rules;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `[server]`
    pub server: Server,
    /// `[resource.NAME]`
    pub resource: BTreeMap<String, ResourceConfig>,
}

/// `[server]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Where to listen.
    pub listen: Option<SocketAddr>,
    /// How many connections to the database to hold.
    pub connections: Option<usize>,
    /// How many lanes carry the reads of single records, and how many their writes; each has a
    /// connection besides `connections`.
    pub lanes: Option<NonZeroU8>,
    /// The most requests of a lane's statement; where nothing is said, what is measured decides.
    pub group: Option<NonZeroU16>,
    /// The origins that browsers may call from; `*` for any.
    pub cors_origins: Vec<String>,
    /// For how many hours an `Idempotency-Key` is remembered with its answer.
    pub keep_operations_hours: Option<NonZeroU16>,
    /// For how many days the results of pushed mutations are kept.
    pub keep_mutations_days: Option<NonZeroU16>,
    /// Whether the page of the demo is served at `/demo`; `dev` serves it with its demo tables.
    pub demo: bool,
}

/// `[resource.NAME]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceConfig {
    /// The table, where the file is to say so for its readers; it must be the adopted one.
    pub table: Option<String>,
    /// Columns that bodies do not set.
    pub read_only: Vec<String>,
    /// Columns that callers may not know of.
    pub hidden: Vec<String>,
    /// Whether a write without `If-Match` is refused with 428.
    pub require_if_match: bool,
    /// Whether weak tags never match.
    pub strict_etags: bool,
    /// The status of a write conflict, 409 or 412.
    pub conflict_status: Option<u16>,
    /// How fields merge.
    pub merge: Rules,
    /// How much history to keep.
    pub keep_history: Option<Retention>,
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or names an option that does not exist.
    #[error("{path}: {source}")]
    Invalid {
        /// The file.
        path: String,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it cannot be read or names an unknown option.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: name(), source })?;
        Self::parse(&text, &name())
    }

    /// Reads a file's text; `path` names it in errors.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str, path: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|source| ConfigError::Invalid {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    /// Adds what the file says to a catalogue that nobody else holds yet, and gives what does not
    /// fit, in words for a person.
    pub fn apply(&self, catalog: &mut Catalog) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, config) in &self.resource {
            match catalog.resource_mut(name) {
                Some(resource) => config.apply(resource, &mut problems),
                None => problems.push(format!(
                    "[resource.{name}] names no adopted table; adopt it: counterfoil adopt {} --name {name}",
                    config.table.as_deref().unwrap_or("SCHEMA.TABLE")
                )),
            }
        }
        problems
    }
}

impl Config {
    /// The resources of which the file hides or protects a column that is not there: it may only have
    /// another name by now.
    pub fn exposed<'a>(&'a self, catalog: &Catalog) -> Vec<&'a str> {
        let exposed = |(name, config): &(&String, &ResourceConfig)| {
            catalog.resource(name).is_some_and(|resource| {
                let mut guarded = config.hidden.iter().chain(&config.read_only);
                guarded.any(|column| resource.columns.iter().all(|c| &c.name != column))
            })
        };
        self.resource.iter().filter(exposed).map(|(name, _)| name.as_str()).collect()
    }
}

impl ResourceConfig {
    fn apply(&self, resource: &mut Resource, problems: &mut Vec<String>) {
        let name = resource.name.clone();
        let mut problem = |option: &str, text: String| {
            problems.push(format!("[resource.{name}] {option}: {text}"));
        };
        if let Some(table) = &self.table
            && !names_table(table, &resource.table)
        {
            problem(
                "table",
                format!("{table} is not the adopted table, which is {}", resource.table),
            );
        }
        for (option, columns) in [("read_only", &self.read_only), ("hidden", &self.hidden)] {
            for column in columns {
                let place = resource.columns.iter().position(|c| &c.name == column);
                match place {
                    None => problem(option, format!("{} has no column {column}", resource.table)),
                    Some(place) if option == "hidden" => {
                        if place == resource.version || resource.key.contains(&place) {
                            problem(option, format!("{column} must be seen: it addresses the row"));
                        } else {
                            resource.columns[place].hidden = true;
                        }
                    }
                    Some(place) => resource.columns[place].read_only = true,
                }
            }
        }
        let conflict_status = self.conflict_status.unwrap_or(409);
        if !matches!(conflict_status, 409 | 412) {
            problem("conflict_status", format!("{conflict_status} is neither 409 nor 412"));
        }
        if self.keep_history.is_some_and(|keep| keep.days.or(keep.versions).is_none_or(|n| n < 1)) {
            problem("keep_history", "wants days or versions, at least 1".to_owned());
        }
        let known = resource.readable().map(|c| c.name.as_str());
        if let Err(error) = self.merge.validate(known) {
            problems.push(format!("[resource.{name}] {error}"));
        }
        problems.extend(self.ill_suited(resource));
        resource.settings = Settings {
            conflict_status,
            require_if_match: self.require_if_match,
            strict_etags: self.strict_etags,
            merge: self.merge.clone(),
            retention: self.keep_history,
        };
        resource.describe_fields();
    }
}

impl ResourceConfig {
    /// The merge rules that name a field of another type than they are for.
    fn ill_suited(&self, resource: &Resource) -> Vec<String> {
        let Rules { set, keyed, counter, text, .. } = &self.merge;
        let arrays: fn(&Kind) -> bool = |k| matches!(k, Kind::Array(_) | Kind::Json { .. });
        let numbers: fn(&Kind) -> bool =
            |k| matches!(k, Kind::Integer(_) | Kind::Numeric(_) | Kind::Float);
        let texts: fn(&Kind) -> bool = |k| matches!(k, Kind::Text(_));
        let named = [
            ("set", set.iter().collect::<Vec<_>>(), arrays, "an array or JSON"),
            ("keyed", keyed.keys().collect(), arrays, "an array or JSON"),
            ("counter", counter.iter().collect(), numbers, "a number"),
            ("text", text.iter().collect(), texts, "a text"),
        ];
        let mut problems = Vec::new();
        for (rule, fields, suits, wanted) in named {
            for field in fields {
                if resource.column(field).is_some_and(|column| !suits(&column.kind)) {
                    let name = &resource.name;
                    problems
                        .push(format!("[resource.{name}] merge.{rule}: {field} is not {wanted}"));
                }
            }
        }
        problems
    }
}

/// Whether `invoices` or `public.invoices` stands for a quoted `"public"."invoices"`.
fn names_table(given: &str, quoted: &str) -> bool {
    let parts: Vec<_> = given.split('.').map(quote_identifier).collect();
    let given = parts.join(".");
    quoted == given || (parts.len() == 1 && quoted.ends_with(&format!(".{given}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_named() {
        let error = toml::from_str::<Config>("[resource.a]\ntabel = \"x\"").unwrap_err();
        assert!(error.to_string().contains("tabel"), "{error}");
    }

    #[test]
    fn a_table_may_be_named_with_or_without_its_schema() {
        assert!(names_table("public.invoices", "\"public\".\"invoices\""));
        assert!(names_table("invoices", "\"public\".\"invoices\""));
        assert!(!names_table("voices", "\"public\".\"invoices\""));
    }
}
