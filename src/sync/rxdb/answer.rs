//! The answer to a push: the documents that the client is to take over.

use std::sync::PoisonError;

use serde_json::{Value, json};

use crate::db::transaction::End;
use crate::error::{Code, Error};
use crate::merge::Row as Fields;
use crate::record::answer::{Answer, Context};
use crate::record::became::Became;
use crate::record::several::Ended;
use crate::record::store::Found;
use crate::record::{Conflict, Outcome, Row, Write};
use crate::sync::rxdb::document::{Document, told};
use crate::sync::rxdb::{Push, Pushed};

/// What became of one document.
pub(super) struct Line {
    pub(super) became: Became,
    /// The server's document, where the client is to take it over.
    document: Option<String>,
    /// Why it can never be as it was sent.
    rejected: Option<Error>,
    /// Why it could not be for now.
    later: Option<Error>,
}

impl Line {
    pub(super) fn holds() -> Self {
        Self { became: Became::AlreadyApplied, document: None, rejected: None, later: None }
    }
}

impl Push {
    /// The document is not the one that the client knew.
    pub(super) fn conflict(&self, pushed: &Pushed, found: &Found) -> Line {
        let document = Some(self.document(&pushed.wanted, found));
        Line { became: Became::Conflict, document, ..Line::holds() }
    }

    /// It can never be as it was sent. RxDB has no answer for that but the server's document.
    pub(super) fn rejected(&self, pushed: &Pushed, found: &Found, error: Error) -> Line {
        let became = Became::of_refusal(&error);
        let document = Some(self.document(&pushed.wanted, found));
        Line { became, document, rejected: Some(error), later: None }
    }

    /// What a write came to.
    pub(super) fn ended(
        &self,
        pushed: &Pushed,
        found: &Found,
        write: &Write,
        ended: Ended,
    ) -> Line {
        let outcome = match ended {
            Ended::Run(outcome, _) => outcome,
            Ended::Failed(error) => return self.refused(pushed, found, error),
            // Each stands for itself here.
            Ended::Blocked | Ended::Left | Ended::Undone(..) => {
                let error = Error::new(Code::Internal, "The document was not written");
                return self.refused(pushed, found, error);
            }
        };
        let became = Became::from(&outcome);
        let holds = Line { became, ..Line::holds() };
        match outcome {
            Outcome::Applied(row) | Outcome::Created(row, _) | Outcome::AlreadyApplied(row) => {
                // Triggers and types may have made another row of it. A client that says who it is may wait until
                // it pulls that; another would be in conflict with its own row.
                let as_sent = self.client.is_some()
                    || serde_json::from_str::<Fields>(&row.json)
                        .is_ok_and(|fields| pushed.wanted.is_in(&self.resource, &fields));
                let document = (!as_sent).then(|| self.row(&row));
                Line { document, ..holds }
            }
            Outcome::Merged(row, _) => Line { document: Some(self.row(&row)), ..holds },
            Outcome::Deleted(_) => holds,
            Outcome::Gone(_) | Outcome::Missing if pushed.wanted.deleted => {
                Line { became: Became::AlreadyApplied, ..holds }
            }
            // It moved after it was compared.
            Outcome::Conflict(Conflict { current: Some(row), .. })
            | Outcome::Unwanted(Conflict { current: Some(row), .. }) => {
                self.conflict(pushed, &Found::Row(row))
            }
            Outcome::Gone(gone) => self.conflict(pushed, &Found::Gone(gone)),
            Outcome::Missing | Outcome::Conflict(_) | Outcome::Unwanted(_) => {
                self.conflict(pushed, &Found::Missing)
            }
            Outcome::Refused(_) => match Context::of(write, true).answer(outcome) {
                Err(error) => self.refused(pushed, found, error),
                Ok(_) => holds,
            },
        }
    }

    fn refused(&self, pushed: &Pushed, found: &Found, error: Error) -> Line {
        // What it refers to may be on its way: another collection is replicated by itself.
        if error.status() >= 500 || error.code() == Code::ReferenceNotFound {
            let later = Some(error.detail("document", pushed.id.as_str()));
            return Line { became: Became::Failed, document: None, rejected: None, later };
        }
        self.rejected(pushed, found, error)
    }

    fn row(&self, row: &Row) -> String {
        told(&self.resource, &row.json, row.version, false)
    }

    /// What the server has, where a client sent `wanted`.
    fn document(&self, wanted: &Document, found: &Found) -> String {
        match found {
            Found::Row(row) => self.row(row),
            Found::Gone(gone) => match &gone.last {
                Some(last) => told(&self.resource, last, gone.version, true),
                None => wanted.tombstone(),
            },
            Found::Missing => wanted.tombstone(),
        }
    }

    /// The answer. What holds is kept also where something else has to be sent again.
    pub(super) fn answer(&self, lines: Vec<Line>) -> End<Result<Answer, Error>> {
        *self.became.lock().unwrap_or_else(PoisonError::into_inner) =
            lines.iter().map(|line| line.became).collect();
        let later = lines.iter().find_map(|line| line.later.clone());
        let answer = later.map_or_else(|| Ok(self.documents(lines)), Err);
        End::Commit(answer)
    }

    fn documents(&self, lines: Vec<Line>) -> Answer {
        let rejected: Vec<Value> = self
            .rows
            .iter()
            .zip(&lines)
            .filter_map(|(pushed, line)| Some((pushed, line.rejected.as_ref()?)))
            .map(|(pushed, error)| json!({ "id": pushed.id, "error": error.envelope(&self.request_id) }))
            .collect();
        let documents: Vec<_> = lines.into_iter().filter_map(|line| line.document).collect();
        let documents = format!("[{}]", documents.join(","));
        let body = if self.report {
            format!("{{\"documents\":{documents},\"rejected\":{}}}", Value::Array(rejected))
        } else {
            documents
        };
        Answer { status: 200, headers: Vec::new(), body }
    }
}
