//! The demo: a page at `/demo`, with the browser client it is written on. All of it stands in the
//! program, so that it needs no files beside it and no network.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use crate::http::App;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Where it is served, its media type, its text.
type Asset = (&'static str, &'static str, &'static str);

macro_rules! demo {
    ($name:literal) => {
        include_str!(concat!("../../assets/demo/", $name))
    };
}

macro_rules! client {
    ($name:literal) => {
        (concat!("/demo/", $name), SCRIPT, include_str!(concat!("../../clients/js/", $name)))
    };
}

const DEMO: &[Asset] = &[
    ("/demo", HTML, demo!("index.html")),
    ("/demo/demo.js", SCRIPT, demo!("demo.js")),
    ("/demo/demo.css", STYLE, demo!("demo.css")),
    client!("counterfoil.js"),
    client!("lib/conflict.js"),
    client!("lib/json.js"),
    client!("lib/record.js"),
    client!("lib/resource.js"),
    client!("lib/watch.js"),
    client!("lib/wire.js"),
];

/// Nothing is loaded from elsewhere, nothing stands inline, nobody frames the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// The routes of the demo.
pub(super) fn demo() -> Router<App> {
    DEMO.iter().fold(Router::new(), |router, &(path, media_type, text)| {
        let tag = tag(text);
        router.route(
            path,
            get(move |headers: HeaderMap| async move { answer(&headers, media_type, text, &tag) }),
        )
    })
}

/// A tag made from the text: a browser that has this very text is told so.
fn tag(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

fn answer(
    headers: &HeaderMap,
    media_type: &'static str,
    text: &'static str,
    tag: &str,
) -> Response {
    let mut response = if has(headers, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        text.into_response()
    };
    let fixed: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, media_type),
        // It may be kept, but is asked about each time: a new version of the program counts at once.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// Whether the browser has it already (RFC 9110 §13.1.2; tags are compared weakly).
fn has(headers: &HeaderMap, tag: &str) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().any(|line| {
        line.to_str().is_ok_and(|line| {
            line.split(',')
                .map(str::trim)
                .any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_that_is_imported_is_served() {
        let served: Vec<_> = DEMO.iter().map(|asset| asset.0).collect();
        for (path, _, text) in DEMO {
            for imported in text.split(" from '").skip(1) {
                let named = imported.split('\'').next().unwrap();
                let full = match named.strip_prefix("./") {
                    Some(name) => format!("{}/{name}", path.rsplit_once('/').unwrap().0),
                    None => named.to_owned(),
                };
                assert!(served.contains(&full.as_str()), "{path} imports {full}");
            }
        }
    }

    #[test]
    fn a_page_that_is_known_is_not_sent_again() {
        let mut headers = HeaderMap::new();
        let fresh = answer(&headers, HTML, "x", "\"1\"");
        assert_eq!(fresh.status(), StatusCode::OK);
        assert_eq!(fresh.headers()[ETAG], "\"1\"");
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("\"0\", W/\"1\""));
        let known = answer(&headers, HTML, "x", "\"1\"");
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(known.headers()[CONTENT_SECURITY_POLICY], POLICY);
    }
}
