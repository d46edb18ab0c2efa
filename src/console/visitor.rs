//! Who uses the console. Until there is authentication that is the name somebody gives, kept in a
//! cookie.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::response::Response;

use askama::Template;

use crate::console::flash::{self, Flash, What};
use crate::console::here;
use crate::console::reply::{self, Crumb, Failure, Shell};
use crate::console::words;
use crate::http::App;
use crate::version::Version;

/// The cookie with the name.
const NAME: &str = "counterfoil_you";
/// Who it is where nobody said.
const NOBODY: &str = "console";
/// The longest name, in characters.
const MOST: usize = 200;

/// Whoever sent the request.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    /// The actor of what is written.
    pub(super) actor: String,
    /// Whether somebody gave that name, so that it is one person's.
    pub(super) named: bool,
    /// What the last action did.
    pub(super) flash: Option<Flash>,
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Failure> {
        Ok(Self::of(&parts.headers))
    }
}

impl Visitor {
    /// Reads the cookies.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let given = cookie(headers, NAME).map(|name| clean(&words::decode(name)));
        let given = given.filter(|name| !name.is_empty());
        Self {
            named: given.is_some(),
            actor: given.unwrap_or_else(|| NOBODY.to_owned()),
            flash: cookie(headers, flash::COOKIE).and_then(Flash::read),
        }
    }
}

fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

fn clean(name: &str) -> String {
    let printable = name.trim().chars().filter(|c| !c.is_control());
    printable.take(MOST).collect()
}

#[derive(Template)]
#[template(path = "you.html")]
struct Page {
    shell: Shell,
    back: String,
}

/// `GET /console/-/you`
pub(super) async fn page(visitor: Visitor, headers: HeaderMap) -> Response {
    let referrer = headers.get("referer").and_then(|r| r.to_str().ok());
    let path = referrer.and_then(|r| r.find("/console").map(|at| &r[at..]));
    let page = Page {
        back: own_address(path.unwrap_or_default()),
        shell: Shell::new("Your name", &visitor, vec![Crumb::here("Your name")]),
    };
    reply::page(200, &page)
}

/// `POST /console/-/you`
pub(super) async fn rename(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    let form = here::form(&app, request).await?;
    let name = clean(form.get("name").unwrap_or_default());
    let back = own_address(form.get("back").unwrap_or_default());
    let flash = Flash::new(What::Named, Version(0), "");
    let mut response = reply::see_other(&back, Some(&flash));
    let age = if name.is_empty() { 0 } else { 31_536_000 };
    reply::set_cookie(&mut response, NAME, &words::encode(&name), age);
    Ok(response)
}

/// An address of the console, whatever a form says.
fn own_address(given: &str) -> String {
    let ours =
        given == "/console" || given.starts_with("/console/") && !given.starts_with("/console/-/");
    let plain = given.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    if ours && plain { given } else { "/console" }.to_owned()
}
