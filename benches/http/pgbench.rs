//! The reference "pgbench": the same statements without HTTP, over the Unix socket.

use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Fallible;
use crate::data::{DUE_ON, ROWS, TITLE, memo};
use crate::postgres::Postgres;
use crate::proc;
use crate::statements::{self, Values};
use crate::workload::{OWNED, STALE, Workload};

const ID: &str = "md5(:n::text)::uuid";
const VALUES: Values<'static> = Values {
    id: ID,
    title: ":title",
    amount: ":amount",
    due_on: ":due_on",
    memo: ":memo",
    version: "",
};

/// What `pgbench` reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) average_ms: f64,
    /// PostgreSQL's processor time per transaction, in microseconds.
    pub(crate) postgres_us: f64,
}

/// Not counted: each new backend fills its caches and plans its first statements.
const WARM_UP: Duration = Duration::from_secs(1);

pub(crate) fn run(
    postgres: &Postgres,
    workload: Workload,
    table: &str,
    clients: usize,
    seconds: f64,
) -> Fallible<Rate> {
    let script = postgres.directory().join("script.sql");
    fs::write(&script, script_of(workload, table))?;
    // It reports whole seconds, and sometimes not the last one.
    let seconds = seconds.ceil().max(2.0);
    let mut command = Command::new(postgres.bin_dir().join("pgbench"));
    command
        .args(["-n", "-M", "prepared", "-U", "postgres", "-j", "2", "-P", "1", "-h"])
        .arg(postgres.socket())
        .args(["-c", &clients.to_string()])
        .args(["-T", &format!("{}", seconds + WARM_UP.as_secs_f64())])
        .args(["-D", &format!("title={TITLE}"), "-D", &format!("memo={}", memo())])
        .args(["-D", &format!("due_on={DUE_ON}"), "-D", &format!("stale={STALE}"), "-D", "k=0"]);
    for row in 0..OWNED {
        command.args(["-D", &format!("v{row}=0")]);
    }
    command.arg("-f").arg(script).arg("postgres");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // Processor time is read while all backends live, in the middle of what is counted.
    let span = seconds - 0.2;
    thread::sleep(WARM_UP + Duration::from_millis(100));
    let before = proc::postgres(postgres.pid());
    thread::sleep(Duration::from_secs_f64(span));
    let after = proc::postgres(postgres.pid());
    let output = child.wait_with_output()?;
    let (report, log) = (str::from_utf8(&output.stdout)?, str::from_utf8(&output.stderr)?);
    if !output.status.success() {
        return Err(format!("pgbench: {}", log.trim()).into());
    }
    if !report.contains("number of failed transactions: 0 ") {
        return Err(format!("pgbench: {}", report.trim()).into());
    }
    let (per_second, average_ms) = progress(log)?;
    Ok(Rate { per_second, average_ms, postgres_us: (after? - before?) / (per_second * span) })
}

/// The averages of the lines `progress: 2.0 s, 8123.4 tps, lat 3.9 ms …`, but for the first second.
fn progress(log: &str) -> Fallible<(f64, f64)> {
    let lines = log.lines().filter(|line| line.starts_with("progress: ")).skip(1);
    let (mut count, mut rates, mut latencies) = (0.0, 0.0, 0.0);
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let (Some(rate), Some(latency)) = (words.get(3), words.get(6)) else {
            return Err(format!("pgbench: {line}").into());
        };
        count += 1.0;
        rates += rate.parse::<f64>()?;
        latencies += latency.parse::<f64>()?;
    }
    if count == 0.0 {
        return Err(format!("pgbench did not report its progress: {log}").into());
    }
    Ok((rates / count, latencies / count))
}

fn script_of(workload: Workload, table: &str) -> String {
    let any = format!("\\set n random(1, {ROWS})\n");
    let amount = "\\set amount random(100000000, 101000000)\n";
    match workload {
        Workload::Get => format!("{any}{};\n", statements::get(table, ID)),
        Workload::List | Workload::Ok => format!("{};\n", statements::list(table)),
        Workload::Put => put_script(table, amount),
        Workload::Conflict => {
            let put = statements::put(table, &Values { version: ":stale", ..VALUES });
            format!("{any}{amount}{put};\n{};\n", statements::get(table, ID))
        }
        Workload::Post => format!("{amount}{};\n", statements::post(table, &VALUES)),
    }
}

/// A client goes round the rows that it owns. The variables hold their versions, that of the next
/// row first, as the last answer gave them. A missed UPDATE gives `\gset` nothing and ends the run.
fn put_script(table: &str, amount: &str) -> String {
    let put = statements::put(table, &Values { version: ":v0", ..VALUES });
    let mut script = format!(
        "\\set n :client_id * {OWNED} + :k + 1\n\
         {amount}\
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
