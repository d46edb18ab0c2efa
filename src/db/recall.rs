//! Work whose end can be told after its connection was lost under COMMIT: PostgreSQL remembers of every
//! transaction whether it was committed.

use std::sync::{Mutex, PoisonError};

use sqlx::postgres::PgConnection;

use crate::db::fault::Fault;
use crate::db::transaction::{End, Work};

/// Work that remembers what it was about to commit.
#[derive(Debug)]
pub struct Recalled<W: Work> {
    /// The work.
    pub work: W,
    /// The transaction's id, where it wrote, and what came of the work.
    last: Mutex<Option<(Option<String>, W::Output)>>,
}

/// How a transaction ended.
#[derive(Debug)]
pub enum Ended<T> {
    /// It holds, and this came of it.
    Committed(T),
    /// Nothing of it holds.
    Aborted,
}

impl<W: Work> Recalled<W> {
    /// Work not done yet.
    pub fn new(work: W) -> Self {
        Self { work, last: Mutex::new(None) }
    }

    /// How the last run ended. Its session must have ended.
    ///
    /// # Errors
    /// Those of the database; [`Fault::OutcomeUnknown`] where it does not remember.
    pub async fn ended(&self, conn: &mut PgConnection) -> Result<Ended<W::Output>, Fault> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((id, output)) = last else { return Ok(Ended::Aborted) };
        // What wrote nothing holds in any case.
        let Some(id) = id else { return Ok(Ended::Committed(output)) };
        let status: Option<String> =
            sqlx::query_scalar("SELECT pg_xact_status($1::xid8)").bind(id).fetch_one(conn).await?;
        match status.as_deref() {
            Some("committed") => Ok(Ended::Committed(output)),
            Some("aborted") => Ok(Ended::Aborted),
            _ => Err(Fault::OutcomeUnknown),
        }
    }
}

impl<W: Work> Work for Recalled<W>
where
    W::Output: Clone,
{
    type Output = W::Output;

    async fn run(&self, conn: &mut PgConnection) -> Result<End<W::Output>, Fault> {
        let end = self.work.run(&mut *conn).await?;
        if let End::Commit(output) = &end {
            let id = sqlx::query_scalar("SELECT pg_current_xact_id_if_assigned()::text");
            let id = id.fetch_one(conn).await?;
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some((id, output.clone()));
        }
        Ok(end)
    }
}
