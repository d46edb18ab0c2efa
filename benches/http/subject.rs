//! The subject: the real `counterfoil serve`, in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::proc::memory;

/// A running service. Dropping it ends the process.
pub(crate) struct Subject {
    pub(crate) address: SocketAddr,
    pub(crate) start_up: Duration,
    pub(crate) at_rest_mib: f64,
    child: Child,
}

/// Prepares the database.
pub(crate) fn migrate(program: &Path, url: &str) -> Fallible<()> {
    run(program, url, &["migrate"])
}

/// Makes a table a resource, or changes whether it has history.
pub(crate) fn adopt(program: &Path, url: &str, table: &str, history: bool) -> Fallible<()> {
    let shown = format!("public.{table}");
    let mut arguments = vec!["adopt", &shown];
    if !history {
        arguments.push("--no-history");
    }
    run(program, url, &arguments)
}

fn run(program: &Path, url: &str, arguments: &[&str]) -> Fallible<()> {
    let status = Command::new(program)
        .args(arguments)
        .env("DATABASE_URL", url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("counterfoil {}: {status}", arguments.join(" ")).into())
    }
}

impl Subject {
    pub(crate) fn start(program: &Path, url: &str) -> Fallible<Self> {
        let mut command = Command::new(program);
        command.args(["serve", "--no-auth"]);
        Self::run(&mut command, url)
    }

    /// Starts a program that says where it listens.
    pub(crate) fn run(command: &mut Command, url: &str) -> Fallible<Self> {
        let started = Instant::now();
        let mut child = command
            .args(["--listen", "127.0.0.1:0"])
            .env("DATABASE_URL", url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let address = match listening(&mut child) {
            Ok(address) => address,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        let start_up = started.elapsed();
        let mut subject = Self { address, start_up, at_rest_mib: 0.0, child };
        thread::sleep(Duration::from_secs(1));
        subject.at_rest_mib = memory(subject.pid(), "VmRSS:")?;
        Ok(subject)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn end(mut self) -> Fallible<()> {
        let pid = self.pid().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status()?;
        let status = self.child.wait()?;
        if asked.success() && status.success() {
            Ok(())
        } else {
            Err(format!("the server ended with {status}").into())
        }
    }

    /// The most memory that the process ever held.
    pub(crate) fn peak_mib(&self) -> Fallible<f64> {
        memory(self.pid(), "VmHWM:")
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address from the line `listening: http://…` on standard output.
fn listening(child: &mut Child) -> Fallible<SocketAddr> {
    let output = child.stdout.take().ok_or("no standard output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Reads on to the end, so that the process never blocks on a full pipe.
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(address) = line.strip_prefix("listening: http://") {
                let _ = sender.send(address.trim_end_matches('/').to_owned());
            }
        }
    });
    let address = receiver
        .recv_timeout(Duration::from_mins(1))
        .map_err(|_| "counterfoil serve did not say where it listens")?;
    Ok(address.parse()?)
}
