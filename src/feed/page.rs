//! A page of changes as JSON. The rows in it are the text that PostgreSQL made.

use std::fmt::Write as _;

use crate::feed::Position;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The resource.
    pub resource: String,
    /// The record.
    pub id: String,
    /// The version that the record came to.
    pub version: i32,
    /// Whether the record is gone.
    pub deleted: bool,
    /// The row as the caller may see it, as JSON text. Where the record is gone, its last one, if that was
    /// asked for.
    pub row: Option<String>,
    /// Who made it, when, and through which client, where that is known.
    pub by: Option<String>,
    /// RFC 3339, by the database's clock.
    pub at: Option<String>,
    /// The client that pushed it.
    pub origin: Option<String>,
}

/// What was read of the log at one time.
#[derive(Debug, Default)]
pub struct Page {
    /// The changes, in the order of the log.
    pub changes: Vec<Change>,
    /// The log that was read.
    pub epoch: i64,
    /// Up to where it was read.
    pub position: Position,
    /// Whether more was there to read.
    pub has_more: bool,
}

/// The changes as a JSON array.
pub fn array(changes: &[Change]) -> String {
    let rows: usize = changes.iter().filter_map(|c| c.row.as_ref()).map(String::len).sum();
    let mut text = String::with_capacity(rows + changes.len() * 192 + 2);
    text.push('[');
    for (place, change) in changes.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        push(&mut text, change);
    }
    text.push(']');
    text
}

fn push(text: &mut String, change: &Change) {
    let Change { resource, id, version, deleted, row, by, at, origin } = change;
    let op = if *deleted { "delete" } else { "upsert" };
    let row = row.as_deref().unwrap_or("null");
    let _ = write!(
        text,
        r#"{{"resource":"{resource}","id":{},"version":{version},"op":"{op}","data":{row},"by":{},"at":{},"origin":{}}}"#,
        quoted(Some(id)),
        quoted(by.as_deref()),
        quoted(at.as_deref()),
        quoted(origin.as_deref()),
    );
}

fn quoted(text: Option<&str>) -> String {
    text.and_then(|text| serde_json::to_string(text).ok()).unwrap_or_else(|| "null".to_owned())
}
