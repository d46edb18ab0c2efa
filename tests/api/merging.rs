//! Many people edit the same few rows at once, and the server merges them: no edit is lost, the chain of
//! versions is whole, and every version is explained by the one before it and its author's edit.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Reply, Server, json as json_body};

const ROWS: i32 = 4;
const COLUMNS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const WRITERS: usize = 16;

/// Edits in all; `COUNTERFOIL_EDITS` asks for more.
fn edits() -> usize {
    std::env::var("COUNTERFOIL_EDITS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

/// An edit that was answered 200: which value of which column became part of which version.
struct Accepted {
    row: i32,
    version: i64,
    column: &'static str,
    value: i64,
    merged: bool,
}

/// Numbers that look random, and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides).unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_concurrent_edit_is_lost_and_every_merge_is_explained() {
    let columns = COLUMNS.map(|c| format!("{c} bigint NOT NULL DEFAULT 0")).join(", ");
    let sql = format!(
        "CREATE TABLE sheet (id int PRIMARY KEY, {columns});
         INSERT INTO sheet SELECT n FROM generate_series(1, {ROWS}) AS n;"
    );
    let server = std::sync::Arc::new(Server::start(&sql, &["sheet"]).await);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let server = server.clone();
        writers.spawn(async move { edit(&server, writer, edits() / WRITERS).await });
    }
    let accepted: Vec<Accepted> = writers.join_all().await.into_iter().flatten().collect();
    assert!(accepted.iter().any(|edit| edit.merged), "nothing was merged");
    for row in 1..=ROWS {
        explain(&server, row, &accepted).await;
    }
    assert_eq!(
        server.value("SELECT count(*) FROM counterfoil.audit()").await.as_deref(),
        Some("0")
    );
}

/// Reads a row, thinks, writes one column under the tag that was read; takes no for an answer.
async fn edit(server: &Server, writer: usize, times: usize) -> Vec<Accepted> {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (u64::try_from(writer).unwrap() << 17));
    let mut accepted = Vec::new();
    let mut tags: BTreeMap<i32, String> = BTreeMap::new();
    for turn in 0..times {
        let row = i32::try_from(dice.roll(4)).unwrap() + 1;
        let path = format!("/sheet/{row}");
        // Sometimes the tag is an old one: somebody whose form lay open.
        let tag = match tags.get(&row) {
            Some(tag) if dice.roll(3) > 0 => tag.clone(),
            _ => server.get(&path).await.expect(200).header("etag").to_owned(),
        };
        let column = COLUMNS[dice.roll(COLUMNS.len())];
        let value = i64::try_from(writer * 1_000_000 + turn + 1).unwrap();
        let query = format!("{path}?on_conflict=merge");
        let request = server.request(reqwest::Method::PATCH, &query).header("if-match", &tag);
        let reply = Reply::of(json_body(request, &json!({ column: value }).to_string())).await;
        match reply.status {
            200 => {
                let version = reply.data()["version"].as_i64().unwrap();
                assert_eq!(reply.data()[column].as_i64(), Some(value), "{}", reply.text);
                let merged = reply.header("counterfoil-result") == "merged";
                tags.insert(row, reply.header("etag").to_owned());
                accepted.push(Accepted { row, version, column, value, merged });
            }
            // A clash, or a row that moved again with every try.
            409 => {
                tags.insert(row, reply.header("etag").to_owned());
            }
            status => panic!("{status}: {}", reply.text),
        }
    }
    accepted
}

/// Every version above the first is one accepted edit over the version before it, and nothing else.
async fn explain(server: &Server, row: i32, accepted: &[Accepted]) {
    let logged = server
        .value(&format!(
            "SELECT json_agg(json_build_object('version', version, 'doc', doc, 'from', merged_from) \
             ORDER BY version) FROM counterfoil.change WHERE resource = 'sheet' AND id = '{row}'"
        ))
        .await
        .unwrap();
    let logged: Vec<Value> = serde_json::from_str(&logged).unwrap();
    let edits: BTreeMap<i64, &Accepted> =
        accepted.iter().filter(|edit| edit.row == row).map(|edit| (edit.version, edit)).collect();
    assert_eq!(logged.len(), edits.len() + 1, "row {row}: a version for each edit, and the first");
    for (before, after) in logged.iter().zip(&logged[1..]) {
        let version = after["version"].as_i64().unwrap();
        assert_eq!(version, before["version"].as_i64().unwrap() + 1, "row {row}");
        let edit = edits[&version];
        let mut explained = before["doc"].clone();
        explained[edit.column] = json!(edit.value);
        explained["version"] = json!(version);
        assert_eq!(after["doc"], explained, "row {row} at {version}");
        assert_eq!(after["from"].is_array(), edit.merged, "row {row} at {version}");
        if edit.merged {
            assert_eq!(after["from"][1], json!(version - 1), "row {row} at {version}");
        }
    }
}

/// A value that only PostgreSQL can judge is no reason to take the client's whole change for nothing.
#[tokio::test]
async fn what_cannot_be_stored_is_refused_and_never_merged_away() {
    let table = "CREATE TABLE odd (id integer PRIMARY KEY, d date, r real, v tsvector, j json, n integer, t text);
        INSERT INTO odd (id, n, t) VALUES (1, 1, 'a')";
    let server = Server::start(table, &["odd"]).await;
    server.patch("/odd/1", None, r#"{"t":"b"}"#).await.expect(200);
    for (body, field) in [
        (r#"{"d":"2023-02-29","n":5}"#, "d"),
        (r#"{"r":1e39,"n":5}"#, "r"),
        (r#"{"v":"'a","n":5}"#, "v"),
    ] {
        for resolve in ["merge", "merge_mine", "merge_theirs"] {
            let path = format!("/odd/1?on_conflict={resolve}");
            let reply = server.patch(&path, Some("\"1\""), body).await;
            let reply = reply.expect_error(422, "INVALID_VALUE");
            assert_eq!(reply.details()["field"], field);
        }
        // Without a merge, the stale tag is what is told first.
        let reply = server.patch("/odd/1", Some("\"1\""), body).await;
        let reply = reply.expect_error(409, "WRITE_CONFLICT");
        assert_eq!(reply.details()["mergeable"], false);
    }
    // It can be stored, and not be compared: the client is to decide.
    let body = r#"{"j":1e131072,"n":5}"#;
    server
        .patch("/odd/1?on_conflict=merge", Some("\"1\""), body)
        .await
        .expect_error(409, "WRITE_CONFLICT");
    let row = server.value("SELECT version || t || n FROM odd").await;
    assert_eq!(row.as_deref(), Some("2b1"));
    server.patch("/odd/1?on_conflict=merge", Some("\"1\""), r#"{"n":5}"#).await.expect(200);
    // Nor does it take its history away.
    server.patch("/odd/1", None, body).await.expect(200);
    let history = server.get("/odd/1/history").await.expect(200);
    assert_eq!(history.data()[0]["changed"], json!(["j"]));
    server.get("/odd/one/history").await.expect_error(400, "INVALID_ID");
}
