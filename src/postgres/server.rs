//! The running server process.
//!
//! A thread of its own, the keeper, prepares the cluster, starts the server and then does nothing
//! but wait for its end. It must be a thread of its own: the signal that ends the server when this
//! process dies is tied by the kernel to the *thread* that started it, and the threads of an async
//! runtime come and go.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use super::cluster::{Cluster, last_lines};
use super::error::io;
use super::install::Install;
use super::layout::Place;
use super::{Error, Options, PORT};

/// How long a fast shutdown may take: its checkpoint writes all that is in memory to the disk.
const FAST_LIMIT: Duration = Duration::from_secs(20);

/// How long the server may take to end without a checkpoint.
const QUIT_LIMIT: Duration = Duration::from_secs(5);

/// When a signal is sent again. The process may not have been of the account yet that sends it: it
/// begins as root's and is handed over.
const SIGNAL_AGAIN: Duration = Duration::from_millis(200);

/// A log larger than this is begun anew at the next start.
const LOG_LIMIT: u64 = 4 << 20;

/// A server process, ended when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    // The lock in it is given back last, after `drop` has seen the process end.
    cluster: Cluster,
    pid: u32,
    /// Where the part of the log begins that this process wrote.
    log_start: u64,
    /// What the keeper sends when the process has ended. In a mutex only to be shareable.
    ended: Mutex<mpsc::Receiver<ExitStatus>>,
    status: Option<ExitStatus>,
    /// Closed by the keeper when the process has ended.
    running: watch::Receiver<()>,
}

impl Server {
    /// Prepares the cluster and starts the process; it may not accept connections yet.
    pub(super) async fn launch(options: Options) -> Result<Self, Error> {
        let (started, start) = oneshot::channel();
        std::thread::Builder::new()
            .name("postgres-keeper".to_owned())
            .spawn(move || keep(&options, started))
            .map_err(io("start a thread for", "postgres"))?;
        start.await.unwrap_or_else(|_| {
            Err(io("start", "postgres")(std::io::Error::other("the thread ended")))
        })
    }

    pub(super) fn place(&self) -> &Place {
        &self.cluster.place
    }

    pub(super) fn install(&self) -> &Install {
        &self.cluster.install
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// The error to report if the process has ended although nobody told it to.
    pub(super) fn early_exit(&mut self) -> Option<Error> {
        let status = self.wait(Duration::ZERO)?;
        let log_file = self.place().log_file.clone();
        let log = read_from(&log_file, self.log_start).unwrap_or_default();
        Some(Error::Exited { status, log_file, log: last_lines(&log) })
    }

    /// Resolves when the process has ended, whoever ended it.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mut running = self.running.clone();
        async move { while running.changed().await.is_ok() {} }
    }

    /// Ends the process and waits for it; blocks. Repeating it does nothing.
    pub(super) fn shutdown(&mut self) -> Result<(), Error> {
        if self.wait(Duration::ZERO).is_some() {
            return Ok(());
        }
        for (signal, limit) in [("INT", FAST_LIMIT), ("QUIT", QUIT_LIMIT), ("KILL", QUIT_LIMIT)] {
            let begun = Instant::now();
            while begun.elapsed() < limit {
                self.cluster.account.signal(signal, self.pid);
                if self.wait(SIGNAL_AGAIN).is_some() {
                    return Ok(());
                }
            }
            tracing::warn!(pid = self.pid, signal, "PostgreSQL did not end in time");
        }
        Err(Error::NotStopped { pid: self.pid })
    }

    /// How the process ended, if it does so within the limit.
    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        if self.status.is_none() {
            let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
            self.status = ended.recv_timeout(limit).ok();
        }
        self.status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.shutdown() {
            tracing::error!(%error, "a private PostgreSQL was left behind");
        }
    }
}

/// The life of the keeper: from the preparation to the end of the process.
fn keep(options: &Options, started: oneshot::Sender<Result<Server, Error>>) {
    let (end, ended) = mpsc::channel();
    let (_run, running) = watch::channel(());
    let launched = Cluster::prepare(options).and_then(|cluster| {
        let (child, log_start) = spawn(&cluster, options)?;
        Ok((cluster, child, log_start))
    });
    let (cluster, mut child, log_start) = match launched {
        Ok(launched) => launched,
        Err(error) => {
            // Nobody is there to hear it if the start was given up in the meantime.
            drop(started.send(Err(error)));
            return;
        }
    };
    if !cluster.account.is_tied() {
        tracing::info!(
            "without setpriv (util-linux), a PostgreSQL whose owner is killed stays until the \
             next start"
        );
    }
    let ended = Mutex::new(ended);
    let server = Server { cluster, pid: child.id(), log_start, ended, status: None, running };
    // If the start was given up, the server that comes back must not be dropped here: it would
    // wait for the end that only this thread can report.
    if let Err(Ok(mut given_up)) = started.send(Ok(server)) {
        while given_up.status.is_none() {
            given_up.cluster.account.signal("INT", given_up.pid);
            std::thread::sleep(SIGNAL_AGAIN);
            given_up.status = child.try_wait().unwrap_or_default();
        }
        return;
    }
    match child.wait() {
        // The handle may be gone already if it gave up waiting.
        Ok(status) => drop(end.send(status)),
        Err(error) => tracing::error!(%error, "could not wait for PostgreSQL"),
    }
}

/// Starts the process, its messages appended to the log.
fn spawn(cluster: &Cluster, options: &Options) -> Result<(Child, u64), Error> {
    let place = &cluster.place;
    let (log, log_start) =
        open_log(&place.log_file).map_err(io("open the log", &place.log_file))?;
    let errors = log.try_clone().map_err(io("open the log", &place.log_file))?;
    let program = cluster.install.program("postgres");
    let mut command = cluster.account.tied_command(&program);
    command.arg("-D").arg(&place.data_dir).arg("-k").arg(&place.socket_dir);
    let own = [
        ("listen_addresses", ""),
        ("unix_socket_permissions", "0700"),
        ("logging_collector", "off"),
        ("log_destination", "stderr"),
    ];
    let not_durable =
        [("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off")];
    let fast = if options.durable { &[][..] } else { &not_durable[..] };
    command.arg("-p").arg(PORT.to_string());
    for (name, value) in own.iter().chain(fast) {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    for (name, value) in &options.settings {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    let child = command.stdout(log).stderr(errors).stdin(Stdio::null()).spawn();
    Ok((child.map_err(io("run", program))?, log_start))
}

/// Opens the log for appending and says where its new part begins.
fn open_log(path: &Path) -> std::io::Result<(File, u64)> {
    let log = OpenOptions::new().append(true).create(true).open(path)?;
    if log.metadata()?.len() > LOG_LIMIT {
        log.set_len(0)?;
    }
    let start = log.metadata()?.len();
    Ok((log, start))
}

/// The text of a file from a position on.
fn read_from(path: &Path, start: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
