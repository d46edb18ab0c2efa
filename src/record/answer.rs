//! From what became of a write to its answer, whatever carries it: a response of its own, a line of a
//! batch, or the stored answer of an operation.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::error::Error;
use crate::record::{Merged, Outcome, Row, Verb, Write, conflict};
use crate::version::Tag;

/// An answer to a write that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Further headers, names in lower case.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// The JSON text of the body; empty where there is none.
    pub body: String,
}

/// What the answer depends on besides the outcome.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The resource written to.
    pub resource: &'a Resource,
    /// The record's key, where the request named it.
    pub key: Option<&'a Key>,
    /// Which request it was.
    pub verb: Verb,
    /// Whether the client wants the tag alone (`Prefer: return=minimal`).
    pub minimal: bool,
}

impl<'a> Context<'a> {
    /// The context of a write's answer.
    pub fn of(write: &'a Write, minimal: bool) -> Self {
        Self { resource: &write.resource, key: write.key.as_ref(), verb: write.verb, minimal }
    }

    /// The answer to an outcome.
    ///
    /// # Errors
    /// The failure, where the write did not happen.
    pub fn answer(self, outcome: Outcome) -> Result<Answer, Error> {
        match outcome {
            Outcome::Applied(row) => Ok(self.written(200, &row)),
            Outcome::Created(row, key) => {
                let mut answer = Context { key: Some(&key), ..self }.written(201, &row);
                answer.headers.push(("location".into(), address(self.resource, &key)));
                Ok(answer)
            }
            Outcome::AlreadyApplied(row) => {
                let mut answer = self.written(200, &row);
                answer.headers.push(("counterfoil-result".into(), "already-applied".to_owned()));
                Ok(answer)
            }
            Outcome::Deleted(_) => {
                Ok(Answer { status: 204, headers: Vec::new(), body: String::new() })
            }
            Outcome::Merged(row, merged) => Ok(self.merged(&row, &merged)),
            Outcome::Conflict(found) => Err(conflict::conflict(self.resource, found)),
            Outcome::Unwanted(found) => Err(conflict::unwanted(found)),
            Outcome::Gone(gone) => Err(conflict::gone(gone)),
            Outcome::Missing => Err(self.missing()),
            Outcome::Refused(error) => Err(error),
        }
    }

    fn missing(self) -> Error {
        let error = conflict::missing(self.resource);
        if self.verb == Verb::Replace {
            error.detail("hint", "If-None-Match: * creates")
        } else {
            error
        }
    }

    /// The row, or only its tag.
    fn written(self, status: u16, row: &Row) -> Answer {
        let mut headers = vec![("etag".into(), Tag::write(row.version))];
        if self.minimal {
            headers.push(("preference-applied".into(), "return=minimal".to_owned()));
            let status = if status == 201 { 201 } else { 204 };
            return Answer { status, headers, body: String::new() };
        }
        if let Some(key) = self.key {
            headers.push(("content-location".into(), address(self.resource, key)));
        }
        Answer { status, headers, body: data(&row.json, "") }
    }

    /// The row, and what it was made of.
    fn merged(self, row: &Row, merged: &Merged) -> Answer {
        let mut answer = self.written(200, row);
        answer.headers.push(("counterfoil-result".into(), "merged".to_owned()));
        if !self.minimal {
            answer.body = data(&row.json, &format!(",\"merged\":{}", merged.told()));
        }
        answer
    }
}

impl Merged {
    /// As an answer tells it.
    pub fn told(&self) -> Value {
        json!({ "base": self.base.0, "onto": self.onto.0, "fields": self.fields })
    }
}

/// `{"data": …}` around a row that is taken as it is.
fn data(row: &str, more: &str) -> String {
    let mut body = String::with_capacity(row.len() + more.len() + 9);
    body.push_str("{\"data\":");
    body.push_str(row);
    body.push_str(more);
    body.push('}');
    body
}

/// The path of a record.
pub fn address(resource: &Resource, key: &Key) -> String {
    format!("/api/v1/{}/{}", resource.name, key.segment())
}
