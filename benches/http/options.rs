//! What the caller may choose.

use std::path::PathBuf;
use std::process::Command;

use clap::Parser;
use clap::builder::FalseyValueParser;

use crate::workload::Workload;

/// Measures Counterfoil beside a bare handler and beside pgbench, on one private PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "http", bin_name = "cargo bench --bench http --")]
pub(crate) struct Options {
    /// Seconds of each round of a figure
    #[arg(long, env = "BENCH_SECONDS", default_value_t = 2.0)]
    pub(crate) seconds: f64,
    /// Rounds of a figure (odd: the median counts)
    #[arg(long, env = "BENCH_ROUNDS", default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Numbers of connections
    #[arg(long, env = "BENCH_CLIENTS", value_delimiter = ',', default_values_t = [1, 8, 32, 128, 512])]
    pub(crate) clients: Vec<usize>,
    /// About how many bytes of JSON a row and a body have
    #[arg(long, env = "BENCH_BODY", default_value_t = 200)]
    pub(crate) body: usize,
    /// Only these workloads
    #[arg(long, env = "BENCH_ONLY", value_delimiter = ',', default_values = ["get", "list", "put", "conflict", "post"])]
    pub(crate) only: Vec<Workload>,
    /// Measure the references alone
    #[arg(long, env = "BENCH_SKIP_SUBJECT", value_parser = FalseyValueParser::new())]
    pub(crate) skip_subject: bool,
    /// Leave out the table with history
    #[arg(long, env = "BENCH_SKIP_HISTORY", value_parser = FalseyValueParser::new())]
    pub(crate) skip_history: bool,
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
    /// Whether every figure of the report is measured.
    pub(crate) fn full(&self) -> bool {
        let all = |wanted: &[usize]| wanted.iter().all(|clients| self.clients.contains(clients));
        let workloads = Workload::ALL.iter().all(|workload| self.only.contains(workload));
        workloads
            && all(&[1, 8, 32, 128, 512])
            && self.body == 200
            && !self.skip_subject
            && !self.skip_history
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
