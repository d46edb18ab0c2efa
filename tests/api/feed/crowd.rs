//! Many streams on one process: what they cost while nothing happens, and that all are told.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Copy, start};
use crate::support::process::Program;

/// What one idle stream may take of the server's memory: 10,000 of them stay below 300 MiB.
const EACH: usize = 30 * 1024;

/// `COUNTERFOIL_STREAMS` says how many; the open files of both processes bound it.
fn streams() -> usize {
    std::env::var("COUNTERFOIL_STREAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

/// The resident memory of a process, in bytes.
fn memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Reads until this text has come.
async fn read_until(stream: &mut TcpStream, text: &[u8]) {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    while !read.windows(text.len()).any(|part| part == text) {
        let limit = Duration::from_mins(1);
        let length =
            tokio::time::timeout(limit, stream.read(&mut buffer)).await.expect("it comes").unwrap();
        assert!(length > 0, "cut off after {:?}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..length]);
    }
}

#[tokio::test]
async fn idle_streams_cost_little_and_all_are_told() {
    let server = start().await;
    server.sql("INSERT INTO notes VALUES (1)").await;
    let mut copy = Copy::default();
    copy.catch_up(&server, "").await;
    let mut program = Program::serve(&server.database_url).await;
    let address = program.url.trim_start_matches("http://").to_owned();
    let request = format!(
        "GET /api/v1/sync/stream?cursor={} HTTP/1.1\r\nhost: x\r\nconnection: keep-alive\r\n\r\n",
        copy.cursor
    );
    let mut open = Vec::new();
    let count = streams();
    let mut before = 0;
    for number in 0..=count {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut stream, b"\r\n\r\n").await;
        open.push(stream);
        if number == 0 {
            before = memory(program.pid);
        }
    }
    let idle = memory(program.pid);
    let each = idle.saturating_sub(before) / count;
    println!("{count} idle streams: {} KiB in all, {each} bytes each", idle / 1024);
    assert!(each < EACH, "{each} bytes for each stream");

    let begun = Instant::now();
    server.sql("UPDATE notes SET text = 'told'").await;
    for stream in &mut open {
        read_until(stream, br#""text":"told""#).await;
    }
    println!("all told after {:?}; {} KiB", begun.elapsed(), memory(program.pid) / 1024);
    let each = memory(program.pid).saturating_sub(before) / count;
    assert!(each < EACH, "{each} bytes for each stream that was told");
    crate::support::process::signal("TERM", &[program.pid]);
    let begun = Instant::now();
    assert!(program.ended().await.success());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
