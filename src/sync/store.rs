//! The SQL of pushes. The client's line is held from the beginning to the end of a push: who pushes for the
//! same client waits, and then finds the results.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use crate::db::fault::Fault;
use crate::db::transaction::{End, Work};
use crate::error::Error;
use crate::record::Write;
use crate::record::answer::Answer;
use crate::record::many::record_of;
use crate::record::several::store::run;
use crate::record::several::{Ended, Mode, Place, Seen};
use crate::sync::answer::{self, Line, Status};
use crate::sync::{Mutation, Push};
use crate::version::Version;

impl Work for Push {
    type Output = Result<Answer, Error>;

    async fn run(&self, conn: &mut PgConnection) -> Result<End<Self::Output>, Fault> {
        let client = match hold(conn, self).await {
            Ok(client) => client,
            Err(Fault::LockTimeout) => return Ok(End::Rollback(Err(answer::in_progress()))),
            Err(fault) => return Err(fault),
        };
        let stored = self.stored(conn, &client).await?;
        let mut lines = match self.known(&client, &stored) {
            Ok(lines) => lines,
            Err(error) => return Ok(End::Rollback(Err(error))),
        };
        let fresh = &self.mutations[lines.len()..];
        let mut decided = self.decide(conn, fresh, &stored).await?;
        let became = decided.iter().map(Line::became).enumerate();
        *self.became.lock().unwrap_or_else(PoisonError::into_inner) =
            became.map(|(place, became)| (lines.len() + place, became)).collect();
        if self.atomic
            && let Some(refusal) = Self::refusal(fresh, &decided)
        {
            return Ok(End::Rollback(Err(refusal)));
        }
        let done = decided.iter().take_while(|line| line.status != Status::Retry).count();
        let last = fresh.get(..done).and_then(<[_]>::last).map_or(client.last, |last| last.id);
        let waits = done < decided.len();
        // What is pushed again must not hold already.
        if decided[done..].iter().any(|line| line.status != Status::Retry) {
            return Err(Fault::Overloaded);
        }
        if done > 0 || self.acknowledged > client.acknowledged {
            keep(conn, self, &client, &fresh[..done], &decided[..done], last).await?;
        }
        lines.extend(decided.iter_mut().map(|line| std::mem::take(&mut line.text)));
        let answer = Ok(answer::answer(&lines, last, waits));
        let wrote = done > 0 || self.acknowledged > client.acknowledged;
        Ok(if wrote { End::Commit(answer) } else { End::Rollback(answer) })
    }
}

impl Push {
    /// What is kept of the mutations that were decided before, and of those that others are based on.
    async fn stored(
        &self,
        conn: &mut PgConnection,
        client: &Client,
    ) -> Result<HashMap<i64, Stored>, Fault> {
        let ids = self.mutations.iter().flat_map(|mutation| [Some(mutation.id), mutation.base]);
        let ids: HashSet<i64> = ids.flatten().filter(|id| *id <= client.last).collect();
        if ids.is_empty() { Ok(HashMap::new()) } else { stored(conn, self, ids).await }
    }

    /// The lines of the mutations that were decided before.
    fn known(&self, client: &Client, stored: &HashMap<i64, Stored>) -> Result<Vec<String>, Error> {
        if let Some(first) = self.mutations.first()
            && first.id > client.last + 1
        {
            return Err(answer::out_of_order(first.id, client.last + 1));
        }
        if let Some(gap) = self.gap {
            return Err(answer::not_in_a_row(gap, client.last));
        }
        if self.acknowledged > client.last {
            return Err(answer::acknowledged_too_much(self.acknowledged, client.last));
        }
        let before = self.mutations.iter().take_while(|mutation| mutation.id <= client.last);
        let line = |mutation: &Mutation| match stored.get(&mutation.id) {
            None | Some(Stored { result: None, .. }) => {
                Err(answer::expired(mutation.id, client.last))
            }
            Some(stored) if stored.fingerprint != mutation.fingerprint.0 => {
                Err(answer::reused(mutation.id, client.last))
            }
            Some(Stored { result: Some(result), .. }) => Ok(answer::replayed(result)),
        };
        before.map(line).collect()
    }

    /// Runs the mutations that were not decided before.
    async fn decide(
        &self,
        conn: &mut PgConnection,
        fresh: &[Mutation],
        stored: &HashMap<i64, Stored>,
    ) -> Result<Vec<Line>, Fault> {
        let Some(first) = fresh.first() else { return Ok(Vec::new()) };
        let mut blocked = Vec::new();
        let mut places: Vec<Place<'_>> = Vec::with_capacity(fresh.len());
        for (index, mutation) in fresh.iter().enumerate() {
            let mut place = Place { gone_is_done: true, ..Place::of(&mutation.write) };
            if let (Some(base), Ok(write)) = (mutation.base, &mutation.write) {
                match based(write, base, first.id, fresh, stored) {
                    Based::Beside(index) => place.based_on = Some(index),
                    Based::On(version, seen) => {
                        let mut write = write.clone();
                        write.follow(version, seen);
                        place.write = Ok(Cow::Owned(write));
                    }
                    Based::Nothing => {
                        blocked.push(index);
                        place.write = Err(answer::unusable_base(base, "does not hold"));
                    }
                    Based::Wrong(error) => place.write = Err(error),
                }
            }
            places.push(place);
        }
        let mode = if self.atomic { Mode::Whole } else { Mode::InTurn };
        let mut ended = run(conn, mode, &places).await?;
        for index in blocked {
            if !matches!(ended[index], Ended::Left) {
                ended[index] = Ended::Blocked;
            }
        }
        let lines = fresh.iter().zip(ended);
        Ok(lines.map(|(mutation, ended)| self.line(first.id, mutation, ended)).collect())
    }
}

/// What a mutation is based on.
enum Based {
    /// The one at this place of the same push.
    Beside(usize),
    /// The version that an earlier one came to, and what the client had seen.
    On(Version, Option<Seen>),
    /// One that does not hold.
    Nothing,
    /// Nothing that can be used.
    Wrong(Error),
}

fn based(
    write: &Write,
    base: i64,
    first: i64,
    fresh: &[Mutation],
    stored: &HashMap<i64, Stored>,
) -> Based {
    let record = record_of(write).map(|key| key.record_id());
    let own = (Some(write.resource.name.as_str()), record.as_deref());
    let other = || Based::Wrong(answer::unusable_base(base, "is about another record"));
    if base >= first {
        let Ok(index) = usize::try_from(base - first) else { return Based::Nothing };
        let Some(Mutation { write: Ok(followed), .. }) = fresh.get(index) else {
            return Based::Nothing;
        };
        let record = record_of(followed).map(|key| key.record_id());
        let same = own == (Some(followed.resource.name.as_str()), record.as_deref());
        return if same { Based::Beside(index) } else { other() };
    }
    match stored.get(&base) {
        None => Based::Wrong(answer::unusable_base(
            base,
            "is not kept any more: name the version that it came to as base_version",
        )),
        Some(Stored { version: None, .. }) => Based::Nothing,
        Some(Stored { version: Some(version), seen, resource, record, .. }) => {
            let same = own == (resource.as_deref(), record.as_deref());
            if same { Based::On(*version, seen.clone()) } else { other() }
        }
    }
}

/// A client as the server knows it.
struct Client {
    last: i64,
    acknowledged: i64,
}

/// Takes the client's line and holds it; all that is written from now on bears the client's id.
async fn hold(conn: &mut PgConnection, push: &Push) -> Result<Client, Fault> {
    let client = push.client.to_string();
    let held = sqlx::query_as::<_, (i64, i64, String)>(
        "SELECT last_mutation_id, acknowledged, set_config('counterfoil.origin', $2, true) \
         FROM counterfoil.sync_client WHERE tenant = $1 AND client_id = $2::uuid \
         FOR NO KEY UPDATE",
    );
    let held = held.bind(&push.tenant).bind(&client).fetch_optional(&mut *conn).await?;
    if let Some((last, acknowledged, _)) = held {
        return Ok(Client { last, acknowledged });
    }
    let begun = sqlx::query(
        "INSERT INTO counterfoil.sync_client (tenant, client_id, last_mutation_id) \
         VALUES ($1, $2::uuid, 0) ON CONFLICT DO NOTHING \
         RETURNING set_config('counterfoil.origin', $2, true)",
    );
    let begun = begun.bind(&push.tenant).bind(&client).fetch_optional(conn).await?;
    // Where another push began it meanwhile, this one starts over.
    begun.map(|_| Client { last: 0, acknowledged: 0 }).ok_or(Fault::Retry)
}

/// A mutation that was decided before.
struct Stored {
    fingerprint: Vec<u8>,
    resource: Option<String>,
    record: Option<String>,
    version: Option<Version>,
    seen: Option<Seen>,
    /// Its line; `None` where the client has it.
    result: Option<String>,
}

async fn stored(
    conn: &mut PgConnection,
    push: &Push,
    ids: HashSet<i64>,
) -> Result<HashMap<i64, Stored>, Fault> {
    let rows = sqlx::query(
        "SELECT id, fingerprint, resource, record_id, version, result, seen_version, seen_row \
         FROM counterfoil.sync_mutation \
         WHERE tenant = $1 AND client_id = $2::uuid AND id = ANY($3)",
    );
    let rows = rows.bind(&push.tenant).bind(push.client.to_string());
    let rows = rows.bind(ids.into_iter().collect::<Vec<_>>()).fetch_all(conn).await?;
    let mut stored = HashMap::with_capacity(rows.len());
    for row in rows {
        let seen: Option<i32> = row.try_get(6)?;
        let had = row.try_get(7)?;
        let kept = Stored {
            seen: seen.map(|version| Seen { version: Version(version), row: had }),
            fingerprint: row.try_get(1)?,
            resource: row.try_get(2)?,
            record: row.try_get(3)?,
            version: row.try_get::<Option<i32>, _>(4)?.map(Version),
            result: row.try_get(5)?,
        };
        stored.insert(row.try_get(0)?, kept);
    }
    Ok(stored)
}

/// Keeps what was decided, moves the client's line, and lets go of the results that the client has. What
/// those mutations came to is kept: others in the client's queue may be based on them.
async fn keep(
    conn: &mut PgConnection,
    push: &Push,
    client: &Client,
    mutations: &[Mutation],
    lines: &[Line],
    last: i64,
) -> Result<(), Fault> {
    let record = |part: fn(&(String, String)) -> &String| {
        let parts = lines.iter().map(|line| line.record.as_ref().map(|r| part(r).as_str()));
        parts.collect::<Vec<_>>()
    };
    let ids: Vec<_> = mutations.iter().map(|mutation| mutation.id).collect();
    let prints: Vec<_> = mutations.iter().map(|m| m.fingerprint.0.as_slice()).collect();
    let versions: Vec<_> = lines.iter().map(|line| line.version.map(|v| v.0)).collect();
    let seen = lines.iter().map(|line| line.seen.as_ref().map(|seen| seen.version.0));
    let seen: Vec<_> = seen.collect();
    let had = lines.iter().map(|line| line.seen.as_ref().and_then(|seen| seen.row.as_deref()));
    let had: Vec<_> = had.collect();
    let results: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    let kept = sqlx::query(
        "WITH kept AS (INSERT INTO counterfoil.sync_mutation \
         (tenant, client_id, id, fingerprint, resource, record_id, version, seen_version, seen_row, \
         result, expires_at) \
         SELECT $1, $2::uuid, m.*, clock_timestamp() + make_interval(days => $3) FROM unnest( \
         $4::bigint[], $5::bytea[], $6::text[], $7::text[], $8::int4[], $9::int4[], \
         $10::text[], $11::text[]) AS m), \
         freed AS (UPDATE counterfoil.sync_mutation SET result = NULL WHERE tenant = $1 \
         AND client_id = $2::uuid AND id > $12 AND id <= $13) \
         UPDATE counterfoil.sync_client SET last_mutation_id = $14, \
         acknowledged = greatest(acknowledged, $13), seen_at = clock_timestamp() \
         WHERE tenant = $1 AND client_id = $2::uuid",
    );
    kept.bind(&push.tenant)
        .bind(push.client.to_string())
        .bind(push.keep_days)
        .bind(ids)
        .bind(prints)
        .bind(record(|(resource, _)| resource))
        .bind(record(|(_, id)| id))
        .bind(versions)
        .bind(seen)
        .bind(had)
        .bind(results)
        .bind(client.acknowledged)
        .bind(push.acknowledged)
        .bind(last)
        .execute(conn)
        .await?;
    Ok(())
}

/// Deletes results whose time is over, at most so many; gives how many there were.
///
/// # Errors
/// Those of the database.
pub async fn purge(conn: &mut PgConnection, most: i32) -> Result<i32, Fault> {
    let purged = sqlx::query_scalar("SELECT counterfoil.purge_mutations($1)");
    Ok(purged.bind(most).fetch_one(conn).await?)
}
