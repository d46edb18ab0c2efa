//! Measures the feed: a million changes pulled from the beginning beside a plain ordered scan of the
//! same rows by psql, and what ten thousand idle streams cost. `cargo bench --bench feed`
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use counterfoil::postgres::{Options, Postgres};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How many changes are pulled, in transactions of so many.
const CHANGES: usize = 1_000_000;
const TRANSACTION: usize = 1000;
/// How many streams are open. Each takes an open file in both processes.
const STREAMS: usize = 10_000;
/// Of so many rounds the median counts.
const ROUNDS: usize = 3;

const PROGRAM: &str = env!("CARGO_BIN_EXE_counterfoil");

fn main() -> Fallible<()> {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("run by `cargo bench --bench feed`");
        return Ok(());
    }
    let directory = std::env::temp_dir().join(format!("counterfoil-feed-{}", std::process::id()));
    let measured = tokio::runtime::Runtime::new()?.block_on(measure(&directory));
    let _ = fs::remove_dir_all(&directory);
    measured
}

async fn measure(directory: &Path) -> Fallible<()> {
    let mut options = Options::new(directory.join("pg"));
    options.settings = [("shared_buffers", "256MB"), ("max_wal_size", "4GB")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let postgres = Postgres::start(&options).await?;
    let url = postgres.url("postgres");
    let migrated = Command::new(PROGRAM).arg("migrate").env("DATABASE_URL", &url).status()?;
    if !migrated.success() {
        return Err("the database could not be migrated".into());
    }
    let mut conn = PgConnection::connect(&url).await?;
    fill(&mut conn).await?;
    let mut server = Server::start(&url).await?;

    let (mut pulls, mut scans) = (Vec::new(), Vec::new());
    let mut cursor = String::new();
    for _ in 0..ROUNDS {
        scans.push(scan(&postgres)?);
        let begun = Instant::now();
        cursor = pull(&server.address).await?;
        pulls.push(begun.elapsed());
    }
    let (pulled, scanned) = (rate(&mut pulls), rate(&mut scans));
    println!("| {CHANGES} changes from the beginning | rows per second |\n|---|---|");
    println!("| `psql`, one ordered scan of the same rows to nowhere | {scanned:.0} |");
    println!("| pull, pages of 1000, one client | {pulled:.0} ({:.2} of it) |", pulled / scanned);

    let pid = server.child.id();
    let before = memory(pid)?;
    let streams = open(&server.address, &cursor).await?;
    println!("\n{STREAMS} idle streams: {before} MiB before, {} MiB with them", memory(pid)?);
    let begun = Instant::now();
    sqlx::raw_sql("UPDATE doc SET name = 'told' WHERE id = 1").execute(&mut conn).await?;
    for mut stream in streams {
        until(&mut stream, br#""name":"told""#).await?;
    }
    println!("all told {} ms after a write, {} MiB", begun.elapsed().as_millis(), memory(pid)?);
    server.end();
    Ok(())
}

async fn fill(conn: &mut PgConnection) -> Fallible<()> {
    let table = "CREATE TABLE doc (id bigint PRIMARY KEY, name text NOT NULL, amount numeric(12,2) NOT NULL, due_on date NOT NULL, note text)";
    sqlx::raw_sql(table).execute(&mut *conn).await?;
    sqlx::raw_sql("SELECT counterfoil.adopt('doc')").execute(&mut *conn).await?;
    for first in (0..CHANGES).step_by(TRANSACTION) {
        let text = format!(
            "INSERT INTO doc SELECT i, 'customer ' || i, i % 10000 / 100.0, date '2026-01-01' + (i % 365)::int, repeat('n', (i % 50)::int) \
             FROM generate_series({first}, {}) i",
            first + TRANSACTION - 1
        );
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *conn).await?;
    }
    sqlx::raw_sql("VACUUM ANALYZE").execute(conn).await?;
    Ok(())
}

/// A plain ordered scan of what a pull tells.
fn scan(postgres: &Postgres) -> Fallible<Duration> {
    let copy = "\\copy (SELECT resource, id, version, op, doc, \"by\", at, origin FROM counterfoil.change ORDER BY xid, seq) TO /dev/null";
    let begun = Instant::now();
    let mut psql = Command::new(postgres.bin_dir().join("psql"));
    psql.args(["-qX", "-h"]).arg(postgres.socket_dir()).args(["-U", "postgres", "-c", copy]);
    if !psql.env("PGCLIENTENCODING", "UTF8").stdout(Stdio::null()).status()?.success() {
        return Err("psql failed".into());
    }
    Ok(begun.elapsed())
}

/// Pulls everything; gives the last cursor.
async fn pull(address: &str) -> Fallible<String> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let (mut cursor, mut changes) = (String::new(), 0);
    loop {
        let url = format!("http://{address}/api/v1/sync/pull?limit=1000&cursor={cursor}");
        let page = client.get(url).send().await?.error_for_status()?.text().await?;
        changes += page.matches(r#"{"resource":"#).count();
        let (_, end) = page.rsplit_once(r#""cursor":""#).ok_or("no cursor")?;
        let (next, rest) = end.split_once('"').ok_or("no cursor")?;
        next.clone_into(&mut cursor);
        if rest.contains(r#""has_more":false"#) {
            break;
        }
    }
    if changes != CHANGES {
        return Err(format!("{changes} changes came").into());
    }
    Ok(cursor)
}

#[expect(clippy::cast_precision_loss, reason = "a million is exact")]
fn rate(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |median| CHANGES as f64 / median.as_secs_f64())
}

async fn open(address: &str, cursor: &str) -> Fallible<Vec<TcpStream>> {
    let request =
        format!("GET /api/v1/sync/stream?cursor={cursor} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let mut streams = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        until(&mut stream, b"\r\n\r\n").await?;
        streams.push(stream);
    }
    Ok(streams)
}

async fn until(stream: &mut TcpStream, text: &[u8]) -> Fallible<()> {
    let mut read = Vec::new();
    let mut buffer = [0; 2048];
    while !read.windows(text.len()).any(|part| part == text) {
        let length =
            tokio::time::timeout(Duration::from_mins(1), stream.read(&mut buffer)).await??;
        if length == 0 {
            return Err(format!("cut off after {}", String::from_utf8_lossy(&read)).into());
        }
        read.extend(buffer.iter().take(length));
    }
    Ok(())
}

/// The resident memory of a process, in MiB.
fn memory(pid: u32) -> Fallible<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    async fn start(url: &str) -> Fallible<Self> {
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--no-auth", "--listen", "127.0.0.1:0", "--log", "error"])
            .env("DATABASE_URL", url)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        let mut lines = BufReader::new(tokio::process::ChildStdout::from_std(output)?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some(address) = line.strip_prefix("listening: http://") {
                return Ok(Self { child, address: address.to_owned() });
            }
        }
        Err("the server did not start".into())
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
