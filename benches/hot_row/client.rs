//! As little of HTTP as the figures need: one connection, one request after another.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Fallible;

pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: &str) -> Fallible<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Sends a request and gives the answer's status and body.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Fallible<(u16, Vec<u8>)> {
        let request = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: bench\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the connection was closed".into());
            }
            if let Some(answer) = self.answer()? {
                return Ok(answer);
            }
        }
    }

    /// The answer, once all of it is here.
    fn answer(&self) -> Fallible<Option<(u16, Vec<u8>)>> {
        let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = std::str::from_utf8(&self.buffer[..end])?.to_ascii_lowercase();
        let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.ok_or("no length")?.trim().parse()?;
        let body = &self.buffer[end + 4..];
        Ok((body.len() >= length).then(|| (status, body[..length].to_vec())))
    }
}
