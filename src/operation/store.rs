//! The SQL of operations.

use std::borrow::Cow;

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};

use crate::db::fault::Fault;
use crate::db::transaction::{End, Work};
use crate::error::Error;
use crate::operation::attempt::{self, Failed};
use crate::operation::{Claim, Claimed, Standing};
use crate::record::answer::Answer;

/// Work that is done once under a key.
#[derive(Debug)]
pub struct Once<W> {
    /// The key, and what it stands for.
    pub claim: Claim,
    /// What is to be done.
    pub work: W,
}

impl<W: Work<Output = Result<Answer, Error>>> Work for Once<W> {
    type Output = Claimed;

    async fn run(&self, conn: &mut PgConnection) -> Result<End<Claimed>, Fault> {
        let claim = &self.claim;
        match begin(conn, claim).await {
            // Somebody else holds the key for longer than we may wait.
            Err(Fault::LockTimeout) => return Ok(End::Rollback(Claimed::Undecided(None))),
            Err(fault) => return Err(fault),
            Ok(true) => {}
            Ok(false) => {
                if let Some(decided) = find(conn, claim).await? {
                    return Ok(End::Rollback(decided));
                }
            }
        }
        let end = self.work.run(conn).await?;
        if let End::Commit(Ok(answer)) = &end {
            complete(conn, claim, answer).await?;
        }
        Ok(end.map(Claimed::First))
    }
}

/// Takes the key; waits for whoever is about to take it. False where it is taken.
async fn begin(conn: &mut PgConnection, claim: &Claim) -> Result<bool, Fault> {
    let claimed = claiming(
        claim,
        "WITH claimed AS (INSERT INTO counterfoil.operation \
         (tenant, key, fingerprint, kind, method, path, actor, id, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8::uuid, clock_timestamp() + make_interval(hours => $9)) \
         ON CONFLICT (tenant, key) DO NOTHING RETURNING id) \
         SELECT set_config('counterfoil.operation', id::text, true) FROM claimed",
    );
    let claimed = claimed.bind(claim.id.to_string()).bind(claim.keep_hours);
    Ok(claimed.fetch_optional(conn).await?.is_some())
}

/// A statement whose first seven parameters are what a claim says: its tenant and key, the fingerprint, kind, method
/// and path of its request, and who asks.
fn claiming<'q>(claim: &'q Claim, text: &'static str) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(text)
        .bind(&claim.tenant)
        .bind(&claim.key)
        .bind(claim.fingerprint.0.as_slice())
        .bind(claim.kind)
        .bind(&claim.method)
        .bind(&claim.path)
        .bind(&claim.actor)
}

/// Reads what stands under a key that is taken; `None` where it waits to be run again, and is ours
/// from now on. A statement of its own, because the one that missed saw nothing of it.
async fn find(conn: &mut PgConnection, claim: &Claim) -> Result<Option<Claimed>, Fault> {
    let found = sqlx::query(
        "SELECT id::text, status, fingerprint = $3, response_status, response_headers::text, \
         response_body FROM counterfoil.operation WHERE tenant = $1 AND key = $2",
    )
    .bind(&claim.tenant)
    .bind(&claim.key)
    .bind(claim.fingerprint.0.as_slice())
    .fetch_optional(&mut *conn)
    .await?;
    // Purged in between: start over.
    let Some(found) = found else { return Err(Fault::Retry) };
    let standing = Standing { id: found.try_get(0)?, status: found.try_get(1)? };
    match standing.status.as_str() {
        // Nothing was done under it, so the key is still free for any request.
        "retryable" if take_over(conn, claim).await? => Ok(None),
        _ if !found.try_get::<bool, _>(2)? => Ok(Some(Claimed::Reused)),
        "completed" | "rejected" => Ok(Some(Claimed::Repeat(stored(&found)?))),
        _ => Ok(Some(Claimed::Undecided(Some(standing)))),
    }
}

fn stored(found: &PgRow) -> Result<Answer, Fault> {
    let defect = |_| Fault::Unexpected(String::new());
    let status: i32 = found.try_get(3)?;
    let headers: String = found.try_get(4)?;
    let headers: Vec<(String, String)> =
        serde_json::from_str(&headers).map_err(|_| Fault::Unexpected(String::new()))?;
    let body: Vec<u8> = found.try_get(5)?;
    Ok(Answer {
        status: u16::try_from(status).map_err(defect)?,
        headers: headers.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect(),
        body: String::from_utf8(body).map_err(|_| Fault::Unexpected(String::new()))?,
    })
}

async fn take_over(conn: &mut PgConnection, claim: &Claim) -> Result<bool, Fault> {
    let taken = claiming(
        claim,
        "WITH claimed AS (UPDATE counterfoil.operation SET status = 'running', \
         attempts = CASE WHEN fingerprint = $3 THEN attempts + 1 ELSE 1 END, fingerprint = $3, \
         kind = $4, method = $5, path = $6, actor = $7 \
         WHERE tenant = $1 AND key = $2 AND status = 'retryable' RETURNING id) \
         SELECT set_config('counterfoil.operation', id::text, true) FROM claimed",
    );
    Ok(taken.fetch_optional(conn).await?.is_some())
}

/// Writes down an attempt that came to nothing, in a transaction of its own; waits for whoever holds
/// the key. Gives where the operation stands; `None` where it was decided meanwhile.
///
/// # Errors
/// Those of the database.
pub async fn fail(
    conn: &mut PgConnection,
    claim: &Claim,
    failed: Failed,
) -> Result<Option<Standing>, Fault> {
    let failure = claiming(
        claim,
        "INSERT INTO counterfoil.operation AS o \
         (tenant, key, fingerprint, kind, method, path, actor, id, expires_at, status, evidence) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8::uuid, clock_timestamp() + make_interval(hours => $9), \
         'retryable', jsonb_build_object('failures', jsonb_build_array(jsonb_build_object( \
         'at', clock_timestamp(), 'code', $10::text, 'request_id', $11::text)))) \
         ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = excluded.fingerprint, \
         kind = excluded.kind, method = excluded.method, path = excluded.path, actor = excluded.actor, \
         attempts = CASE WHEN o.fingerprint = excluded.fingerprint THEN o.attempts + 1 ELSE 1 END, \
         status = CASE WHEN o.fingerprint = excluded.fingerprint AND o.attempts + 1 >= $12 \
         THEN 'blocked' ELSE 'retryable' END, \
         evidence = o.evidence || jsonb_build_object('failures', excluded.evidence->'failures' || \
         (coalesce(o.evidence->'failures', '[]') - ($13 - 1))) \
         WHERE o.status = 'retryable' RETURNING id::text, status",
    )
    .bind(claim.id.to_string())
    .bind(claim.keep_hours)
    .bind(failed.code())
    .bind(&claim.request_id)
    .bind(failed.most())
    .bind(attempt::KEPT);
    let Some(found) = failure.fetch_optional(conn).await? else { return Ok(None) };
    Ok(Some(Standing { id: found.try_get(0)?, status: found.try_get(1)? }))
}

async fn complete(conn: &mut PgConnection, claim: &Claim, answer: &Answer) -> Result<(), Fault> {
    let headers: Vec<_> = answer.headers.iter().map(|(name, value)| [&**name, value]).collect();
    sqlx::query(
        "UPDATE counterfoil.operation SET status = 'completed', response_status = $3, \
         response_headers = $4::jsonb, response_body = $5, evidence = evidence || $6::jsonb, \
         completed_at = clock_timestamp() WHERE tenant = $1 AND key = $2",
    )
    .bind(&claim.tenant)
    .bind(&claim.key)
    .bind(i32::from(answer.status))
    .bind(serde_json::json!(headers).to_string())
    .bind(answer.body.as_bytes())
    .bind(evidence(answer).to_string())
    .execute(conn)
    .await?;
    Ok(())
}

/// What the answer says of the record that was written.
fn evidence(answer: &Answer) -> serde_json::Value {
    let told = ["content-location", "location", "etag", "counterfoil-result"];
    let headers = answer.headers.iter().filter(|(name, _)| told.contains(&name.as_ref()));
    let members = headers.map(|(name, value)| (name.to_string(), serde_json::json!(value)));
    serde_json::Value::Object(members.collect())
}

/// Deletes operations whose time is over, at most so many; gives how many there were.
///
/// # Errors
/// Those of the database.
pub async fn purge(conn: &mut PgConnection, most: i32) -> Result<i32, Fault> {
    let purged = sqlx::query_scalar("SELECT counterfoil.purge_operations($1)");
    Ok(purged.bind(most).fetch_one(conn).await?)
}

/// How far operations that wait for somebody are counted.
const COUNTED: i64 = 10_000;

/// How many operations wait.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// For an operator.
    pub blocked: i64,
    /// For the next request under their keys.
    pub retryable: i64,
}

/// Counts operations that wait for somebody. However many there are, the cost is bounded.
///
/// # Errors
/// Those of the database.
pub async fn waiting(conn: &mut PgConnection) -> Result<Waiting, Fault> {
    let (blocked, retryable) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE status = 'blocked'), \
         count(*) FILTER (WHERE status = 'retryable') FROM (SELECT status FROM counterfoil.operation \
         WHERE status IN ('retryable', 'blocked') LIMIT $1) AS waiting",
    )
    .bind(COUNTED)
    .fetch_one(conn)
    .await?;
    Ok(Waiting { blocked, retryable })
}

/// An operation as JSON text, as its route shows it.
const SHOWN: &str = "json_build_object('id', id, 'key', key, 'status', status, 'kind', kind, \
    'method', method, 'path', path, 'actor', actor, 'attempts', attempts, 'evidence', evidence, \
    'response_status', response_status, 'created_at', created_at, 'completed_at', completed_at, \
    'expires_at', expires_at)::text";

/// Which operations to list.
#[derive(Debug)]
pub struct Listed {
    /// Whose.
    pub tenant: String,
    /// Only those of this status.
    pub status: Option<String>,
    /// Only those older than this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: i64,
}

/// Operations as JSON texts with their ids, newest first.
///
/// # Errors
/// Those of the database.
pub async fn list(
    conn: &mut PgConnection,
    listed: &Listed,
) -> Result<Vec<(String, String)>, Fault> {
    let text = format!(
        "SELECT id::text, {SHOWN} FROM counterfoil.operation WHERE tenant = $1 \
         AND ($2::text IS NULL OR status = $2) AND ($3::uuid IS NULL OR id < $3::uuid) \
         ORDER BY id DESC LIMIT $4"
    );
    let query = sqlx::query_as(sqlx::AssertSqlSafe(text)).bind(&listed.tenant);
    let query = query.bind(&listed.status).bind(&listed.after).bind(listed.limit);
    Ok(query.fetch_all(conn).await?)
}

/// One operation as JSON text.
///
/// # Errors
/// Those of the database.
pub async fn show(
    conn: &mut PgConnection,
    tenant: &str,
    id: &str,
) -> Result<Option<String>, Fault> {
    let text =
        format!("SELECT {SHOWN} FROM counterfoil.operation WHERE tenant = $1 AND id = $2::uuid");
    let query = sqlx::query_scalar(sqlx::AssertSqlSafe(text)).bind(tenant).bind(id);
    Ok(query.fetch_optional(conn).await?)
}

/// What is to become of a blocked operation.
#[derive(Debug)]
pub struct Settlement {
    /// `retryable`: the next request under its key runs it again. `rejected`: it is over, and that
    /// is the answer to every repeat.
    pub status: &'static str,
    /// What the operator knows, for the evidence.
    pub note: String,
    /// Who settles it.
    pub actor: String,
    /// The answer that repeats are given; `None` where it is to be run again.
    pub answer: Option<Answer>,
}

/// Settles a blocked operation and gives it as JSON text; `None` where it is not blocked.
///
/// # Errors
/// Those of the database.
pub async fn settle(
    conn: &mut PgConnection,
    tenant: &str,
    id: &str,
    settlement: &Settlement,
) -> Result<Option<String>, Fault> {
    let text = format!(
        "UPDATE counterfoil.operation SET status = $3, response_status = $4, \
         response_headers = '[]', response_body = convert_to($5, 'UTF8'), \
         completed_at = CASE WHEN $4 IS NOT NULL THEN clock_timestamp() END, \
         evidence = evidence || jsonb_build_object('settled', \
         jsonb_build_object('by', $6::text, 'at', clock_timestamp(), 'note', $7::text)) \
         WHERE tenant = $1 AND id = $2::uuid AND status = 'blocked' RETURNING {SHOWN}"
    );
    let answer = settlement.answer.as_ref();
    let query = sqlx::query_scalar(sqlx::AssertSqlSafe(text)).bind(tenant).bind(id);
    let query = query
        .bind(settlement.status)
        .bind(answer.map(|answer| i32::from(answer.status)))
        .bind(answer.map(|answer| answer.body.as_str()))
        .bind(&settlement.actor)
        .bind(&settlement.note);
    query.fetch_optional(conn).await.map_err(|error| Fault::from(error).of_a_write())
}
