//! What every session of ours is set to.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};

/// How many prepared statements a connection keeps: one per resource and shape in use.
const STATEMENTS: usize = 1024;

/// How long a database may take to open a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The oldest PostgreSQL that is served, as `server_version_num` has it.
pub const OLDEST: i32 = 140_000;

/// Reads a database URL and adds the settings of our sessions. They go with the start-up packet and
/// cost no round trip.
///
/// # Errors
/// Where the URL cannot be read.
pub fn options(url: &str) -> sqlx::Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)?
        .application_name("counterfoil")
        .statement_cache_capacity(STATEMENTS)
        .options([
            ("timezone", "UTC"),
            ("datestyle", "ISO, MDY"),
            ("intervalstyle", "postgres"),
            ("bytea_output", "hex"),
            // Our statements are short; compiling one takes longer than it ever runs.
            ("jit", "off"),
            ("default_transaction_isolation", "read committed"),
            ("statement_timeout", "5s"),
            ("lock_timeout", "2s"),
            ("idle_in_transaction_session_timeout", "10s"),
            ("client_connection_check_interval", "1s"),
        ]);
    Ok(options.disable_statement_logging())
}

/// The settings of a lane's session besides those of every session of ours. Nothing in a lane may wait
/// long, for others wait behind it; and its statements find rows by their keys alone, with any number
/// of them, so one plan is as good for each.
#[must_use]
pub fn of_a_lane(options: &PgConnectOptions) -> PgConnectOptions {
    options.clone().options([
        ("lock_timeout", "2ms"),
        ("statement_timeout", "250ms"),
        ("plan_cache_mode", "force_generic_plan"),
        ("enable_seqscan", "off"),
    ])
}

/// Opens a connection.
///
/// # Errors
/// Those of the database, and where it takes too long to answer.
pub async fn connect(options: &PgConnectOptions) -> sqlx::Result<PgConnection> {
    let connected = tokio::time::timeout(CONNECT_TIME, PgConnection::connect_with(options)).await;
    connected.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}

/// Reads the server's version, as `server_version_num` has it.
///
/// # Errors
/// Those of the database.
pub async fn server_version(conn: &mut PgConnection) -> sqlx::Result<i32> {
    sqlx::query_scalar("SELECT current_setting('server_version_num')::int4").fetch_one(conn).await
}
