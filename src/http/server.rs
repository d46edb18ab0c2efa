//! The accept loop: time for headers, a bound on connections, and an end that lets requests finish.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, watch};
use tower::ServiceExt as _;

/// How long the server waits for its clients.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long a client may take over the headers of a request.
    pub headers: Duration,
    /// How long requests under way may take once the server is told to end.
    pub drain: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { headers: Duration::from_secs(15), drain: Duration::from_secs(10) }
    }
}

/// How many connections are served at once.
const CONNECTIONS: usize = 20_000;
/// How long to wait after the system could not give a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections of clients that are open, over all servers of the process.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// How many connections of clients are open in this process.
pub fn connections() -> usize {
    OPEN.load(Ordering::Relaxed)
}

/// Tells answers without an end of their own, such as event streams, that the server ends. Every
/// request carries it as an extension.
#[derive(Clone, Debug)]
pub struct Ending(watch::Receiver<bool>);

impl Ending {
    /// Resolves when the server was told to end.
    pub async fn begun(&mut self) {
        // A server that is gone has ended too.
        let _ = self.0.wait_for(|ends| *ends).await;
    }
}

/// Serves until `shutdown` resolves, then lets requests under way finish, within bounds. The caller
/// owns the listener and the signal.
pub async fn run(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    run_patiently(listener, router, Patience::default(), shutdown).await;
}

/// As [`run`], with another patience.
pub async fn run_patiently(
    listener: TcpListener,
    router: Router,
    patience: Patience,
    shutdown: impl Future<Output = ()>,
) {
    let builder = builder(patience);
    let graceful = GracefulShutdown::new();
    let (end, ending) = watch::channel(false);
    let ending = Ending(ending);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut shutdown => break,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are small and complete; waiting to fill a segment would only delay them.
        let _ = stream.set_nodelay(true);
        let (router, ending) = (router.clone(), ending.clone());
        let first = Arc::new(Notify::new());
        let begun = first.clone();
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            begun.notify_one();
            let router = router.clone();
            request.extensions_mut().insert(ending.clone());
            async move {
                let answered: Result<_, Infallible> = router.oneshot(request.map(Body::new)).await;
                answered
            }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection.into_owned());
        OPEN.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            tokio::select! {
                // A client that breaks off is its own affair.
                _ = connection => {}
                () = overdue(&first, patience.headers) => {}
            }
            OPEN.fetch_sub(1, Ordering::Relaxed);
            drop(place);
        });
    }
    drop(listener);
    let _ = end.send(true);
    if tokio::time::timeout(patience.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way when the time to finish them was over");
    }
}

/// Resolves where a connection's first request does not come in time. hyper's own clock begins to
/// run when the first bytes have told HTTP/1 from HTTP/2, and a client may keep those to itself.
async fn overdue(first: &Notify, limit: Duration) {
    if tokio::time::timeout(limit, first.notified()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

fn builder(patience: Patience) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.headers)
        .max_headers(100)
        .max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .max_concurrent_streams(128)
        .max_header_list_size(32 * 1024);
    builder
}
