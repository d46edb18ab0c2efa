//! Reads of the feed that many streams share: those that stand at one place and follow the same
//! resources get the same bytes. What waits for slow readers is their cursor, never their changes.

pub mod http;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::{OnceCell, Semaphore};

use crate::catalog::Catalog;
use crate::db::Db;
use crate::db::fault::Fault;
use crate::feed::cursor::{Cursor, Keys};
use crate::feed::page::{self, Change, Page};
use crate::feed::store::{self, Wanted};
use crate::feed::{Expired, Filter, Position};

/// How large the rows of one event may become together, about.
const EVENT: i64 = 256 << 10;
/// How many reads run at once: streams must not crowd out requests.
const READS: usize = 4;
/// How many events are kept for streams that come to the same place a little later.
const KEPT: usize = 64;

/// How the events of a stream are worded, for one kind of client.
#[derive(Debug)]
pub struct Form {
    /// One for each form.
    pub name: &'static str,
    /// What the event is called; nothing, where the client listens to what has no name.
    pub event: Option<&'static str>,
    /// Whether deletions bear the last row.
    pub last_rows: bool,
    /// Its data: of these changes, up to this cursor, with more to come at once or not.
    pub data: fn(&Filter, &[Change], &str, bool) -> String,
}

/// As pull answers.
pub static CHANGES: Form = Form {
    name: "changes",
    event: Some("changes"),
    last_rows: false,
    data: |_, changes, cursor, more| {
        let changes = page::array(changes);
        format!(r#"{{"changes":{changes},"cursor":"{cursor}","has_more":{more}}}"#)
    },
};

/// What a stream is given.
#[derive(Clone, Debug)]
pub struct Event {
    /// The text of the event; empty where nothing was for this stream.
    pub text: Bytes,
    /// Up to where it was read.
    pub position: Position,
    /// Whether more is there to be read at once.
    pub more: bool,
}

type Read = Arc<OnceCell<Result<Event, Expired>>>;

/// The reads of a process's streams.
#[derive(Debug)]
pub struct Reads {
    kept: Mutex<VecDeque<(&'static str, Cursor, Read)>>,
    turns: Semaphore,
}

impl Default for Reads {
    fn default() -> Self {
        Self { kept: Mutex::default(), turns: Semaphore::new(READS) }
    }
}

impl Reads {
    /// What comes after a cursor.
    ///
    /// # Errors
    /// Those of the database; the inner one where the cursor has ended.
    pub async fn read(
        &self,
        db: &Db,
        keys: &Keys,
        catalog: &Catalog,
        filter: &Filter,
        (cursor, form): (&Cursor, &'static Form),
        newest: Position,
    ) -> Result<Result<Event, Expired>, Fault> {
        let read = self.shared(form.name, cursor, newest);
        let event = read.get_or_try_init(|| async {
            // Never closed.
            let _turn = self.turns.acquire().await;
            let mut wanted = Wanted::new(catalog, filter, Some(cursor.epoch), cursor.position);
            (wanted.bytes, wanted.last_rows) = (EVENT, form.last_rows);
            let page = db.read(move |conn| async move { store::page(conn, &wanted).await }.boxed());
            Ok(page.await?.map(|page| event(form, page, keys, filter, cursor)))
        });
        event.await.cloned()
    }

    /// The read of everybody who stands at this place. One that found less than there is by now does
    /// not count.
    fn shared(&self, form: &'static str, cursor: &Cursor, newest: Position) -> Read {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let current = |read: &Read| match read.get() {
            None => true,
            Some(Ok(event)) => event.more || event.position >= newest,
            Some(Err(_)) => false,
        };
        let same =
            |(name, c, read): &&(&str, Cursor, Read)| *name == form && c == cursor && current(read);
        if let Some((.., read)) = kept.iter().find(same) {
            return read.clone();
        }
        let read = Read::default();
        kept.push_back((form, cursor.clone(), read.clone()));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        read
    }
}

fn event(form: &Form, page: Page, keys: &Keys, filter: &Filter, cursor: &Cursor) -> Event {
    let Page { changes, position, has_more: more, .. } = page;
    if changes.is_empty() {
        return Event { text: Bytes::new(), position, more };
    }
    let cursor = Cursor { position, ..cursor.clone() }.write(keys);
    let data = (form.data)(filter, &changes, &cursor, more);
    Event { text: text(form.event, Some(&cursor), &data), position, more }
}

/// An event in the form of server-sent events.
fn text(name: Option<&str>, id: Option<&str>, json: &str) -> Bytes {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    let event = name.map_or_else(String::new, |name| format!("event: {name}\n"));
    // Only between the parts of a value can JSON hold line breaks, and there a space is as good.
    let json = json.replace(['\n', '\r'], " ");
    Bytes::from(format!("{id}{event}data: {json}\n\n"))
}
