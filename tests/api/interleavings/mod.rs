//! Writers that meet: on one row, behind held locks, across processes, and while clients, database
//! and server come and go. Every test looks at the database afterwards.

mod dev;
mod drain;
mod faults;
mod held_locks;
mod leaving_clients;
mod rebirth;
mod round_trips;
mod stampede;

use serde_json::Value;
use sqlx::PgConnection;

use crate::support::{Reply, Server};

/// One entry of the change log.
struct Entry {
    version: i32,
    op: String,
    by: String,
    doc: Value,
}

/// All that the log holds of a record. Asserts that the versions run from 1 to the newest, each
/// once, and that the newest entry is the row as it stands, or the deletion of one that is not
/// there.
async fn chain(server: &Server, resource: &str, id: &str) -> Vec<Entry> {
    let mut conn = server.connect().await;
    let entries = entries(&mut conn, resource, id).await;
    let versions: Vec<_> = entries.iter().map(|entry| entry.version).collect();
    let whole: Vec<_> = (1..).take(versions.len()).collect();
    assert_eq!(versions, whole, "the chain of {resource}/{id} has a gap");
    let row = format!("SELECT row_to_json(t) FROM {resource} AS t WHERE t.id::text = '{id}'");
    let row = server.value(&row).await.map(|row| serde_json::from_str::<Value>(&row).unwrap());
    let newest = entries.last().expect("the record has a history");
    match row {
        Some(row) => assert_eq!(newest.doc, row, "the newest entry of {resource}/{id}"),
        None => assert_eq!(newest.op, "delete", "the newest entry of {resource}/{id}"),
    }
    entries
}

async fn entries(conn: &mut PgConnection, resource: &str, id: &str) -> Vec<Entry> {
    let rows: Vec<(i32, String, String, String)> = sqlx::query_as(
        "SELECT version, op, \"by\", doc::text FROM counterfoil.change \
         WHERE resource = $1 AND id = $2 ORDER BY version",
    )
    .bind(resource)
    .bind(id)
    .fetch_all(conn)
    .await
    .unwrap();
    rows.into_iter()
        .map(|(version, op, by, doc)| Entry {
            version,
            op,
            by,
            doc: serde_json::from_str(&doc).unwrap(),
        })
        .collect()
}

/// The audit finds nothing.
async fn assert_sound(server: &Server) {
    let findings =
        server.value("SELECT string_agg(a::text, '; ') FROM counterfoil.audit() AS a").await;
    assert_eq!(findings, None);
}

/// How many of the server's sessions are in a state; an SQL condition on `pg_stat_activity`.
async fn sessions(conn: &mut PgConnection, condition: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name = 'counterfoil' AND {condition}"
    );
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(conn).await.unwrap()
}

/// The version in an answer's tag.
fn tagged(reply: &Reply) -> i32 {
    let tag = reply.header("etag").trim_matches('"');
    tag.parse().unwrap_or_else(|_| panic!("no tag of ours: {} {}", reply.status, reply.text))
}
