//! Limits on what a stranger may send.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::process::{Program, signal};
use crate::support::{Reply, Server, json};

const TABLE: &str =
    "CREATE TABLE t (id int PRIMARY KEY, a text, j jsonb); INSERT INTO t VALUES (1)";
const MOST: usize = 1 << 20;

/// A body of exactly this many bytes.
fn body_of(bytes: usize) -> String {
    let frame = r#"{"a":""}"#.len();
    format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - frame))
}

#[tokio::test]
async fn a_body_is_at_most_one_mebibyte() {
    let server = Server::start(TABLE, &["t"]).await;
    server.patch("/t/1", None, &body_of(MOST)).await.expect(200);
    for (method, path) in [
        (Method::PATCH, "/t/1"),
        (Method::PUT, "/t/1"),
        (Method::POST, "/t"),
        (Method::POST, "/t/1/increment"),
    ] {
        let reply = Reply::of(json(server.request(method, path), &body_of(MOST + 1))).await;
        let reply = reply.expect_error(413, "BODY_TOO_LARGE");
        assert_eq!(reply.details()["max_bytes"], MOST);
    }
    assert_eq!(server.value("SELECT version FROM t").await.as_deref(), Some("2"));
}

/// What a server says to bytes that no HTTP library would send.
async fn raw(server: &Server, request: &[u8]) -> String {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that has said enough may close before it has read all.
    let _ = stream.write_all(request).await;
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8_lossy(&said).into_owned()
}

const HEAD: &str = "PATCH /api/v1/t/1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n";

#[tokio::test]
async fn a_client_that_only_reads_once_all_is_sent_hears_that_it_was_too_much() {
    let server = Server::start(TABLE, &["t"]).await;
    let address = server.url.strip_prefix("http://").unwrap();
    let mebibytes = 8 << 20;
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{mebibytes:x}\r\n");
    for framing in [format!("Content-Length: {mebibytes}\r\n\r\n"), chunked] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{HEAD}{framing}").as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; mebibytes]).await.expect("all of it is taken");
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said).await;
        assert!(said.starts_with("HTTP/1.1 413") && said.contains("BODY_TOO_LARGE"), "{said}");
    }
}

#[tokio::test]
async fn a_body_without_declared_length_is_bounded_too() {
    let server = Server::start(TABLE, &["t"]).await;
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let start = "6\r\n{\"a\":\"\r\n";
    let long = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{start}{}", chunk.repeat(17));
    let said = raw(&server, long.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 413") && said.contains("BODY_TOO_LARGE"), "{said}");

    let short = format!(
        "{HEAD}Transfer-Encoding: chunked\r\n\r\n{start}3\r\nabc\r\n2\r\n\"}}\r\n0\r\n\r\n"
    );
    let said = raw(&server, short.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("abc"), "{said}");

    // Said to be large, and nothing of it sent: refused without waiting for it.
    let said = raw(&server, format!("{HEAD}Content-Length: 99999999\r\n\r\n").as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
    let said =
        raw(&server, format!("{HEAD}Content-Length: 99999999999999999999999\r\n\r\n").as_bytes())
            .await;
    assert!(said.starts_with("HTTP/1.1 4"), "{said}");
    assert_eq!(server.value("SELECT version FROM t").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_body_is_nested_and_named_within_bounds() {
    let server = Server::start(TABLE, &["t"]).await;
    let deep = |levels: usize| {
        format!("{{\"j\":{}1{}}}", "{\"k\":".repeat(levels - 1), "}".repeat(levels - 1))
    };
    server.patch("/t/1", None, &deep(64)).await.expect(200);
    for levels in [65, 1000, 100_000] {
        let reply = server.patch("/t/1", None, &deep(levels)).await.expect_error(400, "TOO_DEEP");
        assert_eq!(reply.details()["max_depth"], 64);
    }
    let patch =
        format!(r#"[{{"op":"add","path":"/j","value":{}1{}}}]"#, "[".repeat(200), "]".repeat(200));
    let reply = server.patch_as("application/json-patch+json", "/t/1", &patch).await;
    reply.expect_error(400, "TOO_DEEP");
    for body in [
        r#"{"a":"1","a":"2"}"#,
        r#"{"j":{"k":[{"a":1,"a":1}]}}"#,
        r#"{"a":"1","\u0061":"2"}"#,
        r#"{"j":{"\ud83d\ude00":1,"😀":2}}"#,
    ] {
        let reply = server.patch("/t/1", None, body).await.expect_error(400, "DUPLICATE_KEY");
        assert_eq!(reply.details()["line"], 1);
        server.post("/t", body).await.expect_error(400, "DUPLICATE_KEY");
        server.put("/t/1", Some("\"2\""), body).await.expect_error(400, "DUPLICATE_KEY");
    }
    let many: Vec<_> = (0..20_000).map(|n| format!("\"k{n}\":{n}")).collect();
    server.patch("/t/1", None, &format!("{{\"j\":{{{}}}}}", many.join(","))).await.expect(200);
    let reply = server.patch("/t/1", None, &format!("{{{}}}", many.join(","))).await;
    reply.expect_error(422, "UNKNOWN_FIELD").expect_field("k0");
}

#[tokio::test]
async fn requests_that_are_no_http_get_no_further() {
    let server = Server::start(TABLE, &["t"]).await;
    for bytes in [
        "GET /api/v1/t/1\r\n\r\n".to_owned(),
        "NONSENSE\r\n\r\n".to_owned(),
        "GET /api/v1/t/1 HTTP/1.1\r\nBroken header\r\n\r\n".to_owned(),
        format!("GET /api/v1/t HTTP/1.1\r\nHost: x\r\n{}\r\n", "X-A: b\r\n".repeat(200)),
        format!("GET /api/v1/t?{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(200_000)),
        format!("{HEAD}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{{}}"),
        format!("{HEAD}Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ] {
        let said = raw(&server, bytes.as_bytes()).await;
        assert!(
            said.is_empty() || said.starts_with("HTTP/1.1 4") || said.starts_with("HTTP/1.0 4"),
            "{bytes:.60}: {said}"
        );
    }
    server.get("/t/1").await.expect(200);
}

/// They are let in by the system while the server is busy with something else; here it does nothing at all.
#[tokio::test]
async fn clients_who_come_all_at_once_find_room_to_wait() {
    const CROWD: usize = 1000;
    let server = Server::start(TABLE, &["t"]).await;
    let mut program = Program::serve(&server.database_url).await;
    let address = program.url.trim_start_matches("http://").to_owned();
    signal("STOP", &[program.pid]);
    let connect = || tokio::time::timeout(Duration::from_secs(10), TcpStream::connect(&address));
    let mut clients = join_all((0..CROWD).map(|_| connect())).await;
    signal("CONT", &[program.pid]);
    let let_in = clients.iter().filter(|client| matches!(client, Ok(Ok(_)))).count();
    assert_eq!(let_in, CROWD);
    let mut last = clients.pop().unwrap().unwrap().unwrap();
    last.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut said = String::new();
    last.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    drop(clients);
    signal("TERM", &[program.pid]);
    assert!(program.ended().await.success());
}
