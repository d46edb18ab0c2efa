//! The schema `counterfoil`: brought up to date by `counterfoil migrate`, checked by everyone else.

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlSafeStr as _};

const TABLE: &str = "counterfoil.migration";

/// Every migration, oldest first. One that has been released is never edited.
const MIGRATIONS: [(i64, &str, &str); 6] = [
    (1, "records", include_str!("../../migrations/0001_records.sql")),
    (2, "retention", include_str!("../../migrations/0002_retention.sql")),
    (3, "operations", include_str!("../../migrations/0003_operations.sql")),
    (4, "feed", include_str!("../../migrations/0004_feed.sql")),
    (5, "push", include_str!("../../migrations/0005_push.sql")),
    (6, "operations that wait", include_str!("../../migrations/0006_operations_that_wait.sql")),
];

/// Applies what is missing. Several at once wait for each other.
///
/// # Errors
/// Those of the database, and where the database has seen a migration that we do not know.
pub async fn run(conn: &mut PgConnection) -> Result<(), MigrateError> {
    let migrations = MIGRATIONS.map(|(version, name, sql)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.to_vec());
    migrator.dangerous_set_table_name(TABLE);
    migrator.create_schema("counterfoil");
    migrator.run_direct(None, conn, false).await
}

/// Whether every migration has been applied.
///
/// # Errors
/// Those of the database.
pub async fn is_current(conn: &mut PgConnection) -> sqlx::Result<bool> {
    let known: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(TABLE)
        .fetch_one(&mut *conn)
        .await?;
    if !known {
        return Ok(false);
    }
    let newest: Option<i64> =
        sqlx::query_scalar("SELECT max(version) FROM counterfoil.migration WHERE success")
            .fetch_one(conn)
            .await?;
    Ok(newest >= MIGRATIONS.last().map(|(version, ..)| *version))
}
