//! `POST /api/v1/sync/push` (API.md section 6).

use std::sync::{Arc, PoisonError};

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};

use crate::error::{Code, Error};
use crate::http::envelope::RequestId;
use crate::http::metrics::Metrics;
use crate::http::once::Counted;
use crate::http::{App, request};
use crate::record::answer::Answer;
use crate::sync::{self, Push};

impl Counted for Push {
    fn count(&self, answer: &Result<Answer, Error>, metrics: &Metrics) {
        let became = self.became.lock().unwrap_or_else(PoisonError::into_inner);
        for &(place, became) in became.iter() {
            // Where one refusal refused all, the others did not happen.
            let held = answer.is_ok() || became.is_refusal();
            let mutation = self.mutations.get(place).map(|mutation| &mutation.write);
            if let (Some(Ok(write)), true) = (mutation, held) {
                metrics.write(&write.resource.name, became);
            }
        }
    }
}

/// Applies a client's mutations.
pub async fn push(
    State(app): State<App>,
    Extension(request_id): Extension<RequestId>,
    Query(parameters): Query<Vec<(String, String)>>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Error> {
    request::demand_json(&headers)?;
    if let Some((name, _)) = parameters.first() {
        return Err(Error::field(Code::InvalidQuery, name, "A push takes no parameter"));
    }
    if headers.contains_key("idempotency-key") {
        let message = "A push takes no Idempotency-Key: client_id and the ids of its mutations let it \
            happen once";
        return Err(Error::new(Code::InvalidIdempotencyKey, message));
    }
    let body = request::body(request, app.limits.body).await?;
    let actor = request::actor(&headers);
    let keep_days = app.keep_mutations_days;
    let push =
        sync::read(&app.catalog.load(), &actor, &body, request_id.as_str().to_owned(), keep_days)?;
    Ok(app.transact_again(Arc::new(push)).await?.into_response())
}
