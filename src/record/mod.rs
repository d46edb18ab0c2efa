//! Records: reading them, and the compare-and-set that every write is. A write either applies, or
//! misses and is explained by a second statement; a conflict is a value, never an error.

pub mod answer;
pub mod became;
pub mod body;
pub mod conflict;
mod creation;
pub mod draft;
pub mod evidence;
pub mod failure;
pub mod history;
pub mod http;
pub mod increment;
pub mod lane;
pub mod list;
pub mod many;
pub mod merging;
pub mod past;
pub mod patch;
pub mod query;
pub mod reconcile;
pub mod refusal;
pub mod retention;
pub mod run;
pub mod several;
pub mod statement;
pub mod store;
mod unique;

use std::sync::Arc;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::error::Error;
use crate::merge::{self, FieldVerdict, Resolve};
use crate::precondition::Precondition;
use crate::record::body::Assignments;
use crate::record::increment::Increment;
use crate::record::reconcile::Sides;
use crate::version::Version;

pub use run::Run;

/// One write to one record. It owns all it needs, so that it can be handed to whoever runs it.
#[derive(Clone, Debug)]
pub struct Write {
    /// The table, as the catalogue had it when the request came.
    pub resource: Arc<Resource>,
    /// The record; `None` where it is to be created under an id still to be given.
    pub key: Option<Key>,
    /// Which request it is.
    pub verb: Verb,
    /// What is to be done; an error where the body says nothing that could be done. That error is
    /// told only after existence and preconditions were checked (RFC 9110 §13.2.1).
    pub change: Result<Change, Error>,
    /// What the record must be like beforehand.
    pub precondition: Precondition,
    /// The row as the client had it, where that is no version of the change log: a merge is made on it.
    pub had: Option<String>,
    /// What to do where the row moved: merge, or leave it to the client.
    pub on_conflict: Option<Resolve>,
    /// Who does it.
    pub actor: String,
    /// The id by which the change log is to know it, where it runs by itself. Within a transaction
    /// that is for its owner to say.
    pub operation: Option<String>,
    /// How it runs.
    pub run: Run,
}

impl Write {
    /// Who writes and under which operation, as the statements that write have it.
    pub(crate) fn named(&self) -> Vec<&str> {
        [Some(self.actor.as_str()), self.operation.as_deref()].into_iter().flatten().collect()
    }
}

/// The kinds of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST to the resource, or PUT with `If-None-Match: *`.
    Create,
    /// PUT.
    Replace,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
    /// POST to the record's `increment`.
    Increment,
}

/// What a write does to its record.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new record.
    Create(Assignments),
    /// Every writable column, from the body or from its default.
    Replace(Assignments),
    /// The columns named.
    Patch(Assignments),
    /// What a person decided about two versions: the columns named, over the version that the
    /// precondition names, with both versions told to the history.
    Merge(Assignments, Version),
    /// A JSON Patch (RFC 6902), applied to the record as it stands.
    JsonPatch(json_patch::Patch),
    /// Its end.
    Delete,
    /// Adds to a number in place.
    Increment(Increment),
}

/// A row as it stands: its version, and itself as the JSON text that PostgreSQL made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The version.
    pub version: Version,
    /// The row.
    pub json: String,
}

/// What became of a write.
#[must_use = "a conflict is an outcome, not an error"]
#[derive(Debug)]
pub enum Outcome {
    /// It happened; the row as it is now.
    Applied(Row),
    /// A record came to be, under this key.
    Created(Row, Key),
    /// The record is gone, at this version.
    Deleted(Version),
    /// The precondition failed, but the row already holds all that the write sets: a retry after
    /// a lost reply, not a conflict.
    AlreadyApplied(Row),
    /// It was merged with what others wrote since the client's version, and happened.
    Merged(Row, Merged),
    /// The row moved since the client read it.
    Conflict(Conflict),
    /// `If-None-Match` named the current version, or any; the row as it stands, and how it differs from
    /// the one that was to be created.
    Unwanted(Conflict),
    /// The record was deleted.
    Gone(Gone),
    /// There never was such a record.
    Missing,
    /// The body or a constraint stands against it.
    Refused(Error),
}

impl Outcome {
    /// The bytes of the row that an answer has to look into.
    pub fn size(&self) -> usize {
        match self {
            Self::Conflict(Conflict { current: Some(row), .. })
            | Self::Unwanted(Conflict { current: Some(row), .. }) => row.json.len(),
            _ => 0,
        }
    }
}

/// A write that met a row newer than the one it was based on.
#[derive(Debug)]
pub struct Conflict {
    /// The row as it stands; `None` where the write was to create it and it is not there.
    pub current: Option<Row>,
    /// The newest version that the client named.
    pub yours: Option<Version>,
    /// Who wrote the current version and when, where the change log knows it.
    pub by: Option<Authorship>,
    /// `update_update`, `delete_update` or `create_create`.
    pub kind: &'static str,
    /// The client's row, the wanted row and the current row, where the body says what is wanted.
    pub sides: Option<Sides>,
}

/// What a merge was made of.
#[derive(Debug)]
pub struct Merged {
    /// The version that the client had.
    pub base: Version,
    /// The version that the merge was written over.
    pub onto: Version,
    /// The row as the client wanted it.
    pub yours: merge::Row,
    /// Who changed what.
    pub fields: Vec<FieldVerdict>,
}

/// Who wrote a version, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorship {
    /// The actor of the request, else the database role.
    pub by: String,
    /// RFC 3339 in UTC with microseconds, by the database's clock.
    pub at: String,
}

/// A record that was deleted.
#[derive(Debug)]
pub struct Gone {
    /// The version of the deletion, one above the last row's.
    pub version: Version,
    /// Who deleted it, and when.
    pub by: Authorship,
    /// The last row as JSON text.
    pub last: Option<String>,
    /// The newest version that the client named.
    pub yours: Option<Version>,
}
