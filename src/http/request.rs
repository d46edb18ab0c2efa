//! What handlers take from a request: the target, the caller, preconditions, preferences, the body.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{CONTENT_TYPE, EXPECT, HeaderName, IF_MATCH, IF_NONE_MATCH, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::catalog::key::Key;
use crate::catalog::{Catalog, Resource};
use crate::db::lane::Mark;
use crate::error::{Code, Error};
use crate::http::App;
use crate::http::envelope::RequestId;
use crate::precondition::Precondition;
use crate::record::draft::unsupported;

/// How long a client may take over its body.
const BODY_TIME: Duration = Duration::from_secs(30);

/// How many bytes of a body that is too large are read on, so that its sender comes to hear of it.
const DISCARDED: usize = 16 << 20;

/// How long a sender of such a body may pause.
const STALLED: Duration = Duration::from_secs(1);

const ACTOR: HeaderName = HeaderName::from_static("x-actor");

/// The longest name of an actor that is kept.
const MOST_ACTOR: usize = 200;

/// The resource that the path names, in the catalogue of the moment, and who asks.
#[derive(Debug)]
pub struct Target {
    /// The resource.
    pub resource: Arc<Resource>,
    /// The request's method.
    pub method: Method,
    /// The request's address.
    pub uri: Uri,
    /// The request's headers.
    pub headers: HeaderMap,
    /// The request's id.
    pub request_id: RequestId,
    /// The query string's parameters, decoded, in order.
    pub parameters: Vec<(String, String)>,
}

impl FromRequestParts<App> for Target {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        Self::find(&app.catalog.load(), parts)
    }
}

impl Target {
    fn find(catalog: &Catalog, parts: &mut Parts) -> Result<Self, Error> {
        let (method, uri) = (parts.method.clone(), parts.uri.clone());
        let name = uri.path().split('/').nth(3).unwrap_or_default();
        let resource = catalog.resource(name).cloned().ok_or_else(|| {
            Error::new(Code::NotFound, format!("There is no resource \"{name}\""))
        })?;
        let parameters = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri)
            .map_err(|_| Error::new(Code::InvalidQuery, "The query string cannot be read"))?
            .0;
        let request_id = parts.extensions.get::<RequestId>().cloned().ok_or_else(|| {
            Error::new(Code::Internal, "The service failed; the request has no id")
        })?;
        // Nobody behind this asks the request itself for them.
        let headers = std::mem::take(&mut parts.headers);
        Ok(Self { resource, method, uri, headers, request_id, parameters })
    }

    /// The key in the path.
    ///
    /// # Errors
    /// `INVALID_ID`.
    pub fn key(&self) -> Result<Key, Error> {
        let segment = self.uri.path().split('/').nth(4).unwrap_or_default();
        Key::from_segment(segment, &self.resource)
    }

    /// The request's preconditions.
    ///
    /// # Errors
    /// `INVALID_IF_MATCH`.
    pub fn precondition(&self) -> Result<Precondition, Error> {
        let lines = |name| self.headers.get_all(name).iter().map(HeaderValue::as_bytes);
        let strict = self.resource.settings.strict_etags;
        Precondition::from_headers(lines(IF_MATCH), lines(IF_NONE_MATCH), strict)
    }

    /// Who makes the request.
    pub fn actor(&self) -> String {
        actor(&self.headers)
    }

    /// The `Link` to the next page of a list (RFC 8288): the same request from this cursor on.
    pub fn next_page(&self, cursor: &str) -> String {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let mut link = format!("<{}?", self.uri.path());
        for (name, value) in self.parameters.iter().filter(|(name, _)| name != "after") {
            let _ = write!(link, "{}={}&", encode(name), encode(value));
        }
        link + "after=" + cursor + ">; rel=\"next\""
    }

    /// Whether `Prefer` holds this preference.
    pub fn prefers(&self, preference: &str) -> bool {
        prefers(&self.headers, preference)
    }

    /// Whose turn it is in a lane, as far as the request itself tells.
    pub fn party(&self) -> Mark {
        Mark::of(self.headers.get(ACTOR).map(HeaderValue::as_bytes))
    }
}

/// Who makes a request. Without authentication that is what `X-Actor` says.
pub fn actor(headers: &HeaderMap) -> String {
    let named = headers.get(ACTOR).map(|actor| String::from_utf8_lossy(actor.as_bytes()));
    match named.as_deref().map(str::trim) {
        None | Some("") => "anonymous".to_owned(),
        Some(actor) => actor.chars().filter(|c| !c.is_control()).take(MOST_ACTOR).collect(),
    }
}

/// Whether `Prefer` (RFC 7240) holds this preference: `return=minimal`.
pub fn prefers(headers: &HeaderMap, preference: &str) -> bool {
    headers.get_all("prefer").iter().any(|line| {
        line.to_str().is_ok_and(|line| {
            line.split([',', ';'])
                .any(|part| part.trim().replace([' ', '"'], "").eq_ignore_ascii_case(preference))
        })
    })
}

/// The media type of a body, in lower case and without parameters; empty where none is named.
pub fn media_type(headers: &HeaderMap) -> String {
    let Some(named) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        // A script may leave it out. A browser that does asks nobody whether a page of another origin
        // may write here.
        let browser = headers.contains_key(ORIGIN);
        return if browser { "of no stated type".to_owned() } else { String::new() };
    };
    named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Demands a body of plain JSON.
///
/// # Errors
/// `UNSUPPORTED_MEDIA_TYPE`.
pub fn demand_json(headers: &HeaderMap) -> Result<(), Error> {
    match media_type(headers).as_str() {
        "" | "application/json" => Ok(()),
        other => Err(unsupported(other, "application/json").header("accept", "application/json")),
    }
}

/// Reads a whole body within the limit.
///
/// # Errors
/// `BODY_TOO_LARGE`, or `INVALID_JSON` where the client stopped sending.
pub async fn body(request: Request<Body>, most: usize) -> Result<Bytes, Error> {
    let too_large = || {
        let message = format!("The body is larger than {most} bytes");
        Error::new(Code::BodyTooLarge, message)
            .detail("max_bytes", most)
            .header("connection", "close")
    };
    // A client that asks before it sends is told without sending.
    let asks = request.headers().contains_key(EXPECT);
    let mut body = request.into_body();
    // What Content-Length says, where there is one.
    let declared = body.size_hint().lower();
    if usize::try_from(declared).map_or(true, |length| length > most) {
        if !asks {
            tokio::spawn(discard(body));
        }
        return Err(too_large());
    }
    let reading = tokio::time::timeout(BODY_TIME, Limited::new(&mut body, most).collect());
    let read = reading.await.map_err(|_| {
        let message = format!("The body was not complete after {} seconds", BODY_TIME.as_secs());
        Error::new(Code::InvalidJson, message).header("connection", "close")
    })?;
    match read {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            tokio::spawn(discard(body));
            Err(too_large())
        }
        Err(_) => Err(Error::new(Code::InvalidJson, "The body ended before it was complete")),
    }
}

/// Reads on without keeping anything, within bounds, while the answer is on its way: whoever is still
/// sending does not look for one, and would lose it with the connection.
async fn discard(mut body: Body) {
    let reading = async {
        let mut left = DISCARDED;
        while left > 0
            && let Ok(Some(Ok(frame))) = tokio::time::timeout(STALLED, body.frame()).await
        {
            left = left.saturating_sub(frame.data_ref().map_or(1, Bytes::len));
        }
    };
    let _ = tokio::time::timeout(BODY_TIME, reading).await;
}
