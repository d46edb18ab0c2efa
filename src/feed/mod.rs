//! The feed (API.md section 6): every committed change of the adopted tables, in an order that a
//! reader can stop in and go on from. It is a scan of the change log by `(xid, seq)`, below the oldest
//! transaction that is still open: what commits later has a higher number, so nothing is skipped.

pub mod cursor;
pub mod http;
pub mod page;
pub mod pulse;
pub mod snapshot;
pub mod store;
pub mod stream;

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::catalog::{Catalog, Resource};
use crate::error::{Code, Error};

/// How many changes a page holds where nothing is said.
pub const DEFAULT_LIMIT: usize = 500;

/// How many resources a request may name.
const MOST_NAMES: usize = 200;

/// A place in the change log: everything up to it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The transaction.
    pub xid: u64,
    /// The change within it.
    pub seq: i64,
}

/// The first bytes of a digest.
pub type Mark = [u8; 8];

/// The resources that a reader follows, each with a log that can be followed.
#[derive(Clone, Debug)]
pub struct Filter {
    /// They, by name.
    pub resources: Vec<Arc<Resource>>,
    /// Whether the request named none, and means all.
    pub all: bool,
}

impl Filter {
    /// Reads `resources=a,b`; all that have a history where the request names none.
    ///
    /// # Errors
    /// `INVALID_QUERY`, with the name of what cannot be followed.
    pub fn read(catalog: &Catalog, list: Option<&str>) -> Result<Self, Error> {
        let Some(list) = list else {
            let resources = catalog.resources().filter(|r| r.history).cloned().collect();
            return Ok(Self { resources, all: true });
        };
        let mut names: Vec<_> = list.split(',').collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > MOST_NAMES {
            return Err(refused(format!("resources names more than {MOST_NAMES} resources")));
        }
        let resource = |name: &&str| match catalog.resource(name) {
            Some(resource) if resource.history => Ok(resource.clone()),
            Some(_) => Err(refused(format!(
                "The resource \"{name}\" keeps no history, so its changes cannot be followed"
            ))
            .detail("resource", *name)),
            None => Err(refused(format!("There is no resource \"{}\"", shown(name)))
                .detail("resource", shown(name))),
        };
        let resources = names.iter().map(resource).collect::<Result<_, _>>()?;
        Ok(Self { resources, all: false })
    }

    /// The names.
    pub fn names(&self) -> Vec<&str> {
        self.resources.iter().map(|resource| resource.name.as_str()).collect()
    }

    /// What the request asked for: a cursor goes on only for the same.
    pub fn asked(&self) -> Mark {
        if self.all { mark(["*"]) } else { mark(self.names()) }
    }

    /// Which logs that stands for at this moment.
    pub fn logs(&self) -> Mark {
        mark(self.resources.iter().flat_map(|r| [r.name.as_str(), r.log.as_str()]))
    }

    /// The address of a first copy of the same resources.
    pub fn snapshot(&self) -> String {
        let address = "/api/v1/sync/snapshot";
        if self.all {
            address.to_owned()
        } else {
            format!("{address}?resources={}", self.names().join(","))
        }
    }
}

/// Names have no comma.
fn mark<'a>(words: impl IntoIterator<Item = &'a str>) -> Mark {
    let mut digest = Sha256::new();
    for word in words {
        digest.update(word);
        digest.update(",");
    }
    let mut mark = Mark::default();
    mark.iter_mut().zip(digest.finalize()).for_each(|(to, from)| *to = from);
    mark
}

fn refused(message: String) -> Error {
    Error::field(Code::InvalidQuery, "resources", message)
}

/// A name that a client sent, short enough to be sent back.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Why a cursor's place is no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// It is of another database, or of this one before it was restored.
    Database,
    /// Changes after it were let go.
    Retention,
    /// A resource came, went, or kept no history for a while.
    Resources,
}

impl Expired {
    /// The answer, with the way to start again.
    pub fn error(self, filter: &Filter) -> Error {
        let (reason, message) = match self {
            Self::Database => (
                "database",
                "The cursor is of another database, or of this one before it was restored",
            ),
            Self::Retention => ("retention", "Changes after this cursor are no longer kept"),
            Self::Resources => (
                "resources",
                "Since this cursor was given, resources came or went, or were without history",
            ),
        };
        Error::new(Code::CursorExpired, format!("{message}: start again with a snapshot"))
            .detail("reason", reason)
            .detail("snapshot", filter.snapshot())
    }
}
