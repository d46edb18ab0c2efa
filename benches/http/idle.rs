//! What a served database costs that nobody asks anything: the demo, without clients.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::Fallible;
use crate::options::Options;
use crate::postgres::Postgres;
use crate::proc::{self, Use};
use crate::subject::Subject;
use crate::table::Table;

/// Not counted: what a start leaves to be done.
const WARM_UP: Duration = Duration::from_secs(10);

const SERVER: &str = "Counterfoil";
const CONNECTIONS: &str = "its connections in PostgreSQL";
const POSTMASTER: &str = "postmaster";
/// Processes that ended meanwhile: all of them work for this one.
const LAUNCHER: &str = "autovacuum launcher";

pub(crate) fn measure(options: &Options, seconds: u64) -> Fallible<String> {
    let postgres = Postgres::start(false)?;
    let url = &postgres.way(false).url;
    let mut command = Command::new(&options.program);
    command.args(["dev", "--database-url", url]);
    let server = Subject::run(&mut command, url)?;
    thread::sleep(WARM_UP);
    let load = proc::load_average()?;
    let before = Looked::now(&postgres, &server)?;
    thread::sleep(Duration::from_secs(seconds));
    let after = Looked::now(&postgres, &server)?;
    if before.connections.iter().any(|pid| !after.connections.contains(pid)) {
        eprintln!("connections were closed meanwhile: what they used is told as autovacuum's");
    }
    let mut spent = BTreeMap::new();
    for (name, now) in &after.parts {
        spent.insert(name.as_str(), now.since(before.parts.get(name)));
    }
    let both = [SERVER, CONNECTIONS].map(|name| spent.remove(name).unwrap_or_default());
    let mut table =
        Table::new(&["part", "processor time per minute", "of one core", "wake-ups per second"]);
    let mut push = |name: String, spent: Use| table.push(row(name, spent, seconds));
    push(SERVER.to_owned(), both[0]);
    push(format!("{CONNECTIONS}: {}", after.connections.len()), both[1]);
    push("**both**".to_owned(), both[0].and(both[1]));
    for (name, spent) in spent {
        push(format!("PostgreSQL: {name}"), spent);
    }
    let held = proc::memory(server.pid(), "VmRSS:")?;
    Ok(format!(
        "The demo, {seconds} s without a client (load average before: {load:.1}); Counterfoil held {held:.1} MiB.\n\n{table}"
    ))
}

#[expect(clippy::cast_precision_loss, reason = "seconds of an hour at most")]
fn row(name: String, spent: Use, seconds: u64) -> Vec<String> {
    let seconds = seconds as f64;
    vec![
        name,
        format!("{:.1} ms", spent.micros / 1000.0 / seconds * 60.0),
        format!("{:.3} %", spent.micros / 1e6 / seconds * 100.0),
        format!("{:.1}", spent.wakes / seconds),
    ]
}

/// What everybody had used at one moment.
struct Looked {
    parts: BTreeMap<String, Use>,
    connections: Vec<u32>,
}

impl Looked {
    fn now(postgres: &Postgres, server: &Subject) -> Fallible<Self> {
        let mut parts = BTreeMap::new();
        let mut connections = Vec::new();
        parts.insert(SERVER.to_owned(), Use::of(server.pid())?);
        parts.insert(POSTMASTER.to_owned(), Use::of(postgres.pid())?);
        let mut add = |name: &str, spent: Use| {
            let part: &mut Use = parts.entry(name.to_owned()).or_default();
            *part = part.and(spent);
        };
        for pid in proc::children(postgres.pid())? {
            let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let title = title.trim_end_matches(['\0', ' ']);
            // "postgres: checkpointer", "postgres: postgres demo [local] idle"
            let Some(name) = title.strip_prefix("postgres: ").map(str::trim) else { continue };
            if name.contains(" [local]") {
                add(CONNECTIONS, Use::of(pid)?);
                connections.push(pid);
            } else if !name.starts_with("autovacuum worker") {
                add(name, Use::of(pid)?);
            }
        }
        let micros = proc::reaped(postgres.pid())?;
        add(LAUNCHER, Use { micros, wakes: 0.0 });
        Ok(Self { parts, connections })
    }
}
