//! What holds for every page: forms are taken from our own pages alone, and nothing from elsewhere
//! runs in them.

use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::console::reply::Failure;
use crate::error::{Code, Error};

/// The headers of every answer.
const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// Refuses forms of other origins and sets the headers of every answer.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let mut response = if may_enter(request.method(), request.headers()) {
        next.run(request).await
    } else {
        let message = "This form was sent from another site, so nothing was done. \
            Open the console itself and try again there.";
        Failure::from(Error::new(Code::NotAllowed, message)).into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// Whether a request that changes something comes from our own pages. Browsers say so in
/// `Sec-Fetch-Site`, older ones in `Origin`; what sends neither is no browser and carries nobody's
/// cookies against their will.
fn may_enter(method: &Method, headers: &HeaderMap) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return true;
    }
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if !headers.contains_key(ORIGIN) {
        return true;
    }
    let origin = text(ORIGIN).and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, host)| Some(host) == text(HOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_other_origins_are_refused() {
        let cases: &[(&[(&str, &str)], bool)] = &[
            (&[], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("origin", "http://a.example"), ("host", "a.example")], true),
            (&[("origin", "http://b.example"), ("host", "a.example")], false),
            (&[("origin", "http://a.example:81"), ("host", "a.example")], false),
            (&[("origin", "null"), ("host", "a.example")], false),
        ];
        for (pairs, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in *pairs {
                headers.insert(
                    HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    HeaderValue::from_str(value).unwrap(),
                );
            }
            assert_eq!(may_enter(&Method::POST, &headers), *expected, "{pairs:?}");
            assert!(may_enter(&Method::GET, &headers));
        }
    }
}
