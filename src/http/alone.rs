//! Runs a write that is a transaction of its own, for the API and for the console.

use std::sync::Arc;

use futures_util::FutureExt as _;

use crate::db::fault::Fault;
use crate::error::Error;
use crate::http::App;
use crate::record::evidence::{self, Evidence};
use crate::record::{Outcome, Write};

impl App {
    /// Runs a write to its outcome. Where that was lost with the connection, the change log is asked.
    ///
    /// # Errors
    /// What the database could not do.
    pub async fn apply(&self, write: &Arc<Write>) -> Result<Outcome, Error> {
        match self.lanes.write(write).await {
            Err(Fault::Settled) => self.find_out(write).await,
            written => written.map_err(|fault| self.failure(&fault)),
        }
    }

    /// The outcome of a write whose own was lost with its connection.
    async fn find_out(&self, write: &Arc<Write>) -> Result<Outcome, Error> {
        let own = write.clone();
        // It only reads, and must not wait behind writes that wait for locks.
        let found = self
            .db
            .read(move |conn| async move { evidence::store::find(conn, &own).await }.boxed());
        let evidence = found.await.unwrap_or(Evidence::Unclear);
        if !matches!(evidence, Evidence::Unclear) {
            self.metrics.unknown(true);
        }
        match evidence {
            Evidence::Made(outcome) => {
                self.lanes.witness(write, &outcome);
                Ok(outcome)
            }
            Evidence::NotMade => Err(self.failure(&Fault::Unavailable)),
            Evidence::Unclear => Err(self.failure(&Fault::OutcomeUnknown)),
        }
    }
}
