//! The private PostgreSQL: it starts, it ends, and neither leaves anything behind nor stumbles over
//! what a killed one left.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use counterfoil::postgres::{Error, Options, Postgres};
use sqlx::{Connection, PgConnection};

/// A directory for one test, removed at its end. Under the system's temporary directory, because
/// there the account that root hands the server to can reach it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("counterfoil-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    fn options(&self) -> Options {
        Options { durable: false, ..Options::new(self.0.join("pg")) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Whether a process is there and more than an entry that nobody has collected yet.
fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(signal: &str, pid: u32) {
    let command = format!("kill -s {signal} {pid}");
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
}

async fn show(postgres: &Postgres, setting: &str) -> String {
    let mut connection = PgConnection::connect(&postgres.url("postgres")).await.unwrap();
    sqlx::query_scalar("SELECT current_setting($1)")
        .bind(setting)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn it_starts_keeps_its_data_over_a_restart_and_leaves_nothing_behind() {
    const NAME: &str = r#"Bücher & "more"/%20"#;
    let scratch = Scratch::new("restart");
    let mut options = scratch.options();
    options.settings.push(("work_mem".to_owned(), "7MB".to_owned()));

    let postgres = Postgres::start(&options).await.unwrap();
    let pid = postgres.pid();
    assert_eq!(show(&postgres, "work_mem").await, "7MB");
    assert_eq!(show(&postgres, "fsync").await, "off");
    assert_eq!(show(&postgres, "server_encoding").await, "UTF8");
    assert_eq!(show(&postgres, "listen_addresses").await, "");
    let mode = fs::metadata(postgres.socket_dir()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    postgres.create_database_if_missing(NAME).await.unwrap();
    postgres.create_database_if_missing(NAME).await.unwrap();
    let psql = postgres.bin_dir().join("psql");
    if psql.exists() {
        let output = Command::new(psql)
            .args(["-XAtc", "SELECT current_database()", &postgres.url(NAME)])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), NAME);
    }
    postgres.stop().await.unwrap();
    assert!(!alive(pid));
    assert!(!scratch.0.join("pg/postmaster.pid").exists());

    options.durable = true;
    let begun = Instant::now();
    let postgres = Postgres::start(&options).await.unwrap();
    let took = begun.elapsed();
    println!("second start: {took:?}");
    assert!(took < Duration::from_secs(5), "the second start took {took:?}");
    assert_eq!(show(&postgres, "fsync").await, "on");
    let mut connection = PgConnection::connect(&postgres.url(NAME)).await.unwrap();
    let name: String = sqlx::query_scalar("SELECT current_database()::text")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(name, NAME);
    // Dropping the handle ends it as well, with a connection still open.
    let pid = postgres.pid();
    drop(postgres);
    assert!(!alive(pid));
}

#[tokio::test]
async fn a_second_owner_of_a_directory_is_refused_by_name() {
    let scratch = Scratch::new("owners");
    let first = Postgres::start(&scratch.options()).await.unwrap();
    // By another spelling of the path, too.
    let mut options = scratch.options();
    options.data_dir = scratch.0.join("../").join(scratch.0.file_name().unwrap()).join("pg");
    let error = Postgres::start(&options).await.unwrap_err();
    assert!(
        matches!(error, Error::InUse { owner: Some(pid), .. } if pid == std::process::id()),
        "{error}"
    );
    first.stop().await.unwrap();
    Postgres::start(&options).await.unwrap().stop().await.unwrap();
}

/// What the next test runs as a process of its own, to be killed.
#[tokio::test]
#[ignore = "a part of a_killed_owner_leaves_no_server_behind"]
async fn owner_that_waits_to_be_killed() {
    let Some(data_dir) = std::env::var_os("COUNTERFOIL_TEST_OWNED_DIR") else {
        return;
    };
    let options = Options { durable: false, ..Options::new(data_dir) };
    let postgres = Postgres::start(&options).await.unwrap();
    println!("\nserver {}", postgres.pid());
    std::future::pending::<()>().await;
}

/// Starts a process that starts a server; both, once the server accepts connections.
fn start_owner(options: &Options) -> (Child, u32) {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_that_waits_to_be_killed", "--ignored", "--nocapture"])
        .env("COUNTERFOIL_TEST_OWNED_DIR", &options.data_dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let server = BufReader::new(owner.stdout.take().unwrap())
        .lines()
        .map(|line| line.unwrap())
        .find_map(|line| line.strip_prefix("server ").map(|pid| pid.parse().unwrap()))
        .unwrap();
    (owner, server)
}

#[tokio::test]
async fn a_killed_owner_leaves_no_server_behind() {
    let scratch = Scratch::new("killed");
    let options = scratch.options();
    let (mut owner, server) = start_owner(&options);
    assert!(alive(server));
    owner.kill().unwrap();
    owner.wait().unwrap();
    // At once, while the old server may be shutting down still.
    let postgres = Postgres::start(&options).await.unwrap();
    assert!(!alive(server));
    postgres.stop().await.unwrap();

    // And without anybody to end it.
    if Command::new("setpriv").args(["--pdeathsig", "INT", "true"]).status().is_ok() {
        let (mut owner, server) = start_owner(&options);
        owner.kill().unwrap();
        owner.wait().unwrap();
        wait_until("the server of a killed owner ends", || !alive(server));
    }
}

#[tokio::test]
async fn a_killed_server_is_started_again_whoever_has_its_process_id_now() {
    let scratch = Scratch::new("stale");
    let options = scratch.options();
    let postgres = Postgres::start(&options).await.unwrap();
    let mut connection = PgConnection::connect(&postgres.url("postgres")).await.unwrap();
    let backend: i32 =
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
    kill("KILL", postgres.pid());
    postgres.stop().await.unwrap();
    let pid_file = scratch.0.join("pg/postmaster.pid");
    assert!(pid_file.exists(), "a killed server leaves its file");

    // The number in the file belongs to a living process of the very account that runs the server.
    let server_user = fs::metadata(scratch.0.join("pg")).unwrap().uid();
    let mut other = as_user(server_user, "sleep").arg("60").spawn().unwrap();
    let text = fs::read_to_string(&pid_file).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    fs::write(&pid_file, format!("{}\n{rest}", other.id())).unwrap();

    let postgres = Postgres::start(&options).await.unwrap();
    assert!(!alive(u32::try_from(backend).unwrap()), "the old session is gone");
    assert!(alive(other.id()), "the stranger is not");
    other.kill().unwrap();
    other.wait().unwrap();
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_without_an_owner_is_ended_by_the_next_start() {
    let scratch = Scratch::new("orphan");
    let options = scratch.options();
    let postgres = Postgres::start(&options).await.unwrap();
    let (program, data_dir) = (postgres.bin_dir().join("postgres"), postgres.data_dir().to_owned());
    let socket_dir = postgres.socket_dir().to_owned();
    postgres.stop().await.unwrap();

    let user = fs::metadata(&data_dir).unwrap().uid();
    let mut orphan = as_user(user, program)
        .arg("-D")
        .arg(&data_dir)
        .arg("-k")
        .arg(&socket_dir)
        .args(["-c", "listen_addresses="])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the orphan has started", || {
        fs::read_to_string(data_dir.join("postmaster.pid"))
            .is_ok_and(|text| text.lines().last().is_some_and(|line| line.starts_with("ready")))
    });
    // Collected at its end, or it would stay as an entry that looks alive.
    let collector = std::thread::spawn(move || orphan.wait().unwrap());
    let postgres = Postgres::start(&options).await.unwrap();
    assert!(collector.join().unwrap().success(), "it was shut down, not killed");
    postgres.stop().await.unwrap();
}

#[test]
fn a_server_outlives_the_runtime_thread_that_started_it() {
    let scratch = Scratch::new("thread");
    let options = scratch.options();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let postgres = runtime
        .block_on(async move { tokio::spawn(async move { Postgres::start(&options).await }).await })
        .unwrap()
        .unwrap();
    drop(runtime);
    std::thread::sleep(Duration::from_millis(300));
    assert!(alive(postgres.pid()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        show(&postgres, "fsync").await;
        postgres.stop().await.unwrap();
    });
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let scratch = Scratch::new("refused");
    let mut options = scratch.options();
    let data_dir = &options.data_dir;

    fs::create_dir(data_dir).unwrap();
    fs::write(data_dir.join("notes.txt"), "mine").unwrap();
    let error = Postgres::start(&options).await.unwrap_err();
    assert!(matches!(error, Error::NotACluster { .. }), "{error}");
    assert!(data_dir.join("notes.txt").exists());

    fs::write(data_dir.join("PG_VERSION"), "7.4\n").unwrap();
    let error = Postgres::start(&options).await.unwrap_err();
    assert!(matches!(error, Error::VersionMismatch { data_version: 7, .. }), "{error}");
    println!("{error}");

    fs::remove_dir_all(data_dir).unwrap();
    options.settings.push(("shared_buffers".to_owned(), "plenty".to_owned()));
    let error = Postgres::start(&options).await.unwrap_err();
    assert!(error.to_string().contains("invalid value for parameter"), "{error}");
    println!("{error}");
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_no_server() {
    let scratch = Scratch::new("given-up");
    let options = scratch.options();
    Postgres::start(&options).await.unwrap().stop().await.unwrap();
    for millis in [0, 1, 5, 20, 40, 80] {
        let limit = Duration::from_millis(millis);
        drop(tokio::time::timeout(limit, Postgres::start(&options)).await);
    }
    let begun = Instant::now();
    loop {
        match Postgres::start(&options).await {
            Ok(postgres) => return postgres.stop().await.unwrap(),
            Err(Error::InUse { .. }) if begun.elapsed() < Duration::from_secs(20) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_long_path_still_has_a_socket() {
    let scratch = Scratch::new("long");
    let mut options = scratch.options();
    options.data_dir = scratch.0.join("a, directory".repeat(10)).join("pg");
    let postgres = Postgres::start(&options).await.unwrap();
    assert!(postgres.socket_dir().as_os_str().len() < 60);
    let socket_dir = postgres.socket_dir().to_owned();
    show(&postgres, "fsync").await;
    postgres.stop().await.unwrap();
    fs::remove_dir(socket_dir).unwrap();
}

#[tokio::test]
async fn root_hands_the_server_to_another_account() {
    let scratch = Scratch::new("root");
    if fs::metadata(&scratch.0).unwrap().uid() != 0 {
        return;
    }
    let options = scratch.options();
    let postgres = Postgres::start(&options).await.unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", postgres.pid())).unwrap();
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    };
    assert!(field("Uid:").split_whitespace().all(|id| id != "0"), "{}", field("Uid:"));
    assert!(field("Gid:").split_whitespace().all(|id| id != "0"), "{}", field("Gid:"));
    assert_eq!(field("Groups:"), "", "no group of root is kept");
    assert_eq!(postgres.note(), None);
    postgres.stop().await.unwrap();

    // Data that an ordinary user made is served as that user.
    let data_dir = scratch.0.join("pg");
    chown_all(&data_dir, 65533);
    fs::remove_dir_all(scratch.0.join("pg.sock")).unwrap();
    let postgres = Postgres::start(&options).await.unwrap();
    assert_eq!(fs::metadata(postgres.socket_dir()).unwrap().uid(), 65533);
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn root_keeps_data_elsewhere_when_the_account_cannot_enter_the_place_asked_for() {
    let scratch = Scratch::new("closed");
    if fs::metadata(&scratch.0).unwrap().uid() != 0 {
        return;
    }
    fs::set_permissions(&scratch.0, Permissions::from_mode(0o700)).unwrap();
    let options = scratch.options();
    let postgres = Postgres::start(&options).await.unwrap();
    let data_dir = postgres.data_dir().to_owned();
    assert!(!data_dir.starts_with(&scratch.0));
    assert!(postgres.note().unwrap().contains(data_dir.to_str().unwrap()));
    postgres.stop().await.unwrap();
    // The same place the next time, even when the one asked for is open by then.
    fs::set_permissions(&scratch.0, Permissions::from_mode(0o755)).unwrap();
    let postgres = Postgres::start(&options).await.unwrap();
    assert_eq!(postgres.data_dir(), data_dir);
    postgres.stop().await.unwrap();
    fs::remove_dir_all(data_dir.parent().unwrap()).unwrap();
}

/// A program run as another user, if this one is root.
fn as_user(user: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
    use std::os::unix::process::CommandExt;

    let mut command = Command::new(program);
    if user != fs::metadata("/proc/self").unwrap().uid() {
        command.uid(user).gid(user);
    }
    command.current_dir("/");
    command
}

fn chown_all(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            chown_all(&entry.unwrap().path(), user);
        }
    }
}
