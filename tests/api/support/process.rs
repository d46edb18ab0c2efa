//! The program itself, as users run it: a process that is told by signals.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::wait_until;

/// How long a process may take to say or do what it should.
const LIMIT: Duration = Duration::from_secs(30);

/// A running `counterfoil`; killed when dropped.
pub struct Program {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    pub pid: u32,
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub url: String,
    /// The lines up to that, in order.
    pub said: Vec<String>,
}

impl Program {
    /// `serve` on a database, at a port of its own.
    pub async fn serve(database_url: &str) -> Self {
        Self::configured(database_url, &[]).await
    }

    /// As [`Self::serve`], with more arguments.
    pub async fn configured(database_url: &str, arguments: &[&OsStr]) -> Self {
        let mut command = command();
        command.args(["serve", "--no-auth", "--listen", "127.0.0.1:0"]);
        command.args(["--database-url", database_url]).args(arguments);
        Self::start(command).await
    }

    /// `dev` in a directory, at a port of its own.
    pub async fn dev(directory: &Path) -> Self {
        Self::start(dev_command(directory)).await
    }

    /// Runs `dev` to its end, where it is to fail.
    pub async fn dev_to_end(directory: &Path) -> Output {
        let run = dev_command(directory).output();
        tokio::time::timeout(LIMIT, run).await.expect("it ends").unwrap()
    }

    async fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        let url = loop {
            let line = tokio::time::timeout(LIMIT, output.next_line()).await;
            let line = line.expect("it listens").unwrap().expect("it says where it listens");
            said.push(line.clone());
            if let Some(url) = line.strip_prefix("listening: ") {
                break url.to_owned();
            }
        };
        Self { child, output, pid, url, said }
    }

    /// The rest of what it says until its end.
    pub async fn rest(&mut self) -> Vec<String> {
        let mut rest = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            rest.push(line);
        }
        rest
    }

    /// Its status, once it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(LIMIT, self.child.wait()).await.expect("it ends").unwrap()
    }
}

/// Runs the program with these arguments to its end.
pub async fn run(arguments: &[&str]) -> Output {
    let run = command().args(arguments).output();
    tokio::time::timeout(LIMIT, run).await.expect("it ends").unwrap()
}

fn dev_command(directory: &Path) -> Command {
    let mut command = command();
    command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory);
    command.current_dir(directory);
    command
}

/// The program, with nothing of this environment that would tell it what to do.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text == "DATABASE_URL" || text.starts_with("COUNTERFOIL_") {
            command.env_remove(name);
        }
    }
    command.env("COUNTERFOIL_LOG", "error").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Sends a signal, named without `SIG`.
pub fn signal(name: &str, pids: &[u32]) {
    let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
    let script = format!("kill -s {name} {}", pids.join(" "));
    // A process may be gone by now; that is for the test to judge.
    drop(std::process::Command::new("sh").args(["-c", &script]).output().unwrap());
}

/// Whether a process is there and more than an entry that nobody has collected yet.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The processes that one started.
pub fn children(pid: u32) -> Vec<u32> {
    let parent = |child: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&child| parent(child) == Some(pid))
        .collect()
}

/// Waits for the end of processes.
pub async fn all_gone(pids: &[u32]) {
    wait_until("the processes have ended", async || !pids.iter().any(|&pid| is_alive(pid))).await;
}
