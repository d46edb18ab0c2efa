//! Operations: writes under an `Idempotency-Key`. The first execution and its answer are recorded in
//! the transaction of the write; a repeat is given that answer and does nothing.

pub mod attempt;
pub mod fingerprint;
pub mod http;
pub mod purge;
pub mod settle;
pub mod store;

use uuid::Uuid;

use crate::error::{Code, Error};
use crate::operation::fingerprint::Fingerprint;
use crate::record::answer::Answer;

/// The longest key.
const MOST_KEY: usize = 255;

/// How long a repeat that met its first execution still running is told to wait, in seconds.
const RETRY_AFTER: &str = "1";

/// How long one that is blocked is told to wait: a person has to look at it.
const BLOCKED_AFTER: &str = "60";

/// A request that is to be executed once.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Whose keys are meant. One tenant, until there is authentication.
    pub tenant: String,
    /// The client's key.
    pub key: String,
    /// The operation's own id, should it be the first.
    pub id: Uuid,
    /// What tells a repeat from another request under the same key.
    pub fingerprint: Fingerprint,
    /// What it does: `write` or `batch`.
    pub kind: &'static str,
    /// The request's method.
    pub method: String,
    /// The request's path.
    pub path: String,
    /// Who asks.
    pub actor: String,
    /// The request's id, by which the log knows it.
    pub request_id: String,
    /// For how many hours the answer is kept.
    pub keep_hours: i32,
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claimed {
    /// It was the first, and this is its answer; a refusal leaves the key unused.
    First(Result<Answer, Error>),
    /// It was done before.
    Repeat(Answer),
    /// The key belongs to another request.
    Reused,
    /// The first execution is not decided.
    Undecided(Option<Standing>),
}

/// Where an operation stands.
#[derive(Debug)]
pub struct Standing {
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: String,
}

impl Claimed {
    /// The answer to the request.
    ///
    /// # Errors
    /// The refusal of the write, `IDEMPOTENCY_KEY_REUSED`, or `OPERATION_IN_PROGRESS`.
    pub fn answer(self) -> Result<Answer, Error> {
        match self {
            Self::First(answer) => answer,
            Self::Repeat(mut answer) => {
                answer.headers.push(("idempotency-replayed".into(), "true".to_owned()));
                Ok(answer)
            }
            Self::Reused => Err(Error::new(
                Code::IdempotencyKeyReused,
                "This Idempotency-Key was used for another request; take a new one",
            )),
            Self::Undecided(standing) => Err(undecided(standing)),
        }
    }
}

fn undecided(standing: Option<Standing>) -> Error {
    let blocked = standing.as_ref().is_some_and(|standing| standing.status == "blocked");
    let (message, after) = if blocked {
        (
            "The operation under this Idempotency-Key is blocked until somebody resolves it",
            BLOCKED_AFTER,
        )
    } else {
        ("The first request under this Idempotency-Key is still running", RETRY_AFTER)
    };
    let error = Error::new(Code::OperationInProgress, message).header("retry-after", after);
    match standing {
        Some(Standing { id, status }) => error.detail("operation", id).detail("status", status),
        None => error,
    }
}

/// Reads the lines of `Idempotency-Key`; `None` where it is absent. The key may stand in quotes (as
/// a string of RFC 8941) or bare.
///
/// # Errors
/// `INVALID_IDEMPOTENCY_KEY`: taken as absent, it would let a repeat happen twice.
pub fn read_key<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Result<Option<String>, Error> {
    let invalid = |why: &str| {
        let message = format!("Idempotency-Key cannot be used: {why}");
        Error::new(Code::InvalidIdempotencyKey, message)
    };
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(invalid("it stands twice"));
    }
    let text = std::str::from_utf8(line).map_err(|_| invalid("it is no text"))?;
    let text = text.trim_matches([' ', '\t']);
    let key = match text.strip_prefix('"') {
        Some(quoted) => unquoted(quoted).ok_or_else(|| invalid("its quotes are not in order"))?,
        None => text.to_owned(),
    };
    if key.is_empty() || key.len() > MOST_KEY {
        return Err(invalid("it must have 1 to 255 characters"));
    }
    if !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(invalid("its characters must be visible ASCII"));
    }
    Ok(Some(key))
}

/// What stands between quotes; a backslash takes the next character as it is.
fn unquoted(quoted: &str) -> Option<String> {
    let mut key = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return characters.next().is_none().then_some(key),
            '\\' => key.push(characters.next().filter(|c| matches!(c, '"' | '\\'))?),
            other => key.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Result<Option<String>, &'static str> {
        read_key(lines.iter().map(|line| line.as_bytes())).map_err(|e| e.code().as_str())
    }

    #[test]
    fn a_key_stands_bare_or_in_quotes() {
        assert_eq!(read(&[]), Ok(None));
        for line in ["a-1", " a-1 ", "\"a-1\""] {
            assert_eq!(read(&[line]), Ok(Some("a-1".to_owned())), "{line}");
        }
        assert_eq!(read(&[r#""a\"\\b""#]), Ok(Some(r#"a"\b"#.to_owned())));
        assert_eq!(read(&[&"k".repeat(255)]), Ok(Some("k".repeat(255))));
    }

    #[test]
    fn a_key_that_cannot_be_read_is_never_taken_as_absent() {
        let long = "k".repeat(256);
        for lines in [
            &[""] as &[&str],
            &["\"\""],
            &["\"a"],
            &["\"a\"b"],
            &["\"a\\"],
            &["\"a\\b\""],
            &["a b"],
            &["\"a b\""],
            &["\u{e9}"],
            &["a\tb"],
            &["a", "a"],
            &[long.as_str()],
        ] {
            assert_eq!(read(lines), Err("INVALID_IDEMPOTENCY_KEY"), "{lines:?}");
        }
    }
}
