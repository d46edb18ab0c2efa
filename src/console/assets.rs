//! The style sheet and the script, inside the program. Their addresses change with their content, so
//! that browsers keep them for good.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;

const STYLE: &str = include_str!("../../assets/console/console.css");
const SCRIPT: &str = include_str!("../../assets/console/console.js");
const ICON: &str = include_str!("../../assets/console/icon.svg");

static STYLE_ADDRESS: LazyLock<String> = LazyLock::new(|| address("console.css", STYLE));
static SCRIPT_ADDRESS: LazyLock<String> = LazyLock::new(|| address("console.js", SCRIPT));

fn address(name: &str, content: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("/console/-/{name}?v={:x}", hasher.finish())
}

/// The style sheet's address.
pub(super) fn style_address() -> &'static str {
    &STYLE_ADDRESS
}

/// The script's address.
pub(super) fn script_address() -> &'static str {
    &SCRIPT_ADDRESS
}

/// `GET /console/-/console.css`
pub(super) async fn style() -> Response {
    asset("text/css; charset=utf-8", STYLE)
}

/// `GET /console/-/console.js`
pub(super) async fn script() -> Response {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

/// `GET /console/-/icon.svg`
pub(super) async fn icon() -> Response {
    asset("image/svg+xml", ICON)
}

fn asset(media_type: &'static str, content: &'static str) -> Response {
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    response
}
