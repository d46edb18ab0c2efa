//! One row that many clients raise at once: increments beside pgbench doing the same UPDATE, and
//! beside clients that read, add and write back under `If-Match`. Run by `make bench-hot-row`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod client;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use counterfoil::postgres::{Options, Postgres};
use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::client::Client;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The program to measure, when not the one of this build: `BENCH_PROGRAM`.
fn program() -> String {
    std::env::var("BENCH_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_counterfoil").to_owned())
}

const CLIENTS: usize = 128;
/// Not counted: connections and statements settle in it.
const WARM_UP: Duration = Duration::from_secs(1);

const TABLES: &str = "
    CREATE TABLE counters (id integer PRIMARY KEY, n bigint NOT NULL DEFAULT 0, writer integer);
    INSERT INTO counters VALUES (1);";

/// What an increment does, as a statement: the guard and the change log come with the table.
const UPDATE: &str = "UPDATE counters AS t SET n = n + 1, version = version + 1 WHERE id = 1 \
    RETURNING version, row_to_json(t.*)::text;";

fn main() -> Fallible<()> {
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Fallible<()> {
    let seconds: u64 = std::env::var("BENCH_SECONDS").map_or(Ok(5), |seconds| seconds.parse())?;
    let measured = Duration::from_secs(seconds);
    let directory =
        std::env::temp_dir().join(format!("counterfoil-hot-row-{}", std::process::id()));
    let mut options = Options::new(directory.join("pg"));
    options.durable = true;
    options.settings.push(("max_connections".to_owned(), "300".to_owned()));
    let postgres = Postgres::start(&options).await?;
    let url = postgres.url("postgres");
    println!("| history | what | writes/s | requests for each |");
    println!("| --- | --- | ---:| ---:|");
    for history in [false, true] {
        prepare(&postgres, &url, history)?;
        let kept = if history { "kept" } else { "none" };
        let mut server = Server::start(&url).await?;
        for (what, way) in [("increment", Way::Increment), ("read, add, If-Match", Way::ReadFirst)]
        {
            let (writes, requests) = load(&server.address, way, measured).await?;
            #[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
            let each = requests as f64 / writes.max(1) as f64;
            println!("| {kept} | {what} | {} | {each:.2} |", writes / seconds);
        }
        server.end()?;
        println!(
            "| {kept} | pgbench, the same UPDATE | {} | 1.00 |",
            pgbench(&postgres, &directory, seconds)?
        );
    }
    postgres.stop().await?;
    fs::remove_dir_all(&directory)?;
    Ok(())
}

/// Makes the table anew and adopts it.
fn prepare(postgres: &Postgres, url: &str, history: bool) -> Fallible<()> {
    let script = format!(
        "DROP SCHEMA IF EXISTS counterfoil CASCADE; DROP TABLE IF EXISTS counters; {TABLES}"
    );
    let psql = Command::new(postgres.bin_dir().join("psql"))
        .args(["-q", "-v", "ON_ERROR_STOP=1", "-c", &script, url])
        .stderr(Stdio::null())
        .status()?;
    let mut adopt = vec!["adopt", "public.counters"];
    if !history {
        adopt.push("--no-history");
    }
    let mut done = psql.success();
    for arguments in [&["migrate"][..], &adopt] {
        let mut command = Command::new(program());
        command.args(arguments).env("DATABASE_URL", url).stdout(Stdio::null());
        done &= command.status()?.success();
    }
    if done { Ok(()) } else { Err("the table could not be prepared".into()) }
}

/// `counterfoil serve` in a process of its own.
struct Server {
    child: tokio::process::Child,
    address: String,
}

impl Server {
    async fn start(url: &str) -> Fallible<Self> {
        let mut command = tokio::process::Command::new(program());
        command.args(["serve", "--no-auth", "--listen", "127.0.0.1:0"]).env("DATABASE_URL", url);
        command.env("COUNTERFOIL_LOG", "error").kill_on_drop(true);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some(address) = line.strip_prefix("listening: http://") {
                return Ok(Self { child, address: address.to_owned() });
            }
        }
        Err("it does not listen".into())
    }

    fn end(&mut self) -> Fallible<()> {
        Ok(self.child.start_kill()?)
    }
}

#[derive(Clone, Copy)]
enum Way {
    Increment,
    ReadFirst,
}

/// How many writes were accepted, and how many requests they took.
async fn load(address: &str, way: Way, measured: Duration) -> Fallible<(u64, u64)> {
    let begin = Instant::now() + WARM_UP;
    let before = stored(address).await?;
    let end = begin + measured;
    let clients = (0..CLIENTS).map(|number| raise(address, number, way, begin, end));
    let mut sum = Seen::default();
    for client in join_all(clients).await {
        let seen = client?;
        sum.writes += seen.writes;
        sum.requests += seen.requests;
        sum.raised += seen.raised;
    }
    if stored(address).await? != before + sum.raised {
        return Err("what the row holds is not what was acknowledged".into());
    }
    Ok((sum.writes, sum.requests))
}

/// What the row holds.
async fn stored(address: &str) -> Fallible<i64> {
    let (_, body) = Client::connect(address).await?.send("GET", "/counters/1", "", "").await?;
    let row: serde_json::Value = serde_json::from_slice(&body)?;
    Ok(row["data"]["n"].as_i64().ok_or("no number")?)
}

/// What one client saw.
#[derive(Default)]
struct Seen {
    /// In the time that is measured.
    writes: u64,
    requests: u64,
    /// By how much it raised the row in all.
    raised: i64,
}

async fn raise(
    address: &str,
    number: usize,
    way: Way,
    begin: Instant,
    end: Instant,
) -> Fallible<Seen> {
    let mut client = Client::connect(address).await?;
    let mut seen = Seen::default();
    let mut known: Option<(String, i64)> = None;
    while Instant::now() < end {
        let (status, body) = match (way, &known) {
            (Way::Increment, _) => {
                client.send("POST", "/counters/1/increment", "", r#"{"field":"n"}"#).await?
            }
            (Way::ReadFirst, None) => client.send("GET", "/counters/1", "", "").await?,
            (Way::ReadFirst, Some((version, n))) => {
                // Who writes is written too: without that, two who write the same sum are taken for
                // one who repeats it.
                let body = format!("{{\"n\":{},\"writer\":{number}}}", n + 1);
                let tag = format!("If-Match: \"{version}\"\r\n");
                client.send("PATCH", "/counters/1", &tag, &body).await?
            }
        };
        let counts = Instant::now() >= begin;
        seen.requests += u64::from(counts);
        let wrote = status == 200 && (matches!(way, Way::Increment) || known.is_some());
        seen.writes += u64::from(counts && wrote);
        seen.raised += i64::from(wrote);
        match (way, status) {
            // A conflict brings the row as it stands: nobody has to read it again.
            (Way::ReadFirst, 200 | 409) => {
                let row: serde_json::Value = serde_json::from_slice(&body)?;
                let (version, n) = (&row["data"]["version"], &row["data"]["n"]);
                known = Some((version.to_string(), n.as_i64().ok_or("no number")?));
            }
            (Way::Increment, 200) => {}
            (_, status) => return Err(format!("answered {status}").into()),
        }
    }
    Ok(seen)
}

/// Transactions per second.
fn pgbench(postgres: &Postgres, directory: &Path, seconds: u64) -> Fallible<u64> {
    let script = directory.join("update.sql");
    fs::write(&script, UPDATE)?;
    let child: Child = Command::new(postgres.bin_dir().join("pgbench"))
        .args(["-n", "-M", "prepared", "-U", "postgres", "-j", "2", "-c", &CLIENTS.to_string()])
        .args(["-T", &seconds.to_string(), "-h"])
        .arg(postgres.socket_dir())
        .arg("-f")
        .arg(&script)
        .arg("postgres")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.wait_with_output()?;
    let report = String::from_utf8(output.stdout)?;
    let rate = report.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|rest| rest.split('.').next()).ok_or("pgbench gave no figure")?;
    Ok(rate.parse()?)
}
