//! Runs a batch inside one transaction: rows locked in a fixed order, then the operations in theirs,
//! those that are alike and follow each other as one statement.

use std::collections::HashSet;

use sqlx::PgConnection;

use crate::batch::Batch;
use crate::batch::answer::Results;
use crate::batch::order::{self, Record};
use crate::db::fault::Fault;
use crate::db::transaction::{self, End, Work};
use crate::error::{Code, Error};
use crate::record::answer::{Answer, Context};
use crate::record::statement::Shape;
use crate::record::{Outcome, Write, failure, many, store};

/// How few operations run singly where one of them stopped their statement.
const FEW: usize = 4;

impl Work for Batch {
    type Output = Result<Answer, Error>;

    async fn run(&self, conn: &mut PgConnection) -> Result<End<Self::Output>, Fault> {
        if !self.atomic {
            transaction::mark(conn).await?;
            return Ok(self.answer(&Running::new(self, conn).finish().await?));
        }
        transaction::defer(conn).await?;
        let results = Running::new(self, conn).finish().await?;
        if results.iter().any(Result::is_err) {
            return Ok(self.answer(&results));
        }
        match transaction::check(conn).await {
            Ok(()) => Ok(self.answer(&results)),
            Err(fault) if fault.is_refusal() => {
                // Which of them breaks the rule shows where each is held against it by itself.
                transaction::start_over(conn).await?;
                Ok(self.answer(&Running::new(self, conn).finish().await?))
            }
            Err(fault) => Err(fault),
        }
    }
}

/// A batch while it runs.
struct Running<'a> {
    batch: &'a Batch,
    conn: &'a mut PgConnection,
    results: Vec<Option<Result<Answer, Error>>>,
    /// Operations that are to be tried again after the others, in order, and their records.
    waiting: Vec<usize>,
    held_up: HashSet<Record>,
    /// Whether something was done since the mark.
    moved: bool,
}

impl<'a> Running<'a> {
    fn new(batch: &'a Batch, conn: &'a mut PgConnection) -> Self {
        let results = batch.operations.iter().map(|o| o.as_ref().err().cloned().map(Err)).collect();
        let (waiting, held_up) = (Vec::new(), HashSet::new());
        Self { batch, conn, results, waiting, held_up, moved: false }
    }

    async fn finish(mut self) -> Result<Results, Fault> {
        self.lock().await?;
        let places: Vec<_> =
            (0..self.results.len()).filter(|&p| self.results[p].is_none()).collect();
        let mut rest = places.as_slice();
        while let Some((&first, _)) = rest.split_first() {
            let mut count = 1;
            if let Some((shape, alike)) = order::together(&self.batch.operations, rest) {
                count = alike;
                self.group(&shape, &rest[..count]).await?;
            } else {
                self.single(first).await?;
            }
            rest = &rest[count..];
        }
        self.try_waiting().await?;
        let unanswered = || Err(Error::new(Code::Internal, "The operation was not run"));
        Ok(self.results.into_iter().map(|result| result.unwrap_or_else(unanswered)).collect())
    }

    async fn lock(&mut self) -> Result<(), Fault> {
        let batch = self.batch;
        for lock in order::locks(&batch.operations) {
            self.remark().await?;
            match many::store::lock(self.conn, lock.resource, &lock.keys, lock.deletes).await {
                Ok(()) => self.moved = true,
                // What is wrong with a key, or who holds a row, its own operation tells.
                Err(fault) if self.is_for_one(&fault) => transaction::back(self.conn).await?,
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Moves the mark behind what was done, ahead of the next statement.
    async fn remark(&mut self) -> Result<(), Fault> {
        if std::mem::take(&mut self.moved) {
            transaction::remark(self.conn).await?;
        }
        Ok(())
    }

    /// Runs operations of one shape as one statement; in ever smaller parts where one of them is not
    /// as the others.
    async fn group(&mut self, shape: &Shape, places: &[usize]) -> Result<(), Fault> {
        let batch = self.batch;
        let mut parts = vec![places];
        while let Some(part) = parts.pop() {
            let free = part.iter().all(|&place| !self.is_held_up(place));
            if part.len() <= 1 || !free {
                for &place in part {
                    self.single(place).await?;
                }
                continue;
            }
            self.remark().await?;
            let writes: Vec<_> =
                part.iter().filter_map(|&place| batch.operations[place].as_ref().ok()).collect();
            match many::store::write(self.conn, shape, &writes).await {
                Ok(outcomes) => {
                    self.moved = true;
                    self.take(part, outcomes).await?;
                }
                Err(fault) if fault == Fault::Retry || fault.breaks_connection() => {
                    return Err(fault);
                }
                Err(_) => {
                    transaction::back(self.conn).await?;
                    if part.len() <= FEW {
                        parts.extend(part.chunks(1).rev());
                    } else {
                        parts.extend(part.chunks(part.len().div_ceil(2)).rev());
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the outcomes of a group; those that missed are run by themselves, which explains them.
    async fn take(
        &mut self,
        places: &[usize],
        outcomes: Vec<Option<Outcome>>,
    ) -> Result<(), Fault> {
        for (&place, outcome) in places.iter().zip(outcomes) {
            match (outcome, &self.batch.operations[place]) {
                (Some(outcome), Ok(write)) => {
                    self.results[place] = Some(self.word(write, outcome));
                }
                _ => self.single(place).await?,
            }
        }
        Ok(())
    }

    fn word(&self, write: &Write, outcome: Outcome) -> Result<Answer, Error> {
        Context::of(write, self.batch.minimal).answer(outcome)
    }

    /// Runs an operation by itself. Where another record has its unique value, that one may yet be
    /// given up: it is tried again after the others, and so are later writes to the same record.
    async fn single(&mut self, place: usize) -> Result<(), Fault> {
        if self.is_held_up(place) {
            self.waiting.push(place);
            return Ok(());
        }
        self.attempt(place).await?;
        if matches!(&self.results[place], Some(Err(error)) if error.code() == Code::AlreadyExists) {
            self.waiting.push(place);
            self.held_up.extend(self.record(place));
        }
        Ok(())
    }

    async fn attempt(&mut self, place: usize) -> Result<(), Fault> {
        let Ok(write) = &self.batch.operations[place] else { return Ok(()) };
        self.remark().await?;
        let result = match store::write(self.conn, write).await {
            Ok(outcome) => self.word(write, outcome),
            Err(fault) if self.is_for_one(&fault) => {
                transaction::back(self.conn).await?;
                Err(failure::failure(&fault))
            }
            Err(fault) => return Err(fault),
        };
        self.moved |= result.is_ok();
        self.results[place] = Some(result);
        Ok(())
    }

    async fn try_waiting(&mut self) -> Result<(), Fault> {
        loop {
            let round = std::mem::take(&mut self.waiting);
            self.held_up.clear();
            for &place in &round {
                self.single(place).await?;
            }
            if self.waiting.len() == round.len() {
                break; // What stands against them will not go away.
            }
        }
        // They are refused as they were; those behind them have their say all the same.
        for place in std::mem::take(&mut self.waiting) {
            if self.results[place].is_none() {
                self.attempt(place).await?;
            }
        }
        Ok(())
    }

    fn record(&self, place: usize) -> Option<Record> {
        self.batch.operations[place].as_ref().ok().and_then(order::record)
    }

    fn is_held_up(&self, place: usize) -> bool {
        !self.held_up.is_empty()
            && self.record(place).is_some_and(|record| self.held_up.contains(&record))
    }

    /// Whether a fault is one operation's alone, and the others may go on.
    fn is_for_one(&self, fault: &Fault) -> bool {
        match fault {
            Fault::Retry | Fault::Overloaded => false,
            Fault::LockTimeout | Fault::StatementTimeout | Fault::StorageFull => !self.batch.atomic,
            fault => !fault.breaks_connection(),
        }
    }
}
