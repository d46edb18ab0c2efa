//! The SQL of the feed.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::catalog::Catalog;
use crate::catalog::store::name_literal;
use crate::db::fault::Fault;
use crate::feed::cursor::Keys;
use crate::feed::page::{Change, Page};
use crate::feed::{Expired, Filter, Position};
use crate::record::statement::{document, moment};

/// How many rows of the log one statement looks at, at most.
const MOST_SCANNED: i64 = 20_000;
/// For how long a page is filled from a log in which little is wanted.
const FILLING: Duration = Duration::from_millis(500);

/// What to read.
#[derive(Debug)]
pub struct Wanted {
    /// The text of the statement; see [`statement`].
    pub statement: String,
    /// The names of the resources.
    pub resources: Vec<String>,
    /// The log that it is to be read from; whichever it is where `None`.
    pub epoch: Option<i64>,
    /// After which place.
    pub after: Position,
    /// At most so many changes.
    pub limit: i64,
    /// At most about so many bytes of rows; the first change comes whatever its size.
    pub bytes: i64,
    /// Whether deletions are to bear the last row.
    pub last_rows: bool,
}

impl Wanted {
    /// What a reader of this filter gets next.
    pub fn new(catalog: &Catalog, filter: &Filter, epoch: Option<i64>, after: Position) -> Self {
        let resources = filter.resources.iter().map(|r| r.name.clone()).collect();
        let limit = i64::try_from(crate::feed::DEFAULT_LIMIT).unwrap_or(i64::MAX);
        let (statement, bytes) = (statement(catalog), BYTES);
        Self { statement, resources, epoch, after, limit, bytes, last_rows: false }
    }
}

/// How large the rows of a page may become together, about.
pub const BYTES: i64 = 4 << 20;

/// The statement that reads the log from `($1, $2)` on: at most `$3` of its rows, and of those of the
/// resources `$4` at most `$5`, and `$6` bytes, in the log `$7`, deletions with their rows where `$8`. Always
/// the last row that it looked at, which tells how far it came. One snapshot for all of it; the same text for
/// every filter.
///
/// Both bounds of the scan are conditions of the index on `(xid, seq)`, whose order is the page's.
pub fn statement(catalog: &Catalog) -> String {
    let mut documents = String::new();
    for resource in catalog.resources().filter(|r| r.columns.iter().any(|c| c.hidden)) {
        let document = document(resource, "s.doc");
        let _ = write!(documents, " WHEN {} THEN {document}", name_literal(resource));
    }
    let row = if documents.is_empty() {
        "s.doc::text".to_owned()
    } else {
        format!("CASE s.resource{documents} ELSE s.doc::text END")
    };
    // Compressed rows are taken to be sixteen times as large as they lie there.
    let weight = "least(pg_column_size(c.doc), 8000000) * \
        CASE WHEN pg_column_compression(c.doc) IS NULL THEN 1 ELSE 16 END";
    // A baseline tells of no change where a later version is logged; it stands alone where adoption
    // noted a row that was written without being logged.
    let wanted = "c.resource = ANY($4) AND (c.op <> 'baseline' OR NOT EXISTS (\
        SELECT FROM counterfoil.change AS l \
        WHERE l.resource = c.resource AND l.id = c.id AND l.version > c.version))";
    format!(
        "SELECT h.epoch, h.place, h.expired, s.n, s.taken, s.total, s.kept, s.last, s.xid::text AS xid, s.seq, \
         s.resource, s.id, s.version, s.op = 'delete' AS gone, \
         CASE WHEN s.kept AND ($8 OR s.op <> 'delete') THEN {row} END AS doc, \
         s.\"by\" AS \"by\", {at} AS at, s.origin \
         FROM (SELECT f.epoch, f.epoch IS NOT DISTINCT FROM coalesce($7, f.epoch) \
           AND $1::text::xid8 <= pg_snapshot_xmin(pg_current_snapshot()) AS place, \
           EXISTS (SELECT FROM counterfoil.feed_floor AS l WHERE l.resource = ANY($4) \
             AND (l.xid, l.seq) > ($1::text::xid8, $2)) AS expired \
           FROM counterfoil.feed AS f) AS h \
         LEFT JOIN LATERAL (SELECT *, w.wanted AND w.taken <= $5 AND w.total - w.weight < $6 AS kept \
           FROM (SELECT *, row_number() OVER up AS n, count(*) FILTER (WHERE c.wanted) OVER up AS taken, \
             sum(c.weight) FILTER (WHERE c.wanted) OVER up AS total, lead(1) OVER up IS NULL AS last \
             FROM (SELECT c.*, {weight} AS weight, {wanted} AS wanted \
               FROM counterfoil.change AS c \
               WHERE c.xid < pg_snapshot_xmin(pg_current_snapshot()) \
               AND (c.xid, c.seq) > ($1::text::xid8, $2) \
               ORDER BY c.xid, c.seq LIMIT $3) AS c \
             WINDOW up AS (ROWS UNBOUNDED PRECEDING)) AS w \
           WHERE h.place AND NOT h.expired \
           AND (w.last OR w.wanted AND w.taken <= $5 AND w.total - w.weight < $6)) AS s ON true",
        at = moment("s.at"),
    )
}

/// Reads the next page: filled, as far as the log goes and time allows.
///
/// # Errors
/// Those of the database; the inner one where the place is no longer there.
pub async fn page(
    conn: &mut PgConnection,
    wanted: &Wanted,
) -> Result<Result<Page, Expired>, Fault> {
    let begun = Instant::now();
    let mut page = Page { position: wanted.after, ..Page::default() };
    let (mut limit, mut bytes) = (wanted.limit, wanted.bytes);
    // One more than asked for tells whether there is more.
    let mut scan = (limit + 1).min(MOST_SCANNED);
    loop {
        let round = match round(conn, wanted, page.position, scan, limit, bytes).await? {
            Ok(round) => round,
            Err(expired) => return Ok(Err(expired)),
        };
        page.epoch = round.epoch;
        limit -= i64::try_from(round.changes.len()).unwrap_or(i64::MAX);
        bytes -= round.bytes;
        page.changes.extend(round.changes);
        page.position = round.position;
        page.has_more = round.cut || round.scanned == scan;
        if round.cut
            || round.scanned < scan
            || limit <= 0
            || bytes <= 0
            || begun.elapsed() > FILLING
        {
            return Ok(Ok(page));
        }
        scan = (scan * 4).min(MOST_SCANNED);
    }
}

/// What one statement gave.
struct Round {
    epoch: i64,
    changes: Vec<Change>,
    position: Position,
    bytes: i64,
    scanned: i64,
    /// Whether something wanted did not fit.
    cut: bool,
}

async fn round(
    conn: &mut PgConnection,
    wanted: &Wanted,
    after: Position,
    scan: i64,
    limit: i64,
    bytes: i64,
) -> Result<Result<Round, Expired>, Fault> {
    let rows = sqlx::query(AssertSqlSafe(wanted.statement.as_str()))
        .bind(after.xid.to_string())
        .bind(after.seq)
        .bind(scan)
        .bind(&wanted.resources)
        .bind(limit)
        .bind(bytes)
        .bind(wanted.epoch)
        .bind(wanted.last_rows)
        .fetch_all(conn)
        .await?;
    let Some(first) = rows.first() else {
        return Err(Fault::Unexpected("the feed's own table is empty".to_owned()));
    };
    if !first.try_get::<bool, _>("place")? {
        return Ok(Err(Expired::Database));
    }
    if first.try_get("expired")? {
        return Ok(Err(Expired::Retention));
    }
    let mut round = Round {
        epoch: first.try_get("epoch")?,
        changes: Vec::with_capacity(rows.len()),
        position: after,
        bytes: 0,
        scanned: 0,
        cut: false,
    };
    for row in &rows {
        let Some(kept) = row.try_get::<Option<bool>, _>("kept")? else {
            break; // Nothing was there.
        };
        if kept {
            round.changes.push(change(row)?);
            round.position = place(row)?;
            round.bytes = row.try_get::<Option<i64>, _>("total")?.unwrap_or_default();
        }
        if row.try_get("last")? {
            let taken: i64 = row.try_get("taken")?;
            round.scanned = row.try_get("n")?;
            round.cut = usize::try_from(taken) != Ok(round.changes.len());
            if !round.cut {
                round.position = place(row)?;
            }
        }
    }
    Ok(Ok(round))
}

fn place(row: &PgRow) -> Result<Position, Fault> {
    Ok(Position { xid: number(row.try_get("xid")?)?, seq: row.try_get("seq")? })
}

fn change(row: &PgRow) -> Result<Change, Fault> {
    Ok(Change {
        resource: row.try_get("resource")?,
        id: row.try_get("id")?,
        version: row.try_get("version")?,
        deleted: row.try_get("gone")?,
        row: row.try_get("doc")?,
        by: row.try_get::<Option<String>, _>("by")?.filter(|by| !by.is_empty()),
        at: row.try_get("at")?,
        origin: row.try_get("origin")?,
    })
}

/// Reads what names and signs this database's cursors.
///
/// # Errors
/// Those of the database.
pub async fn keys(conn: &mut PgConnection) -> sqlx::Result<Keys> {
    // A statement of its own, so that the next one sees a new epoch.
    sqlx::query("SELECT counterfoil.feed_epoch()").execute(&mut *conn).await?;
    let (epoch, secret) =
        sqlx::query_as("SELECT epoch, secret FROM counterfoil.feed").fetch_one(conn).await?;
    Ok(Keys { epoch, secret })
}

/// What the end of the log looks like.
#[derive(Debug)]
pub struct Look {
    /// What names and signs cursors.
    pub keys: Keys,
    /// The newest change that can be read. Not the horizon: numbers of transactions that left nothing
    /// behind may be given out again after a crash, and a cursor beyond them would skip what they write.
    pub newest: Position,
    /// The oldest transaction that is open, and the next that will begin.
    pub horizon: u64,
    /// See `horizon`.
    pub next: u64,
    /// How long the oldest open writing transaction has been open, as far as we may see.
    pub lag_ms: i64,
}

/// Looks at the end of the log. A new epoch is begun where that is due, and seen by the next look.
///
/// # Errors
/// Those of the database.
pub async fn look(conn: &mut PgConnection) -> Result<Look, Fault> {
    let text = format!(
        "SELECT f.epoch, f.secret, n.xid::text AS xid, n.seq, \
         pg_snapshot_xmin(pg_current_snapshot())::text AS horizon, \
         pg_snapshot_xmax(pg_current_snapshot())::text AS next, \
         (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start) * 1000), 0)::int8 \
          FROM pg_stat_activity AS a WHERE a.backend_xid IS NOT NULL) AS lag_ms \
         FROM counterfoil.feed_epoch() AS e(epoch) CROSS JOIN counterfoil.feed AS f \
         LEFT JOIN LATERAL ({NEWEST}) AS n ON true"
    );
    let row = sqlx::query(AssertSqlSafe(text)).fetch_one(conn).await?;
    Ok(Look {
        keys: Keys { epoch: row.try_get("epoch")?, secret: row.try_get("secret")? },
        newest: position(row.try_get("xid")?, row.try_get("seq")?)?,
        horizon: number(row.try_get("horizon")?)?,
        next: number(row.try_get("next")?)?,
        lag_ms: row.try_get("lag_ms")?,
    })
}

/// The newest change that can be read, as SQL.
pub const NEWEST: &str = "SELECT c.xid, c.seq FROM counterfoil.change AS c \
    WHERE c.xid < pg_snapshot_xmin(pg_current_snapshot()) \
    ORDER BY c.xid DESC, c.seq DESC LIMIT 1";

/// A place as the database gives it; the beginning where there is none.
///
/// # Errors
/// Where it is none.
pub fn position(xid: Option<String>, seq: Option<i64>) -> Result<Position, Fault> {
    match (xid, seq) {
        (Some(xid), Some(seq)) => Ok(Position { xid: number(&xid)?, seq }),
        _ => Ok(Position::default()),
    }
}

/// The number of a transaction, as the database gives it.
///
/// # Errors
/// Where it is none.
pub fn number(xid: &str) -> Result<u64, Fault> {
    xid.parse().map_err(|_| Fault::Unexpected("a transaction has no number".to_owned()))
}

/// Gives changes of another cluster, at most so many, a place in this one's order; gives how many it did.
///
/// # Errors
/// Those of the database.
pub async fn settle_foreign(conn: &mut PgConnection, most: i32) -> Result<i32, Fault> {
    let settled = sqlx::query_scalar("SELECT counterfoil.feed_settle($1)");
    Ok(settled.bind(most).fetch_one(conn).await?)
}
