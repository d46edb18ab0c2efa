//! Runs a write once for all, where its request bears an `Idempotency-Key`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use uuid::Uuid;

use crate::db::fault::Fault;
use crate::db::recall::{Ended, Recalled};
use crate::db::transaction::{self, Work};
use crate::error::{Code, Error};
use crate::http::metrics::Metrics;
use crate::http::{App, request};
use crate::operation::attempt::Failed;
use crate::operation::fingerprint::Asked;
use crate::operation::store::{self, Once};
use crate::operation::{self, Claim, Claimed, Standing};
use crate::record::answer::Answer;

/// For how long to find out what became of a write whose connection was lost.
const FINDING_OUT: Duration = Duration::from_secs(5);
/// How long to wait between two attempts at that.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// For how long to wait for a database that stays away, in order to write down what became of an
/// operation. Should it stay away longer, the next request under the key finds it out.
const NOTING: Duration = Duration::from_hours(1);
/// How long to wait between two attempts at that.
const NOTE_AGAIN: Duration = Duration::from_secs(1);

/// The parts of a request that a repeat of it shares.
#[derive(Debug)]
pub struct Asks<'a> {
    /// The method.
    pub method: &'a Method,
    /// The address.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body.
    pub body: &'a [u8],
    /// The request's id.
    pub request_id: &'a str,
}

/// Work that says how it is to be counted.
pub trait Counted {
    /// Counts what became of it, once its transaction has ended.
    fn count(&self, answer: &Result<Answer, Error>, metrics: &Metrics);
}

impl App {
    /// The claim of a request on its key; `None` where it bears none.
    ///
    /// # Errors
    /// `INVALID_IDEMPOTENCY_KEY`.
    pub fn claim(&self, kind: &'static str, asks: &Asks<'_>) -> Result<Option<Claim>, Error> {
        let lines = |name: &str| asks.headers.get_all(name).iter().map(HeaderValue::as_bytes);
        let Some(key) = operation::read_key(lines("idempotency-key"))? else {
            return Ok(None);
        };
        let (method, path) = (asks.method.as_str(), asks.uri.path());
        let asked = Asked {
            method,
            path,
            query: asks.uri.query().unwrap_or_default(),
            if_match: lines(IF_MATCH.as_str()).collect(),
            if_none_match: lines(IF_NONE_MATCH.as_str()).collect(),
            media_type: &request::media_type(asks.headers),
            body: asks.body,
        };
        Ok(Some(Claim {
            tenant: String::new(),
            key,
            id: Uuid::now_v7(),
            fingerprint: asked.fingerprint(),
            kind,
            method: method.to_owned(),
            path: path.to_owned(),
            actor: request::actor(asks.headers),
            request_id: asks.request_id.to_owned(),
            keep_hours: self.keep_operations_hours,
        }))
    }

    /// Does work in a transaction of its own, once under its claim where there is one.
    ///
    /// # Errors
    /// The refusal, and what the database could not do.
    pub async fn carry_out<W>(&self, work: W, claim: Option<Claim>) -> Result<Response, Error>
    where
        W: Work<Output = Result<Answer, Error>> + Counted + Send + 'static,
    {
        let Some(claim) = claim else {
            return Ok(self.transact(work).await?.into_response());
        };
        let (id, once) = (claim.id, Arc::new(Once { claim, work }));
        let attempt = self.decide(once.clone()).await;
        let standing = match Failed::of(&attempt) {
            Some(Failed::Within) => self.fail(&once, Failed::Within).await.ok().flatten(),
            Some(Failed::Unknown) => {
                let app = self.clone();
                tokio::spawn(async move { app.note_in_time(&once, Failed::Unknown).await });
                None
            }
            None => None,
        };
        let error = match attempt {
            Ok(claimed) => {
                self.metrics.claimed(&claimed);
                match claimed.answer() {
                    Ok(answer) => return Ok(answer.into_response()),
                    Err(error) => error,
                }
            }
            Err(fault @ Fault::OutcomeUnknown) => {
                self.failure(&fault).detail("operation", id.to_string())
            }
            Err(fault) => self.failure(&fault),
        };
        Err(match standing {
            Some(Standing { id, status }) => error.detail("operation", id).detail("status", status),
            None => error,
        })
    }

    /// Writes down an attempt that came to nothing.
    async fn fail<W>(&self, once: &Arc<Once<W>>, failed: Failed) -> Result<Option<Standing>, Fault>
    where
        W: Work<Output = Result<Answer, Error>> + Counted + Send + 'static,
    {
        let once = once.clone();
        let noted = self
            .db
            .run(move |conn| async move { store::fail(conn, &once.claim, failed).await }.boxed());
        noted.await
    }

    /// As [`Self::fail`], once the database is back, so that whoever asks for the operation is told what
    /// became of it.
    async fn note_in_time<W>(&self, once: &Arc<Once<W>>, failed: Failed)
    where
        W: Work<Output = Result<Answer, Error>> + Counted + Send + 'static,
    {
        let begun = Instant::now();
        while let Err(fault) = self.fail(once, failed).await {
            if begun.elapsed() > NOTING {
                tracing::error!(?fault, id = %once.claim.id, "an operation stays of unknown outcome");
                return;
            }
            tokio::time::sleep(NOTE_AGAIN).await;
        }
    }

    /// Does work in a transaction. Where the connection was lost under COMMIT, the database is asked
    /// how it ended.
    async fn transact<W>(&self, work: W) -> Result<Answer, Error>
    where
        W: Work<Output = Result<Answer, Error>> + Counted + Send + 'static,
    {
        let work = Arc::new(Recalled::new(work));
        let (own, metrics) = (work.clone(), self.metrics.clone());
        let done = self.db.run(move |conn| {
            async move {
                let answer = transaction::run(conn, &*own).await?;
                own.work.count(&answer, &metrics);
                Ok(answer)
            }
            .boxed()
        });
        match done.await {
            Err(Fault::Settled) => {}
            done => return done.map_err(|fault| self.failure(&fault))?,
        }
        let own = work.clone();
        let ended = self.db.run(move |conn| async move { own.ended(conn).await }.boxed());
        let ended = ended.await.map_err(|_| self.failure(&Fault::OutcomeUnknown))?;
        self.metrics.unknown(true);
        match ended {
            Ended::Committed(answer) => {
                work.work.count(&answer, &self.metrics);
                answer
            }
            Ended::Aborted => Err(self.failure(&Fault::Unavailable)),
        }
    }

    /// Does work that finds what it did before, where it is done again. Where the connection was lost
    /// under COMMIT, it is.
    ///
    /// # Errors
    /// The refusal, and what the database could not do.
    pub async fn transact_again<W>(&self, work: Arc<W>) -> Result<Answer, Error>
    where
        W: Work<Output = Result<Answer, Error>> + Counted + Send + 'static,
    {
        let undecided = |done: &Result<Answer, Error>| {
            done.as_ref().is_err_and(|error| error.code() == Code::OperationInProgress)
        };
        self.settled(work, undecided, W::count).await.map_err(|fault| self.failure(&fault))?
    }

    /// Runs an operation. Where the connection was lost under COMMIT, it is run again: its key makes
    /// the second run wait for the end of the first, and then either finds the answer or is the first.
    async fn decide<W>(&self, once: Arc<Once<W>>) -> Result<Claimed, Fault>
    where
        W: Work<Output = Result<Answer, Error>> + Counted + Send + 'static,
    {
        let undecided = |claimed: &Claimed| matches!(claimed, Claimed::Undecided(None));
        let count = |once: &Once<W>, claimed: &Claimed, metrics: &Metrics| {
            if let Claimed::First(answer) = claimed {
                once.work.count(answer, metrics);
            }
        };
        self.settled(once, undecided, count).await
    }

    /// Runs work, and runs it again after a connection was lost under COMMIT, until it is decided.
    async fn settled<W>(
        &self,
        work: Arc<W>,
        undecided: impl Fn(&W::Output) -> bool,
        count: fn(&W, &W::Output, &Metrics),
    ) -> Result<W::Output, Fault>
    where
        W: Work + Send + 'static,
        W::Output: 'static,
    {
        let mut unknown_since = None;
        loop {
            let (again, metrics) = (work.clone(), self.metrics.clone());
            let run = self.db.run(move |conn| {
                async move {
                    let done = transaction::run(conn, &*again).await?;
                    count(&again, &done, &metrics);
                    Ok(done)
                }
                .boxed()
            });
            let result = run.await;
            let lost = match &result {
                Err(Fault::OutcomeUnknown | Fault::Settled) => true,
                Err(_) => unknown_since.is_some(),
                Ok(done) => unknown_since.is_some() && undecided(done),
            };
            if !lost {
                if unknown_since.is_some() {
                    self.metrics.unknown(true);
                }
                return result;
            }
            let since = *unknown_since.get_or_insert_with(Instant::now);
            if since.elapsed() > FINDING_OUT {
                return Err(Fault::OutcomeUnknown);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
