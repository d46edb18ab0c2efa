//! Runs requests alone or together, as their lane has them.

use std::sync::Arc;

use futures_util::FutureExt as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use crate::db::fault::Fault;
use crate::db::lane::{Request, Ride};
use crate::db::{self, Db};
use crate::record::lane::Read;
use crate::record::many;
use crate::record::store::{self, Found};

impl Request for Read {
    type Answer = Found;
    type Row = ();

    fn goes_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.resource, &other.resource) && self.select == other.select
    }

    fn row(&self) -> Option<()> {
        None
    }

    async fn run(&self, conn: &mut PgConnection) -> Result<Option<Found>, Fault> {
        store::read(conn, &self.resource, &self.key, self.select.clone()).await.map(Some)
    }

    async fn run_together(
        conn: &mut PgConnection,
        group: &[&Self],
    ) -> Result<Vec<Option<Found>>, Fault> {
        let Some(first) = group.first() else { return Ok(Vec::new()) };
        let keys: Vec<_> = group.iter().map(|read| &read.key).collect();
        let rows = many::store::read(conn, &first.resource, first.select.clone(), &keys).await?;
        Ok(rows.into_iter().map(|row| row.map(Found::Row)).collect())
    }
}

/// The lanes of records, and the connections for what runs by itself.
#[derive(Clone, Debug)]
pub struct Lanes {
    db: Db,
    reads: db::lane::Lanes<Read>,
}

impl Lanes {
    /// Starts lanes on a database.
    pub fn start(options: &PgConnectOptions, lanes: usize, db: Db) -> Self {
        Self { db, reads: db::lane::Lanes::shared(options, lanes) }
    }

    /// Reads one record, together with others that are read just now.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn read(&self, read: Read) -> Result<Found, Fault> {
        let read = match self.reads.send(0, read).await {
            Ride::Done(_, result) => return result,
            Ride::Lost(fault) => return Err(fault),
            Ride::Alone(read) => read,
        };
        let alone = self.db.read(move |conn| {
            async move { store::read(conn, &read.resource, &read.key, read.select).await }.boxed()
        });
        alone.await
    }
}
