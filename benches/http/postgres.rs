//! The private PostgreSQL of the benchmark: the crate's own launcher, with durable commits.

use std::fs;
use std::path::{Path, PathBuf};

use counterfoil::postgres::{Options, Postgres as Launched};

use crate::Fallible;

/// What differs from PostgreSQL's defaults. Nothing here trades safety for speed.
const SETTINGS: [(&str, &str); 5] = [
    ("max_connections", "600"),
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "30min"),
    ("log_min_messages", "panic"),
];

/// A running server. Dropping it stops the server and removes its files.
pub(crate) struct Postgres {
    /// `None` once it was stopped.
    launched: Option<Launched>,
    directory: PathBuf,
    socket: PathBuf,
    bin: PathBuf,
    url: String,
    pid: u32,
}

impl Postgres {
    pub(crate) fn start() -> Fallible<Self> {
        let name = format!("counterfoil-bench-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let mut options = Options::new(directory.join("pg"));
        options.durable = true;
        options.settings =
            SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let launched = tokio::runtime::Runtime::new()?.block_on(Launched::start(&options))?;
        Ok(Self {
            socket: launched.socket_dir().to_owned(),
            bin: launched.bin_dir().to_owned(),
            url: launched.url("postgres"),
            pid: launched.pid(),
            launched: Some(launched),
            directory,
        })
    }

    /// Where `pgbench` is.
    pub(crate) fn bin_dir(&self) -> &Path {
        &self.bin
    }

    /// The folder of the cluster; scripts may be put here, too.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The folder of the Unix socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.launched.take());
        // What is left behind is in the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
