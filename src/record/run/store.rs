//! Runs the one statement that writes, alone or inside a transaction.

use sqlx::Postgres;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;

use crate::db::fault::Fault;
use crate::db::transaction::{self, End, Work};
use crate::error::Error;
use crate::heavy;
use crate::record::answer::{Answer, Context};
use crate::record::{Run, Write, store};

/// A write that a request is about, with the form of its answer.
#[derive(Debug)]
pub struct Single {
    /// The write.
    pub write: Write,
    /// Whether the answer is the tag alone.
    pub minimal: bool,
}

impl Single {
    /// Runs it and words its answer.
    ///
    /// # Errors
    /// As [`store::write`].
    pub async fn answer(&self, conn: &mut PgConnection) -> Result<Result<Answer, Error>, Fault> {
        let outcome = store::write(conn, &self.write).await?;
        let context = Context::of(&self.write, self.minimal);
        Ok(heavy::compute(outcome.size(), || context.answer(outcome)))
    }
}

impl Work for Single {
    type Output = Result<Answer, Error>;

    async fn run(&self, conn: &mut PgConnection) -> Result<End<Self::Output>, Fault> {
        transaction::mark(conn).await?;
        let answer = self.answer(conn).await?;
        Ok(if answer.is_ok() { End::Commit(answer) } else { End::Rollback(answer) })
    }
}

/// Runs the one statement that writes; all others of a write only read. After a fault, the connection
/// is fit for those that explain it.
pub(in crate::record) async fn execute(
    conn: &mut PgConnection,
    run: Run,
    query: Query<'_, Postgres, PgArguments>,
) -> Result<Option<PgRow>, Fault> {
    match run {
        Run::Alone => {
            query.fetch_optional(conn).await.map_err(|error| Fault::from(error).of_a_write())
        }
        Run::Rehearsal => rehearse(conn, query).await,
        Run::Within => match query.fetch_optional(&mut *conn).await {
            Ok(row) => Ok(row),
            Err(error) => Err(recover(conn, run, error.into()).await?),
        },
    }
}

/// Runs a statement inside a transaction that is rolled back after every deferred constraint had its
/// say.
async fn rehearse(
    conn: &mut PgConnection,
    query: Query<'_, Postgres, PgArguments>,
) -> Result<Option<PgRow>, Fault> {
    sqlx::raw_sql("BEGIN").execute(&mut *conn).await?;
    let mut result = query.fetch_optional(&mut *conn).await;
    if result.is_ok() {
        let checked = sqlx::raw_sql("SET CONSTRAINTS ALL IMMEDIATE").execute(&mut *conn).await;
        result = checked.and(result);
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut *conn).await?;
    Ok(result?)
}

/// Makes the connection fit for further statements after one that failed, and gives its fault back.
/// To be called wherever a fault is caught and the write goes on.
pub(in crate::record) async fn recover(
    conn: &mut PgConnection,
    run: Run,
    fault: Fault,
) -> Result<Fault, Fault> {
    if run == Run::Within && !fault.breaks_connection() {
        transaction::back(conn).await?;
    }
    Ok(fault)
}
