//! One connection, one request after another.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::Fallible;
use crate::response::{Response, parse};

/// Where neighbours come from.
pub(crate) const NEIGHBOURS: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Where those who disturb come from: somebody else, by every sign that a server has.
pub(crate) const DISTURBERS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(from: Ipv4Addr, server: SocketAddr) -> Fallible<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        let stream = socket.connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; 2048] })
    }

    /// Sends a request and reads its whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Fallible<Response> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(filled * 2, 0);
            }
            match self.stream.read(&mut self.buffer[filled..]).await? {
                0 => return Err("the server closed the connection".into()),
                n => filled += n,
            }
            if let Some(answer) = parse(&self.buffer[..filled])? {
                return Ok(answer);
            }
        }
    }

    /// The body of the last answer, for a message.
    pub(crate) fn said(&self, answer: &Response) -> String {
        let body = self.buffer.get(answer.body.clone()).unwrap_or_default();
        String::from_utf8_lossy(body).chars().take(200).collect()
    }
}

/// The bytes of a request by somebody, with `If-Match` where a version is named.
pub(crate) fn request(
    method: &str,
    path: &str,
    actor: &str,
    version: Option<u32>,
    body: &str,
) -> Vec<u8> {
    let mut text =
        format!("{method} /api/v1{path} HTTP/1.1\r\nHost: bench\r\nX-Actor: {actor}\r\n");
    if let Some(version) = version {
        // Writing to a text cannot fail.
        let _ = write!(text, "If-Match: \"{version}\"\r\n");
    }
    if !body.is_empty() {
        let length = body.len();
        let _ = write!(text, "Content-Type: application/json\r\nContent-Length: {length}\r\n");
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}
