//! The routes of the feed (API.md section 6): pull and snapshot.

use std::collections::HashSet;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::FutureExt as _;
use serde_json::json;

use crate::error::{Code, Error};
use crate::feed::cursor::{Cursor, Kind};
use crate::feed::snapshot::{self, Place};
use crate::feed::store::{self, Wanted};
use crate::feed::{DEFAULT_LIMIT, Expired, Filter, Position, page};
use crate::http::{App, envelope};
use crate::record::query::limit;

type Parameters = Query<Vec<(String, String)>>;

/// What a request of the feed may say.
#[derive(Debug, Default)]
pub struct Asked {
    /// Where to go on.
    pub cursor: Option<String>,
    /// Which resources.
    pub resources: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
}

impl Asked {
    /// Reads the parameters; `cursor` is what the cursor is called, and `limited` whether there is a limit.
    ///
    /// # Errors
    /// `INVALID_QUERY`.
    pub fn read(
        parameters: Vec<(String, String)>,
        cursor: &str,
        limited: bool,
    ) -> Result<Self, Error> {
        let mut asked = Self::default();
        let mut seen = HashSet::new();
        for (name, value) in parameters {
            if !seen.insert(name.clone()) {
                let message = format!("{name} stands twice in the query");
                return Err(Error::field(Code::InvalidQuery, &name, message));
            }
            match name.as_str() {
                // A client that has none yet may say so.
                name if name == cursor => asked.cursor = Some(value).filter(|v| !v.is_empty()),
                "resources" => asked.resources = Some(value).filter(|v| !v.is_empty()),
                "limit" if limited => asked.limit = Some(limit(&value)?),
                _ => {
                    let message = format!("This request takes no parameter \"{name}\"");
                    return Err(Error::field(Code::InvalidQuery, &name, message));
                }
            }
        }
        Ok(asked)
    }
}

/// `GET /api/v1/sync/pull`
pub async fn pull(
    State(app): State<App>,
    Query(parameters): Parameters,
) -> Result<Response, Error> {
    let asked = Asked::read(parameters, "cursor", true)?;
    let catalog = app.catalog.load_full();
    let filter = Filter::read(&catalog, asked.resources.as_deref())?;
    let keys = app.feed.keys();
    let cursor = asked.cursor.map(|text| Cursor::read(&text, "cursor", Kind::Pull, &filter, &keys));
    let cursor = cursor.transpose()?;
    let after = cursor.as_ref().map_or_else(Position::default, |cursor| cursor.position);
    let mut wanted = Wanted::new(&catalog, &filter, cursor.map(|cursor| cursor.epoch), after);
    wanted.limit = i64::try_from(asked.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(i64::MAX);
    let read = app.db.read(move |conn| async move { store::page(conn, &wanted).await }.boxed());
    let read = read.await.map_err(|fault| app.failure(&fault))?;
    let read = read.map_err(|expired| expired.error(&filter))?;
    let cursor = Cursor::new(Kind::Pull, read.epoch, read.position, &filter).write(&keys);
    let body = format!(
        r#"{{"changes":{},"cursor":{},"has_more":{},"lag_ms":{}}}"#,
        page::array(&read.changes),
        json!(cursor),
        read.has_more,
        app.feed.lag_ms(),
    );
    Ok(envelope::data(StatusCode::OK, &body))
}

/// `GET /api/v1/sync/snapshot`
pub async fn snapshot(
    State(app): State<App>,
    Query(parameters): Parameters,
) -> Result<Response, Error> {
    let asked = Asked::read(parameters, "after", true)?;
    let filter = Filter::read(&app.catalog.load(), asked.resources.as_deref())?;
    let keys = app.feed.keys();
    let after =
        asked.cursor.map(|text| Cursor::read(&text, "after", Kind::Snapshot, &filter, &keys));
    let after = after.transpose()?;
    let place = after.as_ref().map(|after| Place::read(&after.place).unwrap_or_default());
    let limit = asked.limit.unwrap_or(DEFAULT_LIMIT);
    let wanted = filter.clone();
    let read = app.db.read(move |conn| {
        async move {
            // Ahead of the first row: what changes from now on comes after the cursor.
            let begun = snapshot::store::begin(conn).await?;
            let page =
                snapshot::store::page(conn, &wanted, &place.unwrap_or_default(), limit).await?;
            Ok((begun, page))
        }
        .boxed()
    });
    let (begun, (changes, next)) = read.await.map_err(|fault| app.failure(&fault))?;
    let mut cursor = match after {
        Some(after) if after.epoch != begun.epoch => return Err(Expired::Database.error(&filter)),
        Some(after) => after,
        None => Cursor::new(Kind::Snapshot, begun.epoch, begun.position, &filter),
    };
    let (after, cursor) = if let Some(place) = next {
        cursor.place = place.write();
        (Some(cursor.write(&keys)), None)
    } else {
        let pull = Cursor { kind: Kind::Pull, place: Vec::new(), ..cursor };
        (None, Some(pull.write(&keys)))
    };
    let body = format!(
        r#"{{"changes":{},"after":{},"cursor":{}}}"#,
        page::array(&changes),
        json!(after),
        json!(cursor)
    );
    Ok(envelope::data(StatusCode::OK, &body))
}
