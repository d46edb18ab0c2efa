//! Labels. There are only so many of each: templates of routes, methods and classes of status, never
//! what a client made up.

use std::hash::{Hash, Hasher};

use axum::extract::MatchedPath;
use axum::http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

/// A label with a value of ours.
pub(super) type Label = (&'static str, &'static str);

/// The template that a request matched; none where it is no address of ours.
#[derive(Clone, Debug)]
pub(super) struct Route(pub(super) Option<MatchedPath>);

impl Route {
    fn as_str(&self) -> &str {
        self.0.as_ref().map_or("none", MatchedPath::as_str)
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Route {}

impl Hash for Route {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl EncodeLabelSet for Route {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        [("route", self.as_str())].encode(encoder)
    }
}

/// The name of an adopted table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Resource(pub(super) String);

impl EncodeLabelSet for Resource {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        [("resource", self.0.as_str())].encode(encoder)
    }
}

pub(super) fn method_word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

pub(super) fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}
