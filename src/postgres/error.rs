//! Why a private server could not be run, in words for the person who started it.

use std::path::PathBuf;

/// Why a private PostgreSQL could not be started, used or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No installation was found, or none that is new enough.
    #[error(
        "no usable PostgreSQL server (14 or later) was found{}\n\
         install one with:  apt-get install postgresql\n\
         or name the directory of initdb and postgres in PG_BIN_DIR",
        listing(.rejected)
    )]
    NotFound {
        /// What was looked at and why it did not do, one line each.
        rejected: Vec<String>,
    },

    /// The directory that the user named does not do.
    #[error("PG_BIN_DIR={bin_dir} cannot be used: {reason}")]
    BinDir {
        /// The directory as it was named.
        bin_dir: PathBuf,
        /// Why not.
        reason: String,
    },

    /// The data directory was made by another major version.
    #[error(
        "{data_dir} was made by PostgreSQL {data_version}, but the server found here is {found}\n\
         install it with:  apt-get install postgresql-{data_version}\n\
         or remove the directory to start with an empty database"
    )]
    VersionMismatch {
        /// The data directory.
        data_dir: PathBuf,
        /// The major version that made it.
        data_version: u32,
        /// The versions that are installed.
        found: String,
    },

    /// Another process uses the data directory.
    #[error(
        "{data_dir} is in use by another process{}; stop it first or choose another directory",
        owner.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse {
        /// The data directory.
        data_dir: PathBuf,
        /// The process that holds it, where known.
        owner: Option<u32>,
    },

    /// A server of a process that is gone did not end in time.
    #[error(
        "an earlier PostgreSQL (process {pid}) still works in {data_dir} and does not end; \
         stop it with:  kill -QUIT {pid}"
    )]
    PredecessorRunning {
        /// The data directory.
        data_dir: PathBuf,
        /// The process that is still there.
        pid: u32,
    },

    /// The data directory belongs to another user, and this process may not act as that user.
    #[error(
        "{data_dir} belongs to user {owner}, but this process runs as user {user}; \
         run it as the owner or remove the directory"
    )]
    ForeignOwner {
        /// The data directory.
        data_dir: PathBuf,
        /// The user id that owns it.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },

    /// The data directory holds something that is no PostgreSQL cluster.
    #[error("{data_dir} is not empty and no PostgreSQL data directory; choose another one")]
    NotACluster {
        /// The data directory.
        data_dir: PathBuf,
    },

    /// There is data, but the account that must run the server cannot get at it.
    #[error(
        "user {user}, who must run PostgreSQL, cannot reach {data_dir}; \
         open its parent directories (chmod o+x) or move it elsewhere"
    )]
    Unreachable {
        /// The data directory.
        data_dir: PathBuf,
        /// The account.
        user: String,
    },

    /// A directory that must be ours alone is not.
    #[error("{path} exists but is no directory of its own user's; remove it")]
    UntrustedDirectory {
        /// The directory.
        path: PathBuf,
    },

    /// Running as root, and there is nobody else to be.
    #[error(
        "PostgreSQL does not run as root, and there is neither a user postgres nor nobody; \
         run this as an ordinary user"
    )]
    NoAccount,

    /// `initdb` failed.
    #[error("could not make a PostgreSQL data directory in {data_dir}\n{output}")]
    Initdb {
        /// The data directory.
        data_dir: PathBuf,
        /// The last lines of its output.
        output: String,
    },

    /// The server ended although nobody told it to.
    #[error("PostgreSQL ended by itself ({status}); {log_file} says:\n{log}")]
    Exited {
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its log.
        log_file: PathBuf,
        /// The last lines of the log.
        log: String,
    },

    /// The server runs but did not accept a connection in time.
    #[error("PostgreSQL accepts no connection after {seconds} s ({source}); see {log_file}")]
    NotReady {
        /// How long it was waited for.
        seconds: u64,
        /// Its log.
        log_file: PathBuf,
        /// The last refusal.
        source: sqlx::Error,
    },

    /// The server did not end.
    #[error("PostgreSQL (process {pid}) did not end when it was told to")]
    NotStopped {
        /// The process.
        pid: u32,
    },

    /// A database could not be made.
    #[error("could not create the database {name}: {source}")]
    Database {
        /// The database.
        name: String,
        /// Why not.
        source: sqlx::Error,
    },

    /// The operating system refused something.
    #[error("could not {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried, to be followed by the path.
        action: &'static str,
        /// With which file or program.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// The rejected installations as indented lines below the message.
fn listing(lines: &[String]) -> String {
    lines.iter().flat_map(|line| ["\n  ", line.as_str()]).collect()
}

/// Turns an I/O error into one that says what was tried with which file.
pub(super) fn io(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::Io { action, path, source }
}
