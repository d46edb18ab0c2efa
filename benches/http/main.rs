//! Measures `counterfoil serve` over HTTP beside a bare axum and sqlx handler and beside `pgbench`.
//! `cargo bench --bench http -- --help` lists what may be chosen.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]

mod allocations;
mod bare;
mod data;
mod disk;
mod figure;
mod guard;
mod histogram;
mod idle;
mod load;
mod number;
mod options;
mod pgbench;
mod postgres;
mod proc;
mod reach;
mod report;
mod response;
mod scene;
mod section;
mod stage;
mod statements;
mod subject;
mod summary;
mod table;
mod workload;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

use clap::Parser;

use crate::figure::Figure;
use crate::load::Sample;
use crate::options::Options;
use crate::postgres::Postgres;
use crate::report::{Act, Facts, Report};
use crate::scene::{Part, Scene};
use crate::stage::Stage;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let options = Options::parse();
    histogram::self_check();
    response::self_check();
    data::self_check();
    if !options.bench {
        println!("run by `cargo bench --bench http`");
        return ExitCode::SUCCESS;
    }
    let done = if let Some(seconds) = options.idle {
        idle::measure(&options, seconds).map(|table| told(&table))
    } else if options.allocations {
        allocations::measure(&options).map(|table| told(&table))
    } else {
        run(&options)
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

fn told(text: &impl std::fmt::Display) -> bool {
    println!("{text}");
    true
}

/// Whether every figure could be measured.
fn run(options: &Options) -> Fallible<bool> {
    if options.rounds.is_some_and(|rounds| rounds.is_multiple_of(2)) {
        return Err("the number of rounds must be odd".into());
    }
    let postgres = Postgres::start(options.parts().any(|part| part == Part::Tcp))?;
    let (mut acts, mut ceiling, mut guard) = (Vec::new(), None, Vec::new());
    for part in options.parts() {
        match Scene::of(part, options) {
            Some(scene) => acts.push(play(options, &postgres, part, scene, &mut ceiling)?),
            None if options.skip_subject => {}
            None => guard = guard::measure(options, &postgres)?,
        }
    }
    let facts = Facts::collect(options, &postgres, ceiling)?;
    let report = Report { facts, acts, guard }.to_string();
    if let Some(path) = options.target() {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &report).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("\n{report}");
    Ok(!report.contains(number::FAILED))
}

/// Measures a scene; the first of all finds out what the generator can do.
fn play(
    options: &Options,
    postgres: &Postgres,
    part: Part,
    scene: Scene,
    ceiling: &mut Option<(usize, Sample)>,
) -> Fallible<Act> {
    eprintln!("{}: {} rows", scene.title, scene.rows);
    let mut stage = Stage::set(options, postgres, &scene)?;
    if ceiling.is_none() {
        let most = scene.clients.iter().copied().max().unwrap_or(1);
        *ceiling = Some((most, stage.ceiling(most)?));
    }
    let plain = figures(&mut stage, false);
    let mut logged = Vec::new();
    if !options.skip_subject && !options.skip_history {
        stage.keep_history()?;
        logged = figures(&mut stage, true);
    }
    stage.note_memory()?;
    let (memory, load_before) = (stage.memory, stage.load_before);
    stage.clear()?;
    Ok(Act { part, scene, plain, logged, memory, load_before })
}

fn figures(stage: &mut Stage<'_>, history: bool) -> Vec<Figure> {
    let mut figures = Vec::new();
    for &workload in &stage.scene.workloads {
        // History makes no difference to a read of the current row.
        if history && !workload.writes() {
            continue;
        }
        for &clients in &stage.scene.clients {
            let kept = if history { " with history" } else { "" };
            eprintln!("  {}{kept}, {clients} client(s)", workload.title());
            let figure = figure::measure(stage, workload, history, clients);
            figure.failures().for_each(|failure| eprintln!("FAILED: {failure}"));
            figures.push(figure);
        }
    }
    figures
}
