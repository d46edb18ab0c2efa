//! The command line.

mod dev;
mod serve;
mod verbs;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// PostgreSQL tables as REST resources in which a lost update cannot happen unseen.
#[derive(Debug, Parser)]
#[command(name = "counterfoil", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// The database, as a URL [env: `DATABASE_URL`, but for `dev`, which starts its own]
    #[arg(long, global = true)]
    database_url: Option<String>,
    /// The configuration [default: counterfoil.toml, where there is one]
    #[arg(long, global = true, env = "COUNTERFOIL_CONFIG")]
    config: Option<PathBuf>,
    /// What to log: error, warn, info, debug, or per module as in `RUST_LOG`
    #[arg(long, global = true, env = "COUNTERFOIL_LOG", default_value = "warn")]
    log: String,
    /// How to log
    #[arg(long, global = true, env = "COUNTERFOIL_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start a private PostgreSQL with demo tables and serve them on loopback
    Dev(DevArgs),
    /// Serve the adopted tables of a database
    Serve(ServeArgs),
    /// Bring the schema "counterfoil" of the database up to date
    Migrate,
    /// Make a table a resource
    Adopt(AdoptArgs),
    /// Undo an adoption, by resource name or table
    Release(ReleaseArgs),
    /// Check the configuration against the database
    Check,
    /// Check the invariants of versions and change log; status 1 where one is broken
    Audit,
    /// Print the OpenAPI description of the adopted tables
    Openapi(OpenapiArgs),
    /// Ask a running server whether it is alive; for container health checks
    Health(HealthArgs),
}

#[derive(Args, Debug)]
struct DevArgs {
    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, env = "COUNTERFOIL_LISTEN")]
    listen: Option<SocketAddr>,
    /// Where the private database is kept
    #[arg(long, env = "COUNTERFOIL_DATA_DIR", default_value_os_t = dev::default_data_dir())]
    data_dir: PathBuf,
    /// Start without the demo tables
    #[arg(long)]
    no_demo: bool,
}

#[derive(Args, Debug)]
struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, env = "COUNTERFOIL_LISTEN")]
    listen: Option<SocketAddr>,
    /// Serve without authentication: the actor is what the header X-Actor says
    #[arg(long, env = "COUNTERFOIL_NO_AUTH")]
    no_auth: bool,
}

#[derive(Args, Debug)]
struct AdoptArgs {
    /// The table, with its schema
    table: String,
    /// The resource's name in paths [default: the table's]
    #[arg(long)]
    name: Option<String>,
    /// Log deletions only
    #[arg(long)]
    no_history: bool,
    /// The column that holds the version
    #[arg(long, default_value = "version")]
    version_column: String,
}

#[derive(Args, Debug)]
struct ReleaseArgs {
    /// The resource's name, or the table
    resource: String,
    /// Drop the version column too, where the adoption added it
    #[arg(long)]
    drop_version: bool,
}

#[derive(Args, Debug)]
struct OpenapiArgs {
    /// The form of the description
    #[arg(long, default_value = "yaml")]
    format: OpenapiFormat,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OpenapiFormat {
    Yaml,
    Json,
}

#[derive(Args, Debug)]
struct HealthArgs {
    /// The server's address
    #[arg(long, env = "COUNTERFOIL_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
}

/// Why a verb failed: the process's status and what to tell.
#[derive(Debug)]
struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    fn new(message: impl std::fmt::Display) -> Self {
        Self { status: 1, message: message.to_string() }
    }

    /// A wrong configuration or command line.
    fn usage(message: impl std::fmt::Display) -> Self {
        Self { status: 2, message: message.to_string() }
    }
}

/// Runs the program; gives its exit status.
pub async fn run() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr(&cli.log, cli.log_format);
    match dispatch(cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { status, message }) => {
            complain(&message);
            ExitCode::from(status)
        }
    }
}

async fn dispatch(cli: Cli) -> Result<(), Failure> {
    let Cli { verb, database_url, config, .. } = cli;
    let database = || {
        let missing = "Which database? Say --database-url or set DATABASE_URL";
        let named = database_url.clone().or_else(|| std::env::var("DATABASE_URL").ok());
        named.ok_or_else(|| Failure::usage(missing))
    };
    match verb {
        Verb::Dev(args) => dev::dev(database_url.as_deref(), config.as_deref(), &args).await,
        Verb::Serve(args) => serve::serve(&database()?, config.as_deref(), &args).await,
        Verb::Migrate => verbs::migrate(&database()?).await,
        Verb::Adopt(args) => verbs::adopt(&database()?, &args).await,
        Verb::Release(args) => verbs::release(&database()?, &args).await,
        Verb::Check => verbs::check(&database()?, config.as_deref()).await,
        Verb::Audit => verbs::audit(&database()?).await,
        Verb::Openapi(args) => verbs::openapi(&database()?, config.as_deref(), &args).await,
        Verb::Health(args) => verbs::health(args.listen).await,
    }
}

fn log_to_stderr(filter: &str, format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::new(filter);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}

/// Tells the user a line.
fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    // Nobody reading any more is no reason to fail.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn complain(message: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "counterfoil: {message}");
}
