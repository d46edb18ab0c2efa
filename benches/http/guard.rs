//! What the guard trigger costs a writer that never heard of Counterfoil, and one that raises the version
//! as Counterfoil does: the same UPDATE on an adopted table and on a twin without triggers, in turns.

use std::time::Instant;

use crate::Fallible;
use crate::data::{Data, LOADED, memo};
use crate::figure::{Rounds, keep};
use crate::options::Options;
use crate::pgbench::{self, Rate};
use crate::postgres::Postgres;
use crate::subject;

/// The guarded table, and its twin.
const TABLES: [&str; 2] = ["doc", "doc_twin"];
const ROWS: u32 = 10_000;
const CLIENTS: usize = 8;
const ROUNDS: usize = 5;
/// A statement over all rows takes little time, so it may be tried more often.
const WHOLE_ROUNDS: usize = 21;

/// Who writes, and what it sets.
const WRITERS: [(&str, &str); 2] =
    [("raises it", "version = version + 1, "), ("leaves it to the guard", "")];

/// What one writer reached on the guarded table and on the twin.
pub(crate) struct Line {
    pub(crate) writer: &'static str,
    /// One row per statement.
    pub(crate) single: [Rounds<Rate>; 2],
    /// One statement over all rows.
    pub(crate) whole: [Rounds<Whole>; 2],
}

/// What a statement over all rows took for each of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole {
    pub(crate) micros: f64,
    /// Bytes written to PostgreSQL's log.
    pub(crate) log: f64,
}

pub(crate) fn measure(options: &Options, postgres: &Postgres) -> Fallible<Vec<Line>> {
    let url = &postgres.way(false).url;
    let mut data = Data::connect(url)?;
    data.clear(&TABLES)?;
    let text = memo(200);
    for table in TABLES {
        data.create(table, ROWS, &text, LOADED)?;
    }
    subject::migrate(&options.program, url)?;
    subject::adopt(&options.program, url, TABLES[0], false)?;
    for table in TABLES {
        data.settle(table)?;
    }
    let lines: Vec<_> = WRITERS
        .iter()
        .map(|(writer, sets)| {
            eprintln!("guard: a writer that {writer}");
            let single = single(options, postgres, &text, &mut data, sets);
            Line { writer, single, whole: whole(&mut data, sets) }
        })
        .collect();
    for Line { single, whole, .. } in &lines {
        let failures = single.iter().filter_map(|rounds| rounds.as_ref().err());
        let failures = failures.chain(whole.iter().filter_map(|rounds| rounds.as_ref().err()));
        failures.for_each(|failure| eprintln!("FAILED: {failure}"));
    }
    data.clear(&TABLES)?;
    Ok(lines)
}

/// Without waiting for the disk, whose moods are larger than what is looked for.
fn single(
    options: &Options,
    postgres: &Postgres,
    memo: &str,
    data: &mut Data,
    sets: &str,
) -> [Rounds<Rate>; 2] {
    let way = postgres.way(false);
    let run = pgbench::Run { postgres, way, memo, clients: CLIENTS, seconds: options.seconds };
    let choose = pgbench::choose(&format!("random(1, {ROWS})"));
    let mut taken = [Ok(Vec::new()), Ok(Vec::new())];
    in_turns(options.rounds.unwrap_or(ROUNDS), |party| {
        let (table, id) = (TABLES[party], pgbench::ID);
        let script =
            format!("{choose}update {table} set {sets}amount = amount + 1 where id = {id};\n");
        let rate =
            data.tidy(table).and_then(|()| run.script(&script, &[("synchronous_commit", "off")]));
        keep(&mut taken[party], rate);
    });
    taken
}

/// Without checkpoints between, after which whole pages go to the log.
fn whole(data: &mut Data, sets: &str) -> [Rounds<Whole>; 2] {
    let mut taken = [Ok(Vec::new()), Ok(Vec::new())];
    in_turns(WHOLE_ROUNDS, |party| {
        let (table, rows) = (TABLES[party], f64::from(ROWS));
        let mut statement = || {
            data.run(format!("vacuum {table}"))?;
            let (begin, before) = (Instant::now(), data.logged()?);
            data.run(format!("update {table} set {sets}amount = amount + 1"))?;
            let micros = begin.elapsed().as_secs_f64() * 1e6 / rows;
            Ok(Whole { micros, log: (data.logged()? - before) / rows })
        };
        keep(&mut taken[party], statement());
    });
    taken
}

/// The guarded table first in one round, the twin first in the next.
fn in_turns(rounds: usize, mut take: impl FnMut(usize)) {
    for round in 0..rounds {
        take(round % 2);
        take(1 - round % 2);
    }
}
