//! Whether the process lives, and whether it can serve.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;

use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::http::{App, envelope};

/// The process lives.
pub async fn alive() -> Response {
    envelope::json_response(StatusCode::OK, r#"{"status":"ok"}"#.to_owned())
}

/// The database answers.
pub async fn ready(State(app): State<App>) -> Response {
    let asked = app.db.read(|conn| {
        async move {
            let one = sqlx::query_scalar::<_, i32>("SELECT 1").fetch_one(conn).await;
            one.map_err(Fault::from)
        }
        .boxed()
    });
    match asked.await {
        Ok(_) => {
            let resources = app.catalog.load().resources().count();
            let body = format!(r#"{{"status":"ready","resources":{resources}}}"#);
            envelope::json_response(StatusCode::OK, body)
        }
        Err(_) => {
            Error::new(Code::DatabaseUnavailable, "The database cannot be reached").into_response()
        }
    }
}
