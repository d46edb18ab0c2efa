//! Brings an older version back: a conditional write over the current version, or, where the record
//! was deleted, a creation that continues its versions.

use axum::extract::{Request, State};
use axum::response::Response;

use crate::catalog::Column;
use crate::catalog::key::Key;
use crate::console::flash::{Flash, What};
use crate::console::form::Submitted;
use crate::console::here::{self, Here};
use crate::console::merge::{self, Asked};
use crate::console::reply::{self, Failure};
use crate::console::write::{self, Draft};
use crate::console::{gone, resolve};
use crate::error::{Code, Error};
use crate::http::App;
use crate::json::{self, Member};
use crate::record::store::Found;
use crate::record::{Gone, Outcome, Row, conflict};
use crate::version::Version;

/// `POST /console/{resource}/{id}/restore`
///
/// The form names the version to bring back and the version that the page showed as the current
/// one; `deleted` says that the latter was a deletion.
pub(super) async fn restore(
    State(app): State<App>,
    here: Here,
    request: Request,
) -> Result<Response, Failure> {
    let key = here.key()?;
    let form = here::form(&app, request).await?;
    let version = form.version("version")?;
    let current = form.version("current")?;
    let members = at(&app, &here, &key, version).await?;
    if form.get("deleted").is_some() {
        return revive(&app, &here, &key, version, &form, members).await;
    }
    let yours = members.clone();
    match Draft::patch(&here, &key, current, members)
        .write(&app, &here)
        .await?
    {
        Outcome::Applied(row) => Ok(done(&here, &key, What::Restored, row.version)),
        Outcome::AlreadyApplied(row) => Ok(done(&here, &key, What::Already, row.version)),
        Outcome::Conflict(conflict) => {
            let asked = Asked::first(current, yours);
            Ok(merge::answer(&here, &key, &conflict, &asked))
        }
        Outcome::Gone(gone) => Ok(gone::answer(&here, &key, gone, yours)),
        Outcome::Refused(error) => Err(error.into()),
        _ => Err(conflict::missing(&here.resource).into()),
    }
}

/// The writable values of a version.
async fn at(app: &App, here: &Here, key: &Key, version: Version) -> Result<Vec<Member>, Failure> {
    let found = write::read_version(app, here, key, version).await?;
    let (Found::Row(Row { json, .. })
    | Found::Gone(Gone {
        last: Some(json), ..
    })) = found
    else {
        let message = format!("Version {version} is no longer kept.");
        return Err(Error::new(Code::NotFound, message).into());
    };
    let mut members = json::read_object(json.as_bytes())?;
    // A column may have been dropped since, or be kept from bodies now.
    members.retain(|(name, _)| here.resource.column(name).is_some_and(Column::writable));
    Ok(members)
}

/// Creates the record again, with the visitor's changes where the form has some.
async fn revive(
    app: &App,
    here: &Here,
    key: &Key,
    base: Version,
    form: &Submitted,
    mut members: Vec<Member>,
) -> Result<Response, Failure> {
    let changes = resolve::yours(here, form);
    members.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    members.extend(changes.iter().cloned());
    let restored = Draft::create(here, Some(key), members)
        .write(app, here)
        .await?;
    match restored {
        Outcome::Created(row, _) => Ok(done(here, key, What::Restored, row.version)),
        // Somebody was faster: the visitor's changes meet the row that is there.
        Outcome::Unwanted(row) if changes.is_empty() => {
            Ok(done(here, key, What::Already, row.version))
        }
        Outcome::Unwanted(_) => met(app, here, key, base, changes).await,
        Outcome::Gone(gone) => Ok(gone::answer(here, key, gone, changes)),
        Outcome::Refused(error) => Err(error.into()),
        _ => Err(conflict::missing(&here.resource).into()),
    }
}

async fn met(
    app: &App,
    here: &Here,
    key: &Key,
    base: Version,
    changes: Vec<Member>,
) -> Result<Response, Failure> {
    let asked = Asked::first(base, changes.clone());
    match Draft::patch(here, key, base, changes)
        .compare(app, here)
        .await?
    {
        Outcome::Conflict(conflict) => Ok(merge::answer(here, key, &conflict, &asked)),
        Outcome::Gone(gone) => Ok(gone::answer(here, key, gone, asked.yours)),
        Outcome::Refused(error) => Err(error.into()),
        _ => Err(conflict::missing(&here.resource).into()),
    }
}

fn done(here: &Here, key: &Key, what: What, version: Version) -> Response {
    let address = here::address(&here.resource, key);
    let flash = Flash::new(what, version, address.as_str());
    reply::see_other(&address, Some(&flash))
}
