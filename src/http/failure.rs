//! From what the database could not do to the answer.

use crate::db::fault::Fault;
use crate::error::Error;
use crate::http::App;
use crate::record::failure;

impl App {
    /// Words a fault for the client. An outcome that is worded as unknown is counted as one.
    pub fn failure(&self, fault: &Fault) -> Error {
        if matches!(fault, Fault::OutcomeUnknown | Fault::Settled) {
            self.metrics.unknown(false);
        }
        if matches!(fault, Fault::Drifted | Fault::Mismatch) {
            // The table was changed under us: look again, and let the client come back.
            self.refresh.notify_one();
        }
        failure::failure(fault)
    }
}
