//! Which browsers may call from where (the Fetch standard's CORS protocol).

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// What scripts of another origin may read of an answer, on 304 and failures too.
const EXPOSED: [&str; 12] = [
    "etag",
    "location",
    "link",
    "content-location",
    "content-range",
    "retry-after",
    "accept-patch",
    "preference-applied",
    "x-request-id",
    "idempotency-replayed",
    "counterfoil-result",
    "last-modified",
];

/// What scripts of another origin may send.
const ALLOWED: [&str; 11] = [
    "accept",
    "authorization",
    "content-type",
    "if-match",
    "if-none-match",
    "idempotency-key",
    "fencing-token",
    "last-event-id",
    "prefer",
    "x-actor",
    "x-request-id",
];

/// Allows these origins.
pub(super) fn layer(origins: &[String]) -> CorsLayer {
    let names = |names: &[&'static str]| -> Vec<HeaderName> {
        names.iter().map(|name| HeaderName::from_static(name)).collect()
    };
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|o| HeaderValue::from_str(o).ok()))
    };
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ])
        .allow_headers(names(&ALLOWED))
        .expose_headers(names(&EXPOSED))
        .max_age(Duration::from_hours(1))
}
