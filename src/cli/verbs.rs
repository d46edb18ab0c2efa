//! The verbs that do one thing and end.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::catalog::store;
use crate::cli::{AdoptArgs, Failure, OpenapiArgs, OpenapiFormat, ReleaseArgs, say, serve};
use crate::db::connect;
use crate::db::fault::Fault;
use crate::db::migrate as migrations;
use crate::http::openapi;

/// How often adoption tries for the table's lock before it gives up.
const LOCK_TRIES: usize = 10;

pub(super) async fn migrate(database_url: &str) -> Result<(), Failure> {
    let mut conn = open(database_url).await?;
    if migrations::is_current(&mut conn).await.map_err(Failure::new)? {
        say("up to date");
        return Ok(());
    }
    migrations::run(&mut conn).await.map_err(Failure::new)?;
    say("migrated");
    Ok(())
}

pub(super) async fn adopt(database_url: &str, args: &AdoptArgs) -> Result<(), Failure> {
    let mut conn = open_migrated(database_url).await?;
    let name = args.name.as_deref();
    for attempt in 1.. {
        let adopted =
            store::adopt(&mut conn, &args.table, name, !args.no_history, &args.version_column);
        match adopted.await {
            Ok(steps) => {
                steps.iter().map(String::as_str).for_each(say);
                return Ok(());
            }
            Err(error) => {
                let fault = tell(error)?;
                if fault != Fault::LockTimeout || attempt == LOCK_TRIES {
                    let message = "the table could not be locked for the moment that adoption needs: \
                        a transaction holds it; nothing was changed";
                    return Err(Failure::new(message));
                }
                // Waiting for the lock makes everyone else wait behind us; so wait without it.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
    Ok(())
}

pub(super) async fn release(database_url: &str, args: &ReleaseArgs) -> Result<(), Failure> {
    let mut conn = open_migrated(database_url).await?;
    match store::release(&mut conn, &args.resource, args.drop_version).await {
        Ok(steps) => steps.iter().map(String::as_str).for_each(say),
        Err(error) => {
            tell(error)?;
            return Err(Failure::new("the table is locked by somebody else; nothing was changed"));
        }
    }
    Ok(())
}

pub(super) async fn check(database_url: &str, config: Option<&Path>) -> Result<(), Failure> {
    let config = serve::read_config(config)?;
    let service = serve::start(database_url, config).await?;
    for resource in service.app.catalog.load().resources() {
        say(&format!("{}  {}", resource.name, resource.table));
    }
    say("the configuration fits the database");
    Ok(())
}

pub(super) async fn openapi(
    database_url: &str,
    config: Option<&Path>,
    args: &OpenapiArgs,
) -> Result<(), Failure> {
    let config = serve::read_config(config)?;
    let service = serve::start(database_url, config).await?;
    let document = openapi::document(&service.app.catalog.load());
    let text = match args.format {
        OpenapiFormat::Yaml => openapi::to_yaml(&document).map_err(Failure::new)?,
        OpenapiFormat::Json => format!("{document:#}\n"),
    };
    say(text.trim_end());
    Ok(())
}

pub(super) async fn audit(database_url: &str) -> Result<(), Failure> {
    let mut conn = open_migrated(database_url).await?;
    let broken: Vec<(String, Option<String>, String)> =
        sqlx::query_as("SELECT resource, id, problem FROM counterfoil.audit()")
            .fetch_all(&mut conn)
            .await
            .map_err(Failure::new)?;
    for (resource, id, problem) in &broken {
        say(&format!("{resource} {}: {problem}", id.as_deref().unwrap_or("-")));
    }
    match broken.len() {
        0 => {
            say("every invariant holds");
            Ok(())
        }
        count => Err(Failure::new(format!("{count} invariants are broken"))),
    }
}

pub(super) async fn health(listen: SocketAddr) -> Result<(), Failure> {
    let asked = tokio::time::timeout(Duration::from_secs(3), ask(listen)).await;
    match asked {
        Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200") => Ok(()),
        Ok(Ok(answer)) => Err(Failure::new(answer.lines().next().unwrap_or("no answer"))),
        Ok(Err(error)) => Err(Failure::new(error)),
        Err(_) => Err(Failure::new("no answer within 3 seconds")),
    }
}

async fn ask(mut address: SocketAddr) -> std::io::Result<String> {
    // A server that listens everywhere is asked at home.
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn open(database_url: &str) -> Result<PgConnection, Failure> {
    let options = connect::options(database_url).map_err(Failure::usage)?;
    let mut conn = connect::connect(&options).await.map_err(Failure::new)?;
    let version = connect::server_version(&mut conn).await.map_err(Failure::new)?;
    if version < connect::OLDEST {
        return Err(Failure::new(crate::service::StartError::TooOld(version / 10_000)));
    }
    // An audit reads every row, an adoption anew the whole log; the limit for requests is not theirs.
    sqlx::query("SET statement_timeout = 0").execute(&mut conn).await.map_err(Failure::new)?;
    Ok(conn)
}

async fn open_migrated(database_url: &str) -> Result<PgConnection, Failure> {
    let mut conn = open(database_url).await?;
    if migrations::is_current(&mut conn).await.map_err(Failure::new)? {
        Ok(conn)
    } else {
        Err(Failure::new(crate::service::StartError::NotMigrated))
    }
}

/// Tells a refusal in its own words; an operator may see the database's. A lock that was not to be
/// had is the caller's to deal with.
fn tell(error: sqlx::Error) -> Result<Fault, Failure> {
    let words = match &error {
        sqlx::Error::Database(database) => database.message().to_owned(),
        other => other.to_string(),
    };
    match Fault::from(error) {
        Fault::LockTimeout => Ok(Fault::LockTimeout),
        Fault::Refused(refusal) => Err(Failure::new(refusal)),
        _ => Err(Failure::new(words)),
    }
}
