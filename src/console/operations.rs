//! What was done under an `Idempotency-Key`, and what an operator may do about an operation that is
//! blocked.

use askama::Template;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;

use crate::console::flash::{Flash, What};
use crate::console::reply::{self, Crumb, Failure, Shell};
use crate::console::visitor::Visitor;
use crate::console::{here, value, words};
use crate::error::{Code, Error};
use crate::http::App;
use crate::operation::http::{self as operations, Page as Found, STATUSES};
use crate::operation::settle;
use crate::operation::store::Settlement;
use crate::version::Version;

/// The page's address.
const ADDRESS: &str = "/console/-/operations";

/// An operation as its route shows it.
#[derive(Deserialize)]
struct Operation {
    id: String,
    key: String,
    status: String,
    method: String,
    path: String,
    actor: String,
    attempts: i64,
    evidence: Value,
    response_status: Option<i64>,
    created_at: String,
    completed_at: Option<String>,
    expires_at: String,
}

impl Operation {
    fn read(json: &str) -> Result<Self, Error> {
        let read = serde_json::from_str::<Self>(json);
        let mut operation =
            read.map_err(|_| Error::new(Code::Internal, "The operation cannot be shown."))?;
        for moment in [&mut operation.created_at, &mut operation.expires_at] {
            *moment = value::moment(moment);
        }
        operation.completed_at = operation.completed_at.as_deref().map(value::moment);
        Ok(operation)
    }

    fn blocked(&self) -> bool {
        self.status == "blocked"
    }

    /// The attempts that came to nothing, newest first.
    fn failures(&self) -> Vec<Attempt> {
        let failures = self.evidence["failures"].as_array().map_or(&[][..], Vec::as_slice);
        let text = |failure: &Value, name: &str| failure[name].as_str().unwrap_or("").to_owned();
        let attempt = |failure: &Value| Attempt {
            at: value::moment(&text(failure, "at")),
            code: text(failure, "code"),
            request: text(failure, "request_id"),
        };
        failures.iter().map(attempt).collect()
    }

    /// What else is known of it.
    fn facts(&self) -> Vec<(String, String)> {
        let members = self.evidence.as_object().into_iter().flatten();
        let members = members.filter(|(name, _)| *name != "failures");
        let text = |fact: &Value| fact.as_str().map_or_else(|| fact.to_string(), str::to_owned);
        members.map(|(name, fact)| (words::label(name), text(fact))).collect()
    }
}

struct Attempt {
    at: String,
    code: String,
    request: String,
}

#[derive(Template)]
#[template(path = "operations.html")]
struct ListPage {
    shell: Shell,
    address: &'static str,
    statuses: &'static [&'static str],
    status: String,
    operations: Vec<Operation>,
    older: Option<String>,
}

/// `GET /console/-/operations`
pub(super) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    // A form sends what was left open as nothing.
    let parameters: Vec<_> =
        parameters.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let listed = operations::read_list(&parameters)?;
    let status = listed.status.clone().unwrap_or_default();
    let Found { operations, next } = operations::page(&app, listed).await?;
    let read: Result<Vec<_>, _> = operations.iter().map(|json| Operation::read(json)).collect();
    let page = ListPage {
        shell: Shell::new("Operations", &visitor, vec![Crumb::here("Operations")]),
        address: ADDRESS,
        statuses: &STATUSES,
        older: next.map(|next| format!("{ADDRESS}?status={status}&after={next}")),
        status,
        operations: read?,
    };
    Ok(reply::page(200, &page))
}

#[derive(Template)]
#[template(path = "operation.html")]
struct OnePage {
    shell: Shell,
    address: String,
    operation: Operation,
    note: String,
    problem: Option<String>,
}

/// `GET /console/-/operations/{id}`
pub(super) async fn page(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    show(&app, &visitor, &id, String::new(), None).await
}

async fn show(
    app: &App,
    visitor: &Visitor,
    id: &str,
    note: String,
    refused: Option<Error>,
) -> Result<Response, Failure> {
    let operation = Operation::read(&operations::find(app, id).await?)?;
    let crumbs = vec![Crumb::to("Operations", ADDRESS), Crumb::here(operation.key.clone())];
    let page = OnePage {
        shell: Shell::new(format!("Operation {}", operation.key), visitor, crumbs),
        address: format!("{ADDRESS}/{}", operation.id),
        operation,
        note,
        problem: refused.as_ref().map(|error| error.message().to_owned()),
    };
    Ok(reply::page(refused.map_or(200, |error| error.status()), &page))
}

/// `POST /console/-/operations/{id}`: `retry`, `completed` or `rejected`.
pub(super) async fn decide(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let form = here::form(&app, request).await?;
    let typed = form.get("note").unwrap_or_default().to_owned();
    let decided = settle::note(&typed).and_then(|note| {
        let actor = visitor.actor.clone();
        match form.get("decision") {
            Some("retry") => Ok(Settlement::retry(note, actor)),
            decision => Settlement::resolve(&id, decision, note, actor),
        }
    });
    let settled = match decided {
        Ok(settlement) => operations::settled(&app, &id, settlement).await,
        Err(error) => Err(error),
    };
    match settled {
        Ok(_) => {
            let flash = Flash::new(What::Decided, Version(0), "");
            Ok(reply::see_other(&format!("{ADDRESS}/{id}"), Some(&flash)))
        }
        Err(error) => show(&app, &visitor, &id, typed, Some(error)).await,
    }
}
