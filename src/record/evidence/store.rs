//! Looks in the change log for a write whose answer was lost.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::key::Key;
use crate::catalog::store::name_literal;
use crate::db::fault::Fault;
use crate::record::evidence::Evidence;
use crate::record::many::record_of;
use crate::record::statement::{document, record_id};
use crate::record::store::bind_key;
use crate::record::{Outcome, Row, Verb, Write};
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
        "SELECT c.version, {}, c.op, c.id FROM {source} AS c WHERE c.resource = {} {record} \
         AND c.operation = ${}::uuid AND c.op <> 'baseline' ORDER BY c.version DESC LIMIT 1",
        document(resource, "c.doc"),
        name_literal(resource),
        k + 1,
    );
    let query = sqlx::query(AssertSqlSafe(text)).persistent(false);
    let query = match &key {
        Some(key) => bind_key(query, key),
        None => query,
    };
    let Some(found) = query.bind(operation).fetch_optional(conn).await? else {
        // Only deletions are logged without history.
        let logged = resource.history || write.verb == Verb::Delete;
        let conclusive = logged && key.is_some();
        return Ok(if conclusive { Evidence::NotMade } else { Evidence::Unclear });
    };
    let row = Row { version: Version(found.try_get(0)?), json: found.try_get(1)? };
    Ok(Evidence::Made(match found.try_get::<&str, _>(2)? {
        "delete" => Outcome::Deleted(row.version),
        "create" => match Key::from_record_id(found.try_get(3)?, resource) {
            Ok(key) => Outcome::Created(row, key),
            Err(_) => Outcome::Applied(row),
        },
        _ => Outcome::Applied(row),
    }))
}
