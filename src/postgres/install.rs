//! Finding the PostgreSQL programs on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Error;
use super::account::Account;

/// The oldest major version that Counterfoil works with.
const OLDEST: u32 = 14;

/// The programs of one PostgreSQL version.
#[derive(Debug, Clone)]
pub(super) struct Install {
    pub(super) bin_dir: PathBuf,
    pub(super) major: u32,
    /// As PostgreSQL says it: `15.18`, `18beta1`.
    pub(super) version: String,
}

impl Install {
    /// The path of one program.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }
}

/// The directory of the PostgreSQL programs that the environment names in `PG_BIN_DIR`, if any.
pub fn bin_dir_from_env() -> Option<PathBuf> {
    std::env::var_os("PG_BIN_DIR").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The installations that `account` can run and that are new enough, newest first; never empty.
///
/// A directory that the user named is the only one looked at.
pub(super) fn find(named: Option<&Path>, account: &Account) -> Result<Vec<Install>, Error> {
    if let Some(bin_dir) = named {
        return probe(bin_dir, account)
            .map(|install| vec![install])
            .map_err(|reason| Error::BinDir { bin_dir: bin_dir.to_owned(), reason });
    }
    let mut installs = Vec::new();
    let mut rejected = Vec::new();
    for bin_dir in candidates() {
        match probe(&bin_dir, account) {
            Ok(install) => installs.push(install),
            Err(reason) => rejected.push(format!("{}: {reason}", bin_dir.display())),
        }
    }
    if installs.is_empty() {
        return Err(Error::NotFound { rejected });
    }
    // Stable, so that of two installations of one version the one named first is taken.
    installs.sort_by_key(|install| std::cmp::Reverse(install.major));
    Ok(installs)
}

/// Every directory that has a server in it, each once.
fn candidates() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = pg_config().into_iter().chain(packaged()).chain(std::env::split_paths(&path));
    for bin_dir in all {
        let postgres = bin_dir.join("postgres");
        if !bin_dir.is_absolute() || !postgres.is_file() {
            continue;
        }
        // The same programs may be found by several ways, and linked to one by one.
        let real = postgres.canonicalize().unwrap_or(postgres);
        let bin_dir = match real.parent() {
            Some(directory) if directory.join("initdb").is_file() => directory.to_owned(),
            _ => bin_dir,
        };
        if !found.contains(&bin_dir) {
            found.push(bin_dir);
        }
    }
    found
}

/// What `pg_config` says, where it is installed.
fn pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.trim_end()))
}

/// Where the packages of Debian and its relatives put each version.
fn packaged() -> Vec<PathBuf> {
    let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    versions.flatten().map(|entry| entry.path().join("bin")).collect()
}

/// The installation in `bin_dir`, or why it is none.
fn probe(bin_dir: &Path, account: &Account) -> Result<Install, String> {
    let bin_dir = std::path::absolute(bin_dir).map_err(|error| error.to_string())?;
    for program in ["postgres", "initdb"] {
        if !bin_dir.join(program).is_file() {
            return Err(format!("it has no {program} in it"));
        }
    }
    let output = account
        .command(bin_dir.join("postgres"))
        .arg("--version")
        .output()
        .map_err(|error| format!("postgres does not run as user {account}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (major, version) =
        parse_version(&text).ok_or_else(|| "postgres --version says nothing known".to_owned())?;
    if major < OLDEST {
        return Err(format!("PostgreSQL {version} is too old, {OLDEST} or later is needed"));
    }
    Ok(Install { bin_dir, major, version: version.to_owned() })
}

/// Major and full version from `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn parse_version(text: &str) -> Option<(u32, &str)> {
    let version = text.split_once(") ")?.1.split_whitespace().next()?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    Some((version[..digits].parse().ok()?, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_each_release_prints_them() {
        for (text, expected) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some((15, "15.18"))),
            ("postgres (PostgreSQL) 18beta1\n", Some((18, "18beta1"))),
            ("postgres (PostgreSQL) 19devel\n", Some((19, "19devel"))),
            ("postgres (PostgreSQL) 9.6.24\n", Some((9, "9.6.24"))),
            ("postgres (PostgreSQL) 17\n", Some((17, "17"))),
            ("", None),
            ("postgres (PostgreSQL) what", None),
        ] {
            assert_eq!(parse_version(text), expected, "{text}");
        }
    }

    #[test]
    fn a_named_directory_without_a_server_is_refused_by_name() {
        let account = Account::detect().unwrap();
        let error = find(Some(Path::new("/")), &account).unwrap_err().to_string();
        assert!(error.contains("PG_BIN_DIR=/ cannot be used"), "{error}");
    }
}
