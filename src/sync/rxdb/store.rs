//! The SQL of RxDB's pushes.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::key::Key;
use crate::catalog::store::name_literal;
use crate::db::fault::Fault;
use crate::db::transaction::{End, Work};
use crate::error::Error;
use crate::record::answer::Answer;
use crate::record::several::store::run;
use crate::record::several::{Ended, Mode, Place};
use crate::record::statement::{document, moment, row};
use crate::record::store::Found;
use crate::record::{Authorship, Gone, Row, Write};
use crate::sync::rxdb::answer::Line;
use crate::sync::rxdb::{Push, Standing, Step};
use crate::version::Version;

impl Work for Push {
    type Output = Result<Answer, Error>;

    async fn run(&self, conn: &mut PgConnection) -> Result<End<Self::Output>, Fault> {
        let mut found = standing(conn, self).await?.into_iter();
        let mut steps = Vec::with_capacity(self.rows.len());
        let mut writes: Vec<Result<Write, Error>> = Vec::new();
        for pushed in &self.rows {
            let nothing = Standing { found: Found::Missing, own: false };
            let (step, standing) = match &pushed.key {
                Ok(key) => {
                    let standing = found.next().unwrap_or(nothing);
                    (self.step(pushed, key, &standing), standing)
                }
                Err(_) => (Step::Conflict, nothing),
            };
            if let Step::Write(write) = &step {
                writes.push(Ok(write.as_ref().clone()));
            }
            steps.push((pushed, standing.found, step));
        }
        let places: Vec<_> = writes.iter().map(Place::of).collect();
        let ended =
            if places.is_empty() { Vec::new() } else { run(conn, Mode::Each, &places).await? };
        let mut ended = ended.into_iter();
        let lines = steps.into_iter().map(|(pushed, found, step)| match (step, &pushed.key) {
            (_, Err(error)) => self.rejected(pushed, &found, error.clone()),
            (Step::Holds, _) => Line::holds(),
            (Step::Conflict, _) => self.conflict(pushed, &found),
            (Step::Write(write), _) => {
                self.ended(pushed, &found, &write, ended.next().unwrap_or(Ended::Left))
            }
        });
        Ok(self.answer(lines.collect()))
    }
}

/// How the records of the documents that have a key stand, in their order. From here on the transaction
/// writes for the client.
async fn standing(conn: &mut PgConnection, push: &Push) -> Result<Vec<Standing>, Fault> {
    let resource = &push.resource;
    let Some(key) = resource.key_columns().next() else { return Ok(Vec::new()) };
    let (mut ids, mut assumed) = (Vec::new(), Vec::new());
    for pushed in &push.rows {
        if let Ok(Key { parts }) = &pushed.key {
            ids.extend(parts.first().cloned());
            let version = pushed.assumed.as_ref().and_then(|document| document.version(resource));
            assumed.push(version.map(|version| version.0));
        }
    }
    let version = &resource.version_column().quoted;
    let given = format!("(g.k::{})", key.cast_type);
    let text = format!(
        "SELECT t.{version}, {row}, c.version, c.\"by\", {at}, {last}, \
         (SELECT count(*) FROM counterfoil.change AS o WHERE o.resource = {name} AND o.id = {id} \
         AND o.version > g.assumed AND o.version <= t.{version} AND o.origin = $3) \
         = t.{version} - g.assumed \
         FROM (SELECT set_config('counterfoil.origin', coalesce($3, ''), true)) AS origin, \
         unnest($1::text[], $2::int4[]) WITH ORDINALITY AS g(k, assumed, place) \
         LEFT JOIN {table} AS t ON t.{key} = {given} \
         LEFT JOIN LATERAL (SELECT * FROM counterfoil.change AS c \
         WHERE t.{version} IS NULL AND c.resource = {name} AND c.id = {id} \
         ORDER BY c.version DESC LIMIT 1) AS c ON c.op = 'delete' ORDER BY g.place",
        row = row(resource, None),
        at = moment("c.at"),
        last = document(resource, "c.doc"),
        table = resource.table,
        key = key.quoted,
        name = name_literal(resource),
        id = key.canonical.replace("{}", &given),
    );
    let query = sqlx::query(AssertSqlSafe(text)).bind(ids).bind(assumed);
    let rows = query.bind(push.client.map(|client| client.to_string())).fetch_all(conn).await?;
    let standing = |row: &PgRow| {
        let own = row.try_get::<Option<bool>, _>(6)?.unwrap_or(false);
        Ok(Standing { found: found(row)?, own })
    };
    rows.iter().map(standing).collect()
}

fn found(found: &PgRow) -> Result<Found, Fault> {
    if let Some(version) = found.try_get::<Option<i32>, _>(0)? {
        return Ok(Found::Row(Row { version: Version(version), json: found.try_get(1)? }));
    }
    let Some(version) = found.try_get::<Option<i32>, _>(2)? else { return Ok(Found::Missing) };
    let by = Authorship { by: found.try_get(3)?, at: found.try_get(4)? };
    let last = found.try_get(5)?;
    Ok(Found::Gone(Gone { version: Version(version), by, last, yours: None }))
}
