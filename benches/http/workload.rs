//! What one connection asks, and what it must be answered.

use std::io::Write;

use crate::data::{DUE_ON, LOADED, Random, TITLE, write_id};

/// How many rows a connection that writes goes round.
pub(crate) const OWNED: usize = 4;
/// Where each row is written once, the order is this many rows further each time, round the table.
pub(crate) const STRIDE: u64 = 6_180_339;
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
    /// A conditional PATCH of one member that finds its version; the references have none.
    #[value(skip)]
    Patch,
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
            Self::Patch => "PATCH, If-Match",
            Self::Post => "POST",
            Self::Ok => "GET \"ok\"",
        }
    }

    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Get | Self::List | Self::Put | Self::Patch | Self::Ok => 200,
            Self::Conflict => 409,
            Self::Post => 201,
        }
    }

    /// Whether history could make a difference.
    pub(crate) const fn writes(self) -> bool {
        self.commits() || matches!(self, Self::Conflict)
    }

    /// Whether it leaves the table changed.
    pub(crate) const fn commits(self) -> bool {
        self.raises() || matches!(self, Self::Post)
    }

    /// Whether its next request must know what the last one made of the row.
    pub(crate) const fn raises(self) -> bool {
        matches!(self, Self::Put | Self::Patch)
    }
}

/// The rows that requests go to.
pub(crate) struct Target<'a> {
    pub(crate) table: &'a str,
    pub(crate) rows: u32,
    pub(crate) memo: &'a str,
    pub(crate) writes: Writes,
}

/// Which rows a conditional write that finds its version goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Each connection goes round rows of its own, [`OWNED`] each, which are at these versions.
    Own(Vec<u32>),
    /// Each row is written once, the whole table through, from this place of the order on.
    Once(u32),
}

/// The row at a place of the order in which each is written once. All of them come, as long as the stride
/// and the number of rows have no divisor in common.
fn once(place: u64, rows: u32) -> u64 {
    place * STRIDE % u64::from(rows) + 1
}

/// The requests of one connection, one after another.
pub(crate) struct Script<'a> {
    workload: Workload,
    target: &'a Target<'a>,
    /// The versions of the rows that this connection goes round, and the place among them.
    versions: Vec<u32>,
    turn: usize,
    /// The first of these rows, or the next place in the order of rows that are written once.
    first: u64,
    clients: u64,
    id: String,
    random: Random,
    serial: u32,
    buffer: Vec<u8>,
    body: Vec<u8>,
    /// Where the id, or for lists the end, was in the last good body.
    mark: usize,
}

impl<'a> Script<'a> {
    pub(crate) fn new(
        workload: Workload,
        target: &'a Target<'a>,
        connection: usize,
        clients: usize,
    ) -> Self {
        let own = connection * OWNED;
        let (versions, first) = match &target.writes {
            Writes::Own(versions) => {
                (versions.iter().skip(own).take(OWNED).copied().collect(), own as u64 + 1)
            }
            Writes::Once(first) => (vec![LOADED], u64::from(*first) + connection as u64),
        };
        Self {
            workload,
            target,
            versions,
            turn: 0,
            first,
            clients: clients as u64,
            id: String::with_capacity(36),
            random: Random::new(connection as u64 + 1),
            serial: 0,
            buffer: Vec::with_capacity(1024),
            body: Vec::with_capacity(512),
            mark: 0,
        }
    }

    /// The bytes of the next request.
    pub(crate) fn request(&mut self) -> &[u8] {
        self.serial = (self.serial + 1) % 1_000_000;
        match self.workload {
            Workload::Get | Workload::Conflict => {
                let n = self.random.below(self.target.rows) + 1;
                write_id(n.into(), &mut self.id);
            }
            Workload::Put | Workload::Patch => self.next_own(),
            Workload::List | Workload::Post | Workload::Ok => {}
        }
        self.buffer.clear();
        match self.workload {
            Workload::Get => self.head("GET", true, None),
            Workload::List => self.list(),
            Workload::Put => self.head("PUT", true, Some(self.versions[self.turn])),
            Workload::Patch => self.head("PATCH", true, Some(self.versions[self.turn])),
            Workload::Conflict => self.head("PUT", true, Some(STALE)),
            Workload::Post => self.head("POST", false, None),
            Workload::Ok => self.put(b"GET /ok HTTP/1.1\r\nHost: bench\r\n\r\n"),
        }
        &self.buffer
    }

    /// Goes on to the next row that this connection writes.
    fn next_own(&mut self) {
        let n = match self.target.writes {
            Writes::Own(_) => {
                self.turn = (self.turn + 1) % OWNED;
                self.first + self.turn as u64
            }
            Writes::Once(_) => {
                self.versions[0] = LOADED;
                let place = self.first;
                self.first += self.clients;
                once(place, self.target.rows)
            }
        };
        write_id(n, &mut self.id);
    }

    /// Judges an answer with the expected status and keeps what the next request needs.
    pub(crate) fn accept(&mut self, version: Option<u32>, body: &[u8]) -> Result<(), &'static str> {
        match self.workload {
            Workload::Get | Workload::Put | Workload::Patch | Workload::Conflict => {
                let id = self.id.as_bytes();
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
        if self.workload.raises() {
            let version = version.ok_or("no version in the ETag")?;
            let held = &mut self.versions[self.turn];
            if version != *held + 1 {
                return Err("the version did not rise by one");
            }
            *held = version;
        }
        Ok(())
    }

    fn list(&mut self) {
        self.put(b"GET /api/v1/");
        self.put(self.target.table.as_bytes());
        self.put(b"?limit=50 HTTP/1.1\r\nHost: bench\r\n\r\n");
    }

    fn head(&mut self, method: &str, one: bool, if_match: Option<u32>) {
        self.put(method.as_bytes());
        self.put(b" /api/v1/");
        self.put(self.target.table.as_bytes());
        if one {
            self.buffer.push(b'/');
            self.buffer.extend_from_slice(self.id.as_bytes());
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
        // What a stale write brings must be nowhere yet: a write that was made already is no conflict.
        let stale = self.workload == Workload::Conflict;
        let amount = if stale { 200_000_000 } else { 100_000_000 } + self.serial;
        let memo = self.target.memo;
        let mut kind = "application/json";
        self.body.clear();
        let _ = if method == "PATCH" {
            kind = "application/merge-patch+json";
            write!(self.body, "{{\"amount\":{amount}}}")
        } else {
            write!(
                self.body,
                "{{\"title\":\"{TITLE}\",\"amount\":{amount},\"due_on\":\"{DUE_ON}\",\"memo\":\"{memo}\"}}"
            )
        };
        let length = self.body.len();
        let _ = write!(self.buffer, "Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        self.buffer.extend_from_slice(&self.body);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }
}
