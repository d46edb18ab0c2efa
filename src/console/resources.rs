//! The first page: every resource, with what its table's comment says and about how many rows it has.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use futures_util::FutureExt as _;

use crate::catalog::Resource;
use crate::console::here;
use crate::console::reply::{self, Shell};
use crate::console::store::{self, Rows};
use crate::console::visitor::Visitor;
use crate::console::words;
use crate::http::App;
use crate::operation::store as operations;

#[derive(Template)]
#[template(path = "resources.html")]
struct Page {
    shell: Shell,
    resources: Vec<Line>,
    /// How many operations wait for a decision.
    blocked: i64,
}

struct Line {
    label: String,
    name: String,
    address: String,
    comment: Option<String>,
    rows: Option<String>,
    fields: String,
    history: bool,
}

/// `GET /console`
pub(super) async fn page(State(app): State<App>, visitor: Visitor) -> Response {
    let resources: Vec<_> = app.catalog.load().resources().cloned().collect();
    let rows = count(&app, resources.clone()).await;
    let lines = resources.iter().zip(rows).map(|(resource, rows)| Line {
        label: words::label(&resource.name),
        name: resource.name.clone(),
        address: here::list(resource),
        comment: resource.comment.clone(),
        rows: rows.map(in_words),
        fields: words::count(resource.readable().count(), "field", "fields"),
        history: resource.history,
    });
    let page = Page {
        shell: Shell::new("Resources", &visitor, Vec::new()),
        resources: lines.collect(),
        blocked: blocked(&app).await,
    };
    reply::page(200, &page)
}

/// The numbers of rows; a table that cannot be counted now is shown without one.
async fn count(app: &App, resources: Vec<Arc<Resource>>) -> Vec<Option<Rows>> {
    let many = resources.len();
    let counted = app.db.read(move |conn| {
        async move {
            let mut counts = Vec::with_capacity(resources.len());
            for resource in &resources {
                match store::rows(conn, resource).await {
                    Ok(rows) => counts.push(Some(rows)),
                    Err(fault) if fault.breaks_connection() => return Err(fault),
                    Err(_) => counts.push(None),
                }
            }
            Ok(counts)
        }
        .boxed()
    });
    counted.await.unwrap_or_else(|_| vec![None; many])
}

/// How many operations are blocked; none where that cannot be told now.
async fn blocked(app: &App) -> i64 {
    let waiting = app.db.read(|conn| async move { operations::waiting(conn).await }.boxed()).await;
    waiting.map_or(0, |waiting| waiting.blocked)
}

fn in_words(rows: Rows) -> String {
    match rows {
        Rows::Exactly(1) => "1 row".to_owned(),
        Rows::Exactly(rows) => format!("{} rows", words::grouped(rows)),
        Rows::About(rows) => format!("about {} rows", words::grouped(rows)),
        Rows::MoreThan(rows) => format!("more than {} rows", words::grouped(rows)),
    }
}
