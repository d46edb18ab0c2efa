//! HTTP: the routes, and what every request and answer has in common.

mod alone;
mod assets;
mod cors;
pub mod docs;
pub mod envelope;
mod failure;
pub mod health;
pub mod metrics;
pub mod once;
pub mod openapi;
pub mod request;
pub mod server;

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use crate::catalog::Catalog;
use crate::db::Db;
use crate::error::{Code, Error};
use crate::feed::pulse::Feed;
use crate::feed::stream::Reads;
use crate::record;
use crate::record::lane::store::Lanes;

/// What every handler works with. Every request holds it several times over, so a copy is one count.
#[derive(Clone, Debug)]
pub struct App(Arc<House>);

impl App {
    /// Puts everything into every handler's reach.
    pub fn new(house: House) -> Self {
        Self(Arc::new(house))
    }
}

impl std::ops::Deref for App {
    type Target = House;

    fn deref(&self) -> &House {
        &self.0
    }
}

/// Everything that handlers share.
#[derive(Debug)]
pub struct House {
    /// The connections to the database.
    pub db: Db,
    /// The lanes, on which records are read and written together.
    pub lanes: Lanes,
    /// The catalogue of the moment; a request keeps the one it began with.
    pub catalog: Arc<ArcSwap<Catalog>>,
    /// Asks the watcher to look at the catalogue now.
    pub refresh: Arc<tokio::sync::Notify>,
    /// The limits on what a stranger may send.
    pub limits: Limits,
    /// For how many hours the answers of operations are kept.
    pub keep_operations_hours: i32,
    /// For how many days the results of pushed mutations are kept.
    pub keep_mutations_days: i32,
    /// What all readers of the feed share.
    pub feed: Arc<Feed>,
    /// What its streams read together.
    pub reads: Arc<Reads>,
    /// The description of the resources, as it was last written.
    pub openapi: openapi::serve::Cache,
    /// What is counted for `/metrics`.
    pub metrics: metrics::Metrics,
}

/// Limits on what a stranger may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest body, in bytes.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body: 1 << 20 }
    }
}

/// Every route, in one list; the demo's page only where it is wanted.
pub fn router(app: App, cors_origins: &[String], demo: bool) -> Router {
    use crate::feed::http as feed;
    use crate::operation::http as operations;
    use crate::sync::rxdb::http as rxdb;
    use record::{http as records, past};
    let metrics = app.metrics.clone();
    let demo = if demo { assets::demo() } else { Router::new() };
    let router = demo
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(openapi::serve::openapi))
        .route("/docs", get(docs::redirect))
        .route("/docs/", get(docs::index))
        .route("/docs/{file}", get(docs::asset))
        .route("/api/v1/batch", post(crate::batch::http::run))
        .route("/api/v1/sync/push", post(crate::sync::http::push))
        .route("/api/v1/operations", get(operations::list))
        .route("/api/v1/operations/{id}", get(operations::show))
        .route("/api/v1/operations/{id}/retry", post(operations::retry))
        .route("/api/v1/operations/{id}/resolve", post(operations::resolve))
        .route("/api/v1/sync/pull", get(feed::pull))
        .route("/api/v1/sync/snapshot", get(feed::snapshot))
        .route("/api/v1/sync/stream", get(crate::feed::stream::http::stream))
        .route("/api/v1/sync/rxdb/{resource}/pull", get(rxdb::pull))
        .route("/api/v1/sync/rxdb/{resource}/push", post(rxdb::push))
        .route("/api/v1/sync/rxdb/{resource}/stream", get(rxdb::stream))
        .route("/api/v1/{resource}", get(records::list).post(records::create))
        .route(
            "/api/v1/{resource}/{id}",
            get(records::read).put(records::replace).patch(records::patch).delete(records::delete),
        )
        .route("/api/v1/{resource}/{id}/increment", post(records::increment))
        .route("/api/v1/{resource}/{id}/history", get(past::history))
        .route("/api/v1/{resource}/{id}/merge", post(past::preview))
        .merge(crate::console::router())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(app)
        .layer(CatchPanicLayer::custom(panicked));
    // Where no other origin may call, OPTIONS is a method like any that an address does not take.
    let router =
        if cors_origins.is_empty() { router } else { router.layer(cors::layer(cors_origins)) };
    router.layer(middleware::from_fn_with_state(metrics, envelope::finish))
}

async fn no_route() -> Error {
    Error::new(Code::NotFound, "There is nothing at this address")
}

async fn no_method() -> Error {
    Error::new(Code::MethodNotAllowed, "This address does not take this method")
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> axum::response::Response {
    use axum::response::IntoResponse as _;
    tracing::error!("a handler panicked");
    Error::new(Code::Internal, "The service failed; the request id finds it in the log")
        .into_response()
}
