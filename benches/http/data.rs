//! The tables that are measured, and the state that every figure starts from.

use std::sync::OnceLock;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row as _};

use crate::Fallible;

/// Rows in each table.
pub(crate) const ROWS: usize = 10_000;
/// The values that writes carry: with the names, about 200 bytes of JSON.
pub(crate) const TITLE: &str = "Quarterly maintenance of the northern pumping station";
pub(crate) const DUE_ON: &str = "2026-11-01";
const MEMO: &str = "Ask for the meter readings first; the last invoice had to be corrected.";
/// What the other fields of a row take, with their names.
const OTHERS: usize = 130;

static WRITTEN: OnceLock<String> = OnceLock::new();

/// Makes bodies of about so many bytes.
pub(crate) fn set_body(bytes: usize) {
    let length = bytes.saturating_sub(OTHERS).max(MEMO.len());
    let _ = WRITTEN.set(MEMO.chars().cycle().take(length).collect());
}

/// The text that writes carry.
pub(crate) fn memo() -> &'static str {
    WRITTEN.get().map_or(MEMO, String::as_str)
}

/// A row of the table, as the generator knows it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) version: u32,
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

    fn run(&mut self, sql: String) -> Fallible<()> {
        let query = sqlx::raw_sql(AssertSqlSafe(sql));
        self.runtime.block_on(query.execute(&mut self.connection))?;
        Ok(())
    }

    /// Creates a table whose rows are at version 1. Row n has the id `md5(n)`.
    pub(crate) fn create(&mut self, table: &str) -> Fallible<()> {
        self.run(format!(
            "create table {table} (
               id uuid primary key default gen_random_uuid(),
               title text not null,
               amount bigint not null,
               due_on date,
               memo text,
               version integer not null default 1);
             insert into {table} (id, title, amount, due_on, memo)
             select md5(n::text)::uuid, 'Invoice ' || n || ' of the northern pumping station',
                    n * 125, date '2026-01-01' + n % 365,
                    '{}'
             from generate_series(1, {ROWS}) n",
            memo(),
        ))
    }

    /// Raises every row above the version that the 409 workload names.
    pub(crate) fn age(&mut self, table: &str) -> Fallible<()> {
        self.run(format!("update {table} set version = version + 1"))?;
        self.run(format!("vacuum analyze {table}"))
    }

    /// Brings a table back to its size after a figure that wrote, so that each begins alike. Rows that a POST
    /// created go without triggers: this is not a part of what is measured.
    pub(crate) fn tidy(&mut self, table: &str) -> Fallible<()> {
        self.run(format!(
            "set session_replication_role = replica;
             delete from {table} where id not in
               (select md5(n::text)::uuid from generate_series(1, {ROWS}) n);
             set session_replication_role = origin"
        ))?;
        self.run(format!("vacuum {table}"))?;
        self.run("checkpoint".to_owned())
    }

    /// All rows by number, with the versions that they have now.
    pub(crate) fn rows(&mut self, table: &str) -> Fallible<Vec<Row>> {
        let sql = format!(
            "select t.id::text, t.version from generate_series(1, {ROWS}) n
             join {table} t on t.id = md5(n::text)::uuid order by n"
        );
        let query = sqlx::query(AssertSqlSafe(sql));
        let rows = self.runtime.block_on(query.fetch_all(&mut self.connection))?;
        let rows = rows.iter().map(|row| {
            let version = u32::try_from(row.try_get::<i32, _>(1)?)?;
            Ok(Row { id: row.try_get(0)?, version })
        });
        rows.collect()
    }

    pub(crate) fn server_version(&mut self) -> Fallible<String> {
        let query = sqlx::query("select current_setting('server_version')");
        let row = self.runtime.block_on(query.fetch_one(&mut self.connection))?;
        Ok(row.try_get(0)?)
    }
}
