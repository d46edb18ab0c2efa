//! What an operator decides about a blocked operation. Pure.

use serde_json::json;

use crate::error::{Code, Error};
use crate::operation::store::Settlement;
use crate::record::answer::Answer;

/// The longest note that is kept, in bytes.
pub const MOST_NOTE: usize = 2000;

impl Settlement {
    /// The next request under its key runs it again.
    pub fn retry(note: String, actor: String) -> Self {
        Self { status: "retryable", note, actor, answer: None }
    }

    /// It is over, as `completed` or `rejected`.
    ///
    /// # Errors
    /// `INVALID_VALUE` where it is said to be something else.
    pub fn resolve(
        id: &str,
        status: Option<&str>,
        note: String,
        actor: String,
    ) -> Result<Self, Error> {
        let (status, answer) = match status {
            Some("completed") => ("completed", stored(200, r#"{"data":null}"#.to_owned())),
            Some("rejected") => ("rejected", rejection(id, &note)),
            _ => {
                let message = "status must be \"completed\" or \"rejected\"";
                return Err(Error::field(Code::InvalidValue, "status", message));
            }
        };
        Ok(Self { status, note, actor, answer: Some(answer) })
    }
}

fn stored(status: u16, body: String) -> Answer {
    Answer { status, headers: Vec::new(), body }
}

/// What repeats of a rejected operation are told.
fn rejection(id: &str, note: &str) -> Answer {
    let message = format!("The operation was rejected: {note}");
    let error = Error::new(Code::TransitionConflict, message).detail("operation", id);
    let body = json!({ "error": error.envelope(id), "data": null });
    stored(error.status(), body.to_string())
}

/// A note as it is kept.
///
/// # Errors
/// `INVALID_VALUE` where it cannot be.
pub fn note(text: &str) -> Result<String, Error> {
    if text.len() > MOST_NOTE || text.contains('\0') {
        return Err(Error::field(Code::InvalidValue, "note", "note must be a short text"));
    }
    Ok(text.to_owned())
}
