//! Reads and writes as the API makes them, by the same functions, for the console's pages.

use std::sync::Arc;

use futures_util::FutureExt as _;

use crate::catalog::key::Key;
use crate::console::here::Here;
use crate::error::Error;
use crate::http::App;
use crate::json::Member;
use crate::precondition::{Condition, Precondition};
use crate::record::history::{self, Entry};
use crate::record::store::{self, Found};
use crate::record::{Change, Outcome, Run, Verb, Write, body};
use crate::version::Version;

/// A write to one record, on behalf of a form.
pub(super) struct Draft {
    /// The record; `None` where it is to be created under an id still to be given.
    pub(super) key: Option<Key>,
    /// Which kind of write it is.
    pub(super) verb: Verb,
    /// What is to be done.
    pub(super) change: Result<Change, Error>,
    /// What the record must be like.
    pub(super) precondition: Precondition,
}

impl Draft {
    /// These members set, if the record is still at `base`.
    pub(super) fn patch(here: &Here, key: &Key, base: Version, members: Vec<Member>) -> Self {
        let change = body::patch(&here.resource, key, members, false);
        Self::on(key, base, Verb::Patch, change.map(Change::Patch))
    }

    /// What was decided about `base` and `onto`, if the record is still at `onto`.
    pub(super) fn merge(
        here: &Here,
        key: &Key,
        (base, onto): (Version, Version),
        members: Vec<Member>,
    ) -> Self {
        let change = body::patch(&here.resource, key, members, false);
        let change = change.map(|assignments| Change::Merge(assignments, base));
        Self::on(key, onto, Verb::Patch, change)
    }

    /// The record removed, if it is still at `base`.
    pub(super) fn delete(key: &Key, base: Version) -> Self {
        Self::on(key, base, Verb::Delete, Ok(Change::Delete))
    }

    /// A new record.
    pub(super) fn create(here: &Here, members: Vec<Member>) -> Self {
        let change = body::create(&here.resource, None, members).map(Change::Create);
        let precondition = Precondition { if_match: None, if_none_match: None };
        Self { key: None, verb: Verb::Create, change, precondition }
    }

    /// A deleted record brought back as `last` has it, with these changes, if nobody was faster.
    pub(super) fn revive(here: &Here, key: &Key, last: Vec<Member>, changes: Vec<Member>) -> Self {
        let change = body::revive(&here.resource, key, last, changes).map(Change::Create);
        let precondition = Precondition { if_match: None, if_none_match: Some(Condition::Any) };
        Self { key: Some(key.clone()), verb: Verb::Create, change, precondition }
    }

    fn on(key: &Key, version: Version, verb: Verb, change: Result<Change, Error>) -> Self {
        Self {
            key: Some(key.clone()),
            verb,
            change,
            precondition: Precondition {
                if_match: Some(Condition::Versions(vec![version])),
                if_none_match: None,
            },
        }
    }

    fn into_write(self, here: &Here) -> Write {
        Write {
            resource: here.resource.clone(),
            key: self.key,
            verb: self.verb,
            change: self.change,
            precondition: self.precondition,
            had: None,
            on_conflict: None,
            actor: here.visitor.actor.clone(),
            operation: Some(uuid::Uuid::now_v7().to_string()),
            run: Run::Alone,
        }
    }

    /// Writes.
    ///
    /// # Errors
    /// What the database could not do.
    pub(super) async fn write(self, app: &App, here: &Here) -> Result<Outcome, Error> {
        let write = self.into_write(here);
        app.apply(&Arc::new(write)).await
    }

    /// Compares with the record as it stands, and writes nothing.
    ///
    /// # Errors
    /// What the database could not do.
    pub(super) async fn compare(self, app: &App, here: &Here) -> Result<Outcome, Error> {
        let write = self.into_write(here);
        let compared =
            app.db.read(move |conn| async move { store::compare(conn, &write).await }.boxed());
        compared.await.map_err(|fault| app.failure(&fault))
    }
}

/// Reads a record as it stands.
///
/// # Errors
/// What the database could not do.
pub(super) async fn read(app: &App, here: &Here, key: &Key) -> Result<Found, Error> {
    let (resource, key) = (here.resource.clone(), key.clone());
    let read = app
        .db
        .read(move |conn| async move { store::read(conn, &resource, &key, None).await }.boxed());
    read.await.map_err(|fault| app.failure(&fault))
}

/// Reads a record as it stood at a version.
///
/// # Errors
/// What the database could not do.
pub(super) async fn read_version(
    app: &App,
    here: &Here,
    key: &Key,
    version: Version,
) -> Result<Found, Error> {
    let (resource, key) = (here.resource.clone(), key.clone());
    let read = app.db.read(move |conn| {
        async move { history::read_version(conn, &resource, &key, version).await }.boxed()
    });
    read.await.map_err(|fault| app.failure(&fault))
}

/// Reads all of a record as it stood at a version, also what is not to be shown; `None` where that is not kept.
///
/// # Errors
/// What the database could not do.
pub(super) async fn read_whole(
    app: &App,
    here: &Here,
    key: &Key,
    version: Version,
) -> Result<Option<String>, Error> {
    let (resource, key) = (here.resource.clone(), key.clone());
    let read = app.db.read(move |conn| {
        async move { history::read_whole(conn, &resource, &key, version).await }.boxed()
    });
    read.await.map_err(|fault| app.failure(&fault))
}

/// Reads versions of a record, newest first, and whether there are more.
///
/// # Errors
/// What the database could not do.
pub(super) async fn versions(
    app: &App,
    here: &Here,
    key: &Key,
    before: Option<Version>,
    most: usize,
) -> Result<(Vec<Entry>, bool), Error> {
    let (resource, key) = (here.resource.clone(), key.clone());
    let read = app.db.read(move |conn| {
        async move { history::read(conn, &resource, &key, before, most).await }.boxed()
    });
    read.await.map_err(|fault| app.failure(&fault))
}
