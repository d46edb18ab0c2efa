//! From what became of the operations to the answer of the batch (API.md section 5).

use std::fmt::Write as _;
use std::sync::PoisonError;

use serde_json::{Value, json};

use crate::batch::Batch;
use crate::db::transaction::End;
use crate::error::{Code, Error};
use crate::record::Write;
use crate::record::answer::{Answer, Context};
use crate::record::became::Became;
use crate::record::several::{Ended, undone};

/// What became of each operation, in order.
pub(super) type Results = Vec<Result<Answer, Error>>;

impl Batch {
    /// Words what became of the operations.
    pub(super) fn word(&self, ended: Vec<Ended>) -> Results {
        let word = |(operation, ended): (&Result<Write, Error>, Ended)| match (operation, ended) {
            (Err(error), _) => Err(error.clone()),
            (Ok(write), Ended::Run(outcome, _)) => Context::of(write, self.minimal).answer(outcome),
            (Ok(_), Ended::Failed(error)) => Err(error),
            (Ok(write), Ended::Undone(outcome, earlier)) => {
                let earlier = earlier.and_then(|earlier| i64::try_from(earlier).ok());
                let answer = Context::of(write, self.minimal).answer(outcome);
                answer.map_err(|error| undone::word(&error, "operation", earlier))
            }
            (Ok(_), Ended::Blocked | Ended::Left) => {
                Err(Error::new(Code::Internal, "The operation was not run"))
            }
        };
        self.operations.iter().zip(ended).map(word).collect()
    }

    /// The answer, and whether what was written holds.
    pub(super) fn answer(&self, results: &Results) -> End<Result<Answer, Error>> {
        let held = results.iter().any(Result::is_ok);
        *self.became.lock().unwrap_or_else(PoisonError::into_inner) =
            results.iter().map(Became::of).collect();
        match self.refusal(results) {
            Some(refusal) if self.atomic => End::Rollback(Err(refusal)),
            _ if self.dry_run || !held => End::Rollback(Ok(self.list(results))),
            _ => End::Commit(Ok(self.list(results))),
        }
    }

    /// The status and code of the first refusal, and every refusal in its details.
    fn refusal(&self, results: &Results) -> Option<Error> {
        let refused = results.iter().enumerate();
        let refused = refused.filter_map(|(index, result)| Some((index, result.as_ref().err()?)));
        let (index, first) = refused.clone().next()?;
        let all: Vec<_> = refused.map(|(index, error)| self.refused(index, error)).collect();
        let message = format!("Nothing was written: operation {index}: {}", first.message());
        let error = Error::new(first.code(), message)
            .with_status(first.status())
            .detail("index", index)
            .detail("operations", all);
        let kept = first.headers().iter().filter(|(name, _)| *name == "cache-control");
        Some(kept.fold(error, |error, (name, value)| error.header(name, value.clone())))
    }

    fn refused(&self, index: usize, error: &Error) -> Value {
        let data = error.data().and_then(|row| serde_json::from_str::<Value>(row).ok());
        json!({
            "index": index,
            "status": error.status(),
            "error": error.envelope(&self.request_id),
            "data": data,
        })
    }

    fn list(&self, results: &Results) -> Answer {
        let mut body = "{\"data\":[".to_owned();
        for (index, result) in results.iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            match result {
                Ok(answer) => held(&mut body, answer),
                Err(error) => self.refused_line(&mut body, error),
            }
        }
        body.push_str("]}");
        Answer { status: 200, headers: Vec::new(), body }
    }

    fn refused_line(&self, body: &mut String, error: &Error) {
        let (status, data) = (error.status(), error.data().unwrap_or("null"));
        let error = error.envelope(&self.request_id);
        let _ = write!(body, "{{\"status\":{status},\"error\":{error},\"data\":{data}}}");
    }
}

/// One operation that holds. Rows are taken as PostgreSQL wrote them.
fn held(body: &mut String, answer: &Answer) {
    let header = |wanted: &str| {
        let found = answer.headers.iter().find(|(name, _)| name == wanted);
        found.map_or(Value::Null, |(_, value)| value.as_str().into())
    };
    let _ = write!(body, "{{\"status\":{},\"etag\":{},", answer.status, header("etag"));
    for (header, name) in
        [(header("location"), "location"), (header("counterfoil-result"), "result")]
    {
        if !header.is_null() {
            let _ = write!(body, "\"{name}\":{header},");
        }
    }
    body.push_str(answer.body.strip_prefix('{').unwrap_or("\"data\":null}"));
}
