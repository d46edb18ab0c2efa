//! The session behind a connection, so that what a lost one was doing can be settled.

use std::time::{Duration, Instant};

use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use crate::db::connect;

/// For how long to try to reach the database of a lost session.
const TRYING: Duration = Duration::from_secs(5);
/// How long to wait before looking again whether a session has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long to wait before connecting again.
const RECONNECT: Duration = Duration::from_millis(100);

/// A session of ours. Its number may be given to another one after its end, so its beginning counts.
#[derive(Clone, Debug)]
pub struct Backend {
    pid: i32,
    since: String,
}

impl Backend {
    /// The session of a connection.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn of(conn: &mut PgConnection) -> sqlx::Result<Self> {
        let text =
            "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        let (pid, since) = sqlx::query_as(text).persistent(false).fetch_one(conn).await?;
        Ok(Self { pid, since })
    }

    /// Ends the session, if it is still there, over a connection of its own. Gives whether it is
    /// certainly over: what it was doing is then either committed or will never be.
    pub async fn end(&self, options: &PgConnectOptions) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < TRYING {
            match self.end_once(options, begun).await {
                Ok(over) => return over,
                Err(error) => {
                    tracing::warn!(%error, "a lost session cannot be looked for yet");
                    tokio::time::sleep(RECONNECT).await;
                }
            }
        }
        false
    }

    async fn end_once(&self, options: &PgConnectOptions, begun: Instant) -> sqlx::Result<bool> {
        let mut conn = connect::connect(options).await?;
        while begun.elapsed() < TRYING {
            let text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                        WHERE pid = $1 AND backend_start = $2::timestamptz";
            let there = sqlx::query(text).bind(self.pid).bind(&self.since);
            if there.fetch_optional(&mut conn).await?.is_none() {
                conn.close().await?;
                return Ok(true);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(false)
    }
}
