//! Runs several writes inside one transaction: rows locked in a fixed order, then the writes in theirs,
//! those that are alike and follow each other as one statement.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use crate::db::fault::Fault;
use crate::db::transaction;
use crate::error::{Code, Error};
use crate::record::several::order::{self, Record};
use crate::record::several::{Ended, Mode, Place, Seen, undone, version};
use crate::record::statement::Shape;
use crate::record::{Outcome, Write, failure, many, store};

/// How few writes run singly where one of them stopped their statement.
const FEW: usize = 4;

/// Runs writes to their ends. As a whole, constraints that may wait are held against them together.
///
/// # Errors
/// What the database could not do, where that concerns all of them.
pub async fn run(
    conn: &mut PgConnection,
    mode: Mode,
    places: &[Place<'_>],
) -> Result<Vec<Ended>, Fault> {
    if mode != Mode::Whole {
        transaction::mark(conn).await?;
        return Ok(Running::new(conn, mode, places).finish().await?.0);
    }
    transaction::defer(conn).await?;
    let (mut ended, mut settled) = Running::new(conn, mode, places).finish().await?;
    if all_hold(places, &ended) {
        match transaction::check(conn).await {
            Ok(()) => return Ok(ended),
            Err(fault) if fault.is_refusal() => {}
            Err(fault) => return Err(fault),
        }
        // Which of them breaks the rule shows where each is held against it by itself.
        transaction::start_over(conn).await?;
        (ended, settled) = Running::new(conn, mode, places).finish().await?;
    }
    if !all_hold(places, &ended) {
        undone::store::revise(conn, places, &settled, &mut ended).await?;
    }
    Ok(ended)
}

fn all_hold(places: &[Place<'_>], ended: &[Ended]) -> bool {
    places.iter().zip(ended).all(|(place, ended)| holds(place, ended))
}

fn holds(place: &Place<'_>, ended: &Ended) -> bool {
    matches!(ended, Ended::Run(outcome, _) if place.holds(outcome))
}

/// Several writes while they run.
struct Running<'a> {
    conn: &'a mut PgConnection,
    mode: Mode,
    places: &'a [Place<'a>],
    /// Writes that are based on others, as the outcomes of those have it.
    settled: HashMap<usize, Write>,
    ended: Vec<Option<Ended>>,
    /// Writes that are to be tried again after the others, in order, and their records.
    waiting: Vec<usize>,
    held_up: HashSet<Record>,
    /// Whether something was done since the mark.
    moved: bool,
    /// Whether the database could not do one of them for now.
    stopped: bool,
}

impl<'a> Running<'a> {
    fn new(conn: &'a mut PgConnection, mode: Mode, places: &'a [Place<'a>]) -> Self {
        let ended = places
            .iter()
            .map(|place| place.write.as_ref().err().cloned().map(Ended::Failed))
            .collect();
        Self {
            conn,
            mode,
            places,
            settled: HashMap::new(),
            ended,
            waiting: Vec::new(),
            held_up: HashSet::new(),
            moved: false,
            stopped: false,
        }
    }

    /// Runs them to their ends, and gives the writes that are based on others as they ran.
    async fn finish(mut self) -> Result<(Vec<Ended>, HashMap<usize, Write>), Fault> {
        self.lock().await?;
        let open: Vec<_> = (0..self.ended.len()).filter(|&p| self.ended[p].is_none()).collect();
        let mut rest = open.as_slice();
        while let Some((&first, _)) = rest.split_first()
            && !self.stopped
        {
            self.settle(first);
            let writes = rest.iter().map(|&place| at(self.places, &self.settled, place));
            let mut count = 1;
            if let Some((shape, alike)) = order::together(writes) {
                count = alike;
                self.group(&shape, &rest[..count]).await?;
            } else {
                self.single(first).await?;
            }
            rest = &rest[count..];
        }
        self.try_waiting().await?;
        let ended = self.ended.into_iter().map(|ended| ended.unwrap_or(Ended::Left));
        Ok((ended.collect(), self.settled))
    }

    async fn lock(&mut self) -> Result<(), Fault> {
        let writes = self.places.iter().filter_map(|place| place.write.as_deref().ok());
        for lock in order::locks(writes) {
            self.remark().await?;
            match many::store::lock(self.conn, lock.resource, &lock.keys, lock.deletes).await {
                Ok(()) => self.moved = true,
                // What is wrong with a key, or who holds a row, its own write tells.
                Err(fault) if self.is_for_one(&fault) => {
                    transaction::back(self.conn).await?;
                    if self.mode == Mode::InTurn && fault == Fault::LockTimeout {
                        transaction::hurry(self.conn).await?;
                        self.moved = true;
                    }
                }
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

    /// Bases a write on the outcome of the one that it follows. That one is about the same record, so
    /// it has been run, or waits and holds this one up.
    fn settle(&mut self, place: usize) {
        let Place { write: Ok(write), based_on: Some(base), .. } = &self.places[place] else {
            return;
        };
        let base = (at(self.places, &self.settled, *base), &self.ended[*base]);
        if let (Some(followed), Some(Ended::Run(outcome, seen))) = base
            && let Some(version) = version(followed, outcome)
        {
            let mut write = write.clone().into_owned();
            write.follow(version, seen.clone());
            self.settled.insert(place, write);
        } else {
            self.settled.remove(&place);
        }
    }

    /// Runs writes of one shape as one statement; in ever smaller parts where one of them is not as the
    /// others.
    async fn group(&mut self, shape: &Shape, places: &[usize]) -> Result<(), Fault> {
        let mut parts = vec![places];
        while let Some(part) = parts.pop() {
            let free = part.iter().all(|&place| !self.is_held_up(place));
            if part.len() <= 1 || !free {
                for &place in part {
                    self.single(place).await?;
                }
                continue;
            }
            if self.stopped {
                return Ok(());
            }
            self.remark().await?;
            let writes: Vec<_> =
                part.iter().filter_map(|&place| at(self.places, &self.settled, place)).collect();
            match many::store::write(self.conn, shape, &writes).await {
                Ok(outcomes) => {
                    self.moved = true;
                    self.take(shape, part, outcomes).await?;
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

    /// Takes the outcomes of a group, and has those that missed explained.
    async fn take(
        &mut self,
        shape: &Shape,
        places: &[usize],
        outcomes: Vec<Option<Outcome>>,
    ) -> Result<(), Fault> {
        let mut missed = Vec::new();
        for (&place, outcome) in places.iter().zip(outcomes) {
            match outcome {
                Some(outcome) => self.ended[place] = Some(Ended::Run(outcome, None)),
                None => missed.push(place),
            }
        }
        if missed.len() > 1 {
            self.explain(shape, &missed).await?;
        }
        for place in missed {
            if self.ended[place].is_none() {
                self.single(place).await?;
            }
        }
        Ok(())
    }

    /// Explains misses of one shape by one statement, where it can; the rest run by themselves.
    async fn explain(&mut self, shape: &Shape, places: &[usize]) -> Result<(), Fault> {
        self.remark().await?;
        let writes: Vec<_> =
            places.iter().filter_map(|&place| at(self.places, &self.settled, place)).collect();
        match many::store::explain(self.conn, shape, &writes).await {
            Ok(outcomes) => {
                for ((&place, write), outcome) in places.iter().zip(writes).zip(outcomes) {
                    self.ended[place] = outcome.map(|outcome| {
                        let seen = Seen::of(write, &outcome);
                        Ended::Run(outcome, seen)
                    });
                }
                Ok(())
            }
            Err(fault) if fault == Fault::Retry || fault.breaks_connection() => Err(fault),
            Err(_) => transaction::back(self.conn).await,
        }
    }

    /// Runs a write by itself. Where another record has its unique value, that one may yet be given up:
    /// it is tried again after the others, and so are later writes to the same record.
    async fn single(&mut self, place: usize) -> Result<(), Fault> {
        if self.stopped {
            return Ok(());
        }
        if self.is_held_up(place) {
            self.waiting.push(place);
            return Ok(());
        }
        self.attempt(place).await?;
        if matches!(&self.ended[place], Some(Ended::Run(Outcome::Refused(error), _)) if error.code() == Code::AlreadyExists)
        {
            self.waiting.push(place);
            self.held_up.extend(self.record(place));
        }
        Ok(())
    }

    async fn attempt(&mut self, place: usize) -> Result<(), Fault> {
        self.settle(place);
        let Some(write) = at(self.places, &self.settled, place) else {
            self.ended[place] = Some(Ended::Blocked);
            return Ok(());
        };
        if std::mem::take(&mut self.moved) {
            transaction::remark(self.conn).await?;
        }
        let ended = match store::write(self.conn, write).await {
            Ok(outcome) => {
                self.moved |= version(write, &outcome).is_some();
                let seen = Seen::of(write, &outcome);
                if matches!(&outcome, Outcome::Refused(error) if passes(error)) {
                    self.stop(place, &Fault::Overloaded)?;
                }
                Ended::Run(outcome, seen)
            }
            Err(fault) if self.is_for_one(&fault) => {
                transaction::back(self.conn).await?;
                let error = failure::failure(&fault);
                if passes(&error) {
                    self.stop(place, &fault)?;
                }
                Ended::Failed(error)
            }
            Err(fault) => return Err(fault),
        };
        self.ended[place] = Some(ended);
        Ok(())
    }

    /// Leaves alone what comes after a write that the database could not do for now, also what was refused
    /// already. Where some of it holds already, nothing may.
    fn stop(&mut self, place: usize, fault: &Fault) -> Result<(), Fault> {
        if self.mode != Mode::InTurn {
            return Ok(());
        }
        let mut later = self.places.iter().zip(&self.ended).skip(place + 1);
        if later.any(|(place, ended)| ended.as_ref().is_some_and(|ended| holds(place, ended))) {
            return Err(fault.clone());
        }
        for ended in self.ended.iter_mut().skip(place + 1) {
            *ended = None;
        }
        self.waiting.retain(|&waiting| waiting < place);
        self.stopped = true;
        Ok(())
    }

    async fn try_waiting(&mut self) -> Result<(), Fault> {
        let stopped = std::mem::take(&mut self.stopped);
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
            if self.ended[place].is_none() {
                self.attempt(place).await?;
            }
        }
        self.stopped = stopped;
        Ok(())
    }

    fn record(&self, place: usize) -> Option<Record> {
        self.places[place].write.as_deref().ok().and_then(order::record)
    }

    fn is_held_up(&self, place: usize) -> bool {
        !self.held_up.is_empty()
            && self.record(place).is_some_and(|record| self.held_up.contains(&record))
    }

    /// Whether a fault is one write's alone, and the others may go on.
    fn is_for_one(&self, fault: &Fault) -> bool {
        match fault {
            Fault::Retry | Fault::Overloaded => false,
            Fault::LockTimeout | Fault::StatementTimeout | Fault::StorageFull => {
                self.mode != Mode::Whole
            }
            fault => !fault.breaks_connection(),
        }
    }
}

/// The write at a place, where it is known what it is based on.
fn at<'w>(
    places: &'w [Place<'_>],
    settled: &'w HashMap<usize, Write>,
    place: usize,
) -> Option<&'w Write> {
    match &places[place] {
        Place { based_on: Some(_), .. } => settled.get(&place),
        Place { write, .. } => write.as_deref().ok(),
    }
}

/// Whether an error is none of the request's, and the same write may hold another time.
fn passes(error: &Error) -> bool {
    error.status() >= 500
}
