//! Every value that PostgreSQL can store goes out and comes back as it was.

mod bodies;
mod refusals;
mod types;

use std::fmt::Write as _;

use counterfoil::json::read_object;

use crate::support::Server;
use types::Group;

/// Rows of a group lie below this id; ids above are for the tests.
const FREE: usize = 1000;

fn rows(group: &Group) -> usize {
    group.columns.iter().map(|(_, values)| values.len()).max().unwrap_or_default()
}

/// A table `t` of the group's columns, named `c0`, `c1` and so on, with a row for every value.
async fn serve(group: &Group) -> Server {
    let mut sql = format!("{} CREATE TABLE t (id integer PRIMARY KEY", group.before);
    for (place, (kind, _)) in group.columns.iter().enumerate() {
        let _ = write!(sql, ", c{place} {kind}");
    }
    sql.push_str(");");
    for row in 0..rows(group) {
        let _ = write!(sql, "INSERT INTO t VALUES ({}", row + 1);
        for (_, values) in group.columns {
            let _ = write!(sql, ", {}", values.get(row).unwrap_or(&"NULL"));
        }
        sql.push_str(");");
    }
    let _ = write!(sql, "INSERT INTO t (id) VALUES ({FREE});");
    Server::start(&sql, &["t"]).await
}

/// The row as PostgreSQL writes it, without its id and version.
async fn stored(server: &Server, id: usize) -> String {
    let sql = format!(
        "SELECT regexp_replace(regexp_replace(t::text, '^\\(\\d+', ''), ',\\d+\\)$', '') FROM t WHERE id = {id}"
    );
    server.value(&sql).await.unwrap()
}

async fn survives_put(server: &Server, group: &Group) {
    for id in 1..=rows(group) {
        let path = format!("/t/{id}");
        let before = stored(server, id).await;
        let read = server.get(&path).await.expect(200);
        server.put(&path, Some("\"1\""), read.raw_data()).await.expect(200);
        assert_eq!(stored(server, id).await, before, "PUT of {}", read.text);
        // A second PUT under the old tag finds everything as it says: a retry, not a conflict.
        let again = server.put(&path, Some("\"1\""), read.raw_data()).await.expect(200);
        assert_eq!(again.header("counterfoil-result"), "already-applied", "{}", read.text);
    }
}

async fn survives_patch(server: &Server, group: &Group) {
    let blank = format!("/t/{FREE}");
    for id in 1..=rows(group) {
        let read = server.get(&format!("/t/{id}")).await.expect(200);
        for (name, value) in read_object(read.raw_data().as_bytes()).unwrap() {
            let is_value = name.starts_with('c') && value.get() != "null";
            if !is_value {
                continue;
            }
            let body = format!("{{\"{name}\": {}}}", value.get());
            server.patch(&blank, None, &body).await.expect(200);
            let same = format!(
                "SELECT (SELECT {name}::text FROM t WHERE id = {id}) = (SELECT {name}::text FROM t WHERE id = {FREE})"
            );
            assert_eq!(server.value(&same).await.as_deref(), Some("true"), "PATCH {body}");

            let operations = format!(
                r#"[{{"op":"test","path":"/{name}","value":{0}}},{{"op":"replace","path":"/{name}","value":null}},{{"op":"replace","path":"/{name}","value":{0}}}]"#,
                value.get()
            );
            server.patch_as("application/json-patch+json", &blank, &operations).await.expect(200);
            assert_eq!(server.value(&same).await.as_deref(), Some("true"), "JSON Patch {body}");
        }
    }
}

async fn survives_post(server: &Server, group: &Group) {
    for id in 1..=rows(group) {
        let read = server.get(&format!("/t/{id}")).await.expect(200);
        let copy = FREE + id;
        let body =
            read.raw_data().replacen(&format!("{{\"id\":{id}"), &format!("{{\"id\":{copy}"), 1);
        server.post("/t", &body).await.expect(201);
        assert_eq!(stored(server, copy).await, stored(server, id).await, "POST {body}");
    }
}

async fn survives(group: &Group) {
    let server = serve(group).await;
    survives_put(&server, group).await;
    survives_patch(&server, group).await;
    survives_post(&server, group).await;
}

#[tokio::test]
async fn numbers_survive() {
    survives(&types::NUMBERS).await;
}

#[tokio::test]
async fn texts_survive() {
    survives(&types::TEXTS).await;
}

#[tokio::test]
async fn dates_and_times_survive() {
    survives(&types::TIMES).await;
}

#[tokio::test]
async fn addresses_bits_and_system_types_survive() {
    survives(&types::SYSTEM).await;
}

#[tokio::test]
async fn geometry_survives() {
    survives(&types::SHAPES).await;
}

#[tokio::test]
async fn ranges_and_multiranges_survive() {
    survives(&types::RANGES).await;
}

#[tokio::test]
async fn arrays_survive() {
    survives(&types::ARRAYS).await;
}

#[tokio::test]
async fn domains_and_composites_survive() {
    survives(&types::DECLARED).await;
}

#[tokio::test]
async fn json_survives() {
    survives(&types::JSON).await;
}

#[tokio::test]
async fn values_that_json_does_not_tell_apart_survive_being_sent_back() {
    let server = serve(&types::AMBIGUOUS).await;
    survives_put(&server, &types::AMBIGUOUS).await;
}

/// No type may be forgotten: those of the groups are all that PostgreSQL lets a column have.
#[tokio::test]
async fn every_type_that_postgresql_ships_is_tried() {
    let groups = [
        &types::NUMBERS,
        &types::TEXTS,
        &types::TIMES,
        &types::SYSTEM,
        &types::SHAPES,
        &types::RANGES,
        &types::ARRAYS,
        &types::DECLARED,
        &types::JSON,
    ];
    let tried: Vec<String> = groups
        .iter()
        .flat_map(|group| group.columns)
        .map(|(kind, _)| format!("to_regtype('{}')::oid", kind.split('(').next().unwrap()))
        .collect();
    let server = Server::start("", &[]).await;
    let forgotten = server
        .value(&format!(
            "SELECT string_agg(typname, ' ') FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace \
             AND typtype IN ('b', 'r', 'm') AND typcategory <> 'A' AND typname !~ '^(pg_|gtsvector|aclitem)' \
             AND oid NOT IN (SELECT coalesce(x, 0) FROM unnest(ARRAY[{}]) AS x)",
            tried.join(", ")
        ))
        .await;
    assert_eq!(forgotten, None);
}
