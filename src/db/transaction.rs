//! Transactions of several statements: begun, retried as a whole after a deadlock, and ended in every
//! case, so that a connection never goes back with one open.

use std::future::Future;

use sqlx::postgres::PgConnection;

use crate::db::fault::Fault;

/// How often a transaction is run anew after a deadlock or a serialization failure.
const RETRIES: usize = 3;

/// Every constraint is checked by the statement that it concerns, so that COMMIT has nothing left to
/// refuse and a refusal can be told from a commit of unknown outcome.
const BEGIN: &str = "BEGIN; SET CONSTRAINTS ALL IMMEDIATE";

/// How a transaction is to end.
#[derive(Debug)]
pub enum End<T> {
    /// What was written holds.
    Commit(T),
    /// Nothing was written.
    Rollback(T),
}

impl<T> End<T> {
    /// The same end with another result.
    pub fn map<U>(self, with: impl FnOnce(T) -> U) -> End<U> {
        match self {
            Self::Commit(result) => End::Commit(with(result)),
            Self::Rollback(result) => End::Rollback(with(result)),
        }
    }
}

/// What is done inside one transaction.
pub trait Work: Sync {
    /// What comes of it.
    type Output: Send + Sync;

    /// Does it, between BEGIN and the end that it asks for; once more after a deadlock.
    fn run(
        &self,
        conn: &mut PgConnection,
    ) -> impl Future<Output = Result<End<Self::Output>, Fault>> + Send;
}

/// Runs work in a transaction of its own.
///
/// # Errors
/// Those of the work; [`Fault::OutcomeUnknown`] only where the connection broke under COMMIT, for
/// with every other fault nothing was written.
pub async fn run<W: Work>(conn: &mut PgConnection, work: &W) -> Result<W::Output, Fault> {
    let mut retries = 0;
    loop {
        match once(conn, work).await {
            Err(Fault::Retry) if retries < RETRIES => retries += 1,
            result => return result,
        }
    }
}

async fn once<W: Work>(conn: &mut PgConnection, work: &W) -> Result<W::Output, Fault> {
    sqlx::raw_sql(BEGIN).execute(&mut *conn).await?;
    match work.run(&mut *conn).await {
        Ok(End::Commit(output)) => {
            let committed = sqlx::raw_sql("COMMIT").execute(conn).await;
            committed.map_err(|error| Fault::from(error).of_a_write())?;
            Ok(output)
        }
        Ok(End::Rollback(output)) => {
            sqlx::raw_sql("ROLLBACK").execute(conn).await?;
            Ok(output)
        }
        Err(fault) => {
            if !fault.breaks_connection() {
                sqlx::raw_sql("ROLLBACK").execute(conn).await?;
            }
            Err(fault)
        }
    }
}

/// Marks the place in a transaction that [`back`] returns to.
///
/// # Errors
/// Those of the database.
pub async fn mark(conn: &mut PgConnection) -> Result<(), Fault> {
    sqlx::raw_sql("SAVEPOINT write").execute(conn).await?;
    Ok(())
}

/// Moves the mark to here: what was done since the last one stays.
///
/// # Errors
/// Those of the database.
pub async fn remark(conn: &mut PgConnection) -> Result<(), Fault> {
    sqlx::raw_sql("RELEASE SAVEPOINT write; SAVEPOINT write").execute(conn).await?;
    Ok(())
}

/// Undoes what was done since the mark, and makes the transaction fit for further statements after
/// one that failed.
///
/// # Errors
/// Those of the database.
pub async fn back(conn: &mut PgConnection) -> Result<(), Fault> {
    sqlx::raw_sql("ROLLBACK TO SAVEPOINT write").execute(conn).await?;
    Ok(())
}

/// Lets what is left of the transaction wait for locks no longer than it takes to see that they are held:
/// the time for waiting was spent.
///
/// # Errors
/// Those of the database.
pub async fn hurry(conn: &mut PgConnection) -> Result<(), Fault> {
    sqlx::raw_sql("SET LOCAL lock_timeout = '50ms'").execute(conn).await?;
    Ok(())
}

/// Lets constraints that may wait do so, and marks the place that [`start_over`] returns to, and the
/// one that [`back`] does.
///
/// # Errors
/// Those of the database.
pub async fn defer(conn: &mut PgConnection) -> Result<(), Fault> {
    let deferred = "SET CONSTRAINTS ALL DEFERRED; SAVEPOINT whole; SAVEPOINT write";
    sqlx::raw_sql(deferred).execute(conn).await?;
    Ok(())
}

/// Holds what was done against every constraint that waited.
///
/// # Errors
/// That of the first one that stands against it; only [`start_over`] goes on from there.
pub async fn check(conn: &mut PgConnection) -> Result<(), Fault> {
    sqlx::raw_sql("SET CONSTRAINTS ALL IMMEDIATE").execute(conn).await?;
    Ok(())
}

/// Undoes all that was done since [`defer`]; from now on no constraint waits.
///
/// # Errors
/// Those of the database.
pub async fn start_over(conn: &mut PgConnection) -> Result<(), Fault> {
    let anew = "ROLLBACK TO SAVEPOINT whole; SET CONSTRAINTS ALL IMMEDIATE; SAVEPOINT write";
    sqlx::raw_sql(anew).execute(conn).await?;
    Ok(())
}
