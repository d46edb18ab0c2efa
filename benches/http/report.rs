//! The report, in markdown.

use std::fmt;
use std::fs;

use crate::Fallible;
use crate::data::ROWS;
use crate::figure::{Figure, Rounds};
use crate::load::Sample;
use crate::pgbench::Rate;
use crate::reach;
use crate::stage::Stage;
use crate::table::Table;

/// Stands where a figure should be.
pub(crate) const FAILED: &str = "FAILED";
/// Stands where nothing was measured.
const NONE: &str = "–";

pub(crate) struct Report {
    pub(crate) facts: Facts,
    pub(crate) plain: Vec<Figure>,
    pub(crate) logged: Vec<Figure>,
}

/// What a reader must know besides the figures.
pub(crate) struct Facts {
    date: String,
    machine: String,
    postgres: String,
    load: String,
    method: String,
    subject: Option<String>,
    ceiling: String,
}

impl Facts {
    pub(crate) fn collect(stage: &mut Stage<'_>, ceiling: Sample) -> Fallible<Self> {
        let options = stage.options;
        let subject = match &stage.subject {
            Some(subject) => Some(format!(
                "Counterfoil was ready {:.0} ms after it was started (PostgreSQL was up). It held \
                 {:.1} MiB at rest and {:.1} MiB at the most, all figures below included.",
                subject.start_up.as_secs_f64() * 1000.0,
                subject.at_rest_mib,
                subject.peak_mib()?,
            )),
            None => None,
        };
        Ok(Self {
            load: format!("Load average before: {:.1}", stage.load_before),
            date: options.date(),
            machine: machine()?,
            postgres: stage.data.server_version()?,
            method: format!(
                "{ROWS} rows in the table, bodies of about {} bytes. Each figure is the median of \
                 {} round(s) of {} s; the parties took turns, every other round in reverse order. \
                 The bare handler has {} connections.",
                options.body, options.rounds, options.seconds, options.bare_pool,
            ),
            subject,
            ceiling: format!(
                "Generator alone, against a handler that answers \"ok\", {} clients: {} requests/s, \
                 p99 {:.1} ms, {:.1} µs of its own processor time per request.",
                options.clients.iter().max().unwrap_or(&1),
                thousands(ceiling.rate),
                ceiling.p99,
                ceiling.cpu.generator,
            ),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { date, machine, postgres, load, method, subject, ceiling } = &self.facts;
        writeln!(f, "# Benchmarks\n")?;
        writeln!(f, "Written by `cargo bench --bench http`; do not edit.\n")?;
        writeln!(f, "- Date: {date}\n- Machine: {machine}")?;
        writeln!(f, "- PostgreSQL {postgres}, durable commits, over its Unix socket")?;
        writeln!(f, "- Load generator, server and PostgreSQL share the machine. {load}")?;
        writeln!(f, "- {method}")?;
        writeln!(f, "- {ceiling}")?;
        if let Some(subject) = subject {
            writeln!(f, "- {subject}")?;
        }
        writeln!(f, "\n## What was aimed at\n\n{AIMS}")?;
        write!(f, "{}", reach::table(&self.plain, &self.logged))?;
        section(f, "Without history", &self.plain)?;
        if !self.logged.is_empty() {
            section(f, "With history", &self.logged)?;
        }
        writeln!(f, "\n## What is compared\n\n{COMPARED}\n## To repeat it\n\n{REPEAT}")
    }
}

const AIMS: &str = "\
Ratios of figures of this run, and whether they reach what the design asks for. `pgbench` is the same
statement without HTTP, one per request.
";

const PER_SECOND: &str = "\
Requests per second (± half the range of the rounds). The last column is how many times a second the
disk could sync one block, tried before each round: where it varies, so do the figures of few clients
that write, and a ratio between them says little.
";

const COMPARED: &str = "\
- **Counterfoil**: `counterfoil serve`, release build, over HTTP.
- **bare**: axum and a sqlx pool, one handler per route, one obvious statement per request (the 409
  reads the row with a second one), over HTTP, from the same generator.
- **pgbench**: the same statements as prepared ones, without HTTP. One client waits for each answer,
  so this is what one statement per request can reach. Its latency is an average.
- All work on the same table, with the triggers that adoption put there.
- An answer with another status, another row or a version that does not follow fails its figure.
";

const REPEAT: &str = "\
```sh
cargo bench --bench http                       # everything; writes this file
cargo bench --bench http -- --only put,get --clients 1,32 --seconds 1
cargo bench --bench http -- --skip-subject     # the references alone
cargo bench --bench http -- --help
```

It starts its own PostgreSQL (found through `PG_BIN_DIR`, `/usr/lib/postgresql`, `pg_config`) in the
temporary directory, and removes it.";

fn section(f: &mut fmt::Formatter<'_>, title: &str, figures: &[Figure]) -> fmt::Result {
    writeln!(f, "\n## {title}\n\n{PER_SECOND}")?;
    write!(f, "{}", rates(figures))?;
    writeln!(f, "\nLatency in ms: p50 / p99 / max.\n")?;
    write!(f, "{}", latencies(figures))?;
    writeln!(f, "\nProcessor time per request in µs: generator / server / PostgreSQL.\n")?;
    write!(f, "{}", processor(figures))
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
        let subject = rate(&figure.subject, |sample| sample.rate);
        let bare = rate(&figure.bare, |sample| sample.rate);
        let pgbench = rate(&figure.pgbench, |sample| sample.per_second);
        table.push(vec![
            figure.workload.title().to_owned(),
            figure.clients.to_string(),
            subject.text.clone(),
            bare.text.clone(),
            pgbench.text.clone(),
            subject.ratio(&bare),
            subject.ratio(&pgbench),
            range(&figure.syncs),
        ]);
    }
    table
}

fn latencies(figures: &[Figure]) -> Table {
    let mut table =
        Table::new(&["workload", "clients", "Counterfoil", "bare", "pgbench (average)"]);
    for figure in figures {
        table.push(vec![
            figure.workload.title().to_owned(),
            figure.clients.to_string(),
            three(&figure.subject, [|s| s.p50, |s| s.p99, |s| s.max], 2),
            three(&figure.bare, [|s| s.p50, |s| s.p99, |s| s.max], 2),
            median(&figure.pgbench, |rate: &Rate| rate.average_ms)
                .map_or_else(str::to_owned, |average| format!("{average:.2}")),
        ]);
    }
    table
}

fn processor(figures: &[Figure]) -> Table {
    let mut table = Table::new(&["workload", "clients", "Counterfoil", "bare", "pgbench"]);
    let parts: [fn(&Sample) -> f64; 3] =
        [|s| s.cpu.generator, |s| s.cpu.server, |s| s.cpu.postgres];
    for figure in figures {
        table.push(vec![
            figure.workload.title().to_owned(),
            figure.clients.to_string(),
            three(&figure.subject, parts, 0),
            three(&figure.bare, parts, 0),
            median(&figure.pgbench, |rate: &Rate| rate.postgres_us)
                .map_or_else(str::to_owned, |used| format!("{used:.0}")),
        ]);
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

struct Cell {
    text: String,
    value: Option<f64>,
}

impl Cell {
    fn ratio(&self, other: &Self) -> String {
        match (self.value, other.value) {
            (Some(mine), Some(theirs)) => format!("{:.2}", mine / theirs),
            _ => NONE.to_owned(),
        }
    }
}

fn rate<T>(rounds: &Rounds<T>, of: impl Fn(&T) -> f64) -> Cell {
    match median(rounds, &of) {
        Err(word) => Cell { text: word.to_owned(), value: None },
        Ok(value) => {
            let values = rounds.iter().flatten().map(of);
            let (low, high) =
                values.fold((value, value), |(low, high), one| (one.min(low), one.max(high)));
            let spread = (high - low) / value * 50.0;
            Cell { text: format!("{} ± {spread:.0} %", thousands(value)), value: Some(value) }
        }
    }
}

fn three(rounds: &Rounds<Sample>, of: [fn(&Sample) -> f64; 3], digits: usize) -> String {
    let parts = of.map(|part| median(rounds, part));
    match parts {
        [Ok(a), Ok(b), Ok(c)] => format!("{a:.digits$} / {b:.digits$} / {c:.digits$}"),
        [Err(word), ..] | [_, Err(word), _] | [.., Err(word)] => word.to_owned(),
    }
}

/// The median over the rounds, or the word that stands for it.
fn median<T>(rounds: &Rounds<T>, of: impl Fn(&T) -> f64) -> Result<f64, &'static str> {
    let samples = rounds.as_ref().map_err(|_| FAILED)?;
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().ok_or(NONE)
}

/// A whole number with a comma before each three digits.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Cores, their model and the memory.
fn machine() -> Fallible<String> {
    let cores = std::thread::available_parallelism()?;
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let model = value(&cpuinfo, "model name").unwrap_or("processor of unknown model");
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let kib = value(&meminfo, "MemTotal").and_then(|text| text.split(' ').next()).unwrap_or("0");
    Ok(format!("{cores} cores ({model}), {:.0} GiB of memory", kib.parse::<f64>()? / 1_048_576.0))
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim())
}
