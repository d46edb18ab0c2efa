//! Measures `counterfoil serve` over HTTP beside a bare axum and sqlx handler and beside `pgbench`.
//! `cargo bench --bench http -- --help` lists what may be chosen.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]

mod bare;
mod data;
mod disk;
mod figure;
mod histogram;
mod load;
mod options;
mod pgbench;
mod postgres;
mod proc;
mod reach;
mod report;
mod response;
mod stage;
mod statements;
mod subject;
mod table;
mod workload;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

use clap::Parser;

use crate::figure::Figure;
use crate::options::Options;
use crate::postgres::Postgres;
use crate::report::{Facts, Report};
use crate::stage::{LOGGED, PLAIN, Stage};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let options = Options::parse();
    histogram::self_check();
    response::self_check();
    if !options.bench {
        println!("run by `cargo bench --bench http`");
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every figure could be measured.
fn run(options: &Options) -> Fallible<bool> {
    if options.rounds.is_multiple_of(2) {
        return Err("the number of rounds must be odd".into());
    }
    data::set_body(options.body);
    let postgres = Postgres::start()?;
    let mut stage = Stage::set(options, &postgres)?;
    let most = options.clients.iter().copied().max().unwrap_or(1);
    let ceiling = stage.ceiling(most)?;
    let plain = figures(&mut stage, PLAIN);
    let logged = if options.skip_subject || options.skip_history {
        Vec::new()
    } else {
        figures(&mut stage, LOGGED)
    };
    let facts = Facts::collect(&mut stage, ceiling)?;
    let report = Report { facts, plain, logged }.to_string();
    if let Some(path) = options.target() {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &report).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("\n{report}");
    Ok(!report.contains(report::FAILED))
}

fn figures(stage: &mut Stage<'_>, table: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    for &workload in &stage.options.only {
        // History makes no difference to a read of the current row.
        if table == LOGGED && !workload.writes() {
            continue;
        }
        for &clients in &stage.options.clients {
            eprintln!("{table}: {}, {clients} clients", workload.title());
            let figure = figure::measure(stage, workload, table, clients);
            figure.failures().for_each(|failure| eprintln!("FAILED: {failure}"));
            figures.push(figure);
        }
    }
    figures
}
