//! The end of a server, and clients that are slow on purpose.

use std::time::{Duration, Instant};

use counterfoil::http::server::Patience;
use reqwest::Method;
use sqlx::AssertSqlSafe;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{assert_sound, chain, sessions};
use crate::support::process::{Program, signal};
use crate::support::{Door, Reply, Server, json, wait_until};

const NOTES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL);
    INSERT INTO notes VALUES (1, 'old');";

#[tokio::test]
async fn a_server_told_to_end_answers_what_is_under_way_and_takes_nothing_new() {
    let server = Server::start(NOTES, &["notes"]).await;
    let mut program = Program::serve(&server.database_url).await;
    let address = program.url.trim_start_matches("http://").to_owned();
    let mut holder = server.connect().await;
    sqlx::raw_sql("BEGIN; SELECT FROM notes FOR UPDATE").execute(&mut holder).await.unwrap();
    let put = Door::to(&program.url).request(Method::PUT, "/notes/1").header("if-match", "\"1\"");
    let waiting = tokio::spawn(Reply::of(json(put, r#"{"text":"mine"}"#)));
    let mut observer = server.connect().await;
    wait_until("the request waits for the row", async || {
        sessions(&mut observer, "wait_event_type = 'Lock'").await == 1
    })
    .await;
    // A connection that is open and idle does not keep the server.
    let idle = TcpStream::connect(&address).await.unwrap();

    signal("TERM", &[program.pid]);
    wait_until("new connections are refused", async || TcpStream::connect(&address).await.is_err())
        .await;
    assert!(!waiting.is_finished(), "the request waits still");
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    let reply = waiting.await.unwrap().expect(200);
    assert_eq!(reply.data()["version"], 2);
    drop(idle);
    let begun = Instant::now();
    assert!(program.ended().await.success());
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    chain(&server, "notes", "1").await;
    assert_sound(&server).await;
}

#[tokio::test]
async fn a_server_told_to_end_as_soon_as_it_listens_ends_in_good_order() {
    let server = Server::start(NOTES, &["notes"]).await;
    for name in ["TERM", "INT", "HUP"] {
        let mut program = Program::serve(&server.database_url).await;
        signal(name, &[program.pid]);
        assert!(program.ended().await.success(), "SIG{name}");
    }
}

/// How long clients may take over their headers in these tests.
const HEADER_TIME: Duration = Duration::from_millis(500);
const IMPATIENT: Patience = Patience { headers: HEADER_TIME, drain: Duration::from_secs(1) };

#[tokio::test]
async fn a_request_that_does_not_end_holds_the_end_up_for_a_bounded_time_only() {
    let server = Server::patient(NOTES, &["notes"], IMPATIENT).await;
    let mut observer = server.connect().await;
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    let head = "PUT /api/v1/notes/1 HTTP/1.1\r\nhost: x\r\ncontent-length: 15\r\n\
                expect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // "100 Continue" tells that the request is under way.
    let mut interim = [0; 12];
    stream.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100");
    stream.write_all(b"{\"text\"").await.unwrap();
    let begun = Instant::now();
    server.end().await;
    let took = begun.elapsed();
    assert!(took >= IMPATIENT.drain && took < 10 * IMPATIENT.drain, "it took {took:?}");
    let stored = "SELECT concat_ws('/', text, version) FROM notes";
    let stored: String = sqlx::query_scalar(stored).fetch_one(&mut observer).await.unwrap();
    assert_eq!(stored, "old/1", "half a request is none");
}

/// Waits until the server closes a connection and gives what it said before.
async fn closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut said)).await;
    // Closed with a reset, where bytes of ours were on their way, is closed as well.
    drop(end.expect("the server closes the connection"));
    said
}

#[tokio::test]
async fn clients_that_are_slow_with_their_headers_are_cut_off() {
    let server = Server::patient(NOTES, &["notes"], IMPATIENT).await;
    let address = server.url.trim_start_matches("http://").to_owned();
    // Those who say nothing, or not which version of HTTP they speak, or stop half-way.
    for beginning in ["", "P", "PRI * HTTP/2.0\r\n", "GET /healthz HTTP/1.1\r\nhost: x\r\n"] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let begun = Instant::now();
        let said = String::from_utf8(closed(&mut stream).await).unwrap();
        assert!(!said.contains(" 200 "), "{beginning:?}: {said}");
        assert!(begun.elapsed() >= HEADER_TIME / 2, "{beginning:?} was cut off at once");
    }
    // A byte at a time never ends, so its connection has to.
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let drip = async {
        writer.write_all(b"GET /healthz HTTP/1.1\r\nx-endless: ").await.unwrap();
        while writer.write_all(b"x").await.is_ok() {
            tokio::time::sleep(HEADER_TIME / 20).await;
        }
    };
    let mut said = Vec::new();
    tokio::select! {
        () = drip => {}
        end = tokio::time::timeout(Duration::from_secs(30), reader.read_to_end(&mut said)) => {
            drop(end.expect("the server closes the connection"));
        }
    }
    server.get("/notes/1").await.expect(200);
}

#[tokio::test]
async fn clients_whose_headers_came_in_time_may_wait_longer_for_their_answer() {
    let server = Server::patient(NOTES, &["notes"], IMPATIENT).await;
    let mut holder = server.connect().await;
    sqlx::raw_sql("BEGIN; SELECT FROM notes FOR UPDATE").execute(&mut holder).await.unwrap();
    let put = server.request(Method::PUT, "/notes/1");
    let waiting = tokio::spawn(Reply::of(json(put, r#"{"text":"mine"}"#)));
    let longer = format!("SELECT pg_sleep({})", 2.0 * HEADER_TIME.as_secs_f64());
    sqlx::raw_sql(AssertSqlSafe(longer)).execute(&mut holder).await.unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    waiting.await.unwrap().expect(200);
}
