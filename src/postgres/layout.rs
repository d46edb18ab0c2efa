//! Where the files of a private cluster are.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Error;
use super::account::Account;
use super::error::io;

/// The longest path of a socket that every system takes: 108 bytes on Linux and 104 on others,
/// with the closing zero.
const SOCKET_PATH_LIMIT: usize = 103;

/// Where clusters go that root must keep for another account when that account cannot enter the
/// directory asked for. Not a temporary directory: those are cleaned by age, and a database must
/// lose no single file.
const SHARED_STATE: &str = "/var/lib/counterfoil";

/// The files of one cluster.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) data_dir: PathBuf,
    pub(super) lock_file: PathBuf,
    pub(super) log_file: PathBuf,
    pub(super) socket_dir: PathBuf,
    /// What the user should know about the choice.
    pub(super) note: Option<String>,
}

impl Place {
    /// Decides where the cluster for `wanted` is and under which account it runs. The same
    /// directory always gets the same answer.
    pub(super) fn decide(wanted: &Path, account: &Account) -> Result<(Self, Account), Error> {
        let wanted = settle(wanted)?;
        if let Some(account) = owner(&wanted, account)? {
            if !account.can_enter(parent(&wanted)) {
                let user = account.to_string();
                return Err(Error::Unreachable { data_dir: wanted, user });
            }
            return Ok((Self::beside(wanted), account));
        }
        let shared = Path::new(SHARED_STATE).join(short_name(&wanted)).join("postgres");
        let (made_before, fits) = (is_cluster(&shared), account.can_enter(parent(&wanted)));
        if fits && !made_before {
            return Ok((Self::beside(wanted), account.clone()));
        }
        let data_dir = settle(&shared)?;
        for directory in [Path::new(SHARED_STATE), parent(&data_dir)] {
            // Whatever the umask says, the account must get through.
            fs::set_permissions(directory, Permissions::from_mode(0o755))
                .map_err(io("set the permissions of", directory))?;
        }
        let note = format!(
            "user {account}, who must run PostgreSQL because root may not, cannot enter {}; \
             the database is in {} instead",
            parent(&wanted).display(),
            data_dir.display()
        );
        let account = owner(&data_dir, account)?.unwrap_or_else(|| account.clone());
        Ok((Self { note: Some(note), ..Self::beside(data_dir) }, account))
    }

    fn beside(data_dir: PathBuf) -> Self {
        let with = |suffix: &str| {
            let mut name = OsString::from(&data_dir);
            name.push(suffix);
            PathBuf::from(name)
        };
        let mut socket_dir = with(".sock");
        if !fits_a_socket(&socket_dir) {
            // Not the temporary directory of the environment: it may be long itself, or closed to
            // the account.
            socket_dir = Path::new("/tmp").join(short_name(&data_dir));
        }
        Self { lock_file: with(".lock"), log_file: with(".log"), socket_dir, data_dir, note: None }
    }

    /// Whether there is a cluster already.
    pub(super) fn has_cluster(&self) -> bool {
        is_cluster(&self.data_dir)
    }

    /// Makes the socket's directory and sees to it that only the account may enter it.
    pub(super) fn make_socket_dir(&self, account: &Account) -> Result<(), Error> {
        let path = &self.socket_dir;
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => account.give(path).map_err(io("hand over", path)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // It may lie in a directory that everybody can write to, so a stranger could have
                // put it there, or a link.
                let found = fs::symlink_metadata(path).map_err(io("look at", path))?;
                if !found.is_dir() {
                    return Err(Error::UntrustedDirectory { path: path.clone() });
                }
                if found.uid() != account.uid() {
                    if found.uid() != account.own_uid() {
                        return Err(Error::UntrustedDirectory { path: path.clone() });
                    }
                    account.give(path).map_err(io("hand over", path))?;
                }
                fs::set_permissions(path, Permissions::from_mode(0o700))
                    .map_err(io("set the permissions of", path))
            }
            Err(error) => Err(io("make the directory", path)(error)),
        }
    }
}

/// Makes the parent directory and gives the one true path of `data_dir`, so that two spellings of
/// a directory have one lock and one socket.
fn settle(data_dir: &Path) -> Result<PathBuf, Error> {
    let path = std::path::absolute(data_dir).map_err(io("use", data_dir))?;
    fs::create_dir_all(parent(&path)).map_err(io("make the directory", parent(&path)))?;
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    let directory = parent(&path).canonicalize().map_err(io("enter", parent(&path)))?;
    Ok(match path.file_name() {
        Some(name) => directory.join(name),
        None => directory,
    })
}

/// The account that owns the cluster in `data_dir`; `None` if there is no cluster.
fn owner(data_dir: &Path, account: &Account) -> Result<Option<Account>, Error> {
    if !is_cluster(data_dir) {
        return Ok(None);
    }
    let found = fs::metadata(data_dir).map_err(io("look at", data_dir))?;
    // A cluster that root got hold of (chown of the whole project) goes back to the account.
    if found.uid() == 0 && account.own_uid() == 0 {
        give_all(data_dir, account)?;
        return Ok(Some(account.clone()));
    }
    match account.for_owner(found.uid(), found.gid()) {
        Some(account) => Ok(Some(account)),
        None => Err(Error::ForeignOwner {
            data_dir: data_dir.to_owned(),
            owner: found.uid(),
            user: account.own_uid(),
        }),
    }
}

/// Gives a directory and all that is in it to the account, following no links.
fn give_all(path: &Path, account: &Account) -> Result<(), Error> {
    account.give(path).map_err(io("hand over", path))?;
    let found = fs::symlink_metadata(path).map_err(io("look at", path))?;
    if found.is_dir() {
        for entry in fs::read_dir(path).map_err(io("read", path))? {
            give_all(&entry.map_err(io("read", path))?.path(), account)?;
        }
    }
    Ok(())
}

/// PostgreSQL writes this file into every data directory. A directory that cannot be looked into
/// counts as a cluster when it is there: better a clear error about its owner than a second one.
fn is_cluster(data_dir: &Path) -> bool {
    match data_dir.join("PG_VERSION").try_exists() {
        Ok(found) => found,
        Err(_) => data_dir.exists(),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Whether a server can put its socket here: the path is short enough and free of the characters
/// that separate and quote the directories in the server's setting.
fn fits_a_socket(directory: &Path) -> bool {
    let socket = directory.join(format!(".s.PGSQL.{}", super::PORT));
    let bytes = socket.as_os_str().as_bytes();
    bytes.len() <= SOCKET_PATH_LIMIT && !bytes.iter().any(|byte| b",\"\n".contains(byte))
}

/// A short name that one path always gets: FNV-1a of its bytes, which unlike the hashes of the
/// standard library is the same in every release.
fn short_name(path: &Path) -> String {
    let hash = path.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("counterfoil-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_or_odd_path_gets_a_short_socket_directory_that_stays_the_same() {
        let long = PathBuf::from(format!("/srv/{}/postgres", "x".repeat(120)));
        for data_dir in [long, PathBuf::from("/srv/a,b/postgres")] {
            let place = Place::beside(data_dir.clone());
            assert!(place.socket_dir.starts_with("/tmp"), "{place:?}");
            assert!(fits_a_socket(&place.socket_dir));
            assert_eq!(place.socket_dir, Place::beside(data_dir).socket_dir);
        }
        let short = Place::beside(PathBuf::from("/srv/postgres"));
        assert_eq!(short.socket_dir, Path::new("/srv/postgres.sock"));
    }
}
