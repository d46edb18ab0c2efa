//! `counterfoil serve`, and what `dev` shares with it.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;

use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Failure, ServeArgs, say};
use crate::config::Config;
use crate::http::server;
use crate::service::{self, StartError};

/// The file that is read where none is named.
pub(super) const DEFAULT_CONFIG: &str = "counterfoil.toml";

/// Serves until the process is told to end.
pub(super) async fn serve(
    database_url: &str,
    config: Option<&Path>,
    args: &ServeArgs,
) -> Result<(), Failure> {
    if !args.no_auth {
        return Err(Failure::usage(
            "serve takes no request without authentication, which this version does not have yet; \
             where the network keeps strangers out, say --no-auth",
        ));
    }
    let ended = ended()?;
    let config = read_config(config)?;
    let listen = address(args.listen, &config);
    let service = start(database_url, config).await?;
    let listener = bind(listen)?;
    say(&format!("listening: http://{}", local(&listener)?));
    server::run(listener, service.router.clone(), ended).await;
    Ok(())
}

pub(super) async fn start(database_url: &str, config: Config) -> Result<service::Service, Failure> {
    service::start(database_url, config).await.map_err(|error| match error {
        StartError::Misconfigured(_) => Failure::usage(error),
        StartError::Database(_) | StartError::TooOld(_) | StartError::NotMigrated => {
            Failure::new(error)
        }
    })
}

pub(super) fn read_config(path: Option<&Path>) -> Result<Config, Failure> {
    match path {
        Some(path) => Config::read(path).map_err(Failure::usage),
        None if Path::new(DEFAULT_CONFIG).exists() => {
            Config::read(Path::new(DEFAULT_CONFIG)).map_err(Failure::usage)
        }
        None => Ok(Config::default()),
    }
}

pub(super) fn address(flag: Option<SocketAddr>, config: &Config) -> SocketAddr {
    flag.or(config.server.listen).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)))
}

/// How many connections may wait to be accepted. Where several thousand clients come at once, each that
/// finds no room tries again only after a second.
const BACKLOG: u32 = 4096;

pub(super) fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A server that is started anew need not wait for the connections of the one before.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|error| Failure::new(format!("cannot listen on {address}: {error}")))
}

pub(super) fn local(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(Failure::new)
}

/// Resolves when the process is told to end. The handlers stand from the call on, not from the
/// first poll.
pub(super) fn ended() -> Result<impl Future<Output = ()>, Failure> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::new)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::new)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::new)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}
