//! A private PostgreSQL server: the one that `counterfoil dev` and the tests run.
//!
//! It listens on a Unix socket only, in a directory that nobody else may enter, and belongs to the
//! process that started it: it ends with [`Postgres::stop`], when the handle is dropped, and (where
//! `setpriv` of util-linux is installed) also when the process is killed outright.
//!
//! The parts: `install` finds the programs, `account` says under which user they run, `layout`
//! says where the files are, `predecessor` waits for an earlier server, `cluster` makes the data
//! directory, and `server` owns the running process.

mod account;
mod cluster;
mod error;
mod install;
mod layout;
mod predecessor;
mod server;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

pub use error::Error;
pub use install::bin_dir_from_env;
use server::Server;

/// The superuser of every private cluster. It has no password: whoever may enter the socket's
/// directory may connect. It must not be called like the schema `counterfoil`: PostgreSQL makes
/// unqualified tables in the schema that has the user's name, where there is one.
pub const SUPERUSER: &str = "postgres";

/// The port is part of the socket's file name and nothing else, since no network address is used.
const PORT: u16 = 5432;

/// How long a server may take until it accepts connections. Recovery after a crash is part of it.
const START_LIMIT: Duration = Duration::from_mins(1);

/// How a private server is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The PostgreSQL data directory; made at the first start. The lock file, the log and usually
    /// the socket's directory lie beside it, named after it (`pg`, `pg.lock`, `pg.log`, `pg.sock`).
    pub data_dir: PathBuf,
    /// Whether a commit survives a crash of the machine. `false` is for tests: no `fsync`.
    pub durable: bool,
    /// Further server settings, by name and value; they win over the ones that are made here.
    pub settings: Vec<(String, String)>,
    /// The directory of `initdb` and `postgres`; `None` looks for the newest installed version.
    pub bin_dir: Option<PathBuf>,
}

impl Options {
    /// Durable, without further settings, with the programs that `PG_BIN_DIR` names or, without
    /// it, the newest that are installed.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            durable: true,
            settings: Vec::new(),
            bin_dir: bin_dir_from_env(),
        }
    }
}

/// A running private server. Dropping it ends the server and waits for that, which blocks the
/// thread; [`Postgres::stop`] is the way that does not.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
}

impl Postgres {
    /// Starts the server, making its data directory first if there is none, and returns once it
    /// accepts connections.
    ///
    /// A server that an earlier, killed process left behind in the same directory is ended first.
    pub async fn start(options: &Options) -> Result<Self, Error> {
        let server = Server::launch(options.clone()).await?;
        let mut postgres = Self { server };
        postgres.wait_until_ready().await?;
        Ok(postgres)
    }

    /// The URL of one database, for sqlx and for libpq alike. The database need not exist.
    pub fn url(&self, database: &str) -> String {
        let host = encode(self.socket_dir().as_os_str());
        let database = encode(OsStr::new(database));
        format!("postgres://{SUPERUSER}@{host}:{PORT}/{database}")
    }

    /// The directory of the server's socket, as `psql -h` takes it.
    pub fn socket_dir(&self) -> &Path {
        &self.server.place().socket_dir
    }

    /// The directory of the PostgreSQL programs in use (`initdb`, `postgres`, mostly `psql` too).
    pub fn bin_dir(&self) -> &Path {
        &self.server.install().bin_dir
    }

    /// The data directory in use. It is another than the one asked for when [`Postgres::note`]
    /// says so.
    pub fn data_dir(&self) -> &Path {
        &self.server.place().data_dir
    }

    /// The file that the server writes its messages to.
    pub fn log_file(&self) -> &Path {
        &self.server.place().log_file
    }

    /// The PostgreSQL version as the server prints it, such as `15.18`.
    pub fn version(&self) -> &str {
        &self.server.install().version
    }

    /// The process id of the server.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Resolves when the server has ended, whoever ended it.
    pub fn ended(&self) -> impl Future<Output = ()> + use<> {
        self.server.ended()
    }

    /// The error to report if the server has ended although nobody told it to.
    pub fn early_exit(&mut self) -> Option<Error> {
        self.server.early_exit()
    }

    /// Something that the user should know about where or how the server runs, in one sentence.
    pub fn note(&self) -> Option<&str> {
        self.server.place().note.as_deref()
    }

    /// Makes an empty database unless one of this name exists.
    pub async fn create_database_if_missing(&self, name: &str) -> Result<(), Error> {
        let database = |source| Error::Database { name: name.to_owned(), source };
        let mut connection =
            PgConnection::connect(&self.url("postgres")).await.map_err(database)?;
        // PostgreSQL quotes the name itself, so that no quoting rule is repeated here.
        let statement: Option<String> = sqlx::query_scalar(
            "SELECT format('CREATE DATABASE %I', $1::text) \
             WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = $1)",
        )
        .bind(name)
        .fetch_optional(&mut connection)
        .await
        .map_err(database)?;
        if let Some(statement) = statement {
            match sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await {
                Ok(_) => {}
                // Somebody else was faster.
                Err(sqlx::Error::Database(error))
                    if matches!(error.code().as_deref(), Some("42P04" | "23505")) => {}
                Err(error) => return Err(database(error)),
            }
        }
        connection.close().await.map_err(database)
    }

    /// Ends the server with a fast shutdown: open transactions are rolled back, nothing that was
    /// committed is lost.
    pub async fn stop(self) -> Result<(), Error> {
        let mut server = self.server;
        match tokio::task::spawn_blocking(move || server.shutdown()).await {
            Ok(result) => result,
            Err(error) => Err(Error::Io {
                action: "wait for the end of the server",
                path: PathBuf::new(),
                source: std::io::Error::other(error),
            }),
        }
    }

    /// Connects until it succeeds, the process ends or the time is over.
    async fn wait_until_ready(&mut self) -> Result<(), Error> {
        let url = self.url("postgres");
        let begun = Instant::now();
        let mut pause = Duration::from_millis(4);
        loop {
            let refused = match PgConnection::connect(&url).await {
                // The end of the connection is of no interest, only that there was one.
                Ok(connection) => return connection.close().await.or(Ok(())),
                Err(error) => error,
            };
            if let Some(error) = self.server.early_exit() {
                return Err(error);
            }
            if begun.elapsed() > START_LIMIT {
                return Err(Error::NotReady {
                    seconds: START_LIMIT.as_secs(),
                    log_file: self.log_file().to_owned(),
                    source: refused,
                });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

/// What may stand unescaped in a part of a URL.
const UNRESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn encode(text: &OsStr) -> String {
    percent_encode(text.as_bytes(), &UNRESERVED).to_string()
}
