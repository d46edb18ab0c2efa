//! Judges what the clients were told against what the database holds.

use std::collections::{BTreeMap, HashMap};

use super::client::{Client, Edit, Known, Row};
use crate::support::Server;

/// A version of a record in the change log.
struct Entry {
    row: Option<Row>,
    origin: Option<String>,
}

pub(super) async fn judge(server: &Server, clients: &[Client]) {
    let log = log(server).await;
    let mut claimed = HashMap::new();
    let mut counts = BTreeMap::new();
    for client in clients {
        for edit in &client.decided {
            let status = edit.line["status"].as_str().unwrap();
            *counts.entry(status.to_owned()).or_insert(0) += 1;
            match status {
                "applied" | "merged" => {
                    let version = edit.line["version"].as_i64().unwrap();
                    let known = claimed.insert((edit.record, version), &client.id);
                    assert_eq!(known, None, "two edits made one version: {edit:?}");
                    held(client, edit, version, &log);
                }
                "noop" => assert_eq!(edit.op, "delete", "{edit:?}"),
                "conflict" => told(edit),
                _ => blocked(client, edit),
            }
        }
    }
    // What bears a client's name was told to that client: nothing was applied twice, nothing in silence.
    for ((record, version), entry) in &log {
        let origin = entry.origin.as_ref();
        let owner = claimed.get(&(*record, *version)).copied();
        assert_eq!(origin, owner, "version {version} of {record}");
    }
    let table = table(server).await;
    for client in clients {
        let mut copy = client.known.clone();
        copy.retain(|_, known| known.row.is_some());
        for (record, row) in &table {
            assert_eq!(copy.remove(record).as_ref(), Some(row), "{}: {record}", client.id);
        }
        assert!(copy.is_empty(), "{}: {copy:?}", client.id);
    }
    let crashes: usize = clients.iter().map(|client| client.crashes).sum();
    let replays: usize = clients.iter().map(|client| client.replays).sum();
    println!("{counts:?}, {crashes} crashes, {replays} answered from what was stored");
    for status in ["applied", "merged", "conflict", "blocked"] {
        assert!(counts.contains_key(status), "nothing was {status}: the model asks too little");
    }
    assert!(replays > 0 && crashes > 0);
}

/// An edit that holds did what its user wanted, to what he had seen.
fn held(client: &Client, edit: &Edit, version: i64, log: &BTreeMap<(u64, i64), Entry>) {
    let entry = &log[&(edit.record, version)];
    assert_eq!(entry.origin.as_ref(), Some(&client.id), "{edit:?}");
    let before = log.get(&(edit.record, version - 1)).and_then(|entry| entry.row.as_ref());
    match (edit.op, before) {
        ("create", before) => {
            assert!(before.is_none(), "created over a row: {edit:?}");
            assert_eq!(entry.row, edit.wanted, "{edit:?}");
        }
        ("delete", before) => {
            assert_eq!(before, edit.saw.as_ref(), "deleted what the user had not seen: {edit:?}");
            assert_eq!(entry.row, None);
        }
        (_, Some(before)) => {
            let (saw, wanted) = (edit.saw.as_ref().unwrap(), edit.wanted.as_ref().unwrap());
            let after = entry.row.as_ref().unwrap();
            for (field, value) in wanted {
                if saw[field] == *value {
                    assert_eq!(after[field], before[field], "{field} was not touched: {edit:?}");
                } else {
                    assert_eq!(before[field], saw[field], "{field} written over unseen: {edit:?}");
                    assert_eq!(after[field], *value, "{field} was lost: {edit:?}");
                }
            }
        }
        (_, None) => panic!("edited where there was no row: {edit:?}"),
    }
}

/// A conflict shows what stands in the way.
fn told(edit: &Edit) {
    let error = &edit.line["error"];
    let kind = error["details"]["kind"].as_str().unwrap();
    let expected = match (error["code"].as_str().unwrap(), edit.op) {
        ("RECORD_DELETED", _) => "update_delete",
        ("WRITE_CONFLICT", "create") => "create_create",
        ("WRITE_CONFLICT", "delete") => "delete_update",
        ("WRITE_CONFLICT", _) => "update_update",
        _ => panic!("{}", edit.line),
    };
    assert_eq!(kind, expected, "{}", edit.line);
    assert_eq!(edit.line["data"]["id"], edit.record, "{}", edit.line);
    assert!(error["details"]["current_version"].is_i64(), "{}", edit.line);
}

/// What was blocked, was blocked by one of its own client that does not hold.
fn blocked(client: &Client, edit: &Edit) {
    let base = edit.line["blocked_by"].as_i64().unwrap();
    let base = &client.decided[usize::try_from(base - 1).unwrap()];
    assert_eq!(base.record, edit.record);
    let status = base.line["status"].as_str().unwrap();
    assert!(matches!(status, "conflict" | "blocked"), "{edit:?} by {base:?}");
}

fn fields(doc: &str) -> Row {
    let mut row: Row = serde_json::from_str(doc).unwrap();
    row.retain(|name, _| name != "id" && name != "version");
    row
}

async fn log(server: &Server) -> BTreeMap<(u64, i64), Entry> {
    let mut conn = server.connect().await;
    let entries: Vec<(String, i32, String, String, Option<String>)> = sqlx::query_as(
        "SELECT id, version, op, doc::text, CASE WHEN op <> 'baseline' THEN origin END \
         FROM counterfoil.change WHERE resource = 'cards'",
    )
    .fetch_all(&mut conn)
    .await
    .unwrap();
    let entry = |(id, version, op, doc, origin): (String, i32, String, String, Option<String>)| {
        let row = (op != "delete").then(|| fields(&doc));
        ((id.parse().unwrap(), i64::from(version)), Entry { row, origin })
    };
    entries.into_iter().map(entry).collect()
}

async fn table(server: &Server) -> HashMap<u64, Known> {
    let mut conn = server.connect().await;
    let rows: Vec<(i32, i32, String)> =
        sqlx::query_as("SELECT id, version, row_to_json(cards)::text FROM cards")
            .fetch_all(&mut conn)
            .await
            .unwrap();
    let known = |(id, version, doc): (i32, i32, String)| {
        let row = Some(fields(&doc));
        (u64::try_from(id).unwrap(), Known { version: version.into(), row })
    };
    rows.into_iter().map(known).collect()
}
