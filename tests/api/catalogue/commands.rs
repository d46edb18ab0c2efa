//! The verbs of the command line: what they say and the status they end with.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::support::process::{self, Program};
use crate::support::{Server, database};

/// Runs a verb on a database; gives its status, what it said, and what it complained.
async fn run(database_url: &str, arguments: &[&str]) -> (i32, String, String) {
    let arguments = [arguments, &["--database-url", database_url]].concat();
    let output = process::run(&arguments).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn migrate_prepares_a_database_once() {
    let postgres = database::postgres().await;
    let mut conn = PgConnection::connect(&postgres.url("postgres")).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe("CREATE DATABASE unmigrated TEMPLATE template0"))
        .execute(&mut conn)
        .await
        .unwrap();
    let url = postgres.url("unmigrated");
    for verb in
        [&["adopt", "t"][..], &["release", "t"], &["check"], &["audit"], &["serve", "--no-auth"]]
    {
        let (status, _, complaint) = run(&url, verb).await;
        assert_eq!(status, 1, "{verb:?}: {complaint}");
        assert!(complaint.contains("counterfoil migrate"), "{verb:?}: {complaint}");
    }
    assert_eq!(run(&url, &["migrate"]).await, (0, "migrated\n".to_owned(), String::new()));
    assert_eq!(run(&url, &["migrate"]).await, (0, "up to date\n".to_owned(), String::new()));
    assert_eq!(run(&url, &["check"]).await.0, 0);
}

#[tokio::test]
async fn adopt_and_release_say_what_they_do() {
    let server = Server::start(
        "CREATE TABLE t (id int PRIMARY KEY, a int); CREATE VIEW v AS SELECT * FROM t; CREATE TABLE bare (a int);
         CREATE TABLE busy (id int PRIMARY KEY, version text)",
        &[],
    )
    .await;
    let url = &server.database_url;
    let (status, said, _) = run(url, &["adopt", "public.t", "--name", "things"]).await;
    assert_eq!(status, 0);
    for line in [
        "column version: added",
        "guard: installed",
        "log: installed, with history",
        "resource things: registered for public.t",
    ] {
        assert!(said.lines().any(|l| l == line), "{line} in {said}");
    }
    let (status, said, _) = run(url, &["adopt", "t", "--no-history"]).await;
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("already registered") && said.contains("deletions only"), "{said}");
    for (arguments, words) in [
        (&["adopt", "t", "--name", "other"][..], "already adopted as things"),
        (&["adopt", "v"], "is a view, not a table"),
        (&["adopt", "bare"], "no primary key"),
        (&["adopt", "busy"], "--version-column"),
        (&["adopt", "busy", "--version-column", "rev", "--name", "things"], "already used"),
        (&["adopt", "busy", "--version-column", "rev", "--name", "No Name"], "cannot be the name"),
        (&["adopt", "nowhere"], "nowhere"),
        (&["release", "nowhere"], "nowhere"),
        (&["release", "bare"], "not adopted"),
    ] {
        let (status, said, complaint) = run(url, arguments).await;
        assert_eq!((status, said.as_str()), (1, ""), "{arguments:?}: {complaint}");
        assert!(
            complaint.starts_with("counterfoil: ") && complaint.contains(words),
            "{arguments:?}: {complaint}"
        );
    }
    let (status, said, _) = run(url, &["adopt", "busy", "--version-column", "rev"]).await;
    assert!(status == 0 && said.contains("column rev: added"), "{said}");
    let (status, said, _) = run(url, &["release", "public.busy", "--drop-version"]).await;
    assert!(status == 0 && said.contains("column rev: dropped"), "{said}");
    let (status, said, _) = run(url, &["release", "things"]).await;
    assert!(status == 0 && said.contains("resource things: no longer registered"), "{said}");
}

#[tokio::test]
async fn audit_tells_a_broken_invariant() {
    let server = Server::start(
        "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1), (2)",
        &["t"],
    )
    .await;
    server.patch("/t/1", None, r#"{"a": 1}"#).await.expect(200);
    let (status, said, complaint) = run(&server.database_url, &["audit"]).await;
    assert_eq!((status, said.as_str()), (0, "every invariant holds\n"), "{complaint}");
    server.sql("ALTER TABLE t DISABLE TRIGGER ALL; UPDATE t SET version = 1; DELETE FROM t WHERE id = 1").await;
    let (status, said, complaint) = run(&server.database_url, &["audit"]).await;
    assert_eq!(status, 1);
    assert!(said.contains("t 1: the row is gone") && said.contains("disabled"), "{said}");
    assert!(complaint.contains("invariants are broken"), "{complaint}");
}

#[tokio::test]
async fn serve_and_health_end_with_a_status_that_says_why() {
    let server = Server::start("", &[]).await;
    let url = server.database_url.clone();
    let (status, said, complaint) = run(&url, &["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!((status, said.as_str()), (2, ""));
    assert!(complaint.contains("--no-auth"), "{complaint}");
    for arguments in [
        &["serve", "--no-auth"][..],
        &["migrate"],
        &["audit"],
        &["nonsense"],
        &[],
        &["adopt"],
        &["serve", "--listen", "x"],
    ] {
        let output = process::run(arguments).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
    let away = "postgres://nobody@127.0.0.1:1/x";
    for arguments in [&["serve", "--no-auth"][..], &["migrate"], &["check"]] {
        assert_eq!(run(away, arguments).await.0, 1, "{arguments:?}");
    }
    assert_eq!(run("no url", &["migrate"]).await.0, 2);

    let program = Program::serve(&url).await;
    let address = program.url.strip_prefix("http://").unwrap();
    assert_eq!(process::run(&["health", "--listen", address]).await.status.code(), Some(0));
    let taken = run(&url, &["serve", "--no-auth", "--listen", address]).await;
    assert_eq!(taken.0, 1);
    assert!(taken.2.contains(address), "{}", taken.2);
    let nobody = process::run(&["health", "--listen", "127.0.0.1:1"]).await;
    assert_eq!(nobody.status.code(), Some(1));
}
