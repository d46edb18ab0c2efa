//! The replication of RxDB, which compares whole documents: a client sends what it took the server's
//! document for and what it is to be, and gets back the documents that stand against it. Each change is
//! a write like any other, on exactly the version that was compared. Nothing is kept of a client: what is
//! sent again finds its effect there.

mod answer;
pub mod document;
pub mod http;
mod read;
pub mod store;

use std::sync::{Arc, Mutex};

use uuid::Uuid;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::error::Error;
use crate::merge::{Resolve, Row as Fields};
use crate::precondition::Precondition;
use crate::record::became::Became;
use crate::record::draft::Draft;
use crate::record::store::Found;
use crate::record::{Run, Write};
use crate::sync::rxdb::document::Document;
use crate::version::Version;

/// How many documents one push may hold.
pub const MOST: usize = crate::sync::MOST;

/// How many documents a page holds where nothing is said: as many as RxDB asks for by itself.
pub const DEFAULT_LIMIT: usize = 100;

/// A push that is ready to run.
#[derive(Debug)]
pub struct Push {
    /// The resource.
    pub resource: Arc<Resource>,
    /// The documents.
    pub rows: Vec<Pushed>,
    /// The client, where it says so: what it wrote itself is known to it.
    pub client: Option<Uuid>,
    /// What to do where the server's document is another one than was assumed.
    pub on_conflict: Option<Resolve>,
    /// Whether to tell what was refused, and why, beside the documents.
    pub report: bool,
    /// Who pushes.
    pub actor: String,
    /// The request's id, which every refusal bears.
    pub request_id: String,
    /// What became of each document when it was last run, to be counted.
    pub became: Mutex<Vec<Became>>,
}

/// A document that a client changed.
#[derive(Debug)]
pub struct Pushed {
    /// Its id as it came.
    pub id: String,
    /// Its key; an error where the id can be none.
    pub key: Result<Key, Error>,
    /// What the client took the server's document for; `None` where it knew of none.
    pub assumed: Option<Document>,
    /// What it is to be.
    pub wanted: Document,
}

/// How the record of a document stands.
#[derive(Debug)]
pub struct Standing {
    /// Its row, or how it ended.
    pub found: Found,
    /// Whether the client itself wrote all that came after the version that it assumed.
    pub own: bool,
}

/// What is to be done about a document.
#[derive(Debug)]
pub enum Step {
    /// Nothing: the server has it so.
    Holds,
    /// Nothing: the server's document is not the one that the client knew.
    Conflict,
    /// This, which fails where the document moved after it was compared.
    Write(Box<Write>),
}

impl Push {
    /// Compares a document with what the server has.
    pub fn step(&self, pushed: &Pushed, key: &Key, standing: &Standing) -> Step {
        let Pushed { assumed, wanted, .. } = pushed;
        let resource = &self.resource;
        match (&standing.found, assumed) {
            (Found::Missing | Found::Gone(_), _) if wanted.deleted => Step::Holds,
            // Also where it is only not there any more: then the database is not the one it was.
            (Found::Missing, _) => self.create(key, wanted),
            (Found::Gone(_), Some(assumed)) if assumed.deleted => self.create(key, wanted),
            (Found::Gone(_), _) => Step::Conflict,
            (Found::Row(row), assumed) => {
                let Ok(current) = serde_json::from_str::<Fields>(&row.json) else {
                    return Step::Conflict;
                };
                if !wanted.deleted && wanted.holds(resource, assumed.as_ref(), &current) {
                    return Step::Holds;
                }
                let Some(assumed) = assumed.as_ref().filter(|assumed| !assumed.deleted) else {
                    return Step::Conflict;
                };
                // RxDB does not hear of the version that its own edit came to before it pulls it, and may go
                // back to an earlier one for a moment where what it pulls crosses what it pushes.
                if standing.own || assumed.is_in(resource, &current) {
                    return self.change(key, wanted, assumed, row.version, None);
                }
                match assumed.version(resource) {
                    Some(version) if self.on_conflict.is_some() && !wanted.deleted => {
                        self.change(key, wanted, assumed, version, self.on_conflict)
                    }
                    _ => Step::Conflict,
                }
            }
        }
    }

    fn create(&self, key: &Key, wanted: &Document) -> Step {
        let nothing = Precondition::based_on(Version(0));
        let body = wanted.body();
        self.write(Draft::replace(&self.resource, key.clone(), nothing, body.as_bytes()), None)
    }

    /// Only what the client changed is written: its copy of the rest may be rounded, or older.
    fn change(
        &self,
        key: &Key,
        wanted: &Document,
        assumed: &Document,
        version: Version,
        resolve: Option<Resolve>,
    ) -> Step {
        let precondition = Precondition::based_on(version);
        if wanted.deleted {
            return self.write(Draft::delete(key.clone(), precondition), None);
        }
        let Some(changes) = wanted.changes(&self.resource, assumed) else { return Step::Holds };
        let draft = Draft::patch(&self.resource, key.clone(), precondition, "", changes.as_bytes());
        let step = self.write(draft, resolve);
        match step {
            Step::Write(mut write) if resolve.is_some() => {
                write.had = Some(assumed.body());
                Step::Write(write)
            }
            step => step,
        }
    }

    fn write(&self, draft: Draft, resolve: Option<Resolve>) -> Step {
        let actor = self.actor.clone();
        let write = draft.into_write(self.resource.clone(), resolve, actor, Run::Within);
        Step::Write(Box::new(write))
    }
}
