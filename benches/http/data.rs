//! The tables that are measured, and the state that every figure starts from.

use std::fmt::Write as _;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row as _};

use crate::Fallible;

/// The values that writes carry.
pub(crate) const TITLE: &str = "Quarterly maintenance of the northern pumping station";
pub(crate) const DUE_ON: &str = "2026-11-01";
const MEMO: &str = "Ask for the meter readings first; the last invoice had to be corrected.";
/// What the other fields of a row take, with their names.
const OTHERS: usize = 130;
const SYLLABLES: [&str; 16] = [
    "ka", "lor", "min", "te", "shu", "ra", "vel", "on", "pri", "da", "gest", "o", "fin", "ul",
    "ebr", "sa",
];

/// The version of every row when the figures begin.
pub(crate) const LOADED: u32 = 2;

/// A text that makes bodies about so long. The longer ones compress about as written language does: to
/// somewhat more than half.
pub(crate) fn memo(body: usize) -> String {
    let mut memo = MEMO.to_owned();
    let length = body.saturating_sub(OTHERS).max(MEMO.len());
    let mut random = Random::new(1);
    while memo.len() < length {
        memo.push(' ');
        for _ in 0..=random.below(3) {
            memo.push_str(SYLLABLES[random.below(16) as usize]);
        }
    }
    memo.truncate(length);
    memo
}

/// A xorshift generator: the same numbers in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(0x9E37_79B9_7F4A_7C15 ^ seed.wrapping_mul(0xBF58_476D))
    }

    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 33) % u64::from(limit)).unwrap_or(0)
    }
}

// The id of row n: 32 decimal digits, the first half of which jump to and fro, so that neighbours in the
// table are none in the index.
const HALF: u64 = 1_000_000_000_000_000;
const JUMP: u64 = 618_033_988_749;
const MODULUS: u64 = 9_000_000_000_000_000;

/// The two halves of an id, given the text of a row's number: for SQL, and for pgbench's `\set`.
pub(crate) fn halves(n: &str) -> [String; 2] {
    [format!("{n} * {JUMP} % {MODULUS} + {HALF}"), format!("{n} + {HALF}")]
}

/// Writes the id of a row over what the text held.
pub(crate) fn write_id(n: u64, id: &mut String) {
    id.clear();
    // Writing to a String cannot fail.
    let _ = write!(id, "{}{}", n * JUMP % MODULUS + HALF, n + HALF);
    for place in [20, 16, 12, 8] {
        id.insert(place, '-');
    }
}

/// An administrator's connection.
pub(crate) struct Data {
    runtime: tokio::runtime::Runtime,
    connection: PgConnection,
}

impl Data {
    pub(crate) fn connect(url: &str) -> Fallible<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let options: PgConnectOptions = url.parse()?;
        let connection = runtime.block_on(options.disable_statement_logging().connect())?;
        Ok(Self { runtime, connection })
    }

    /// Refuses a server whose commits could be lost.
    pub(crate) fn require_durable(&mut self) -> Fallible<()> {
        let query = sqlx::query(
            "select string_agg(name, ', ') from pg_settings where setting = 'off'
             and name in ('fsync', 'synchronous_commit', 'full_page_writes')",
        );
        let row = self.runtime.block_on(query.fetch_one(&mut self.connection))?;
        match row.try_get::<Option<String>, _>(0)? {
            None => Ok(()),
            Some(off) => Err(format!("PostgreSQL is not durable: {off} is off").into()),
        }
    }

    pub(crate) fn run(&mut self, sql: String) -> Fallible<()> {
        let query = sqlx::raw_sql(AssertSqlSafe(sql));
        self.runtime.block_on(query.execute(&mut self.connection))?;
        Ok(())
    }

    /// Removes what the scene before left, and all that Counterfoil knew of it.
    pub(crate) fn clear(&mut self, tables: &[&str]) -> Fallible<()> {
        let tables = tables.join(", ");
        self.run(format!(
            "set client_min_messages = warning;
             drop schema if exists counterfoil cascade;
             drop table if exists {tables}"
        ))
    }

    /// Creates a table of so many rows at this version.
    pub(crate) fn create(
        &mut self,
        table: &str,
        rows: u32,
        memo: &str,
        version: u32,
    ) -> Fallible<()> {
        let [first, second] = halves("n::bigint");
        self.run(format!(
            "create table {table} (
               id uuid not null default gen_random_uuid(),
               title text not null,
               amount bigint not null,
               due_on date,
               memo text,
               version integer not null default 1);
             insert into {table}
             select (({first})::text || ({second})::text)::uuid,
                    'Invoice ' || n || ' of the northern pumping station',
                    n * 125::bigint, date '2026-01-01' + n % 365, '{memo}', {version}
             from generate_series(1, {rows}) n;
             alter table {table} add primary key (id)"
        ))
    }

    /// Raises every row above the version that the 409 workload names.
    pub(crate) fn age(&mut self, table: &str) -> Fallible<()> {
        self.run(format!("update {table} set version = version + 1"))
    }

    pub(crate) fn settle(&mut self, table: &str) -> Fallible<()> {
        self.run(format!("vacuum analyze {table}"))?;
        self.run("checkpoint".to_owned())
    }

    /// Removes the rows that POSTs created, without triggers: this is not a part of what is measured.
    pub(crate) fn remove_created(&mut self, table: &str) -> Fallible<()> {
        self.run(format!(
            "set session_replication_role = replica;
             delete from {table} where version < {LOADED};
             set session_replication_role = origin"
        ))
    }

    /// Brings a table back to its size after a figure that wrote, so that each begins alike.
    pub(crate) fn tidy(&mut self, table: &str) -> Fallible<()> {
        self.run(format!("vacuum {table}"))?;
        self.run("checkpoint".to_owned())
    }

    /// The versions that the first rows have now.
    pub(crate) fn versions(&mut self, table: &str, rows: usize) -> Fallible<Vec<u32>> {
        let [first, second] = halves("n::bigint");
        let sql = format!(
            "select t.version from generate_series(1, {rows}) n
             join {table} t on t.id = (({first})::text || ({second})::text)::uuid order by n"
        );
        let query = sqlx::query(AssertSqlSafe(sql));
        let found = self.runtime.block_on(query.fetch_all(&mut self.connection))?;
        if found.len() != rows {
            return Err(format!("{} of {rows} rows are there", found.len()).into());
        }
        found.iter().map(|row| Ok(u32::try_from(row.try_get::<i32, _>(0)?)?)).collect()
    }

    /// How many bytes went to PostgreSQL's log so far.
    pub(crate) fn logged(&mut self) -> Fallible<f64> {
        let sql = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
        let row = self.runtime.block_on(sqlx::query(sql).fetch_one(&mut self.connection))?;
        Ok(row.try_get(0)?)
    }

    pub(crate) fn text(&mut self, sql: &'static str) -> Fallible<String> {
        let row = self.runtime.block_on(sqlx::query(sql).fetch_one(&mut self.connection))?;
        Ok(row.try_get(0)?)
    }
}

/// Run at every start, as a bench target without a harness has no unit tests.
pub(crate) fn self_check() {
    let mut id = String::new();
    write_id(10_000_000, &mut id);
    assert_eq!(id, "73398874-9000-0000-1000-000010000000", "an id");
    assert_eq!(memo(200).len(), MEMO.len().max(200 - OTHERS), "a short text");
    assert_eq!(memo(10_000).len(), 10_000 - OTHERS, "a long text");
}
