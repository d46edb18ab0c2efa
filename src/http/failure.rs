//! From what the database could not do to the answer.

use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::http::App;

impl App {
    /// Words a fault for the client.
    pub fn failure(&self, fault: &Fault) -> Error {
        match fault {
            Fault::Value | Fault::Check(_) => {
                Error::new(Code::InvalidId, "The id cannot be one of this resource's")
            }
            Fault::Forbidden => {
                Error::new(Code::NotAllowed, "The service may not read this resource")
            }
            Fault::LockTimeout => Error::new(
                Code::LockTimeout,
                "Somebody else holds the record locked; nothing was done",
            ),
            Fault::StatementTimeout | Fault::Retry | Fault::Overloaded => Error::new(
                Code::Overloaded,
                "The service could not do it in time; nothing was done",
            ),
            Fault::StorageFull => Error::new(Code::StorageFull, "The database has no space left"),
            Fault::Unavailable | Fault::Disconnected => Error::new(
                Code::DatabaseUnavailable,
                "The database cannot be reached; nothing was done",
            ),
            Fault::OutcomeUnknown => {
                let message = "The connection to the database was lost while the write was under way. \
                    Read the record to see whether it was applied";
                Error::new(Code::OutcomeUnknown, message)
            }
            Fault::Drifted | Fault::Mismatch => {
                // The table was changed under us: look again, and let the client come back.
                self.refresh.notify_one();
                Error::new(Code::Overloaded, "The table is being changed; try again in a moment")
            }
            Fault::Taken(_)
            | Fault::Reference(_)
            | Fault::Null(_)
            | Fault::Panicked
            | Fault::Unexpected(_)
            | Fault::Refused(_) => {
                Error::new(Code::Internal, "The service failed; the request id finds it in the log")
            }
        }
    }
}
