//! The console: the adopted tables as pages that work without scripts. It runs in the server's own
//! process, on the functions that the API runs on; what is a conflict and what comes of a merge is
//! decided there.

mod assets;
mod delete;
mod deleted;
mod difference;
mod events;
mod field;
mod flash;
mod form;
mod gone;
mod guard;
mod here;
mod history;
mod merge;
mod operations;
mod record;
mod reply;
mod resolve;
mod resources;
mod restore;
mod rows;
mod store;
mod value;
mod visitor;
mod words;
mod write;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};

use crate::http::App;

/// The pages below `/console`. Names of resources begin with a letter, so `-` is free for the
/// console's own.
pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/console", get(resources::page))
        .route("/console/-/console.css", get(assets::style))
        .route("/console/-/console.js", get(assets::script))
        .route("/console/-/icon.svg", get(assets::icon))
        .route("/console/-/operations", get(operations::list))
        .route("/console/-/operations/{id}", get(operations::page).post(operations::decide))
        .route("/console/-/you", get(visitor::page).post(visitor::rename))
        .route("/console/{resource}", get(rows::page).post(record::create))
        .route("/console/{resource}/-/new", get(record::blank))
        .route("/console/{resource}/-/deleted", get(deleted::page))
        .route("/console/{resource}/{id}", get(record::page).post(record::save))
        .route("/console/{resource}/{id}/merge", post(resolve::save))
        .route("/console/{resource}/{id}/delete", get(delete::page).post(delete::confirm))
        .route("/console/{resource}/{id}/history", get(history::page))
        .route("/console/{resource}/{id}/restore", post(restore::restore))
        .route("/console/{resource}/{id}/events", get(events::stream))
        .layer(middleware::from_fn(guard::guard))
}
