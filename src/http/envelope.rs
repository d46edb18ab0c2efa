//! The envelope of every answer: request id, `{"data": …}` or `{"error": …}`, RFC 9457 on demand,
//! and the one log line of a request.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use uuid::Uuid;

use crate::error::Error;
use crate::http::metrics::Metrics;
use crate::record::answer::Answer;
use crate::version::Tag;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MOST_ID: usize = 128;

/// The media type of RFC 9457.
const PROBLEM: &str = "application/problem+json";

/// The id of a request: visible ASCII.
#[derive(Clone, Debug)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The id.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The client's where it is visible ASCII of a fair length, else one of ours.
    fn of(headers: &HeaderMap) -> Self {
        let fair = |id: &&HeaderValue| {
            (1..=MOST_ID).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        let given = headers.get(REQUEST_ID).filter(fair).cloned();
        Self(given.unwrap_or_else(|| {
            let mut text = Uuid::encode_buffer();
            let id = Uuid::now_v7().hyphenated().encode_lower(&mut text);
            HeaderValue::from_str(id).unwrap_or_else(|_| HeaderValue::from_static("none"))
        }))
    }
}

impl IntoResponse for Error {
    /// Leaves the failure for [`finish`], which knows the request id and what the client accepts.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(self);
        response
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let mut response = if self.body.is_empty() {
            status.into_response()
        } else {
            json_response(status, self.body)
        };
        for (name, value) in &self.headers {
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes())
                && let Ok(value) = HeaderValue::from_str(value)
            {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// A success: `{"data": …}` around JSON text that is taken as it is.
pub fn data(status: StatusCode, json: &str) -> Response {
    let mut body = String::with_capacity(json.len() + 9);
    body.push_str("{\"data\":");
    body.push_str(json);
    body.push('}');
    json_response(status, body)
}

/// An answer of this JSON text.
pub fn json_response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Sets a header whose value we made; one that no header could hold is left out.
pub fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Gives every request an id, every failure its body, the log its line, and counts it.
pub async fn finish(State(metrics): State<Metrics>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = RequestId::of(request.headers());
    let problem = accepts_problem(request.headers());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).await;
    let code = match response.extensions_mut().remove::<Error>() {
        Some(error) => {
            render(&mut response, &error, id.as_str(), problem);
            error.code().as_str()
        }
        None => "",
    };
    let micros = began.elapsed().as_micros();
    metrics.request(route, &method, response.status());
    let status = response.status().as_u16();
    let path = uri.path();
    tracing::info!(%method, path, status, code, micros, request_id = id.as_str(), "request");
    response.headers_mut().insert(REQUEST_ID, id.0);
    response
}

fn accepts_problem(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|accept| {
        accept.to_str().is_ok_and(|accept| {
            accept.split(',').any(|range| {
                let range = range.split(';').next().unwrap_or_default().trim();
                range.eq_ignore_ascii_case(PROBLEM)
            })
        })
    })
}

fn render(response: &mut Response, error: &Error, id: &str, problem: bool) {
    let status = response.status();
    let data = error.data().unwrap_or("null");
    let (media_type, head) = if problem {
        error.log(id);
        let head = json!({
            "type": "about:blank",
            "title": error.code().title(),
            "status": status.as_u16(),
            "detail": error.message(),
            "code": error.code().as_str(),
            "details": error.details(),
            "request_id": id,
        });
        (PROBLEM, head)
    } else {
        let head = json!({ "error": error.envelope(id) });
        ("application/json", head)
    };
    // The row is PostgreSQL's text; it is put in as it is, so that its numbers keep their digits.
    let head = head.to_string();
    let body = format!("{},\"data\":{data}}}", head.strip_suffix('}').unwrap_or(&head));
    *response.body_mut() = Body::from(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Some(version) = error.version()
        && let Ok(tag) = HeaderValue::from_str(&Tag::write(version))
    {
        headers.insert(ETAG, tag);
    }
    for (name, value) in error.headers() {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}
