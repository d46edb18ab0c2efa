//! The answer to a scrape.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::FutureExt as _;
use prometheus_client::encoding::prometheus_text::{self, CONTENT_TYPE as PROMETHEUS};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::db::{self, lane::Load};
use crate::error::{Code, Error};
use crate::feed::stream;
use crate::http::metrics::Metrics;
use crate::http::metrics::labels::Label;
use crate::http::{App, server};
use crate::operation::store::{self, Waiting};

/// How long to wait for what the database says. A scrape that waits is worse than one that lacks it.
const PATIENCE: Duration = Duration::from_secs(2);

type Gauges = Family<[Label; 1], Gauge>;

/// `GET /metrics`
pub async fn metrics(State(app): State<App>) -> Result<Response, Error> {
    let asked = app.db.read(|conn| async move { store::waiting(conn).await }.boxed());
    let waiting = tokio::time::timeout(PATIENCE, asked).await.ok().and_then(Result::ok);
    let mut registry = Registry::with_prefix("counterfoil");
    counted(&mut registry, &app.metrics);
    database(&mut registry, &app.db.loads(), waiting);
    feed(&mut registry, app.feed.lag_ms());
    lanes(&mut registry, &app.lanes.loads());
    process(&mut registry);
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)
        .map_err(|_| Error::new(Code::Internal, "The metrics could not be written"))?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROMETHEUS));
    Ok(response)
}

fn counted(registry: &mut Registry, metrics: &Metrics) {
    let Metrics { requests, writes, batches, idempotency, unknown } = metrics.clone();
    registry.register("requests", "Requests answered", requests);
    registry.register("writes", "Writes to records, by what became of them", writes);
    registry.register("batch_operations", "Operations of a batch", batches);
    registry.register("idempotency", "Requests under an Idempotency-Key", idempotency);
    let help = "Writes whose connection was lost, by whether it was found out what became of them";
    registry.register("unknown_outcomes", help, unknown);
}

/// What the connections are at, and which operations wait for somebody; `None` where the database
/// does not say.
fn database(registry: &mut Registry, loads: &[db::Load], waiting: Option<Waiting>) {
    let up = Gauge::<i64>::default();
    up.set(i64::from(waiting.is_some()));
    registry.register("database_up", "Whether the database answered this scrape", up);
    if let Some(Waiting { blocked, retryable }) = waiting {
        let operations = Gauges::default();
        for (status, count) in [("blocked", blocked), ("retryable", retryable)] {
            operations.get_or_create(&[("status", status)]).set(count);
        }
        let help = "Operations that wait for somebody, counted to 10000";
        registry.register("operations", help, operations);
    }
    let [connections, open, queued] = [Gauges::default(), Gauges::default(), Gauges::default()];
    let overloads = Family::<[Label; 1], Counter>::default();
    for load in loads {
        let label = [("queue", load.name)];
        let figures =
            [(&connections, load.connections), (&open, load.open), (&queued, load.queued)];
        for (gauges, figure) in figures {
            gauges.get_or_create(&label).set(i64::try_from(figure).unwrap_or(i64::MAX));
        }
        overloads.get_or_create(&label).inc_by(load.overloads);
    }
    registry.register("database_connections", "Connections there may be", connections);
    registry.register("database_connections_open", "Connections there are", open);
    registry.register("database_queue", "Requests that wait for a connection", queued);
    registry.register("overloads", "Requests turned away for want of a connection", overloads);
}

/// How far readers of the feed are behind, and how many wait for more.
fn feed(registry: &mut Registry, lag_ms: i64) {
    let [lag, streams] = [Gauge::<i64>::default(), Gauge::default()];
    lag.set(lag_ms);
    let help = "For how long an open transaction has kept later changes from the feed";
    registry.register("feed_lag_milliseconds", help, lag);
    streams.set(i64::try_from(stream::http::streams()).unwrap_or(i64::MAX));
    registry.register("feed_streams", "Streams of the feed that are open", streams);
}

/// What the lanes are at. Requests by statements is the size of a group.
fn lanes(registry: &mut Registry, loads: &[(&'static str, Load)]) {
    let [count, queued] = [Gauges::default(), Gauges::default()];
    let counter = Family::<[Label; 1], Counter>::default;
    let [statements, carried, left, overloads] = [counter(), counter(), counter(), counter()];
    for (name, load) in loads {
        let label = [("lane", *name)];
        for (gauges, figure) in [(&count, load.lanes), (&queued, load.queued)] {
            gauges.get_or_create(&label).set(i64::try_from(figure).unwrap_or(i64::MAX));
        }
        let figures = [
            (&statements, load.statements),
            (&carried, load.carried),
            (&left, load.left),
            (&overloads, load.overloads),
        ];
        for (counters, figure) in figures {
            counters.get_or_create(&label).inc_by(figure);
        }
    }
    registry.register("lanes", "Lanes there are", count);
    registry.register("lane_queue", "Requests that wait in a lane", queued);
    registry.register("lane_statements", "Groups of requests that lanes ran", statements);
    registry.register("lane_requests", "Requests in those groups", carried);
    registry.register("lane_left", "Requests that a lane left to run by themselves", left);
    registry.register("lane_overloads", "Requests turned away by a full lane", overloads);
}

fn process(registry: &mut Registry) {
    let clients = Gauge::<i64>::default();
    clients.set(i64::try_from(server::connections()).unwrap_or(i64::MAX));
    registry.register("client_connections", "Connections of clients", clients);
    let build = Gauges::default();
    build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
    registry.register("build_info", "Which Counterfoil this is", build);
}
