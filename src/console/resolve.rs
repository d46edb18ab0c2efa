//! Takes the merge form: decisions about two people's changes, written over exactly the version that
//! the form was made against. If the record moved again, the form comes back with what still holds.

use axum::extract::State;
use axum::response::Response;

use crate::catalog::key::Key;
use crate::console::flash::What;
use crate::console::form::{self, Submitted};
use crate::console::here::{self, Here, Sent};
use crate::console::merge::{self, Asked};
use crate::console::reply::{self, Failure};
use crate::console::write::Draft;
use crate::console::{gone, words};
use crate::error::Error;
use crate::http::App;
use crate::json::Member;
use crate::record::{Conflict, Outcome, conflict};
use crate::version::Version;

/// `POST /console/{resource}/{id}/merge`
pub(super) async fn save(
    State(app): State<App>,
    Sent { here, key, form }: Sent,
) -> Result<Response, Failure> {
    let address = format!("{}/merge", here::address(&here.resource, &key));
    let saved = decide(&app, &here, &key, &form).await;
    Ok(saved.unwrap_or_else(|error| reply::kept(&here, &address, &form, &error)))
}

async fn decide(app: &App, here: &Here, key: &Key, form: &Submitted) -> Result<Response, Error> {
    let base = form.version("base")?;
    let onto = form.version("onto")?;
    let asked = Asked { form: Some(form.clone()), ..Asked::first(base, yours(here, form)) };
    let conflict = match compare(app, here, key, &asked).await? {
        Ok(conflict) => conflict,
        Err(response) => return Ok(response),
    };
    let Some((current, sides)) = conflict.current.as_ref().zip(conflict.sides.as_ref()) else {
        return Err(conflict::missing(&here.resource));
    };
    let verdicts = sides.verdicts(&here.resource).fields;
    let units = merge::units(&here.resource, verdicts, Some(form));
    if current.version != onto {
        return Ok(merge::answer(here, key, &conflict, &asked));
    }
    if units.iter().any(|unit| unit.decision.is_none()) {
        let asked = Asked { incomplete: true, ..asked };
        return Ok(merge::answer(here, key, &conflict, &asked));
    }
    match merge::chosen(&here.resource, &units, form) {
        Ok(members) if members.is_empty() => Ok(reply::done(here, key, What::Kept, onto)),
        Ok(members) => write(app, here, key, asked, conflict, onto, members).await,
        Err(errors) => {
            let asked = Asked { errors, ..asked };
            Ok(merge::answer(here, key, &conflict, &asked))
        }
    }
}

/// The visitor's own changes, as the form keeps them.
pub(super) fn yours(here: &Here, form: &Submitted) -> Vec<Member> {
    let columns = here.resource.columns.iter().filter(|c| c.writable());
    let members = columns.filter_map(|column| {
        let json = form.get(&format!("y.{}", words::encode(&column.name)))?;
        form::member(&column.name, json.to_owned())
    });
    members.collect()
}

/// The changes beside the record as it stands now; or the page to answer with.
async fn compare(
    app: &App,
    here: &Here,
    key: &Key,
    asked: &Asked,
) -> Result<Result<Conflict, Response>, Error> {
    let draft = Draft::patch(here, key, asked.base, asked.yours.clone());
    match draft.compare(app, here).await? {
        Outcome::Conflict(conflict) => Ok(Ok(conflict)),
        Outcome::Gone(gone) => Ok(Err(gone::answer(here, key, gone, asked.yours.clone(), None))),
        Outcome::Refused(error) => Err(error),
        _ => Err(conflict::missing(&here.resource)),
    }
}

/// The page for changes that met a newer row. The comparison is made here, of all that is wanted: a
/// write that was refused for two reasons at once tells only of the first.
///
/// # Errors
/// What is wrong with the changes themselves.
pub(super) async fn meet(
    app: &App,
    here: &Here,
    key: &Key,
    base: Version,
    yours: Vec<Member>,
) -> Result<Response, Error> {
    let asked = Asked::first(base, yours);
    Ok(match compare(app, here, key, &asked).await? {
        Ok(conflict) => merge::answer(here, key, &conflict, &asked),
        Err(response) => response,
    })
}

async fn write(
    app: &App,
    here: &Here,
    key: &Key,
    asked: Asked,
    conflict: Conflict,
    onto: Version,
    members: Vec<Member>,
) -> Result<Response, Error> {
    let draft = Draft::merge(here, key, (asked.base, onto), members);
    let error: Error = match draft.write(app, here).await {
        Ok(Outcome::Applied(row)) => return Ok(reply::done(here, key, What::Merged, row.version)),
        Ok(Outcome::AlreadyApplied(row)) => {
            return Ok(reply::done(here, key, What::Already, row.version));
        }
        Ok(Outcome::Gone(gone)) => return Ok(gone::answer(here, key, gone, asked.yours, None)),
        Ok(Outcome::Refused(error)) | Err(error) => error,
        Ok(Outcome::Conflict(_)) => {
            // It moved between the comparison and the write.
            return Ok(match compare(app, here, key, &asked).await? {
                Ok(conflict) => merge::answer(here, key, &conflict, &asked),
                Err(response) => response,
            });
        }
        Ok(_) => return Err(conflict::missing(&here.resource)),
    };
    let asked = Asked { errors: form::errors_of(&error), error: Some(error), ..asked };
    Ok(merge::answer(here, key, &conflict, &asked))
}
