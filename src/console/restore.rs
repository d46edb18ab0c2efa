//! Brings an older version back: a conditional write over the current version, or, where the record
//! was deleted, a creation that continues its versions.

use axum::extract::State;
use axum::response::Response;

use crate::catalog::Column;
use crate::catalog::key::Key;
use crate::console::flash::What;
use crate::console::form::Submitted;
use crate::console::here::{self, Here, Sent};
use crate::console::reply::{self, Failure};
use crate::console::write::{self, Draft};
use crate::console::{gone, resolve};
use crate::error::{Code, Error};
use crate::http::App;
use crate::json::{self, Member};
use crate::record::store::Found;
use crate::record::{Conflict, Gone, Outcome, Row, conflict};
use crate::version::Version;

/// `POST /console/{resource}/{id}/restore`
///
/// The form names the version to bring back and the version that the page showed as the current
/// one; `deleted` says that the latter was a deletion.
pub(super) async fn restore(
    State(app): State<App>,
    Sent { here, key, form }: Sent,
) -> Result<Response, Failure> {
    let address = format!("{}/restore", here::address(&here.resource, &key));
    let restored = if form.get("deleted").is_some() {
        revive(&app, &here, &key, &form).await
    } else {
        go_back(&app, &here, &key, &form).await
    };
    Ok(restored.unwrap_or_else(|error| reply::kept(&here, &address, &form, &error)))
}

/// Writes an older version over the one that the page showed as the current one.
async fn go_back(app: &App, here: &Here, key: &Key, form: &Submitted) -> Result<Response, Error> {
    let current = form.version("current")?;
    let members = at(app, here, key, form.version("version")?).await?;
    let draft = Draft::patch(here, key, current, members.clone());
    match draft.write(app, here).await? {
        Outcome::Applied(row) => Ok(reply::done(here, key, What::Restored, row.version)),
        Outcome::AlreadyApplied(row) => Ok(reply::done(here, key, What::Already, row.version)),
        Outcome::Conflict(_) => resolve::meet(app, here, key, current, members).await,
        Outcome::Gone(gone) => Ok(gone::answer(here, key, gone, members, None)),
        Outcome::Refused(error) => Err(error),
        _ => Err(conflict::missing(&here.resource)),
    }
}

/// The writable values of a version.
async fn at(app: &App, here: &Here, key: &Key, version: Version) -> Result<Vec<Member>, Error> {
    let found = write::read_version(app, here, key, version).await?;
    let (Found::Row(Row { json, .. }) | Found::Gone(Gone { last: Some(json), .. })) = found else {
        return Err(not_kept(version));
    };
    let mut members = json::read_object(json.as_bytes())?;
    // A column may have been dropped since, or be kept from bodies now.
    members.retain(|(name, _)| here.resource.column(name).is_some_and(Column::writable));
    Ok(members)
}

fn not_kept(version: Version) -> Error {
    Error::new(Code::NotFound, format!("Version {version} is no longer kept"))
}

/// Creates the record again with all that it was, also what no form shows, and with the visitor's changes
/// where the form has some.
async fn revive(app: &App, here: &Here, key: &Key, form: &Submitted) -> Result<Response, Error> {
    let version = form.version("version")?;
    let last = write::read_whole(app, here, key, version).await?;
    let last = json::read_object(last.ok_or_else(|| not_kept(version))?.as_bytes())?;
    let changes = resolve::yours(here, form);
    let restored = Draft::revive(here, key, last, changes.clone()).write(app, here).await?;
    match restored {
        Outcome::Created(row, _) => Ok(reply::done(here, key, What::Restored, row.version)),
        // Somebody was faster: the visitor's changes meet the row that is there.
        Outcome::Unwanted(Conflict { current: Some(row), .. }) if changes.is_empty() => {
            Ok(reply::done(here, key, What::Already, row.version))
        }
        Outcome::Unwanted(_) => resolve::meet(app, here, key, version, changes).await,
        Outcome::Gone(gone) => Ok(gone::answer(here, key, gone, changes, None)),
        Outcome::Refused(error) => match write::read(app, here, key).await? {
            Found::Gone(gone) => Ok(gone::answer(here, key, gone, changes, Some(&error))),
            _ => Err(error),
        },
        _ => Err(conflict::missing(&here.resource)),
    }
}
