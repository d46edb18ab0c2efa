//! Columns and tables may have any name.

use super::{encode, ids, list, walk};
use crate::support::Server;

const NAMES: [&str; 34] = [
    "t",
    "r",
    "x",
    "c",
    "e",
    "p",
    "s",
    "j",
    "k",
    "n",
    "b",
    "l",
    "one",
    "actor",
    "limit",
    "order",
    "select",
    "after",
    "and",
    "or",
    "not",
    "from",
    "Upper",
    "two words",
    "a.b",
    "eq.1",
    "say \"hi\"",
    "it's",
    "per%cent",
    "comma,name",
    "(paren)",
    "back\\slash",
    "$1",
    "ünï.desc",
];

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The name as a query writes it: in double quotes, with quotes and backslashes behind a backslash.
fn spelled(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

async fn serve() -> Server {
    let columns: Vec<_> =
        NAMES.iter().map(|name| format!(", {} int UNIQUE", quoted(name))).collect();
    let sql = format!(
        "CREATE SCHEMA \"My.\"\"Schema\"; CREATE TABLE \"My.\"\"Schema\".\"Odd 'Table'\" (id int PRIMARY KEY{}, UNIQUE (\"t\", \"a.b\"));",
        columns.concat()
    );
    let server = Server::start(&sql, &[]).await;
    server
        .sql("SELECT counterfoil.adopt('\"My.\"\"Schema\".\"Odd ''Table''\"'::regclass, 'odd')")
        .await;
    Server::on(&server.database_url, "").await
}

fn body(id: usize, value: usize) -> String {
    let mut members: serde_json::Map<String, serde_json::Value> = NAMES
        .iter()
        .enumerate()
        .map(|(place, name)| ((*name).to_owned(), (value * 100 + place).into()))
        .collect();
    members.insert("id".to_owned(), id.into());
    serde_json::Value::Object(members).to_string()
}

#[tokio::test]
async fn columns_of_any_name_are_read_written_and_searched() {
    let server = serve().await;
    for id in 1..=3 {
        let created = server.post("/odd", &body(id, id)).await.expect(201);
        let read = server.get(&format!("/odd/{id}")).await.expect(200);
        assert_eq!(read.raw_data(), created.raw_data());
        server.put(&format!("/odd/{id}"), Some("\"1\""), read.raw_data()).await.expect(200);
    }
    for (place, name) in NAMES.iter().enumerate() {
        let value = 200 + place;
        is_written(&server, name, value).await;
        is_searched(&server, name, value).await;
        is_unique(&server, name, value).await;
    }
    for name in ["t", "x", "Upper", "two words", "a.b", "it's", "$1"] {
        assert_eq!(ids(&server, "odd", &format!("order={name}.desc")).await, [3, 2, 1], "{name}");
        let reply = list(&server, "odd", &format!("select={name}")).await.expect(200);
        assert!(reply.data()[0].get(name).is_some(), "{name}");
    }
    let other_case = list(&server, "odd", "upper=eq.1").await;
    other_case.expect_error(400, "INVALID_QUERY").expect_field("upper");
    list(&server, "odd", "\"nope\"=eq.1").await.expect_error(400, "INVALID_QUERY");
    server.delete("/odd/1", None).await.expect(204);
    server.get("/odd/1").await.expect(410);
    let broken = server.value("SELECT count(*) FROM counterfoil.audit()").await;
    assert_eq!(broken.as_deref(), Some("0"));
}

async fn is_written(server: &Server, name: &str, value: usize) {
    let json = serde_json::Value::from(name);
    server.patch("/odd/2", None, &format!("{{{json}: {value}}}")).await.expect(200);
    let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let operations = serde_json::json!([
        {"op": "test", "path": pointer, "value": value},
        {"op": "replace", "path": pointer, "value": value},
    ])
    .to_string();
    server.patch_as("application/json-patch+json", "/odd/2", &operations).await.expect(200);
    let by = format!("{{\"field\": {json}, \"by\": 0}}");
    let reply = server.post("/odd/2/increment", &by).await.expect(200);
    assert_eq!(reply.data()[name], value, "{name}");
}

async fn is_searched(server: &Server, name: &str, value: usize) {
    let quoted = spelled(name);
    let mut queries = vec![format!("and=({quoted}.eq.{value})")];
    if !["limit", "order", "select", "after", "and", "or"].contains(&name) {
        queries.push(format!("{name}=eq.{value}"));
        queries.push(format!("{quoted}=eq.{value}"));
    }
    for query in queries {
        assert_eq!(ids(server, "odd", &query).await, [2], "{query}");
    }
    let tree = format!("or=({quoted}.in.({value},1),id.eq.3)");
    assert_eq!(ids(server, "odd", &tree).await, [2, 3], "{name}");
    let order = format!("order={quoted}.desc");
    assert_eq!(ids(server, "odd", &order).await, [3, 2, 1], "{name}");
    let rows = walk(server, "odd", &format!("order={quoted}&limit=1"), async |_| {}).await;
    assert_eq!(rows.len(), 3, "{name}");
    let reply = list(server, "odd", &format!("select={quoted}&id=eq.2")).await.expect(200);
    assert_eq!(reply.data()[0][name], value, "{name}");
    assert_eq!(reply.data()[0].as_object().unwrap().len(), 2, "{name}");
    let path = format!("/odd/2?select=id,{}", encode(&quoted));
    assert_eq!(server.get(&path).await.expect(200).data()[name], value);
}

/// The winner of a unique column is shown, whatever the column is called.
async fn is_unique(server: &Server, name: &str, value: usize) {
    let json = serde_json::Value::from(name);
    let patched = server.patch("/odd/1", None, &format!("{{{json}: {value}}}")).await;
    let posted = server.post("/odd", &format!("{{\"id\": 9, {json}: {value}}}")).await;
    for taken in [patched, posted] {
        let taken = taken.expect_error(409, "ALREADY_EXISTS").expect_field(name);
        assert_eq!(taken.data()["id"], 2, "{name}: {}", taken.text);
    }
}
