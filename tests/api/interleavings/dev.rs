//! `counterfoil dev` as a process: it starts, serves, and leaves nothing behind however it ends.

use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::Method;
use sqlx::{Connection as _, PgConnection};

use crate::support::process::{Program, all_gone, children, is_alive, signal};
use crate::support::scratch::Scratch;
use crate::support::{Door, Reply, json};

const INVOICE: &str = "/invoices/01a11e82-d0bc-7367-9c39-5e9873953dde";

/// How long a start may take where the database is there already, on a machine that is at rest.
const START: Duration = Duration::from_secs(2);

/// The same on this machine as it is now: with more processes that want to run than there are
/// processors, each gets its share.
fn start_limit() -> Duration {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let waiting: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(1.0);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    START.mul_f64((waiting / f64::from(u32::try_from(processors).unwrap())).max(1.0))
}

/// The server process of the private PostgreSQL in a directory.
fn postgres(directory: &Path) -> u32 {
    let file = std::fs::read_to_string(directory.join("pg/postmaster.pid")).unwrap();
    file.lines().next().unwrap().parse().unwrap()
}

/// The program and every process below it.
fn family(program: &Program, directory: &Path) -> Vec<u32> {
    let postgres = postgres(directory);
    let mut family = vec![program.pid, postgres];
    family.extend(children(program.pid));
    family.extend(children(postgres));
    assert!(family[..2].iter().all(|&pid| is_alive(pid)), "{family:?}");
    family
}

async fn raise(program: &Program, amount: i32) -> Reply {
    let patch = Door::to(&program.url).request(Method::PATCH, INVOICE);
    Reply::of(json(patch, &format!(r#"{{"amount":{amount}}}"#))).await.expect(200)
}

/// Starts it again, and once more where a busy machine took too long: the quickest counts.
async fn start_again(directory: &Path) -> Program {
    let mut took = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        let mut program = Program::dev(directory).await;
        took.push(begun.elapsed());
        if begun.elapsed() < start_limit() {
            println!("second start: {:?}", begun.elapsed());
            return program;
        }
        signal("TERM", &[program.pid]);
        program.ended().await;
    }
    panic!("the start took {took:?}");
}

#[tokio::test]
async fn dev_says_where_it_is_serves_and_leaves_no_process_behind() {
    let scratch = Scratch::new("dev");
    for name in ["TERM", "INT", "HUP"] {
        let mut program = Program::dev(scratch.path()).await;
        let database = program.said.iter().find_map(|line| line.strip_prefix("database: "));
        let database = database.expect("it says which database").to_owned();
        assert!(database.starts_with("postgres://"), "{database}");
        let mut conn = PgConnection::connect(&database).await.unwrap();
        let before: i32 = sqlx::query_scalar("SELECT version FROM invoices WHERE id = $1::uuid")
            .bind(INVOICE.trim_start_matches("/invoices/"))
            .fetch_one(&mut conn)
            .await
            .unwrap();
        assert_eq!(raise(&program, before * 10).await.data()["version"], before + 1);
        let family = family(&program, scratch.path());

        // Somebody's open session does not keep it.
        signal(name, &[program.pid]);
        assert!(program.ended().await.success(), "SIG{name}");
        all_gone(&family).await;
        assert!(!scratch.path().join("pg/postmaster.pid").exists());
        let rest = program.rest().await.join("\n");
        assert!(rest.contains(&format!("curl -i {}/api/v1{INVOICE}", program.url)), "{rest}");
        drop(conn);
    }
}

#[tokio::test]
async fn dev_killed_outright_leaves_no_postgres_and_starts_again_at_once_with_its_data() {
    let scratch = Scratch::new("dev");
    let mut program = Program::dev(scratch.path()).await;
    let version = raise(&program, 4711).await.data()["version"].clone();
    let first = family(&program, scratch.path());
    signal("KILL", &[program.pid]);
    program.ended().await;
    // At once, while the old PostgreSQL may be on its way out still.
    let mut program = start_again(scratch.path()).await;
    assert!(!first.iter().any(|&pid| is_alive(pid)), "one PostgreSQL at a time");
    let read = Reply::of(Door::to(&program.url).request(Method::GET, INVOICE)).await.expect(200);
    assert_eq!(read.data()["amount"].to_string(), "4711.00");
    assert_eq!(read.data()["version"], version);

    // And where nobody starts it again.
    let second = family(&program, scratch.path());
    signal("KILL", &[program.pid]);
    program.ended().await;
    all_gone(&second).await;
    let mut program = start_again(scratch.path()).await;
    signal("TERM", &[program.pid]);
    assert!(program.ended().await.success());
}

#[tokio::test]
async fn a_second_dev_on_one_directory_is_told_who_has_it() {
    let scratch = Scratch::new("dev");
    let mut first = Program::dev(scratch.path()).await;
    let second = Program::dev_to_end(scratch.path()).await;
    assert_eq!(second.status.code(), Some(1));
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(message.contains("is in use by another process"), "{message}");
    assert!(message.contains(&first.pid.to_string()), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    raise(&first, 1).await;
    signal("TERM", &[first.pid]);
    assert!(first.ended().await.success());
}

#[tokio::test]
async fn dev_ends_and_says_why_when_its_postgres_does() {
    let scratch = Scratch::new("dev");
    let mut program = Program::dev(scratch.path()).await;
    let family = family(&program, scratch.path());
    signal("KILL", &[postgres(scratch.path())]);
    assert_eq!(program.ended().await.code(), Some(1));
    all_gone(&family).await;
    let mut program = start_again(scratch.path()).await;
    raise(&program, 1).await;
    signal("TERM", &[program.pid]);
    assert!(program.ended().await.success());
}
