//! Several writes of one request, in one transaction and in the order given: what a batch and a push
//! are made of.

mod order;
pub mod store;
pub mod undone;

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::merge::Resolve;
use crate::record::{Outcome, Verb, Write};
use crate::version::Version;

/// One of several writes.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The write; an error where the request says nothing that could be done.
    pub write: Result<Cow<'a, Write>, Error>,
    /// The place of an earlier write to the same record, whose outcome this one is based on.
    pub based_on: Option<usize>,
    /// Whether a deletion of what is gone already counts as done. By itself, it is refused.
    pub gone_is_done: bool,
}

impl<'a> Place<'a> {
    /// A write that is based on no other.
    pub fn of(write: &'a Result<Write, Error>) -> Self {
        let write = write.as_ref().map(Cow::Borrowed).map_err(Clone::clone);
        Self { write, based_on: None, gone_is_done: false }
    }

    /// Whether the write holds that came to this.
    fn holds(&self, outcome: &Outcome) -> bool {
        let gone = matches!(outcome, Outcome::Gone(_));
        (self.gone_is_done || !gone)
            && self.write.as_ref().is_ok_and(|write| version(write, outcome).is_some())
    }
}

/// What one write that does not hold means for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// None holds.
    Whole,
    /// Nothing: each stands for itself.
    Each,
    /// Nothing, except that none is run after one that the database could not do for now.
    InTurn,
}

/// What became of one of several writes.
#[derive(Debug)]
pub enum Ended {
    /// It was run, and came to this. Where the row that came of it holds changes which the client had
    /// not seen, also what it had seen.
    Run(Outcome, Option<Seen>),
    /// The request or the database stands against it.
    Failed(Error),
    /// It was refused for what an earlier one left, at this place where that is known. Nothing of that holds,
    /// and by itself it would not be refused so: the row that the outcome tells of never was.
    Undone(Outcome, Option<usize>),
    /// The write that it is based on does not hold.
    Blocked,
    /// It was left alone, because the database could not do one ahead of it for now.
    Left,
}

/// What a client had seen of a record when it made a write that holds: the base of what it does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The version that it began with.
    pub version: Version,
    /// The row as it had it, where that is no longer the row of that version.
    pub row: Option<String>,
}

impl Seen {
    /// What the client had seen, where that is not the version that the write came to.
    fn of(write: &Write, outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Merged(_, merged) => {
                let fields = Map::from(merged.yours.clone());
                let row = Some(Value::Object(fields).to_string());
                Some(Self { version: merged.base, row })
            }
            // The row holds what the write sets; what else it holds may be others'.
            Outcome::AlreadyApplied(_) => {
                let version = write.precondition.newest_named()?;
                Some(Self { version, row: write.had.clone() })
            }
            _ => None,
        }
    }
}

impl Write {
    /// Bases a write on the outcome of an earlier one of the same client to the same record. What the
    /// client had not seen then, it has not seen now: such a write is merged, or conflicts.
    pub fn follow(&mut self, version: Version, seen: Option<Seen>) {
        match seen {
            Some(seen) if self.verb != Verb::Increment && self.verb != Verb::Create => {
                self.precondition.follow(seen.version);
                self.had = seen.row;
                self.on_conflict = Some(self.on_conflict.unwrap_or(Resolve::Fail));
            }
            _ => self.precondition.follow(version),
        }
    }
}

/// The version that a write came to, where it holds.
pub fn version(write: &Write, outcome: &Outcome) -> Option<Version> {
    match outcome {
        Outcome::Applied(row)
        | Outcome::Created(row, _)
        | Outcome::AlreadyApplied(row)
        | Outcome::Merged(row, _) => Some(row.version),
        Outcome::Deleted(version) => Some(*version),
        // Who wants a record gone has what he wants.
        Outcome::Gone(gone) if write.verb == Verb::Delete => {
            gone.yours.is_none_or(|yours| yours <= gone.version).then_some(gone.version)
        }
        _ => None,
    }
}
