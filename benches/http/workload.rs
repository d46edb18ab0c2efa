//! What one connection asks, and what it must be answered.

use std::io::Write;

use crate::data::{DUE_ON, Row, TITLE, memo};

/// How many rows a connection of the conditional PUT owns.
pub(crate) const OWNED: usize = 4;
/// Every row is past this version, so that it is always stale.
pub(crate) const STALE: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// One row by its id.
    Get,
    /// The first 50 rows.
    List,
    /// A conditional PUT that finds its version.
    Put,
    /// A conditional PUT that does not: always 409.
    Conflict,
    /// A new row with an id made by the server.
    Post,
    /// A fixed answer, to find the limit of the generator.
    #[value(skip)]
    Ok,
}

impl Workload {
    pub(crate) const ALL: [Self; 5] =
        [Self::Get, Self::List, Self::Put, Self::Conflict, Self::Post];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Get => "GET one row",
            Self::List => "GET list of 50",
            Self::Put => "PUT, If-Match",
            Self::Conflict => "PUT, stale: 409",
            Self::Post => "POST",
            Self::Ok => "GET \"ok\"",
        }
    }

    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Get | Self::List | Self::Put | Self::Ok => 200,
            Self::Conflict => 409,
            Self::Post => 201,
        }
    }

    /// Whether history could make a difference.
    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Put | Self::Conflict | Self::Post)
    }

    /// Whether it leaves the table changed.
    pub(crate) const fn commits(self) -> bool {
        matches!(self, Self::Put | Self::Post)
    }
}

/// The requests of one connection, one after another.
pub(crate) struct Script<'a> {
    workload: Workload,
    table: &'a str,
    rows: &'a [Row],
    /// The versions of the rows that this connection owns.
    versions: Vec<u32>,
    first: usize,
    current: usize,
    random: u64,
    serial: u32,
    buffer: Vec<u8>,
    body: Vec<u8>,
    /// Where the id, or for lists the end, was in the last good body.
    mark: usize,
}

impl<'a> Script<'a> {
    pub(crate) fn new(
        workload: Workload,
        table: &'a str,
        rows: &'a [Row],
        connection: usize,
    ) -> Self {
        let first = connection * OWNED;
        let owned = rows.iter().skip(first).take(OWNED);
        Self {
            workload,
            table,
            rows,
            versions: owned.map(|row| row.version).collect(),
            first,
            current: 0,
            random: 0x9E37_79B9_7F4A_7C15 ^ (connection as u64 + 1).wrapping_mul(0xBF58_476D),
            serial: 0,
            buffer: Vec::with_capacity(1024),
            body: Vec::with_capacity(512),
            mark: 0,
        }
    }

    /// The bytes of the next request.
    pub(crate) fn request(&mut self) -> &[u8] {
        self.serial = (self.serial + 1) % 1_000_000;
        self.current = match self.workload {
            Workload::Put => self.first + (self.current + 1) % OWNED,
            Workload::Get | Workload::Conflict => self.any(),
            Workload::List | Workload::Post | Workload::Ok => 0,
        };
        self.buffer.clear();
        match self.workload {
            Workload::Get => self.head("GET", Some(self.current), None),
            Workload::List => self.list(),
            Workload::Put => {
                let version = self.versions[self.current - self.first];
                self.head("PUT", Some(self.current), Some(version));
            }
            Workload::Conflict => self.head("PUT", Some(self.current), Some(STALE)),
            Workload::Post => self.head("POST", None, None),
            Workload::Ok => self.put(b"GET /ok HTTP/1.1\r\nHost: bench\r\n\r\n"),
        }
        &self.buffer
    }

    /// Judges an answer with the expected status and keeps what the next request needs.
    pub(crate) fn accept(&mut self, version: Option<u32>, body: &[u8]) -> Result<(), &'static str> {
        match self.workload {
            Workload::Get | Workload::Put | Workload::Conflict => {
                let id = self.rows[self.current].id.as_bytes();
                if body.get(self.mark..self.mark + id.len()) != Some(id) {
                    let found = body.windows(id.len()).position(|part| part == id);
                    self.mark = found.ok_or("the body does not hold the row that was asked for")?;
                }
            }
            Workload::List => {
                if self.mark == 0 {
                    if body.windows(9).filter(|part| part == b"\"amount\":").count() != 50 {
                        return Err("the list does not hold 50 rows");
                    }
                    self.mark = body.len();
                } else if self.mark != body.len() {
                    return Err("the list changed its length");
                }
            }
            Workload::Post => {
                if version != Some(1) {
                    return Err("the new row is not at version 1");
                }
            }
            Workload::Ok => {}
        }
        if self.workload == Workload::Put {
            let version = version.ok_or("no version in the ETag")?;
            let held = &mut self.versions[self.current - self.first];
            if version != *held + 1 {
                return Err("the version did not rise by one");
            }
            *held = version;
        }
        Ok(())
    }

    fn list(&mut self) {
        self.put(b"GET /api/v1/");
        self.put(self.table.as_bytes());
        self.put(b"?limit=50 HTTP/1.1\r\nHost: bench\r\n\r\n");
    }

    fn head(&mut self, method: &str, row: Option<usize>, if_match: Option<u32>) {
        self.put(method.as_bytes());
        self.put(b" /api/v1/");
        self.put(self.table.as_bytes());
        if let Some(row) = row {
            self.put(b"/");
            self.put(self.rows[row].id.as_bytes());
        }
        self.put(b" HTTP/1.1\r\nHost: bench\r\n");
        if let Some(version) = if_match {
            // Writing to a Vec cannot fail.
            let _ = write!(self.buffer, "If-Match: \"{version}\"\r\n");
        }
        if method == "GET" {
            self.put(b"\r\n");
            return;
        }
        let amount = 100_000_000 + self.serial;
        self.body.clear();
        let _ = write!(
            self.body,
            "{{\"title\":\"{TITLE}\",\"amount\":{amount},\"due_on\":\"{DUE_ON}\",\"memo\":\"{}\"}}",
            memo()
        );
        let length = self.body.len();
        let _ = write!(
            self.buffer,
            "Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        self.buffer.extend_from_slice(&self.body);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// A row number from a xorshift generator.
    fn any(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap_or(0) % self.rows.len()
    }
}
