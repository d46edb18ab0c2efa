//! What neighbours in a lane feel of somebody who does what they should not have to notice: a bad row, a
//! lock, a hot row, a flood. Run by `make bench-neighbours`; writes `docs/neighbours.md`.
//!
//! Of every disturber there are several rounds, and each measures the neighbours by themselves and beside
//! it, in turns: what else happens on the machine happens to both.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]

mod client;
mod disturber;
#[path = "../http/histogram.rs"]
#[expect(dead_code, reason = "shared with the other benchmark, which asks for more")]
mod histogram;
mod neighbour;
#[path = "../http/postgres.rs"]
#[expect(dead_code, reason = "shared with the other benchmark, which asks for more")]
mod postgres;
#[path = "../http/proc.rs"]
#[expect(dead_code, reason = "shared with the other benchmark, which asks for more")]
mod proc;
mod report;
#[path = "../http/response.rs"]
mod response;
#[path = "../http/subject.rs"]
#[expect(dead_code, reason = "shared with the other benchmark, which asks for more")]
mod subject;
#[path = "../http/table.rs"]
mod table;

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr as _;
use std::thread;
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::sync::{oneshot, watch};
use tokio::task::unconstrained;

use crate::disturber::{Disturber, Stage, TABLES};
use crate::neighbour::{Sample, Window};
use crate::postgres::Postgres;
use crate::proc::{Meter, Server};
use crate::report::{Pair, Rounds};
use crate::subject::Subject;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Not counted: connections and statements settle in it.
const WARM_UP: Duration = Duration::from_millis(400);

/// What may be chosen, each by a variable of the environment.
struct Choice {
    /// `BENCH_ROUNDS`: the median of so many counts.
    rounds: usize,
    /// `BENCH_SECONDS`: how long each of the two measurements of a round takes.
    seconds: f64,
    /// `BENCH_ONLY`: these disturbers, by their names.
    only: Vec<Disturber>,
    /// `BENCH_PROGRAM`: the program to measure, when not the one of this build.
    program: PathBuf,
}

impl Choice {
    fn read() -> Fallible<Self> {
        let var = |name| std::env::var(name).ok();
        let program =
            var("BENCH_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_counterfoil").into());
        let only = var("BENCH_ONLY").unwrap_or_default();
        let chosen = |disturber: &Disturber| {
            only.is_empty() || only.split(',').any(|name| name == disturber.name())
        };
        let only: Vec<_> = Disturber::ALL.into_iter().filter(chosen).collect();
        if only.is_empty() {
            let names = Disturber::ALL.map(Disturber::name).join(",");
            return Err(format!("BENCH_ONLY takes of these: {names}").into());
        }
        Ok(Self {
            rounds: var("BENCH_ROUNDS").map_or(Ok(5), |rounds| rounds.parse())?,
            seconds: var("BENCH_SECONDS").map_or(Ok(2.0), |seconds| f64::from_str(&seconds))?,
            only,
            program: program.into(),
        })
    }
}

fn main() -> ExitCode {
    histogram::self_check();
    response::self_check();
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("run by `cargo bench --bench neighbours`");
        return ExitCode::SUCCESS;
    }
    match Choice::read().and_then(|choice| run(&choice)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every figure could be measured.
fn run(choice: &Choice) -> Fallible<bool> {
    let load = proc::load_average()?;
    let postgres = Postgres::start()?;
    let url = postgres.url();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(prepare(&choice.program, &url))?;
    let subject = Subject::start(&choice.program, &url)?;
    let bench = Bench {
        server: subject.address,
        url,
        meter: Meter { server: Server::Process(subject.pid()), postmaster: postgres.pid() },
        window: Duration::from_secs_f64(choice.seconds),
        runtime,
    };
    let mut rounds: Vec<Rounds> =
        choice.only.iter().map(|&disturber| (disturber, Ok(Vec::new()))).collect();
    for round in 0..choice.rounds {
        for (disturber, pairs) in &mut rounds {
            eprintln!("round {} of {}: {}", round + 1, choice.rounds, disturber.name());
            if let Ok(done) = pairs {
                match bench.pair(*disturber, round % 2 == 1) {
                    Ok(pair) => done.push(pair),
                    Err(error) => *pairs = Err(error.to_string()),
                }
            }
        }
    }
    let tables = report::tables(&rounds, choice.seconds);
    println!("{tables}");
    if choice.only.len() == Disturber::ALL.len() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/neighbours.md");
        fs::write(path, page(&tables, choice, load))?;
    }
    Ok(!tables.contains(report::FAILED))
}

/// Makes the tables and adopts them.
async fn prepare(program: &Path, url: &str) -> Fallible<()> {
    let mut migrate = Command::new(program);
    migrate.arg("migrate").env("DATABASE_URL", url).stdout(Stdio::null());
    if !migrate.status()?.success() {
        return Err("the database could not be migrated".into());
    }
    sql(url, TABLES).await
}

async fn sql(url: &str, text: &str) -> Fallible<()> {
    let mut conn = PgConnection::connect(url).await?;
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut conn).await?;
    conn.close().await?;
    Ok(())
}

struct Bench {
    server: SocketAddr,
    url: String,
    meter: Meter,
    window: Duration,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    /// One round: by themselves and beside the disturber, or the other way round.
    fn pair(&self, disturber: Disturber, reversed: bool) -> Fallible<Pair> {
        for table in ["notes", "slow", "counterfoil.change"] {
            // What a round left behind is not the next one's to bear.
            self.runtime.block_on(sql(&self.url, &format!("VACUUM {table}")))?;
        }
        if reversed {
            let (with, answered) = self.measure(disturber)?;
            let (without, _) = self.measure(Disturber::Nobody)?;
            return Ok(Pair { without, with, answered });
        }
        let (without, _) = self.measure(Disturber::Nobody)?;
        let (with, answered) = self.measure(disturber)?;
        Ok(Pair { without, with, answered })
    }

    /// The neighbours beside a disturber, which has a thread of its own.
    fn measure(&self, disturber: Disturber) -> Fallible<(Sample, u64)> {
        let (ready, is_ready) = oneshot::channel();
        let (settle, window) = watch::channel(None);
        let stage = Stage { server: self.server, url: self.url.clone(), ready, window };
        let disturbs = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(unconstrained(disturber.run(stage)))
        });
        let sample = self.runtime.block_on(unconstrained(async {
            if is_ready.await.is_err() {
                return Ok(None);
            }
            let begin = Instant::now() + WARM_UP;
            let window = Window { begin, end: begin + self.window };
            settle.send(Some(window))?;
            neighbour::run(self.server, window, &self.meter).await.map(Some)
        }));
        drop(settle);
        let answered = disturbs.join().map_err(|_| "the disturber panicked")??;
        Ok((sample?.ok_or("the disturber ended too early")?, answered))
    }
}

fn page(tables: &str, choice: &Choice, load: f64) -> String {
    format!(
        "# Neighbours\n\n\
         Written by `make bench-neighbours`; do not edit.\n\n\
         What steady clients feel of one who writes rows that fail, holds locks, or comes with thousands of requests. The\n\
         rules that are to keep them apart stand in [performance.md](performance.md).\n\n\
         - **Neighbours**: 16 clients with conditional PUTs and 16 with GETs, each 100 times a second, and 8 with stale PUTs (409), 50 times a\n  \
           second; each on a row of its own, in one table with history. At a quarter of every period a quarter of them come at\n  \
           once, so that groups come to be. They do not go as fast as they can: where they take all of the machine, every\n  \
           disturbance takes something from them, and a ratio tells of processors and not of isolation.\n\
         - **Disturbers** write the same table in the same shape, from another address and under another name, so that they meet the\n  \
           neighbours in their statements. For the same reason their rates are bounded: the last table shows what share of the\n  \
           machine's processor time the server and PostgreSQL took without them and with them.\n\
         - A time is from when a request was due, or sent where that was later by no fault of the server, until its whole answer.\n\
         - Median of {} rounds; each measures both cases for {} s, one after the other, every other round in reverse. The\n  \
           ratio is the median of the rounds' ratios. \"nobody\" shows how far two measurements of the same differ.\n\
         - The generator shares the machine ({} processors); load average before: {load:.1}.\n\n{tables}",
        choice.rounds,
        choice.seconds,
        thread::available_parallelism().map_or(0, usize::from),
    )
}
