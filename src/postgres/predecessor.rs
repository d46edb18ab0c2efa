//! An earlier server of the same data directory whose owner was killed: it may still be shutting
//! down, or not know yet that it should.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Error;
use super::account::Account;
use super::error::io;

/// How long a fast shutdown may take before the server is told to quit at once.
const FAST_LIMIT: Duration = Duration::from_secs(15);

/// How long it may take after that.
const QUIT_LIMIT: Duration = Duration::from_secs(5);

/// Waits until nobody works in `data_dir` any more, ending a server that does, and removes what it
/// left behind. The caller holds the lock of the directory, so nobody who uses it by agreement is
/// there.
pub(super) fn wait_for_end(data_dir: &Path, account: &Account) -> Result<(), Error> {
    let pid_file = data_dir.join("postmaster.pid");
    // A server that ended by itself removes the file, so mostly there is nothing to look for.
    if !pid_file.exists() {
        return Ok(());
    }
    let Some(mut working) = workers(data_dir, account) else {
        // No /proc here: PostgreSQL's own, coarser check must do.
        return Ok(());
    };
    let begun = Instant::now();
    let mut told = None;
    while let Some(&pid) = working.first() {
        let waited = begun.elapsed();
        if waited > FAST_LIMIT + QUIT_LIMIT {
            return Err(Error::PredecessorRunning { data_dir: data_dir.to_owned(), pid });
        }
        let signal = if waited > FAST_LIMIT { "QUIT" } else { "INT" };
        if told != Some(signal) {
            tracing::info!(pid, ?data_dir, "an earlier PostgreSQL is still here, ending it");
            // Only the server itself; its workers end with it, or by themselves if it is gone.
            if let Some(server) = named_in(&pid_file).filter(|server| working.contains(server)) {
                account.signal(signal, server);
            }
            told = Some(signal);
        }
        std::thread::sleep(Duration::from_millis(20));
        working = workers(data_dir, account).unwrap_or_default();
    }
    // With the process gone its number may belong to anybody by now (in a container it often does),
    // and PostgreSQL would then refuse to start. That nobody works here has just been seen.
    match std::fs::remove_file(&pid_file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io("remove", pid_file)(error))
        }
        _ => Ok(()),
    }
}

/// The process that wrote the file.
fn named_in(pid_file: &Path) -> Option<u32> {
    std::fs::read_to_string(pid_file).ok()?.lines().next()?.trim().parse().ok()
}

/// The PostgreSQL processes that work in `data_dir`, servers and their workers alike: each of them
/// has it as its working directory. `None` where the system cannot say.
fn workers(data_dir: &Path, account: &Account) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let process = entry.path();
        let is_postgres = std::fs::read_to_string(process.join("comm"))
            .is_ok_and(|name| name.trim_end() == "postgres");
        if is_postgres && working_directory(&process, account).as_deref() == Some(data_dir) {
            found.push(pid);
        }
    }
    // `/proc` may be there and empty (not mounted).
    Path::new("/proc/self").exists().then_some(found)
}

/// The working directory of a process.
fn working_directory(process: &Path, account: &Account) -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    let link = process.join("cwd");
    if let Ok(path) = std::fs::read_link(&link) {
        return Some(path);
    }
    // In a container, root may often not look at the processes of others; the account may look at
    // its own.
    let mut path = account.command("readlink").arg(&link).output().ok()?.stdout;
    path.pop_if(|byte| *byte == b'\n');
    Some(std::ffi::OsString::from_vec(path).into())
}
