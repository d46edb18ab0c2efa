//! `POST /api/v1/batch` (API.md section 5).

use std::sync::{Mutex, PoisonError};

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;

use crate::batch::{self, Batch};
use crate::error::{Code, Error};
use crate::http::envelope::RequestId;
use crate::http::metrics::Metrics;
use crate::http::once::{Asks, Counted};
use crate::http::{App, request};
use crate::record::answer::Answer;

/// Runs a batch.
pub async fn run(
    State(app): State<App>,
    Extension(request_id): Extension<RequestId>,
    Query(parameters): Query<Vec<(String, String)>>,
    (method, uri, headers): (Method, Uri, HeaderMap),
    request: Request,
) -> Result<Response, Error> {
    request::demand_json(&headers)?;
    let dry_run = read_dry_run(&parameters)?;
    let body = request::body(request, app.limits.body).await?;
    let asks = Asks {
        method: &method,
        uri: &uri,
        headers: &headers,
        body: &body,
        request_id: request_id.as_str(),
    };
    let claim = app.claim("batch", &asks)?.filter(|_| !dry_run);
    let actor = request::actor(&headers);
    let (atomic, operations) = batch::read(&app.catalog.load(), &actor, &body)?;
    let minimal = request::prefers(&headers, "return=minimal");
    app.metrics.batch(operations.len());
    let became = Mutex::default();
    let batch = Batch {
        operations,
        atomic,
        dry_run,
        minimal,
        request_id: request_id.as_str().to_owned(),
        became,
    };
    app.carry_out(batch, claim).await
}

fn read_dry_run(parameters: &[(String, String)]) -> Result<bool, Error> {
    let mut dry_run = false;
    for (name, value) in parameters {
        dry_run = match (name.as_str(), value.as_str()) {
            ("dry_run", "true" | "") => true,
            ("dry_run", "false") => false,
            _ => {
                let message = "A batch takes no parameter but dry_run, true or false";
                return Err(Error::field(Code::InvalidQuery, name, message));
            }
        };
    }
    Ok(dry_run)
}

impl Counted for Batch {
    fn count(&self, answer: &Result<Answer, Error>, metrics: &Metrics) {
        if self.dry_run {
            return;
        }
        let became = self.became.lock().unwrap_or_else(PoisonError::into_inner);
        for (operation, &became) in self.operations.iter().zip(became.iter()) {
            // Where one refusal refused all, the others did not happen.
            let held = answer.is_ok() || became.is_refusal();
            // What names no resource concerns none.
            if let (Ok(write), true) = (operation, held) {
                metrics.write(&write.resource.name, became);
            }
        }
    }
}
