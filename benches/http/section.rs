//! The figures of one kind, as the report shows them: rates, latencies, processor time.

use std::fmt;

use crate::figure::{Figure, Rounds};
use crate::load::Sample;
use crate::number::{Cell, median, thousands};
use crate::pgbench::Rate;
use crate::table::Table;

const PER_SECOND: &str = "\
Requests per second (where there are several rounds: ± half their range). The last column is how many times
a second the disk could sync one block, tried before each round: where it varies, so do the figures of few
clients that write, and a ratio between them says little.
";

/// All tables of the figures.
pub(crate) struct Section<'a>(pub(crate) &'a [Figure]);

impl fmt::Display for Section<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{PER_SECOND}\n{}", rates(self.0))?;
        writeln!(f, "Latency in ms: p50 / p99 / max.\n\n{}", latencies(self.0))?;
        writeln!(f, "Processor time per request in µs: generator / server / PostgreSQL.\n")?;
        write!(f, "{}", processor(self.0))
    }
}

/// What the rows of all tables begin with.
fn named(figure: &Figure) -> Vec<String> {
    let title = figure.workload.title();
    let title = if figure.history { format!("{title}, history") } else { title.to_owned() };
    vec![title, figure.clients.to_string()]
}

fn rates(figures: &[Figure]) -> Table {
    let mut table = Table::new(&[
        "workload",
        "clients",
        "Counterfoil",
        "bare",
        "pgbench",
        "ratio to bare",
        "ratio to pgbench",
        "disk syncs",
    ]);
    for figure in figures {
        let subject = Cell::of(&figure.subject, |sample| sample.rate, 0);
        let bare = Cell::of(&figure.bare, |sample| sample.rate, 0);
        let pgbench = Cell::of(&figure.pgbench, |rate| rate.per_second, 0);
        let ratios = [subject.ratio(&bare), subject.ratio(&pgbench)];
        let mut row = named(figure);
        row.extend([subject.text, bare.text, pgbench.text]);
        row.extend(ratios);
        row.push(range(&figure.syncs));
        table.push(row);
    }
    table
}

fn latencies(figures: &[Figure]) -> Table {
    let mut table =
        Table::new(&["workload", "clients", "Counterfoil", "bare", "pgbench (average)"]);
    for figure in figures {
        let mut row = named(figure);
        row.push(three(&figure.subject, [|s| s.p50, |s| s.p99, |s| s.max], 2));
        row.push(three(&figure.bare, [|s| s.p50, |s| s.p99, |s| s.max], 2));
        row.push(one(&figure.pgbench, |rate| rate.average_ms, 2));
        table.push(row);
    }
    table
}

fn processor(figures: &[Figure]) -> Table {
    let mut table = Table::new(&["workload", "clients", "Counterfoil", "bare", "pgbench"]);
    let parts: [fn(&Sample) -> f64; 3] =
        [|s| s.cpu.generator, |s| s.cpu.server, |s| s.cpu.postgres];
    for figure in figures {
        let mut row = named(figure);
        row.push(three(&figure.subject, parts, 0));
        row.push(three(&figure.bare, parts, 0));
        row.push(one(&figure.pgbench, |rate| rate.postgres_us, 0));
        table.push(row);
    }
    table
}

fn range(values: &[f64]) -> String {
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    low.zip(high).map_or_else(String::new, |(low, high)| {
        format!("{} to {}", thousands(low), thousands(high))
    })
}

fn one(rounds: &Rounds<Rate>, of: fn(&Rate) -> f64, digits: usize) -> String {
    median(rounds, of).map_or_else(str::to_owned, |value| format!("{value:.digits$}"))
}

fn three(rounds: &Rounds<Sample>, of: [fn(&Sample) -> f64; 3], digits: usize) -> String {
    let parts = of.map(|part| median(rounds, part));
    match parts {
        [Ok(a), Ok(b), Ok(c)] => format!("{a:.digits$} / {b:.digits$} / {c:.digits$}"),
        [Err(word), ..] | [_, Err(word), _] | [.., Err(word)] => word.to_owned(),
    }
}
