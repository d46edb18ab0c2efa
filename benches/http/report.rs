//! The report, in markdown.

use std::fmt;
use std::fs;

use crate::Fallible;
use crate::data::Data;
use crate::figure::Figure;
use crate::guard;
use crate::load::Sample;
use crate::number::{Cell, thousands};
use crate::options::Options;
use crate::postgres::Postgres;
use crate::reach;
use crate::scene::{Part, Scene};
use crate::section::Section;
use crate::stage::Memory;
use crate::summary;
use crate::table::Table;

pub(crate) struct Report {
    pub(crate) facts: Facts,
    pub(crate) acts: Vec<Act>,
    pub(crate) guard: Vec<guard::Line>,
}

/// A scene with its figures.
pub(crate) struct Act {
    pub(crate) part: Part,
    pub(crate) scene: Scene,
    pub(crate) plain: Vec<Figure>,
    pub(crate) logged: Vec<Figure>,
    pub(crate) memory: Option<Memory>,
    /// What else the machine was doing when it began.
    pub(crate) load_before: f64,
}

/// What a reader must know besides the figures.
pub(crate) struct Facts {
    date: String,
    machine: String,
    postgres: String,
    method: String,
    ceiling: Option<String>,
}

impl Facts {
    pub(crate) fn collect(
        options: &Options,
        postgres: &Postgres,
        ceiling: Option<(usize, Sample)>,
    ) -> Fallible<Self> {
        let mut data = Data::connect(&postgres.way(false).url)?;
        Ok(Self {
            date: options.date(),
            machine: machine()?,
            postgres: data.text("select current_setting('server_version')")?,
            method: format!(
                "Each figure is the median of its rounds of {} s; the parties took turns, every other \
                 round in reverse order. The bare handler has {} connections.",
                options.seconds, options.bare_pool,
            ),
            ceiling: ceiling.map(|(clients, ceiling)| {
                format!(
                    "Generator alone, against a handler that answers \"ok\", {clients} clients: {} \
                     requests/s, p99 {:.1} ms, {:.1} µs of its own processor time per request.",
                    thousands(ceiling.rate),
                    ceiling.p99,
                    ceiling.cpu.generator,
                )
            }),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { date, machine, postgres, method, ceiling } = &self.facts;
        writeln!(f, "# Benchmarks\n")?;
        writeln!(f, "Written by `cargo bench --bench http`; do not edit.\n")?;
        writeln!(f, "- Date: {date}\n- Machine: {machine}")?;
        writeln!(f, "- PostgreSQL {postgres}, durable commits")?;
        writeln!(f, "- Load generator, server and PostgreSQL share the machine.")?;
        writeln!(f, "- {method}")?;
        if let Some(ceiling) = ceiling {
            writeln!(f, "- {ceiling}")?;
        }
        if let Some(Act { plain, logged, .. }) = self.act(Part::Main) {
            writeln!(f, "\n## In short\n\n{SHORT}\n{}", summary::table(plain, logged))?;
            writeln!(f, "## What was aimed at\n\n{AIMS}\n{}", reach::table(plain, logged))?;
        }
        if !self.acts.is_empty() {
            write!(f, "\n## Scenes\n\n{SCENES}\n{}", scenes(&self.acts))?;
        }
        for Act { part, scene, plain, logged, .. } in &self.acts {
            writeln!(f, "\n## {}\n\n{}\n", scene.title, tells(*part, scene))?;
            if *part != Part::Main {
                writeln!(f, "{}", summary::table(plain, logged))?;
            }
            writeln!(f, "### {}: without history\n\n{}", scene.title, Section(plain))?;
            if !logged.is_empty() {
                writeln!(f, "### {}: with history\n\n{}", scene.title, Section(logged))?;
            }
        }
        if !self.guard.is_empty() {
            write!(f, "\n## What the guard costs\n\n{GUARD}\n{}", guarded(&self.guard))?;
        }
        writeln!(f, "\n## What is compared\n\n{COMPARED}\n## To repeat it\n\n{REPEAT}")
    }
}

impl Report {
    fn act(&self, part: Part) -> Option<&Act> {
        self.acts.iter().find(|act| act.part == part)
    }
}

const SHORT: &str = "\
Requests per second of the main scene, 32 / 128 clients.
";

const AIMS: &str = "\
Ratios of figures of this run, and whether they reach what the design asks for. `pgbench` is the same
statement without HTTP, one per request.
";

const SCENES: &str = "\
Each scene varies one thing of the main one. The load is that of the minute before it. Counterfoil was started
anew for each; *ready* is the time that took while PostgreSQL was up, and the memory is that of its process at rest and the
most of all figures of the scene.
";

const GUARD: &str = "\
Adoption puts triggers on a table that see to it that its version rises by one with each change, whoever writes.
The same UPDATE on an adopted table (without history) and on a twin without triggers, in turns. Counterfoil raises
the version in its statement, so that of the triggers only conditions are evaluated, but for those PostgreSQL locks
the row first, and notes that in its log; for a writer that leaves the version alone, the trigger raises it. *Single* is
one row per statement, 8 clients of `pgbench`, not waiting for the disk, which would hide what is looked for; *whole* is
one statement over 10,000 rows. The last column is guarded ÷ twin.
";

const COMPARED: &str = "\
- **Counterfoil**: `counterfoil serve`, release build, over HTTP.
- **bare**: axum and a sqlx pool, one handler per route, one obvious statement per request (the 409
  reads the row with a second one), over HTTP, from the same generator.
- **pgbench**: the same statements as prepared ones, without HTTP. One client waits for each answer,
  so this is what one statement per request can reach. Its latency is an average.
- All work on the same table, with the triggers that adoption put there.
- A conditional PUT goes round four rows of its client's own; in the large table it goes all the table through, each
  row once. GET and the stale PUT take any row, at random.
- An answer with another status, another row or a version that does not follow fails its figure.
";

const REPEAT: &str = "\
```sh
cargo bench --bench http                       # everything; writes this file
cargo bench --bench http -- --part tcp         # one part: main, tcp, bodies, rows, guard
cargo bench --bench http -- --part main --only put,get --clients 1,32 --seconds 1
cargo bench --bench http -- --skip-subject     # the references alone
cargo bench --bench http -- --help
make bench-idle                                # apart: ten minutes without a client
make bench-allocations                         # apart: allocations and instructions, by valgrind
```

It starts its own PostgreSQL (found through `PG_BIN_DIR`, `/usr/lib/postgresql`, `pg_config`) in the
temporary directory, and removes it. The large table takes up to 8 GB there, its log included.";

fn scenes(acts: &[Act]) -> Table {
    let mut table = Table::new(&[
        "scene",
        "rows",
        "bytes of a body",
        "PostgreSQL over",
        "rounds",
        "load before",
        "ready in ms",
        "MiB at rest",
        "MiB at most",
    ]);
    for Act { scene, memory, load_before, .. } in acts {
        let mut row = vec![
            scene.title.to_owned(),
            thousands(scene.rows.into()),
            thousands(u32::try_from(scene.body).unwrap_or(u32::MAX).into()),
            scene.way().to_owned(),
            scene.rounds.to_string(),
            format!("{load_before:.1}"),
        ];
        row.extend(memory.iter().flat_map(|memory| {
            let Memory { ready_ms, at_rest_mib, peak_mib } = memory;
            [format!("{ready_ms:.0}"), format!("{at_rest_mib:.1}"), format!("{peak_mib:.1}")]
        }));
        table.push(row);
    }
    table
}

fn tells(part: Part, scene: &Scene) -> String {
    let what = match part {
        Part::Main | Part::Guard => "What the other scenes are compared with.",
        Part::Tcp => "As the main scene, but PostgreSQL is reached over TCP on loopback.",
        Part::Bodies => {
            "As the main scene, but rows and bodies are long. PostgreSQL keeps the long field outside of the row."
        }
        Part::Rows => {
            "As the main scene, but the table is larger than PostgreSQL's own cache, and requests go all over \
             it. With history, most PUTs are the first of their row and log it as it was, too."
        }
    };
    format!("{what} {} rows, bodies of about {} bytes.", thousands(scene.rows.into()), scene.body)
}

fn guarded(lines: &[guard::Line]) -> Table {
    let mut table =
        Table::new(&["a writer that", "figure", "guarded", "twin without triggers", "ratio"]);
    for guard::Line { writer, single, whole } in lines {
        let rate = single.each_ref().map(|rounds| Cell::of(rounds, |rate| rate.per_second, 0));
        let used = single.each_ref().map(|rounds| Cell::of(rounds, |rate| rate.postgres_us, 1));
        let time = whole.each_ref().map(|rounds| Cell::of(rounds, |whole| whole.micros, 2));
        let log = whole.each_ref().map(|rounds| Cell::of(rounds, |whole| whole.log, 0));
        for (figure, [guarded, twin]) in [
            ("single, per second", rate),
            ("single, µs of PostgreSQL's processor time", used),
            ("whole, µs per row", time),
            ("whole, bytes of PostgreSQL's log per row", log),
        ] {
            let ratio = guarded.ratio(&twin);
            let (writer, figure) = ((*writer).to_owned(), figure.to_owned());
            table.push(vec![writer, figure, guarded.text, twin.text, ratio]);
        }
    }
    table
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
