//! Streams: the same changes, as they come to be.

use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Copy, settled, start};
use crate::support::{Reply, Server};

/// How long an event may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A stream as a client reads it.
struct Events {
    response: Response,
    buffer: Vec<u8>,
}

/// What stands between two empty lines.
#[derive(Debug, Default)]
struct Block {
    id: Option<String>,
    event: String,
    data: Value,
    comment: bool,
}

impl Events {
    async fn open(server: &Server, query: &str, last: Option<&str>) -> Self {
        let mut request = server.request(Method::GET, &format!("/sync/stream{query}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, buffer: Vec::new() }
    }

    /// The next block; `None` where the stream has ended.
    async fn block(&mut self) -> Option<Block> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let text: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(Block::read(&String::from_utf8(text).unwrap()));
            }
            let chunk = tokio::time::timeout(LIMIT, self.response.chunk())
                .await
                .expect("it says something");
            self.buffer.extend(chunk.unwrap()?);
        }
    }

    /// The next event, without the comments ahead of it.
    async fn event(&mut self) -> Option<Block> {
        loop {
            match self.block().await {
                Some(block) if block.event.is_empty() => {}
                block => return block,
            }
        }
    }

    /// Takes events over until the copy has seen so many changes.
    async fn follow(&mut self, copy: &mut Copy, changes: usize) {
        while copy.seen.len() < changes {
            let event = self.event().await.expect("it goes on");
            assert_eq!(event.event, "changes");
            copy.take(&event.data);
            assert_eq!(event.id.as_ref(), Some(&copy.cursor));
        }
    }
}

impl Block {
    fn read(text: &str) -> Self {
        let mut block = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.split_once(':').unwrap() {
                ("", _) => block.comment = true,
                ("id", id) => block.id = Some(id.trim().to_owned()),
                ("event", event) => event.trim().clone_into(&mut block.event),
                ("data", data) => block.data = serde_json::from_str(data).unwrap(),
                other => panic!("{other:?}"),
            }
        }
        block
    }
}

#[tokio::test]
async fn a_stream_goes_on_where_it_stood_and_tells_what_a_pull_tells() {
    let server = start().await;
    server.sql("INSERT INTO notes SELECT i FROM generate_series(1, 1200) i").await;
    settled(&server).await;
    let mut events = Events::open(&server, "", None).await;
    let mut copy = Copy::default();
    events.follow(&mut copy, 1200).await;
    let begun = Instant::now();
    server.patch("/notes/1", None, r#"{"text": "a"}"#).await.expect(200);
    events.follow(&mut copy, 1201).await;
    // Somebody else's writes are found by looking.
    server.sql("UPDATE notes SET text = 'b' WHERE id = 2").await;
    events.follow(&mut copy, 1202).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let mut pulled = Copy::default();
    pulled.catch_up(&server, "&limit=1000").await;
    assert_eq!(pulled.seen, copy.seen);

    // The header comes ahead of the address, which is that of the beginning.
    let old = copy.cursor.clone();
    server.patch("/notes/3", None, r#"{"text": "c"}"#).await.expect(200);
    let mut back = Events::open(&server, "?cursor=nonsense", Some(&old)).await;
    let mut after = Copy::default();
    back.follow(&mut after, 1).await;
    assert_eq!(after.versions(), ["notes/3@2"]);
    let mut named = Events::open(&server, &format!("?cursor={old}"), None).await;
    let event = named.event().await.unwrap();
    assert_eq!(event.data["changes"][0]["id"], "3");
}

#[tokio::test]
async fn a_silent_stream_says_that_it_lives_and_moves_on() {
    let server = start().await;
    settled(&server).await;
    let mut events = Events::open(&server, "?resources=tasks", None).await;
    let begun = Instant::now();
    // All that happens is for others.
    server.sql("INSERT INTO notes SELECT i FROM generate_series(1, 100) i").await;
    let block = events.block().await.unwrap();
    assert!(block.comment && block.event.is_empty(), "{block:?}");
    assert!(begun.elapsed() > Duration::from_secs(10) && begun.elapsed() < Duration::from_secs(25));
    let id = block.id.expect("it moved");
    let reply = server.get(&format!("/sync/pull?resources=tasks&cursor={id}")).await.expect(200);
    assert_eq!(reply.data()["cursor"], id.as_str(), "it stands at the end");
}

#[tokio::test]
async fn a_stream_ends_with_its_server_and_is_taken_up_by_the_next() {
    let server = start().await;
    server.sql("INSERT INTO notes SELECT i FROM generate_series(1, 3) i").await;
    settled(&server).await;
    let next = Server::on(&server.database_url, "").await;
    let mut events = Events::open(&server, "", None).await;
    let mut copy = Copy::default();
    events.follow(&mut copy, 3).await;
    let begun = Instant::now();
    server.end().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(events.event().await.is_none());

    next.sql("INSERT INTO notes SELECT i FROM generate_series(4, 6) i").await;
    let mut events = Events::open(&next, "", Some(&copy.cursor.clone())).await;
    events.follow(&mut copy, 6).await;
    assert_eq!(copy.versions(), (1..=6).map(|i| format!("notes/{i}@1")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_whose_cursor_ends_says_so() {
    let server = start().await;
    server.sql("INSERT INTO notes VALUES (1)").await;
    settled(&server).await;
    let mut copy = Copy::default();
    let mut events = Events::open(&server, "?resources=notes", None).await;
    events.follow(&mut copy, 1).await;
    let mut all = Events::open(&server, "", None).await;
    all.event().await.unwrap();
    server.sql("SELECT counterfoil.adopt('quiet')").await;
    server.sql("INSERT INTO notes VALUES (2)").await;
    let reset = loop {
        let event = all.event().await.unwrap();
        if event.event == "reset" {
            break event;
        }
    };
    assert_eq!(reset.data["error"]["code"], "CURSOR_EXPIRED");
    assert_eq!(reset.data["error"]["details"]["reason"], "resources");
    assert!(all.event().await.is_none());

    server.sql("SELECT counterfoil.new_epoch()").await;
    let reset = loop {
        let event = events.event().await.unwrap();
        if event.event == "reset" {
            break event;
        }
    };
    assert_eq!(reset.data["error"]["details"]["reason"], "database");

    // One that has ended beforehand is answered as any request is.
    for (query, status) in [
        (format!("?resources=notes&cursor={}", copy.cursor), 410),
        ("?cursor=x".to_owned(), 400),
        ("?resources=nothing".to_owned(), 400),
        ("?limit=5".to_owned(), 400),
    ] {
        Reply::of(server.request(Method::GET, &format!("/sync/stream{query}")))
            .await
            .expect(status);
    }
    let last = server.request(Method::GET, "/sync/stream").header("last-event-id", "x");
    Reply::of(last).await.expect_error(400, "INVALID_CURSOR").expect_field("Last-Event-ID");
}

/// A client that reads nothing has its changes wait in the log, and nobody else waits for it.
#[tokio::test]
async fn slow_readers_hold_up_nobody() {
    let server = start().await;
    let address = server.url.trim_start_matches("http://");
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /api/v1/sync/stream HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        slow.push(stream);
    }
    let mut events = Events::open(&server, "", None).await;
    let fill = "INSERT INTO notes SELECT i, (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 3000 + 0 * i)) FROM generate_series(1, 200) i";
    server.sql(fill).await;
    let mut copy = Copy::default();
    events.follow(&mut copy, 200).await;
    server.patch("/notes/1", None, "{}").await.expect(200);
    events.follow(&mut copy, 201).await;
    // When it reads at last, it is told everything.
    let mut one = slow.pop().unwrap();
    let mut text = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    while !text.windows(40).rev().take(200_000).any(|w| w.starts_with(br#""id":"1","version":2"#)) {
        let read =
            tokio::time::timeout(LIMIT, one.read(&mut buffer)).await.expect("it goes on").unwrap();
        assert!(read > 0, "it was cut off");
        text.extend_from_slice(&buffer[..read]);
    }
    assert!(text.len() > 200 * 96_000, "{}", text.len());
}
