//! The private PostgreSQL of the benchmark: the crate's own launcher, with durable commits.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use counterfoil::postgres::{Options, Postgres as Launched};
use uuid::Uuid;

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
    bin: PathBuf,
    pid: u32,
    socket: Way,
    tcp: Way,
}

/// A way to reach it.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) url: String,
    /// As `pgbench -h` takes it.
    pub(crate) host: OsString,
    pub(crate) password: Option<String>,
}

impl Postgres {
    /// Listens on an address of this machine, too, where that is asked for.
    pub(crate) fn start(tcp: bool) -> Fallible<Self> {
        let name = format!("counterfoil-bench-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory)?;
        let mut options = Options::new(directory.join("pg"));
        options.durable = true;
        options.settings =
            SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        // An address of its own, since the port is always the usual one.
        let pid = std::process::id();
        let address =
            format!("127.{}.{}.{}", 1 + pid / 60_000 % 200, pid / 250 % 240, 2 + pid % 250);
        if tcp {
            let rules = directory.join("hba.conf");
            fs::write(&rules, "local all all trust\nhost all all 127.0.0.0/8 scram-sha-256\n")?;
            options.settings.push(("hba_file".to_owned(), rules.to_string_lossy().into_owned()));
            options.settings.push(("listen_addresses".to_owned(), address.clone()));
        }
        let launched = tokio::runtime::Runtime::new()?.block_on(Launched::start(&options))?;
        let password = Uuid::now_v7().simple().to_string();
        Ok(Self {
            bin: launched.bin_dir().to_owned(),
            pid: launched.pid(),
            socket: Way {
                url: launched.url("postgres"),
                host: launched.socket_dir().as_os_str().to_owned(),
                password: None,
            },
            tcp: Way {
                url: format!("postgres://postgres:{password}@{address}:5432/postgres"),
                host: address.into(),
                password: Some(password),
            },
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

    pub(crate) const fn way(&self, tcp: bool) -> &Way {
        if tcp { &self.tcp } else { &self.socket }
    }

    pub(crate) const fn pid(&self) -> u32 {
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
