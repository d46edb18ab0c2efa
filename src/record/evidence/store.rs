//! Looks in the change log for a write whose answer was lost.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::key::Key;
use crate::catalog::store::name_literal;
use crate::db::fault::Fault;
use crate::record::evidence::Evidence;
use crate::record::many::record_of;
use crate::record::reconcile::{Sides, Told};
use crate::record::statement::{document, record_id};
use crate::record::store::{self, Found};
use crate::record::{Change, Merged, Outcome, Row, Verb, Write, history};
use crate::version::Version;

/// How many of the newest changes are looked through for a record whose id only the database knows.
const NEWEST: usize = 100_000;

/// Looks for what became of a write that ran by itself. Its session must have ended.
///
/// # Errors
/// Those of the database.
pub async fn find(conn: &mut PgConnection, write: &Write) -> Result<Evidence, Fault> {
    let Some(operation) = &write.operation else { return Ok(Evidence::Unclear) };
    let resource = &write.resource;
    let key = record_of(write);
    let k = key.as_ref().map_or(0, |key| key.parts.len());
    let (source, record) = match &key {
        Some(_) => ("counterfoil.change".to_owned(), format!("AND c.id = {}", record_id(resource))),
        None => (
            format!(
                "(SELECT * FROM counterfoil.change ORDER BY xid DESC, seq DESC LIMIT {NEWEST})"
            ),
            String::new(),
        ),
    };
    let text = format!(
        "SELECT c.version, {}, c.op, c.id, c.merged_from FROM {source} AS c WHERE c.resource = {} {record} \
         AND c.operation = ${}::uuid AND c.op <> 'baseline' ORDER BY c.version DESC LIMIT 1",
        document(resource, "c.doc"),
        name_literal(resource),
        k + 1,
    );
    let query = sqlx::query(AssertSqlSafe(text)).persistent(false);
    let query = match &key {
        Some(key) => store::bind_key(query, key),
        None => query,
    };
    let Some(found) = query.bind(operation).fetch_optional(&mut *conn).await? else {
        // Only deletions are logged without history.
        let logged = resource.history || write.verb == Verb::Delete;
        let conclusive = key.is_some() && (logged || is_as_it_was(conn, write).await?);
        return Ok(if conclusive { Evidence::NotMade } else { Evidence::Unclear });
    };
    let row = Row { version: Version(found.try_get(0)?), json: found.try_get(1)? };
    let parents: Option<Vec<i32>> = found.try_get(4)?;
    if let (Some([base, onto]), Some(key)) = (parents.as_deref(), &write.key) {
        let parents = [Version(*base), Version(*onto)];
        if let Some(merged) = merged(conn, write, key, parents).await? {
            return Ok(Evidence::Made(Outcome::Merged(row, merged)));
        }
    }
    Ok(Evidence::Made(match found.try_get::<&str, _>(2)? {
        "delete" => Outcome::Deleted(row.version),
        "create" => match Key::from_record_id(found.try_get(3)?, resource) {
            Ok(key) => Outcome::Created(row, key),
            Err(_) => Outcome::Applied(row),
        },
        _ => Outcome::Applied(row),
    }))
}

/// Whether the record is still at the version that the write named: made, it would have raised it. Of
/// several versions named, only the lowest cannot be one that the write itself led to.
async fn is_as_it_was(conn: &mut PgConnection, write: &Write) -> Result<bool, Fault> {
    let named = write.precondition.wanted();
    let Some(lowest) = named.and_then(|versions| versions.into_iter().min()) else {
        return Ok(false);
    };
    let row = store::current(conn, write, None).await?.row;
    Ok(row.is_some_and(|row| row.version == Version(lowest)))
}

/// What a merge was made of, as its own answer would have said it: the parents are in the log. `None`
/// where the client did not ask for a merge, or a parent is not kept any more.
async fn merged(
    conn: &mut PgConnection,
    write: &Write,
    key: &Key,
    [base, onto]: [Version; 2],
) -> Result<Option<Merged>, Fault> {
    let (Some(resolve), Ok(Change::Replace(body) | Change::Patch(body))) =
        (write.on_conflict, &write.change)
    else {
        return Ok(None);
    };
    let told: Told = store::current(conn, write, Some(body)).await?.told;
    let theirs = history::read_version(conn, &write.resource, key, onto).await?;
    let Found::Row(theirs) = theirs else { return Ok(None) };
    let Some(sides) = Sides::new(&told, &theirs.json) else { return Ok(None) };
    let made = sides.merge(&write.resource, resolve);
    Ok(made.map(|(_, fields)| Merged { base, onto, yours: sides.yours().clone(), fields }))
}
