//! The reference "pgbench": the same statements without HTTP.

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Fallible;
use crate::data::{DUE_ON, LOADED, TITLE, halves};
use crate::postgres::{Postgres, Way};
use crate::proc;
use crate::statements::{self, Values};
use crate::workload::{OWNED, STALE, STRIDE, Target, Workload, Writes};

/// The id of the row whose halves `\set` made.
pub(crate) const ID: &str = "(:a::text || :b::text)::uuid";
const VALUES: Values<'static> = Values {
    id: ID,
    title: ":title",
    amount: ":amount",
    due_on: ":due_on",
    memo: ":memo",
    version: "",
};
const AMOUNT: &str = "\\set amount random(100000000, 101000000)\n";

/// What `pgbench` reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) average_ms: f64,
    /// PostgreSQL's processor time per transaction, in microseconds.
    pub(crate) postgres_us: f64,
}

/// One run: who asks, how, and for how long.
pub(crate) struct Run<'a> {
    pub(crate) postgres: &'a Postgres,
    pub(crate) way: &'a Way,
    pub(crate) memo: &'a str,
    pub(crate) clients: usize,
    pub(crate) seconds: f64,
}

impl Run<'_> {
    pub(crate) fn of(&self, workload: Workload, target: &Target<'_>) -> Fallible<Rate> {
        self.script(&script_of(workload, target, self.clients), &[])
    }

    /// Runs a script over and over. Its beginning is not counted: each new backend fills its caches and plans
    /// its first statements, and many of them take the longer.
    pub(crate) fn script(&self, script: &str, settings: &[(&str, &str)]) -> Fallible<Rate> {
        let file = self.postgres.directory().join("script.sql");
        fs::write(&file, script)?;
        // It reports whole seconds, and sometimes not the last one.
        let seconds = self.seconds.ceil().max(2.0);
        let warm_up = if self.clients > 256 { 3.0 } else { 1.0 };
        let mut command = Command::new(self.postgres.bin_dir().join("pgbench"));
        command
            .args(["-n", "-M", "prepared", "-U", "postgres", "-j", "2", "-P", "1", "-h"])
            .arg(&self.way.host)
            .args(["-c", &self.clients.to_string(), "-T", &(seconds + warm_up).to_string()])
            .args(["-D", &format!("title={TITLE}"), "-D", &format!("memo={}", self.memo)])
            .args(["-D", &format!("due_on={DUE_ON}"), "-D", &format!("stale={STALE}")])
            .args(["-D", "k=0"]);
        for row in 0..OWNED {
            command.args(["-D", &format!("v{row}=0")]);
        }
        if let Some(password) = &self.way.password {
            command.env("PGPASSWORD", password);
        }
        let settings = settings.iter().map(|(name, value)| format!("-c {name}={value} "));
        command.env("PGOPTIONS", settings.collect::<String>());
        command.arg("-f").arg(file).arg("postgres");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (rate, log) = self.watch(&mut child, warm_up, seconds)?;
        let mut report = String::new();
        child.stdout.take().ok_or("no standard output")?.read_to_string(&mut report)?;
        if !child.wait()?.success() {
            return Err(format!("pgbench: {}", log.trim()).into());
        }
        if !report.contains("number of failed transactions: 0 ") {
            return Err(format!("pgbench: {}", report.trim()).into());
        }
        rate.ok_or_else(|| format!("pgbench did not report its progress: {log}").into())
    }

    /// Reads PostgreSQL's processor time while all backends live, in the middle of what is counted, and then
    /// the lines of progress.
    fn watch(
        &self,
        child: &mut Child,
        warm_up: f64,
        seconds: f64,
    ) -> Fallible<(Option<Rate>, String)> {
        let lines = BufReader::new(child.stderr.take().ok_or("no standard error")?).lines();
        let (mut log, mut counted, mut used) = (String::new(), Vec::new(), None);
        for line in lines {
            let line = line?;
            writeln!(log, "{line}")?;
            let Some([at, rate, latency]) = progress(&line) else { continue };
            // What a line tells began with the one before it.
            if used.is_some() {
                counted.push([rate, latency]);
            } else if at > warm_up - 0.1 {
                // What is printed meanwhile waits in the pipe.
                let span = seconds - 0.2;
                let before = proc::postgres(self.postgres.pid())?;
                thread::sleep(Duration::from_secs_f64(span));
                used = Some((proc::postgres(self.postgres.pid())? - before) / span);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        let average = |of: usize| {
            counted.iter().map(|line: &[f64; 2]| line[of]).sum::<f64>() / counted.len() as f64
        };
        let (per_second, average_ms) = (average(0), average(1));
        let rate = used.filter(|_| per_second > 0.0).map(|used| Rate {
            per_second,
            average_ms,
            postgres_us: used / per_second,
        });
        Ok((rate, log))
    }
}

/// The time, rate and latency of a line `progress: 2.0 s, 8123.4 tps, lat 3.9 ms …`.
fn progress(line: &str) -> Option<[f64; 3]> {
    let words: Vec<&str> = line.strip_prefix("progress: ")?.split(' ').collect();
    let number = |word: usize| words.get(word)?.parse().ok();
    Some([number(0)?, number(2)?, number(5)?])
}

/// Chooses a row, by an expression for its number.
pub(crate) fn choose(n: &str) -> String {
    let [a, b] = halves(":n");
    format!("\\set n {n}\n\\set a {a}\n\\set b {b}\n")
}

fn script_of(workload: Workload, target: &Target<'_>, clients: usize) -> String {
    let Target { table, rows, .. } = target;
    let any = choose(&format!("random(1, {rows})"));
    match workload {
        Workload::Get => format!("{any}{};\n", statements::get(table, ID)),
        Workload::List | Workload::Ok => format!("{};\n", statements::list(table)),
        Workload::Put | Workload::Patch => match target.writes {
            Writes::Own(_) => own_script(table),
            Writes::Once(first) => once_script(table, *rows, first, clients),
        },
        Workload::Conflict => {
            let put = statements::put(table, &Values { version: ":stale", ..VALUES });
            format!("{any}{AMOUNT}{put};\n{};\n", statements::get(table, ID))
        }
        Workload::Post => format!("{AMOUNT}{};\n", statements::post(table, &VALUES)),
    }
}

/// A client goes round the rows that it owns. The variables hold their versions, that of the next
/// row first, as the last answer gave them. A missed UPDATE gives `\gset` nothing and ends the run.
fn own_script(table: &str) -> String {
    let put = statements::put(table, &Values { version: ":v0", ..VALUES });
    let row = choose(&format!(":client_id * {OWNED} + :k + 1"));
    let mut script = format!(
        "{row}{AMOUNT}\
         \\if :v0 = 0\n\
         select version as v0 from {table} where id = {ID} \\gset\n\
         \\endif\n\
         {put} as raised \\gset\n\
         \\set k (:k + 1) % {OWNED}\n"
    );
    // Writing to a String cannot fail.
    for row in 1..OWNED {
        let _ = writeln!(script, "\\set v{} :v{row}", row - 1);
    }
    let _ = writeln!(script, "\\set v{} :raised", OWNED - 1);
    script
}

/// The clients share the rows from a place of the order on, each of which is still as it was loaded.
fn once_script(table: &str, rows: u32, first: u32, clients: usize) -> String {
    let loaded = LOADED.to_string();
    let put = statements::put(table, &Values { version: &loaded, ..VALUES });
    let place = format!("{first} + :client_id + :k * {clients}");
    let n = choose(&format!("({place}) * {STRIDE} % {rows} + 1"));
    format!("{n}{AMOUNT}{put} as raised \\gset\n\\set k :k + 1\n")
}
