//! Answers as pages: what surrounds every page, redirects, and failures in words.

use askama::Template;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::catalog::key::Key;
use crate::console::assets;
use crate::console::flash::{self, Flash, What};
use crate::console::form::Submitted;
use crate::console::here::{self, Here};
use crate::console::visitor::Visitor;
use crate::error::{Code, Error};
use crate::version::Version;

/// What surrounds every page.
#[derive(Clone, Debug)]
pub(super) struct Shell {
    /// The page's title.
    pub(super) title: String,
    /// Who uses it; empty where that is not known.
    pub(super) actor: String,
    /// What the last action did.
    pub(super) flash: Option<Flash>,
    /// The way from the start to here.
    pub(super) crumbs: Vec<Crumb>,
    /// The style sheet's address.
    pub(super) style: &'static str,
    /// The script's address.
    pub(super) script: &'static str,
}

/// A step of the way to a page.
#[derive(Clone, Debug)]
pub(super) struct Crumb {
    /// What it is called.
    pub(super) text: String,
    /// Its address; empty for the page itself.
    pub(super) address: String,
}

impl Crumb {
    /// A page above this one.
    pub(super) fn to(text: impl Into<String>, address: impl Into<String>) -> Self {
        Self { text: text.into(), address: address.into() }
    }

    /// This page.
    pub(super) fn here(text: impl Into<String>) -> Self {
        Self::to(text, "")
    }
}

impl Shell {
    /// The surroundings of a page for a visitor.
    pub(super) fn new(title: impl Into<String>, visitor: &Visitor, crumbs: Vec<Crumb>) -> Self {
        Self {
            title: title.into(),
            actor: visitor.actor.clone(),
            flash: visitor.flash.clone(),
            crumbs,
            style: assets::style_address(),
            script: assets::script_address(),
        }
    }
}

/// A page with its status.
pub(super) fn page(status: u16, page: &impl Template) -> Response {
    let Ok(html) = page.render() else {
        // Writing to a string does not fail; a template that does is a defect.
        tracing::error!("a page could not be written");
        return Error::new(Code::Internal, "The page could not be written").into_response();
    };
    let mut response = Response::new(Body::from(html));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    // Kept by the browser for the way back, where what was typed must still stand, but never shown
    // again without a look at the server.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    set_cookie(&mut response, flash::COOKIE, "", 0);
    response
}

/// On to another page, after something was done.
pub(super) fn see_other(address: &str, flash: Option<&Flash>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(address) = HeaderValue::from_str(address) {
        response.headers_mut().insert(LOCATION, address);
    }
    if let Some(flash) = flash {
        set_cookie(&mut response, flash::COOKIE, &flash.write(), 30);
    }
    response
}

/// Back to the record, after this was done to it.
pub(super) fn done(here: &Here, key: &Key, what: What, version: Version) -> Response {
    let address = here::address(&here.resource, key);
    let flash = Flash::new(what, version, address.as_str());
    see_other(&address, Some(&flash))
}

/// Sets a cookie of the console for some seconds; none takes it away.
pub(super) fn set_cookie(response: &mut Response, name: &str, value: &str, seconds: u32) {
    let cookie =
        format!("{name}={value}; Path=/console; HttpOnly; SameSite=Lax; Max-Age={seconds}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

#[derive(Template)]
#[template(path = "kept.html")]
struct KeptPage<'e> {
    shell: Shell,
    title: &'e str,
    message: &'e str,
    address: &'e str,
    record: Option<&'e str>,
    inputs: &'e [(String, String)],
}

/// A form that could not be taken for a reason that lies elsewhere: all of it stands in the page, to
/// be sent again.
pub(super) fn kept(here: &Here, address: &str, form: &Submitted, error: &Error) -> Response {
    let html = KeptPage {
        shell: here.shell("Not saved", None, Some("Not saved")),
        title: if error.status() < 500 { "Not saved" } else { "Not saved yet" },
        message: error.message(),
        address,
        record: address.rsplit_once('/').map(|(record, _)| record),
        inputs: form.inputs(),
    };
    page(error.status(), &html)
}

/// A failure as a page.
#[derive(Debug)]
pub(super) struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage<'e> {
    shell: Shell,
    status: u16,
    title: &'e str,
    message: &'e str,
    code: &'e str,
    unavailable: bool,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let title = match error.status() {
            404 => "Nothing here",
            403 => "Not allowed",
            503 => "Not available right now",
            400..=499 => "That did not work",
            _ => "Something failed",
        };
        let shell = Shell {
            title: title.to_owned(),
            actor: String::new(),
            flash: None,
            crumbs: Vec::new(),
            style: assets::style_address(),
            script: assets::script_address(),
        };
        let html = FailurePage {
            shell,
            status: error.status(),
            title,
            message: error.message(),
            code: error.code().as_str(),
            unavailable: error.status() == 503,
        };
        let mut response = page(error.status(), &html);
        for (name, value) in error.headers() {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(*name, value);
            }
        }
        response
    }
}
