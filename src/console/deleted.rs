//! What was deleted from a resource, newest first, each with the way back.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use futures_util::FutureExt as _;

use crate::catalog::key::Key;
use crate::console::here::{self, Here};
use crate::console::reply::{self, Failure, Shell};
use crate::console::store::{self, Before, Deletion};
use crate::console::{record, value, words};
use crate::db::fault::Fault;
use crate::error::{Code, Error};
use crate::http::App;
use crate::record::many;
use crate::version::Version;

/// Deletions on a page.
const MOST: usize = 50;

#[derive(Template)]
#[template(path = "deleted.html")]
struct Page {
    shell: Shell,
    label: String,
    list: String,
    rows: Vec<Line>,
    first: Option<String>,
    older: Option<String>,
}

/// One deletion.
struct Line {
    address: String,
    title: String,
    id: String,
    version: Version,
    by: String,
    at: String,
}

/// `GET /console/{resource}/-/deleted`
pub(super) async fn page(State(app): State<App>, here: Here) -> Result<Response, Failure> {
    let before = here.parameter("before").map(read_place).transpose()?;
    let resource = here.resource.clone();
    let read = app.db.read(move |conn| {
        async move {
            let title = record::title_column(&resource).map(|place| &resource.columns[place]);
            let (deletions, older) = store::deletions(conn, &resource, title, before, MOST).await?;
            let keyed: Vec<(Key, Deletion)> = deletions
                .into_iter()
                .filter_map(|gone| Some((Key::from_record_id(&gone.id, &resource).ok()?, gone)))
                .collect();
            if resource.history {
                return Ok((keyed, older));
            }
            // Where only deletions are logged, the log does not tell what was created again.
            let keys: Vec<_> = keyed.iter().map(|(key, _)| key).collect();
            let only = Some(vec![resource.version]);
            let standing = many::store::read(conn, &resource, only, &keys).await?;
            let gone = keyed.into_iter().zip(standing).filter(|(_, row)| row.is_none());
            Ok::<_, Fault>((gone.map(|(keyed, _)| keyed).collect(), older))
        }
        .boxed()
    });
    let (deletions, older) = read.await.map_err(|fault| app.failure(&fault))?;
    let resource = &here.resource;
    let label = words::label(&resource.name);
    let list = here::list(resource);
    let address = format!("{list}/-/deleted");
    let page = Page {
        shell: here.shell(format!("Deleted from {label}"), None, Some("Deleted")),
        rows: deletions.into_iter().map(|(key, gone)| line(&here, &key, gone)).collect(),
        first: before.map(|_| address.clone()),
        older: older.map(|Before { xid, seq }| format!("{address}?before={xid}.{seq}")),
        label,
        list,
    };
    Ok(reply::page(200, &page))
}

/// Reads the place from which a page goes on.
fn read_place(text: &str) -> Result<Before, Error> {
    let parts = text.split_once('.');
    let place = parts
        .and_then(|(xid, seq)| Some(Before { xid: xid.parse().ok()?, seq: seq.parse().ok()? }));
    place.ok_or_else(|| {
        Error::field(Code::InvalidCursor, "before", "before is no page of this list")
    })
}

fn line(here: &Here, key: &Key, gone: Deletion) -> Line {
    let id = key.parts.join(", ");
    let named = gone.name.filter(|name| !name.trim().is_empty());
    Line {
        address: here::address(&here.resource, key),
        title: named.unwrap_or_else(|| id.clone()),
        id,
        version: gone.version,
        by: gone.by.by,
        at: value::moment(&gone.by.at),
    }
}
