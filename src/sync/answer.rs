//! From what became of the mutations to the lines of the answer, and what refuses a push as a whole.

use std::fmt::Write as _;

use serde_json::json;

use crate::error::{Code, Error};
use crate::record::answer::{Answer, Context};
use crate::record::became::Became;
use crate::record::many::record_of;
use crate::record::several::{self, Ended, Seen, undone};
use crate::record::{Outcome, Write, conflict};
use crate::sync::{Mutation, Push};
use crate::version::Version;

/// How long a client is told to wait where the database could not do a mutation for now, in seconds.
const RETRY_AFTER: &str = "1";

/// What a client whose ids are not what the server remembers is told to do.
const START_OVER: &str = "Where this is another copy of the client, or one that lost its queue, take a \
    new client_id and count from 1";

/// What became of a mutation, as clients read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Applied,
    Merged,
    Noop,
    Conflict,
    Blocked,
    Rejected,
    Retry,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Merged => "merged",
            Self::Noop => "noop",
            Self::Conflict => "conflict",
            Self::Blocked => "blocked",
            Self::Rejected => "rejected",
            Self::Retry => "retry",
        }
    }

    /// What an error means for its mutation: that somebody's write stands in its way, that it may hold
    /// another time, or that it never will.
    fn of(error: &Error) -> Self {
        match error.code() {
            code if code == conflict::CODE => Self::Conflict,
            Code::RecordDeleted | Code::AlreadyExists => Self::Conflict,
            _ if error.status() >= 500 => Self::Retry,
            _ => Self::Rejected,
        }
    }
}

impl Line {
    /// What became of the mutation's write, as it is counted.
    pub(super) fn became(&self) -> Became {
        match (self.status, &self.error) {
            (Status::Applied, _) => Became::Applied,
            (Status::Merged, _) => Became::Merged,
            (Status::Noop, _) => Became::AlreadyApplied,
            (_, Some(error)) => Became::of_refusal(error),
            (_, None) => Became::Failed,
        }
    }
}

/// The line of one mutation.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) status: Status,
    /// The version that it came to, where it holds.
    pub(super) version: Option<Version>,
    /// What the client had seen, where that is not this version.
    pub(super) seen: Option<Seen>,
    /// The resource and the id of its record, where they are known.
    pub(super) record: Option<(String, String)>,
    /// Why it does not hold.
    pub(super) error: Option<Error>,
    /// The line as JSON text.
    pub(super) text: String,
}

impl Push {
    /// The line of a mutation. `first` is the id of the first one that was run with it.
    pub(super) fn line(&self, first: i64, mutation: &Mutation, ended: Ended) -> Line {
        let record = record(mutation, &ended);
        let mut line = Line {
            status: Status::Retry,
            version: None,
            seen: None,
            record,
            error: None,
            text: format!("{{\"id\":{}", mutation.id),
        };
        match (ended, &mutation.write) {
            (Ended::Run(outcome, seen), Ok(write)) => {
                line.seen = seen;
                self.run(&mut line, write, outcome);
            }
            (Ended::Failed(error), _) => self.refuse(&mut line, Status::of(&error), error),
            (Ended::Undone(outcome, earlier), Ok(write)) => {
                let earlier = earlier.and_then(|place| Some(first + i64::try_from(place).ok()?));
                let error = undone::word(&refusal(write, outcome), "mutation", earlier);
                self.refuse(&mut line, Status::of(&error), error);
            }
            (Ended::Run(..) | Ended::Undone(..), Err(error)) => {
                self.refuse(&mut line, Status::Rejected, error.clone());
            }
            (Ended::Blocked, _) => {
                self.refuse(&mut line, Status::Blocked, blocked(mutation));
                let _ = write!(line.text, ",\"blocked_by\":{}", json!(mutation.base));
            }
            (Ended::Left, _) => line.text.push_str(",\"status\":\"retry\""),
        }
        if mutation.unconditional {
            line.text.push_str(",\"unconditional\":true");
        }
        line.text.push('}');
        line
    }

    /// What a write came to. Rows are taken as PostgreSQL wrote them.
    fn run(&self, line: &mut Line, write: &Write, outcome: Outcome) {
        let Some(version) = several::version(write, &outcome) else {
            let error = refusal(write, outcome);
            return self.refuse(line, Status::of(&error), error);
        };
        line.version = Some(version);
        let (status, row, merged) = match outcome {
            Outcome::Applied(row) | Outcome::Created(row, _) => {
                (Status::Applied, Some(row.json), None)
            }
            Outcome::Merged(row, merged) => (Status::Merged, Some(row.json), Some(merged)),
            Outcome::AlreadyApplied(row) => (Status::Noop, Some(row.json), None),
            Outcome::Deleted(_) => (Status::Applied, None, None),
            _ => (Status::Noop, None, None),
        };
        line.status = status;
        let row = row.as_deref().unwrap_or("null");
        let _ = write!(
            line.text,
            ",\"status\":\"{}\",\"version\":{version},\"data\":{row}",
            status.as_str()
        );
        if let Some(merged) = merged {
            let _ = write!(line.text, ",\"merged\":{}", merged.told());
        }
    }

    fn refuse(&self, line: &mut Line, status: Status, error: Error) {
        line.status = status;
        let data = error.data().unwrap_or("null");
        let envelope = error.envelope(&self.request_id);
        let _ = write!(
            line.text,
            ",\"status\":\"{}\",\"error\":{envelope},\"data\":{data}",
            status.as_str()
        );
        line.error = Some(error);
    }

    /// The status and code of the first refusal, and every refusal in its details; `None` where there is
    /// none.
    pub(super) fn refusal(fresh: &[Mutation], lines: &[Line]) -> Option<Error> {
        let refused = fresh.iter().zip(lines).filter(|(_, line)| line.version.is_none());
        let (mutation, first) =
            refused.clone().find_map(|(m, line)| Some((m, line.error.as_ref()?)))?;
        let all: Vec<serde_json::Value> =
            refused.filter_map(|(_, line)| serde_json::from_str(&line.text).ok()).collect();
        let message = format!("Nothing was written: mutation {}: {}", mutation.id, first.message());
        let error = Error::new(first.code(), message)
            .with_status(first.status())
            .detail("id", mutation.id)
            .detail("results", all);
        let kept = first.headers().iter().filter(|(name, _)| *name == "cache-control");
        Some(kept.fold(error, |error, (name, value)| error.header(name, value.clone())))
    }
}

/// The answer to a push: its lines, and up to which one the client's mutations are decided.
pub(super) fn answer(lines: &[String], last: i64, waits: bool) -> Answer {
    let size = lines.iter().map(|line| line.len() + 1).sum::<usize>();
    let mut body = String::with_capacity(size + 64);
    body.push_str("{\"data\":{\"results\":[");
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(line);
    }
    let _ = write!(body, "],\"last_mutation_id\":{last}}}}}");
    let mut headers = Vec::new();
    if waits {
        headers.push(("retry-after".into(), RETRY_AFTER.to_owned()));
    }
    Answer { status: 200, headers, body }
}

/// A stored line as it is sent once more.
pub(super) fn replayed(line: &str) -> String {
    format!("{},\"replayed\":true}}", line.strip_suffix('}').unwrap_or(line))
}

/// Why a write does not hold.
fn refusal(write: &Write, outcome: Outcome) -> Error {
    let outcome = match outcome {
        // Two made the same record while they did not know of each other.
        Outcome::Unwanted(found) => Outcome::Conflict(found),
        outcome => outcome,
    };
    match Context::of(write, true).answer(outcome) {
        Err(error) => error,
        Ok(_) => Error::new(Code::Internal, "The mutation was not run"),
    }
}

fn record(mutation: &Mutation, ended: &Ended) -> Option<(String, String)> {
    let write = mutation.write.as_ref().ok()?;
    let key = match ended {
        Ended::Run(Outcome::Created(_, key), _) => key.clone(),
        _ => record_of(write)?,
    };
    Some((write.resource.name.clone(), key.record_id()))
}

fn blocked(mutation: &Mutation) -> Error {
    let message = "The mutation that this one is based on does not hold";
    Error::new(Code::PreconditionFailed, message).detail("blocked_by", json!(mutation.base))
}

/// The answer to a mutation that is not the next one.
pub(super) fn out_of_order(given: i64, expected: i64) -> Error {
    if expected > 1 {
        return misplaced(given, expected).detail("last_mutation_id", expected - 1);
    }
    let message = format!(
        "This server knows no mutation of this client, so {given} cannot be the next one. {START_OVER}"
    );
    let error = Error::new(Code::MutationOutOfOrder, message);
    error.detail("expected", expected).detail("last_mutation_id", 0)
}

/// The answer to a push whose mutations are not in a row: what follows the first of these two is not the
/// next one. Nothing of the push was done, so the next one is that after the last.
pub(super) fn not_in_a_row((before, given): (i64, i64), last: i64) -> Error {
    let next = last + 1;
    let message = format!(
        "Mutation {given} cannot follow {before}: the ids of a push rise by one. Nothing was done; the next one is {next}"
    );
    let error = Error::new(Code::MutationOutOfOrder, message).detail("id", given);
    error.detail("expected", next).detail("last_mutation_id", last)
}

/// The answer to a mutation that leaves others out.
fn misplaced(given: i64, expected: i64) -> Error {
    let message = format!("Mutation {expected} must come ahead of {given}");
    Error::new(Code::MutationOutOfOrder, message).detail("expected", expected)
}

/// The answer to an id that was used for something else.
pub(super) fn reused(id: i64, last: i64) -> Error {
    let message = format!("Mutation {id} was pushed before, with other content. {START_OVER}");
    Error::new(Code::MutationIdReused, message).detail("id", id).detail("last_mutation_id", last)
}

/// The answer to a mutation that was decided so long ago that its result is not kept.
pub(super) fn expired(id: i64, last: i64) -> Error {
    let message = format!(
        "Mutation {id} was decided before and will not be applied again; its result is not kept any more. \
         Read the record to see what holds. {START_OVER}"
    );
    Error::new(Code::MutationExpired, message).detail("id", id).detail("last_mutation_id", last)
}

/// The answer to a client that says it has results which the server never gave.
pub(super) fn acknowledged_too_much(acknowledged: i64, last: i64) -> Error {
    let message =
        format!("ack_through is {acknowledged}, and this client's last mutation is {last}");
    Error::field(Code::InvalidValue, "ack_through", message).detail("last_mutation_id", last)
}

/// The answer to a mutation whose base is not known any more, or is about another record.
pub(super) fn unusable_base(base: i64, why: &str) -> Error {
    let message = format!("base_mutation {base} {why}");
    Error::field(Code::InvalidValue, "base_mutation", message)
}

/// The answer to a push while another one of the same client is running.
pub(super) fn in_progress() -> Error {
    let message = "Another push of this client is still running";
    Error::new(Code::OperationInProgress, message).header("retry-after", RETRY_AFTER)
}
