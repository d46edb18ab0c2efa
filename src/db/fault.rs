//! From a driver's error to what happened, by SQLSTATE. The words of the database stop here: they
//! go to the log, never to a client.

use sqlx::postgres::PgDatabaseError;

/// What went wrong in the database, without its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 23505, 23P01: a unique or exclusion constraint holds against the row.
    Taken(Constraint),
    /// 23503: a foreign key holds against the row.
    Reference(Constraint),
    /// 23502: a column was left or made NULL.
    Null(Constraint),
    /// 23514, 23000, 44000, P0001 and whatever else a trigger raises: a rule of the table, a domain,
    /// a view or a trigger.
    Check(Constraint),
    /// Class 22, 54000: a value cannot be stored.
    Value,
    /// 42501: the service's role, or row security, does not allow it.
    Forbidden,
    /// 40001, 40P01: run it again from the start.
    Retry,
    /// 55P03: somebody holds the row locked.
    LockTimeout,
    /// 57014: the statement took longer than it may.
    StatementTimeout,
    /// 42P01, 42703, 0A000 in our own statement: the table is not what the catalogue says any more.
    Drifted,
    /// 42883, 42704, 42804, 42846, 42725, 42601, 42602, 3F000: no such operator, type or
    /// configuration, or a text that names one and cannot be read (`regclass`, `jsonpath`).
    Mismatch,
    /// 53100: the disk is full.
    StorageFull,
    /// The database cannot be reached, refuses connections or shuts down; nothing was done.
    Unavailable,
    /// The connection broke under a statement that changes nothing.
    Disconnected,
    /// The connection broke under a statement that writes: only the database knows what became of
    /// it.
    OutcomeUnknown,
    /// As [`Self::OutcomeUnknown`], and the session has ended since: either the write is there, or it
    /// never will be.
    Settled,
    /// The queue for connections is full.
    Overloaded,
    /// Our own code failed while it held the connection.
    Panicked,
    /// The statement failed for a reason that is nobody's who asks: a function of the table's owner
    /// is broken, say. In the database's words, for the log; the connection is well.
    Failed(String),
    /// A defect of ours.
    Unexpected(String),
    /// A refusal of `counterfoil.adopt`, in its own words for a person.
    Refused(String),
}

/// The constraint that a row ran against, by the database's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraint {
    /// The constraint or index.
    pub name: String,
    /// The schema of its table.
    pub schema: String,
    /// Its table.
    pub table: String,
    /// The column, where the database names one.
    pub column: String,
}

impl Fault {
    /// The same fault, where it befell a statement that writes.
    #[must_use]
    pub fn of_a_write(self) -> Self {
        match self {
            Self::Disconnected => Self::OutcomeUnknown,
            other => other,
        }
    }

    /// Whether a value or a constraint stands against the statement; the connection is well.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Taken(_) | Self::Reference(_) | Self::Null(_) | Self::Check(_) | Self::Value
        )
    }

    /// Whether the connection is no good after it.
    pub fn breaks_connection(&self) -> bool {
        matches!(
            self,
            Self::Unavailable
                | Self::Disconnected
                | Self::OutcomeUnknown
                | Self::Settled
                | Self::Panicked
                | Self::Unexpected(_)
        )
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => match database.try_downcast_ref::<PgDatabaseError>()
            {
                Some(error) => classify(error),
                None => Self::Unexpected(String::new()),
            },
            // A statement is told to run by the last bytes that are sent for it. Where they could
            // not be sent, because the database closed the connection before, nothing ran.
            sqlx::Error::Io(broken) if broken.kind() == std::io::ErrorKind::BrokenPipe => {
                tracing::warn!(%error, "the database closed the connection");
                Self::Unavailable
            }
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::WorkerCrashed => {
                tracing::warn!(%error, "the connection to the database broke");
                Self::Disconnected
            }
            _ => {
                tracing::error!(%error, "the database answered something unexpected");
                Self::Unexpected(String::new())
            }
        }
    }
}

fn classify(error: &PgDatabaseError) -> Fault {
    let constraint = || Constraint {
        name: error.constraint().unwrap_or_default().to_owned(),
        schema: error.schema().unwrap_or_default().to_owned(),
        table: error.table().unwrap_or_default().to_owned(),
        column: error.column().unwrap_or_default().to_owned(),
    };
    match error.code() {
        // What a trigger says on purpose is a rule, whatever the code would mean by itself.
        code if error.routine() == Some(RAISE) && !is_ours_to_heed(code) => {
            Fault::Check(constraint())
        }
        code if code.starts_with("42") && code != "42501" && is_in_a_function(error) => {
            failed(error)
        }
        "23505" | "23P01" => Fault::Taken(constraint()),
        "23503" => Fault::Reference(constraint()),
        "23502" => Fault::Null(constraint()),
        "23514" | "23000" | "44000" | "P0001" => Fault::Check(constraint()),
        "42501" => Fault::Forbidden,
        "40001" | "40P01" => Fault::Retry,
        "55P03" => Fault::LockTimeout,
        "57014" => Fault::StatementTimeout,
        "42P01" | "42703" | "0A000" => Fault::Drifted,
        "42883" | "42704" | "42804" | "42846" | "42725" | "42601" | "42602" | "3F000" => {
            Fault::Mismatch
        }
        "53100" => Fault::StorageFull,
        "CF001" => Fault::Refused(refusal(error)),
        "25006" | "53300" | "57P01" | "57P02" | "57P03" => Fault::Unavailable,
        code if code.starts_with("22") || code.starts_with("54") => Fault::Value,
        code if code.starts_with("08") || code.starts_with("53") => Fault::Unavailable,
        code if is_a_triggers_doing(code) => Fault::Check(constraint()),
        _ => failed(error),
    }
}

/// What PostgreSQL calls the place that PL/pgSQL's RAISE comes from.
const RAISE: &str = "exec_stmt_raise";

/// Whether a statement failed inside a function that is not ours: a trigger of the table's owner, say,
/// which names what is not there. That is no sign that the table changed, and does not pass.
fn is_in_a_function(error: &PgDatabaseError) -> bool {
    error.r#where().is_some_and(|context| {
        context.contains("function ") && !context.contains("function counterfoil.")
    })
}

/// Whether a code means the same to us when it is raised on purpose: by our own triggers, or by those
/// of a table's owner who wants a write refused, tried again or put off.
fn is_ours_to_heed(code: &str) -> bool {
    matches!(code, "42501" | "40001" | "40P01" | "55P03" | "57014") || code.starts_with("CF")
}

/// Whether a code can only come from functions that the table's owner wrote: a CASE without a
/// fitting branch, a row changed by the trigger ahead of its own change, the classes that the
/// standard leaves free.
fn is_a_triggers_doing(code: &str) -> bool {
    let free = |c: char| matches!(c, '6'..='9' | 'I'..='W' | 'Y' | 'Z');
    code.starts_with(free)
        || ["09", "20", "21", "27", "2F", "38", "39", "45"]
            .iter()
            .any(|class| code.starts_with(class))
}

fn refusal(error: &PgDatabaseError) -> String {
    match error.hint() {
        Some(hint) => format!("{}\n{hint}", error.message()),
        None => error.message().to_owned(),
    }
}

fn failed(error: &PgDatabaseError) -> Fault {
    Fault::Failed(format!("{} {}", error.code(), error.message()))
}
