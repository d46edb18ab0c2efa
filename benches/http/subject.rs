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

/// Prepares the database and makes the tables resources; the second one with history.
pub(crate) fn adopt(program: &Path, url: &str, plain: &str, logged: &str) -> Fallible<()> {
    let plain_table = format!("public.{plain}");
    let logged_table = format!("public.{logged}");
    let runs: [&[&str]; 3] = [
        &["migrate"],
        &["adopt", &plain_table, "--no-history", "--name", plain],
        &["adopt", &logged_table, "--name", logged],
    ];
    for arguments in runs {
        let status = Command::new(program)
            .args(arguments)
            .env("DATABASE_URL", url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        if !status.success() {
            return Err(format!("counterfoil {}: {status}", arguments.join(" ")).into());
        }
    }
    Ok(())
}

impl Subject {
    pub(crate) fn start(program: &Path, url: &str) -> Fallible<Self> {
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(["serve", "--no-auth", "--listen", "127.0.0.1:0"])
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
        .recv_timeout(Duration::from_secs(20))
        .map_err(|_| "counterfoil serve did not say where it listens")?;
    Ok(address.parse()?)
}
