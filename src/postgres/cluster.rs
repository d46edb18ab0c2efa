//! The data directory: taken for this process alone, made when it is missing, checked when it is
//! there.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::account::Account;
use super::error::io;
use super::install::{self, Install};
use super::layout::Place;
use super::{Error, Options, SUPERUSER, predecessor};

/// A data directory that a server can be started in.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) place: Place,
    pub(super) account: Account,
    pub(super) install: Install,
    /// Held as long as the cluster is in use; the system lets go of it when the process ends.
    _lock: File,
}

impl Cluster {
    /// Takes the data directory and makes it ready, which the first time takes a second or more.
    /// Blocks; to be called on the thread that outlives the server (see `server`).
    pub(super) fn prepare(options: &Options) -> Result<Self, Error> {
        let account = Account::detect()?;
        let installs = install::find(options.bin_dir.as_deref(), &account)?;
        let (place, account) = Place::decide(&options.data_dir, &account)?;
        let lock = take(&place)?;
        let install = if place.has_cluster() {
            let install = matching(&place.data_dir, installs)?;
            predecessor::wait_for_end(&place.data_dir, &account)?;
            install
        } else {
            let newest = installs.into_iter().next();
            let install = newest.ok_or(Error::NotFound { rejected: Vec::new() })?;
            make(&place, &account, &install, options.durable)?;
            install
        };
        place.make_socket_dir(&account)?;
        if let Some(note) = &place.note {
            tracing::info!("{note}");
        }
        Ok(Self { place, account, install, _lock: lock })
    }
}

/// Takes the lock of the data directory and writes this process's id into it, for the message that
/// the next one gets.
fn take(place: &Place) -> Result<File, Error> {
    let path = &place.lock_file;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(io("open the lock file", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let owner = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(Error::InUse { data_dir: place.data_dir.clone(), owner });
        }
        Err(TryLockError::Error(error)) => return Err(io("lock", path)(error)),
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(io("write", path))?;
    Ok(file)
}

/// The installation of the version that made the data directory.
fn matching(data_dir: &Path, installs: Vec<Install>) -> Result<Install, Error> {
    let path = data_dir.join("PG_VERSION");
    let text = fs::read_to_string(&path).map_err(io("read", &path))?;
    // Versions before 10 have two numbers; they are older than any installation that is accepted.
    let data_version =
        text.trim().split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    let found: Vec<_> = installs.iter().map(|install| install.version.clone()).collect();
    installs.into_iter().find(|install| install.major == data_version).ok_or_else(|| {
        Error::VersionMismatch {
            data_dir: data_dir.to_owned(),
            data_version,
            found: found.join(", "),
        }
    })
}

/// Makes a cluster. It is made beside its place and moved there when it is whole, so that a start
/// that is killed half-way leaves nothing that looks like a data directory.
fn make(place: &Place, account: &Account, install: &Install, durable: bool) -> Result<(), Error> {
    let data_dir = &place.data_dir;
    if let Ok(mut entries) = fs::read_dir(data_dir)
        && entries.next().is_some()
    {
        return Err(Error::NotACluster { data_dir: data_dir.clone() });
    }
    let mut name = data_dir.clone().into_os_string();
    name.push(".new");
    let unfinished = PathBuf::from(name);

    let mut output = String::new();
    for locale in ["C.UTF-8", "C"] {
        fresh_directory(&unfinished, account)?;
        let result = initdb(&unfinished, account, install, durable, locale)?;
        if result.status.success() {
            return fs::rename(&unfinished, data_dir).map_err(io("put in place", data_dir));
        }
        output = String::from_utf8_lossy(&result.stderr).into_owned();
        if !output.contains("locale") {
            break;
        }
    }
    // Nothing useful is in it, and that it cannot be removed is not what went wrong.
    drop(fs::remove_dir_all(&unfinished));
    Err(Error::Initdb { data_dir: data_dir.clone(), output: last_lines(&output) })
}

fn fresh_directory(path: &Path, account: &Account) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io("remove", path)(error));
        }
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(path).map_err(io("make the directory", path))?;
    account.give(path).map_err(io("hand over", path))
}

fn initdb(
    data_dir: &Path,
    account: &Account,
    install: &Install,
    durable: bool,
    locale: &str,
) -> Result<Output, Error> {
    let program = install.program("initdb");
    let mut command = account.tied_command(&program);
    // Trust is right here: only the account itself can enter the socket's directory.
    command.args(["--auth=trust", "--encoding=UTF8", "--username", SUPERUSER]);
    command.arg(format!("--locale={locale}"));
    if !durable {
        command.arg("--no-sync");
    }
    command.arg("--pgdata").arg(data_dir);
    command.output().map_err(io("run", program))
}

/// The end of a program's output, for an error message.
pub(super) fn last_lines(text: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(major: u32) -> Install {
        Install { bin_dir: PathBuf::new(), major, version: format!("{major}.1") }
    }

    #[test]
    fn an_older_version_is_used_for_the_data_that_it_made_and_no_other() {
        let name = format!("counterfoil-version-{}", std::process::id());
        let data_dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&data_dir).unwrap();
        fs::write(data_dir.join("PG_VERSION"), "15\n").unwrap();
        let install = matching(&data_dir, vec![installed(18), installed(15)]).unwrap();
        assert_eq!(install.major, 15);
        let error = matching(&data_dir, vec![installed(18), installed(17)]).unwrap_err();
        fs::remove_dir_all(&data_dir).unwrap();
        let text = error.to_string();
        assert!(text.contains("made by PostgreSQL 15"), "{text}");
        assert!(text.contains("18.1, 17.1"), "{text}");
    }

    #[test]
    fn the_end_of_a_long_output_is_kept() {
        let text: Vec<_> = (1..=20).map(|n| n.to_string()).collect();
        assert_eq!(last_lines(&text.join("\n")), text[8..].join("\n"));
        assert_eq!(last_lines("one"), "one");
    }
}
