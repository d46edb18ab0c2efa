//! Allocations and instructions of the server per request, as valgrind counts them: a tool that runs the
//! program on a processor of its own making. It needs valgrind, and is slow.
//!
//! What starting, connecting and preparing cost is taken out by counting two runs of the same length, one
//! with many requests and one with few. Whatever runs by the clock is in both.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::data::{Data, LOADED, memo};
use crate::load::{self, Plan};
use crate::options::Options;
use crate::postgres::Postgres;
use crate::subject::{self, Subject};
use crate::table::Table;
use crate::workload::{OWNED, Target, Workload, Writes};

const TABLE: &str = "doc";
const ROWS: u32 = 10_000;
const CLIENTS: [usize; 2] = [1, 32];
const WORKLOADS: [Workload; 5] =
    [Workload::Get, Workload::Put, Workload::Patch, Workload::Post, Workload::Conflict];
/// So many requests settle what is prepared once; so many more are counted.
const FEW: usize = 320;
const COUNTED: usize = 3200;
/// How much longer than the requests of the long run both runs last.
const REST: Duration = Duration::from_secs(1);

/// What a run came to.
#[derive(Clone, Copy)]
struct Total {
    bytes: f64,
    blocks: f64,
    instructions: f64,
}

pub(crate) fn measure(options: &Options) -> Fallible<String> {
    let postgres = Postgres::start(false)?;
    let url = &postgres.way(false).url;
    let mut data = Data::connect(url)?;
    let text = memo(200);
    subject::migrate(&options.program, url)?;
    data.create(TABLE, ROWS, &text, LOADED - 1)?;
    subject::adopt(&options.program, url, TABLE, true)?;
    data.age(TABLE)?;
    data.settle(TABLE)?;
    let mut table =
        Table::new(&["request", "clients", "allocations", "bytes allocated", "instructions"]);
    let clients = if options.clients.is_empty() { &CLIENTS[..] } else { &options.clients };
    for workload in WORKLOADS {
        if !options.only.is_empty() && !options.only.contains(&workload) {
            continue;
        }
        for &clients in clients {
            eprintln!("{}, {clients} clients", workload.title());
            let mut rig = Rig { options, postgres: &postgres, data: &mut data, text: &text };
            let (many, span) = rig.run(workload, clients, FEW + COUNTED, Duration::ZERO)?;
            let (few, _) = rig.run(workload, clients, FEW, span)?;
            let each = |of: fn(&Total) -> f64| {
                #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
                let each = (of(&many) - of(&few)) / COUNTED as f64;
                format!("{each:.0}")
            };
            table.push(vec![
                workload.title().to_owned(),
                clients.to_string(),
                each(|total| total.blocks),
                each(|total| total.bytes),
                each(|total| total.instructions),
            ]);
        }
    }
    Ok(format!("Of the server, per request, kernel not included; table with history.\n\n{table}"))
}

struct Rig<'a> {
    options: &'a Options,
    postgres: &'a Postgres,
    data: &'a mut Data,
    text: &'a str,
}

impl Rig<'_> {
    /// Runs the server for so many requests, and at least for so long from the first of them on.
    fn run(
        &mut self,
        workload: Workload,
        clients: usize,
        requests: usize,
        least: Duration,
    ) -> Fallible<(Total, Duration)> {
        let out = self.postgres.directory().join("dhat.out");
        let log = self.postgres.directory().join("dhat.log");
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=dhat", &format!("--dhat-out-file={}", out.display())])
            .arg(format!("--log-file={}", log.display()))
            .arg(&self.options.program)
            .args(["serve", "--no-auth"])
            .stderr(Stdio::null());
        let server = Subject::run(&mut command, &self.postgres.way(false).url)
            .map_err(|error| format!("valgrind: {error}"))?;
        let versions = self.data.versions(TABLE, clients * OWNED)?;
        let writes = Writes::Own(versions);
        let target = Target { table: TABLE, rows: ROWS, memo: self.text, writes };
        let plan =
            Plan { address: server.address, workload, target: &target, clients, seconds: 0.0 };
        let begin = Instant::now();
        load::send(&plan, requests)?;
        let span = (begin.elapsed() + REST).max(least);
        thread::sleep(span.saturating_sub(begin.elapsed()));
        server.end()?;
        Ok((Total::read(&out, &log)?, span))
    }
}

impl Total {
    /// Reads `Total: 1,816,843 bytes in 3,980 blocks` from the log, and `"te":4766001`, the instructions at
    /// the end, from the profile.
    fn read(profile: &Path, log: &Path) -> Fallible<Self> {
        let log = fs::read_to_string(log)?;
        let (_, total) = log.split_once("Total: ").ok_or("valgrind told no total")?;
        let words: Vec<String> =
            total.split_whitespace().take(4).map(|word| word.replace(',', "")).collect();
        let profile = fs::read_to_string(profile)?;
        let (_, end) = profile.split_once("\"te\":").ok_or("valgrind told no instructions")?;
        let digits: String = end.chars().take_while(char::is_ascii_digit).collect();
        Ok(Self {
            bytes: words.first().ok_or("no bytes")?.parse()?,
            blocks: words.get(3).ok_or("no blocks")?.parse()?,
            instructions: digits.parse()?,
        })
    }
}
