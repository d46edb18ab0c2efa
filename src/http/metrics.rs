//! `GET /metrics`: what the process counted, and what the database says at the moment of asking, as
//! Prometheus reads it. Counting is a look-up and an addition; nothing is worded until somebody asks.

mod labels;
mod scrape;

pub use scrape::metrics;

use axum::extract::MatchedPath;
use axum::http::{Method, StatusCode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::http::metrics::labels::{Label, Resource, Route, class, method_word};
use crate::operation::Claimed;
use crate::record::became::Became;

/// The upper bounds of the sizes of batches.
const SIZES: [f64; 8] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 500.0];

/// What the process counts. Copies count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<(Route, [Label; 2]), Counter>,
    writes: Family<(Resource, [Label; 1]), Counter>,
    batches: Histogram,
    idempotency: Family<[Label; 1], Counter>,
    unknown: Family<[Label; 1], Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            requests: Family::default(),
            writes: Family::default(),
            batches: Histogram::new(SIZES),
            idempotency: Family::default(),
            unknown: Family::default(),
        };
        // What never happened is told as 0, so that its first time is seen as a rise.
        for outcome in ["first", "replayed", "in_progress", "reused"] {
            drop(metrics.idempotency.get_or_create(&[("outcome", outcome)]));
        }
        for outcome in ["settled", "unsettled"] {
            drop(metrics.unknown.get_or_create(&[("outcome", outcome)]));
        }
        metrics
    }
}

impl Metrics {
    /// A request was answered. `route` is the template that it matched.
    pub fn request(&self, route: Option<MatchedPath>, method: &Method, status: StatusCode) {
        let labels = [("method", method_word(method)), ("status", class(status))];
        self.requests.get_or_create(&(Route(route), labels)).inc();
    }

    /// A write to a resource ended.
    pub fn write(&self, resource: &str, became: Became) {
        let labels = (Resource(resource.to_owned()), [("outcome", became.as_str())]);
        self.writes.get_or_create(&labels).inc();
    }

    /// A batch of so many operations was asked for.
    pub fn batch(&self, operations: usize) {
        let operations = u16::try_from(operations).unwrap_or(u16::MAX);
        self.batches.observe(f64::from(operations));
    }

    /// A request under an `Idempotency-Key` was decided.
    pub fn claimed(&self, claimed: &Claimed) {
        let outcome = match claimed {
            Claimed::First(_) => "first",
            Claimed::Repeat(_) => "replayed",
            Claimed::Reused => "reused",
            Claimed::Undecided(_) => "in_progress",
        };
        self.idempotency.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// The connection was lost under a write, and whether it was found out what became of it.
    pub fn unknown(&self, settled: bool) {
        let outcome = if settled { "settled" } else { "unsettled" };
        self.unknown.get_or_create(&[("outcome", outcome)]).inc();
    }
}
