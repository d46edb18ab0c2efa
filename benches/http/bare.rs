//! The reference "bare": axum and a sqlx pool, one obvious statement per request, nothing of
//! Counterfoil. What somebody would write for this one table.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use serde::Deserialize;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::Fallible;
use crate::statements::{self, Values};

/// The name of the threads that serve, for the accounting of processor time.
pub(crate) const THREADS: &str = "bare";

const VALUES: Values<'static> = Values {
    id: "$1::uuid",
    title: "$2",
    amount: "$3",
    due_on: "$4::date",
    memo: "$5",
    version: "$6",
};
const NEW: Values<'static> =
    Values { id: "", title: "$1", amount: "$2", due_on: "$3::date", memo: "$4", version: "" };

/// A server on its own port and threads. Dropping it stops it.
pub(crate) struct Bare {
    pub(crate) address: SocketAddr,
    _runtime: Runtime,
}

impl Bare {
    pub(crate) fn start(url: &str, tables: &[&str], connections: u32) -> Fallible<Self> {
        let options: PgConnectOptions = url.parse()?;
        let options = options.disable_statement_logging();
        serve(async move |mut router: Router| {
            let pool = PgPoolOptions::new().max_connections(connections).connect_with(options);
            let pool = pool.await?;
            for table in tables {
                router = router.merge(routes(table, pool.clone()));
            }
            Ok(router)
        })
    }

    /// A server that answers "ok", to find the limit of the generator.
    pub(crate) fn trivial() -> Fallible<Self> {
        serve(async |router: Router| Ok(router.route("/ok", get(async || "ok"))))
    }
}

fn serve(routes: impl AsyncFnOnce(Router) -> Fallible<Router>) -> Fallible<Bare> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_name(THREADS).enable_all().build()?;
    let (listener, app) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Fallible::Ok((listener, routes(Router::new()).await?))
    })?;
    let address = listener.local_addr()?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    runtime.spawn(async move { axum::serve(listener, app).await });
    Ok(Bare { address, _runtime: runtime })
}

struct Table {
    pool: PgPool,
    get: Arc<str>,
    list: Arc<str>,
    put: Arc<str>,
    post: Arc<str>,
}

fn routes(table: &str, pool: PgPool) -> Router {
    let state = Table {
        pool,
        get: statements::get(table, VALUES.id).into(),
        list: statements::list(table).into(),
        put: statements::put(table, &VALUES).into(),
        post: statements::post(table, &NEW).into(),
    };
    Router::new()
        .route(&format!("/api/v1/{table}"), get(list_rows).post(post_row))
        .route(&format!("/api/v1/{table}/{{id}}"), get(get_row).put(put_row))
        .with_state(Arc::new(state))
}

#[derive(Deserialize)]
struct Doc {
    title: String,
    amount: i64,
    due_on: Option<String>,
    memo: Option<String>,
}

/// What a handler may fail with; all of it is a 500 or a 400 here.
enum Failure {
    Database(sqlx::Error),
    Body(serde_json::Error),
    IfMatch,
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Body(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Database(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
            }
            Self::Body(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
            Self::IfMatch => (StatusCode::BAD_REQUEST, "If-Match").into_response(),
        }
    }
}

type Answer = Result<Response, Failure>;
type Shared = State<Arc<Table>>;

async fn get_row(State(table): Shared, Path(id): Path<String>) -> Answer {
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&table.get))).bind(id);
    match query.fetch_optional(&table.pool).await? {
        Some(row) => envelope(StatusCode::OK, &row),
        None => Ok(StatusCode::NOT_FOUND.into_response()),
    }
}

async fn list_rows(State(table): Shared) -> Answer {
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&table.list)));
    let row = query.fetch_one(&table.pool).await?;
    let rows: &str = row.try_get(0)?;
    let json = (header::CONTENT_TYPE, "application/json");
    Ok(([json], format!("{{\"data\":{rows}}}")).into_response())
}

async fn put_row(
    State(table): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let tag = headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok());
    let version: i32 = tag
        .and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok())
        .ok_or(Failure::IfMatch)?;
    let doc: Doc = serde_json::from_slice(&body)?;
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&table.put)))
        .bind(&id)
        .bind(doc.title)
        .bind(doc.amount)
        .bind(doc.due_on)
        .bind(doc.memo)
        .bind(version);
    if let Some(row) = query.fetch_optional(&table.pool).await? {
        return envelope(StatusCode::OK, &row);
    }
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&table.get))).bind(id);
    match query.fetch_optional(&table.pool).await? {
        Some(row) => conflict(version, &row),
        None => Ok(StatusCode::NOT_FOUND.into_response()),
    }
}

async fn post_row(State(table): Shared, body: Bytes) -> Answer {
    let doc: Doc = serde_json::from_slice(&body)?;
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&table.post)))
        .bind(doc.title)
        .bind(doc.amount)
        .bind(doc.due_on)
        .bind(doc.memo);
    let row = query.fetch_one(&table.pool).await?;
    let id: &str = row.try_get(2)?;
    let location = (header::LOCATION, format!("/api/v1/doc/{id}"));
    Ok(([location], envelope(StatusCode::CREATED, &row)?).into_response())
}

fn envelope(status: StatusCode, row: &PgRow) -> Answer {
    let (doc, version) = (row.try_get::<&str, _>(0)?, row.try_get::<i32, _>(1)?);
    let tag = (header::ETAG, format!("\"{version}\""));
    let json = (header::CONTENT_TYPE, "application/json".to_owned());
    Ok((status, [tag, json], format!("{{\"data\":{doc}}}")).into_response())
}

fn conflict(yours: i32, row: &PgRow) -> Answer {
    let (doc, version) = (row.try_get::<&str, _>(0)?, row.try_get::<i32, _>(1)?);
    let tag = (header::ETAG, format!("\"{version}\""));
    let json = (header::CONTENT_TYPE, "application/json".to_owned());
    let body = format!(
        "{{\"error\":{{\"code\":\"WRITE_CONFLICT\",\
         \"message\":\"This record changed since you loaded it\",\
         \"details\":{{\"your_version\":{yours},\"current_version\":{version}}}}},\"data\":{doc}}}"
    );
    Ok((StatusCode::CONFLICT, [tag, json], body).into_response())
}
