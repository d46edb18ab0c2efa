//! Runs a batch inside one transaction.

use sqlx::PgConnection;

use crate::batch::Batch;
use crate::db::fault::Fault;
use crate::db::transaction::{End, Work};
use crate::error::Error;
use crate::record::answer::Answer;
use crate::record::several::store::run;
use crate::record::several::{Mode, Place};

impl Work for Batch {
    type Output = Result<Answer, Error>;

    async fn run(&self, conn: &mut PgConnection) -> Result<End<Self::Output>, Fault> {
        let places: Vec<_> = self.operations.iter().map(Place::of).collect();
        let mode = if self.atomic { Mode::Whole } else { Mode::Each };
        let ended = run(conn, mode, &places).await?;
        Ok(self.answer(&self.word(ended)))
    }
}
