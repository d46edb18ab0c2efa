//! Runs requests alone or together, as their lane has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use crate::db::Db;
use crate::db::connect;
use crate::db::fault::Fault;
use crate::db::lane::{self, Left, Mark, Request};
use crate::record::lane::{Read, Shared, Witness};
use crate::record::statement::Shape;
use crate::record::store::{self, Found};
use crate::record::{Outcome, Write, many};

impl Request for Read {
    /// What was found of each record. Of several, one that is not there is merely missing.
    type Answer = Vec<Found>;

    const LOST: Fault = Fault::Unavailable;

    fn party(&self) -> Mark {
        self.party
    }

    fn goes_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.resource, &other.resource) && self.select == other.select
    }

    fn row(&self) -> Option<Mark> {
        None
    }

    async fn run(&self, conn: &mut PgConnection) -> Result<Vec<Found>, Fault> {
        if let [key] = self.keys.as_slice() {
            return Ok(vec![store::read(conn, &self.resource, key, self.select.clone()).await?]);
        }
        let keys: Vec<_> = self.keys.iter().collect();
        let rows = many::store::read(conn, &self.resource, self.select.clone(), &keys).await?;
        Ok(rows.into_iter().map(|row| row.map_or(Found::Missing, Found::Row)).collect())
    }

    async fn run_outside(self: Arc<Self>, db: Db, _: Left) -> Result<Vec<Found>, Fault> {
        db.read(move |conn| async move { self.run(conn).await }.boxed()).await
    }

    async fn run_together(
        conn: &mut PgConnection,
        group: &[&Self],
    ) -> Result<Vec<Option<Vec<Found>>>, Fault> {
        let Some(first) = group.first() else { return Ok(Vec::new()) };
        let keys: Vec<_> = group.iter().flat_map(|read| &read.keys).collect();
        let rows = many::store::read(conn, &first.resource, first.select.clone(), &keys).await?;
        let mut rows = rows.into_iter();
        let found = |read: &&Self| {
            let own = rows.by_ref().take(read.keys.len());
            match read.keys.len() {
                1 => own.map(|row| row.map(Found::Row)).collect(),
                _ => Some(own.map(|row| row.map_or(Found::Missing, Found::Row)).collect()),
            }
        };
        Ok(group.iter().map(found).collect())
    }

    /// Rows that are not there are told by their own reads.
    async fn explain_together(
        _: &mut PgConnection,
        _: &[&Self],
    ) -> Result<Vec<Result<Vec<Found>, Left>>, Fault> {
        Ok(Vec::new())
    }
}

impl Request for Shared {
    type Answer = Outcome;

    const LOST: Fault = Fault::OutcomeUnknown;

    fn party(&self) -> Mark {
        Mark::of(&self.write.actor)
    }

    fn goes_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.write.resource, &other.write.resource)
            && (self.shape == other.shape || self.mixes && other.mixes)
    }

    fn row(&self) -> Option<Mark> {
        self.row
    }

    async fn run(&self, conn: &mut PgConnection) -> Result<Outcome, Fault> {
        let outcome = store::write(conn, &self.write).await?;
        self.witness.tell(&self.write, &outcome);
        Ok(outcome)
    }

    async fn run_outside(self: Arc<Self>, db: Db, left: Left) -> Result<Outcome, Fault> {
        match left {
            Left::Waits => db.wait(move |conn| async move { self.run(conn).await }.boxed()).await,
            Left::Apart => db.run(move |conn| async move { self.run(conn).await }.boxed()).await,
            Left::Missed => {
                let explained = db.run(move |conn| {
                    async move {
                        let outcome = store::write_after_miss(conn, &self.write).await?;
                        self.witness.tell(&self.write, &outcome);
                        Ok(outcome)
                    }
                    .boxed()
                });
                explained.await
            }
        }
    }

    async fn run_together(
        conn: &mut PgConnection,
        group: &[&Self],
    ) -> Result<Vec<Option<Outcome>>, Fault> {
        let Some(first) = group.first() else { return Ok(Vec::new()) };
        let writes: Vec<_> = group.iter().map(|shared| &*shared.write).collect();
        let alike = group.iter().all(|shared| shared.shape == first.shape);
        let shape = if alike { &first.shape } else { &Shape::Mixed };
        let outcomes = many::store::write_each(conn, shape, &writes).await?;
        for (shared, outcome) in group.iter().zip(&outcomes) {
            if let Some(outcome) = outcome {
                shared.witness.tell(&shared.write, outcome);
            }
        }
        Ok(outcomes)
    }

    async fn explain_together(
        conn: &mut PgConnection,
        group: &[&Self],
    ) -> Result<Vec<Result<Outcome, Left>>, Fault> {
        let mut outcomes: Vec<_> = group.iter().map(|shared| Err(shared.unexplained())).collect();
        let mut left: Vec<usize> = (0..group.len()).collect();
        // One statement compares with one set of columns.
        while let Some(&first) = left.first() {
            let shape = &group[first].shape;
            let alike: Vec<_> =
                left.extract_if(.., |place| group[*place].shape == *shape).collect();
            let writes: Vec<_> = alike.iter().map(|&place| &*group[place].write).collect();
            let explained = many::store::explain(conn, shape, &writes).await?;
            for (place, outcome) in alike.into_iter().zip(explained) {
                if let Some(outcome) = outcome {
                    outcomes[place] = Ok(outcome);
                }
            }
        }
        // Not before all are explained: where one cannot be, all are run again.
        for (shared, outcome) in group.iter().zip(&outcomes) {
            if let Ok(outcome) = outcome {
                shared.witness.tell(&shared.write, outcome);
            }
        }
        Ok(outcomes)
    }
}

/// The lanes of records, and the connections for what does not take one.
#[derive(Debug)]
pub struct Lanes {
    db: Db,
    reads: lane::Lanes<Read>,
    writes: lane::Lanes<Shared>,
    /// Where the next new record goes: it is nobody's yet.
    next: AtomicUsize,
    witness: Witness,
}

impl Lanes {
    /// Starts lanes on a database, so many for reads and so many for writes, with the size of their
    /// groups where it is not for them to find.
    pub fn start(
        options: &PgConnectOptions,
        size: (usize, Option<usize>),
        db: Db,
        witness: Witness,
    ) -> Self {
        let options = connect::of_a_lane(options);
        Self {
            reads: lane::Lanes::shared(&options, size, &db),
            writes: lane::Lanes::apart(&options, size, &db),
            next: AtomicUsize::default(),
            witness,
            db,
        }
    }

    /// Reads records, together with others that are read just now.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn read(&self, read: Read) -> Result<Vec<Found>, Fault> {
        self.reads.send(0, read).await
    }

    /// Runs one write to its outcome, together with others that are like it where it may.
    ///
    /// # Errors
    /// As [`store::write`].
    pub async fn write(&self, write: &Arc<Write>) -> Result<Outcome, Fault> {
        if let Some(shared) = Shared::of(write, &self.witness) {
            let lane = shared.lane().unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
            let result = self.writes.send(lane, shared).await;
            self.db.wrote();
            return result;
        }
        let (write, witness) = (write.clone(), self.witness.clone());
        let alone = self.db.run(move |conn| {
            async move {
                let outcome = store::write(conn, &write).await?;
                witness.tell(&write, &outcome);
                Ok(outcome)
            }
            .boxed()
        });
        alone.await
    }

    /// Tells of a write whose outcome was found out otherwise.
    pub fn witness(&self, write: &Write, outcome: &Outcome) {
        self.witness.tell(write, outcome);
    }

    /// What the lanes are at: those of reads, those of writes.
    pub fn loads(&self) -> [(&'static str, lane::Load); 2] {
        [("reads", self.reads.load()), ("writes", self.writes.load())]
    }
}
