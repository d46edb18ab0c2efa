//! What the caller may choose.

use std::path::PathBuf;
use std::process::Command;

use clap::Parser;
use clap::builder::FalseyValueParser;

use crate::scene::Part;
use crate::workload::Workload;

/// Rows of the large table, where nothing else is said.
const ROWS: u32 = 10_000_000;

/// Measures Counterfoil beside a bare handler and beside pgbench, on one private PostgreSQL.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(name = "http", bin_name = "cargo bench --bench http --")]
pub(crate) struct Options {
    /// Only these parts [default: all]
    #[arg(long, env = "BENCH_PART", value_delimiter = ',')]
    pub(crate) part: Vec<Part>,
    /// Seconds of each round of a figure
    #[arg(long, env = "BENCH_SECONDS", default_value_t = 1.5)]
    pub(crate) seconds: f64,
    /// Rounds of a figure, an odd number: the median counts [default: 3; 1 where the main figures are only to
    /// be compared with]
    #[arg(long, env = "BENCH_ROUNDS")]
    pub(crate) rounds: Option<usize>,
    /// Numbers of connections [default: 1,8,32,128,512; 1,32,128 where compared]
    #[arg(long, env = "BENCH_CLIENTS", value_delimiter = ',')]
    pub(crate) clients: Vec<usize>,
    /// Only these workloads [default: all; get,put where compared]
    #[arg(long, env = "BENCH_ONLY", value_delimiter = ',')]
    pub(crate) only: Vec<Workload>,
    /// Rows of the large table, a power of ten
    #[arg(long, env = "BENCH_ROWS", default_value_t = ROWS)]
    pub(crate) rows: u32,
    /// Measure the references alone
    #[arg(long, env = "BENCH_SKIP_SUBJECT", value_parser = FalseyValueParser::new())]
    pub(crate) skip_subject: bool,
    /// Leave out the table with history
    #[arg(long, env = "BENCH_SKIP_HISTORY", value_parser = FalseyValueParser::new())]
    pub(crate) skip_history: bool,
    /// Instead of all this: let the demo stand idle for so many seconds and tell what that costs
    #[arg(long, env = "BENCH_IDLE")]
    pub(crate) idle: Option<u64>,
    /// Instead of all this: count allocations and instructions per request, by valgrind
    #[arg(long)]
    pub(crate) allocations: bool,
    /// The counterfoil program to measure, when not the one of this build
    #[arg(long, env = "BENCH_PROGRAM", default_value = env!("CARGO_BIN_EXE_counterfoil"))]
    #[arg(hide_default_value = true)]
    pub(crate) program: PathBuf,
    /// Connections in the pool of the bare handler
    #[arg(long, env = "BENCH_BARE_POOL", default_value_t = 16)]
    pub(crate) bare_pool: u32,
    /// Where the report goes besides standard output [default: docs/benchmarks.md for a full run]
    #[arg(long, env = "BENCH_OUTPUT")]
    pub(crate) output: Option<PathBuf>,
    /// The date in the report [default: that of the last commit]
    #[arg(long, env = "BENCH_DATE")]
    pub(crate) date: Option<String>,
    /// Set by `cargo bench`; without it nothing runs
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

impl Options {
    /// The parts to measure, in their order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().filter(|part| self.part.is_empty() || self.part.contains(part))
    }

    /// Whether every figure of the report is measured.
    fn full(&self) -> bool {
        let everything = self.part.is_empty() && self.clients.is_empty() && self.only.is_empty();
        everything && self.rows == ROWS && !self.skip_subject && !self.skip_history
    }

    /// The file to write, if any.
    pub(crate) fn target(&self) -> Option<PathBuf> {
        let usual = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/benchmarks.md");
        self.output.clone().or_else(|| self.full().then(usual))
    }

    pub(crate) fn date(&self) -> String {
        self.date.clone().or_else(|| git("--format=%cs (commit %h)")).unwrap_or_default()
    }
}

fn git(format: &str) -> Option<String> {
    let output = Command::new("git")
        .args(["log", "-1", format])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
