//! The private PostgreSQL of the benchmark, with durable commits.

use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Fallible;

/// What differs from PostgreSQL's defaults. Nothing here trades safety for speed.
const SETTINGS: [&str; 7] = [
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "max_connections=300",
    "shared_buffers=256MB",
    "max_wal_size=4GB",
    "checkpoint_timeout=30min",
    "log_min_messages=panic",
];

/// A running server. Dropping it stops the server and removes its files.
pub(crate) struct Postgres {
    child: Child,
    directory: PathBuf,
    bin: PathBuf,
}

impl Postgres {
    pub(crate) fn start() -> Fallible<Self> {
        let bin = bin_dir()?;
        let name = format!("counterfoil-bench-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory)?;
        let started = start(&bin, &directory);
        if started.is_err() {
            fs::remove_dir_all(&directory)?;
        }
        let server = Self { child: started?, directory, bin };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Where `pgbench` is.
    pub(crate) fn bin_dir(&self) -> &Path {
        &self.bin
    }

    /// The directory of the Unix socket; scripts may be put here, too.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn url(&self) -> String {
        let host = self.directory.to_string_lossy().replace('/', "%2F");
        format!("postgres://postgres@localhost/postgres?host={host}")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_ready(&self) -> Fallible<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            let probe = Command::new(self.bin.join("pg_isready"))
                .args(["-q", "-U", "postgres", "-h"])
                .arg(&self.directory)
                .status()?;
            if probe.success() {
                return Ok(());
            }
            sleep(Duration::from_millis(50));
        }
        Err("PostgreSQL did not start within 20 s".into())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-INT", &pid]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            let _ = writeln!(std::io::stderr(), "{}: {error}", self.directory.display());
        }
    }
}

fn start(bin: &Path, directory: &Path) -> Fallible<Child> {
    let root = id("-u", None)? == 0;
    if root {
        let user = Some("postgres");
        chown(directory, Some(id("-u", user)?), Some(id("-g", user)?))?;
    }
    let data = directory.join("data");
    let created = command(root, &bin.join("initdb"))
        .args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-D"])
        .arg(&data)
        .stdout(Stdio::null())
        .status()?;
    if !created.success() {
        return Err("initdb failed".into());
    }
    let mut server = command(root, &bin.join("postgres"));
    server.arg("-D").arg(&data).arg("-k").arg(directory);
    for setting in SETTINGS {
        server.arg("-c").arg(setting);
    }
    Ok(server.stdin(Stdio::null()).spawn()?)
}

/// The program as a user that PostgreSQL accepts, stopped when this process dies.
fn command(root: bool, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]);
    if root {
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    }
    command.arg(program).current_dir("/");
    command
}

fn id(which: &str, user: Option<&str>) -> Fallible<u32> {
    let output = Command::new("id").arg(which).args(user).output()?;
    Ok(str::from_utf8(&output.stdout)?.trim().parse()?)
}

/// `PG_BIN_DIR`, else the newest under `/usr/lib/postgresql`, else what `pg_config` says.
fn bin_dir() -> Fallible<PathBuf> {
    if let Some(named) = std::env::var_os("PG_BIN_DIR") {
        return Ok(named.into());
    }
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = installed
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
        .max();
    if let Some((_, path)) = newest {
        return Ok(path.join("bin"));
    }
    let output = Command::new("pg_config").arg("--bindir").output()?;
    Ok(str::from_utf8(&output.stdout)?.trim().into())
}
