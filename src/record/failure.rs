//! From what the database could not do to its words for the client.

use crate::db::fault::Fault;
use crate::error::{Code, Error};

/// Words a fault.
pub fn failure(fault: &Fault) -> Error {
    match fault {
        Fault::Value | Fault::Check(_) => {
            Error::new(Code::InvalidId, "The id cannot be one of this resource's")
        }
        Fault::Forbidden => Error::new(Code::NotAllowed, "The service may not read this resource"),
        Fault::LockTimeout => {
            let message = "Somebody else holds the record locked; nothing was done";
            Error::new(Code::LockTimeout, message)
        }
        Fault::StatementTimeout | Fault::Retry | Fault::Overloaded => {
            let message = "The service could not do it in time; nothing was done";
            Error::new(Code::Overloaded, message)
        }
        Fault::StorageFull => Error::new(Code::StorageFull, "The database has no space left"),
        Fault::Unavailable | Fault::Disconnected => {
            let message = "The database cannot be reached; nothing was done";
            Error::new(Code::DatabaseUnavailable, message)
        }
        Fault::OutcomeUnknown | Fault::Settled => {
            let message = "The connection to the database was lost while the write was under way. \
                Read the record to see whether it was applied";
            Error::new(Code::OutcomeUnknown, message)
        }
        Fault::Drifted | Fault::Mismatch => {
            Error::new(Code::Overloaded, "The table is being changed; try again in a moment")
        }
        Fault::Failed(words) => internal().because(words.clone()),
        Fault::Taken(_)
        | Fault::Reference(_)
        | Fault::Null(_)
        | Fault::Panicked
        | Fault::Unexpected(_)
        | Fault::Refused(_) => internal(),
    }
}

fn internal() -> Error {
    Error::new(Code::Internal, "The service failed; the request id finds it in the log")
}
