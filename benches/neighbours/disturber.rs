//! Those who disturb, each at a rate that leaves the machine to the neighbours.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep_until;

use crate::Fallible;
use crate::client::{Client, DISTURBERS, request};
use crate::neighbour::Window;

/// Where a disturber gets ready, apart from the thread that measures.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: SocketAddr,
    /// The database.
    pub(crate) url: String,
    pub(crate) ready: oneshot::Sender<()>,
    /// When to measure, once that is settled.
    pub(crate) window: watch::Receiver<Option<Window>>,
}

impl Stage {
    /// Says that all is ready and waits for the window.
    async fn go(self) -> Fallible<Window> {
        self.ready.send(()).map_err(|()| "nobody waits")?;
        known(self.window).await
    }
}

async fn known(mut window: watch::Receiver<Option<Window>>) -> Fallible<Window> {
    let window = *window.wait_for(Option::is_some).await?;
    window.ok_or_else(|| "no window".into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disturber {
    Nobody,
    Check,
    Unique,
    Lock,
    SameRow,
    HotRow,
    Huge,
    SlowTrigger,
    HeldUnique,
    Flood,
}

/// The rows of the disturbers, apart from those of the neighbours; as many as the flood has requests.
pub(crate) const FIRST: usize = 1001;
pub(crate) const FLOOD: usize = 4000;

/// What the tables are, for neighbours and disturbers.
pub(crate) const TABLES: &str = "
    CREATE TABLE notes (
        id integer PRIMARY KEY,
        text text NOT NULL CHECK (text <> 'bad'),
        code text UNIQUE,
        n integer NOT NULL DEFAULT 0);
    INSERT INTO notes (id, text, code) SELECT i, 'note ' || i, 'own ' || i FROM generate_series(1, 5000) AS i;
    CREATE TABLE slow (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
    INSERT INTO slow SELECT i FROM generate_series(1, 16) AS i;
    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END';
    CREATE TRIGGER dawdle BEFORE UPDATE ON slow FOR EACH ROW EXECUTE FUNCTION dawdle();
    SELECT counterfoil.adopt('notes');
    SELECT counterfoil.adopt('slow');
    UPDATE notes SET n = 1 WHERE id BETWEEN 201 AND 300;";

impl Disturber {
    pub(crate) const ALL: [Self; 10] = [
        Self::Nobody,
        Self::Check,
        Self::Unique,
        Self::Lock,
        Self::SameRow,
        Self::HotRow,
        Self::Huge,
        Self::SlowTrigger,
        Self::HeldUnique,
        Self::Flood,
    ];

    /// The name by which it is chosen.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Check => "check",
            Self::Unique => "unique",
            Self::Lock => "lock",
            Self::SameRow => "same-row",
            Self::HotRow => "hot-row",
            Self::Huge => "huge",
            Self::SlowTrigger => "slow-trigger",
            Self::HeldUnique => "held-unique",
            Self::Flood => "flood",
        }
    }

    /// What it does, and how often.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Nobody => "nothing: how far two measurements of the same differ",
            Self::Check => "4 clients write rows that fail a check, 100/s in all",
            Self::Unique => "4 clients write a unique value that another row has, 100/s in all",
            Self::Lock => {
                "16 clients write rows that somebody at `psql` holds locked; each waits its 2 s"
            }
            Self::SameRow => "4 clients write a row of their own three times at once, 300/s in all",
            Self::HotRow => "32 clients write one row, all at once, 320/s in all",
            Self::Huge => "1 client writes 900 kB of text, 4/s",
            Self::SlowTrigger => {
                "16 clients write a table whose trigger takes 50 ms, as fast as they can"
            }
            Self::HeldUnique => {
                "16 clients write a unique value that an open transaction holds; each waits its 2 s"
            }
            Self::Flood => {
                "1 client sends 4,000 writes at once over as many connections, every second"
            }
        }
    }

    /// The statuses that it is to be answered.
    const fn expected(self) -> &'static [u16] {
        match self {
            Self::Check => &[422],
            Self::Unique => &[409],
            Self::HeldUnique => &[200, 409, 503],
            Self::Lock | Self::SlowTrigger | Self::Flood | Self::HotRow => &[200, 503],
            Self::Nobody | Self::SameRow | Self::Huge => &[200],
        }
    }

    /// Gets ready, waits for the window, disturbs until its end, and gives how many requests were answered.
    pub(crate) async fn run(self, stage: Stage) -> Fallible<u64> {
        let put = |row: usize, text: &str, code: &str| self.put(row, text, code);
        match self {
            Self::Nobody => {
                stage.go().await?;
                Ok(0)
            }
            Self::Check => {
                let request = |n| put(FIRST + n, "bad", &format!("own {}", FIRST + n));
                self.crowd(stage, 4, millis(40), millis(10), request).await
            }
            Self::Unique => {
                let request = |n| put(FIRST + n, "good", "own 1000");
                self.crowd(stage, 4, millis(40), millis(10), request).await
            }
            Self::SameRow => {
                let row = |n| FIRST + n / 3;
                let request = |n| put(row(n), &format!("by {n}"), &format!("own {}", row(n)));
                self.crowd(stage, 12, millis(40), millis(0), request).await
            }
            Self::HotRow => {
                let request = |n| put(FIRST, &format!("by {n}"), &format!("own {FIRST}"));
                self.crowd(stage, 32, millis(100), millis(0), request).await
            }
            Self::Huge => {
                let text = noise(900_000);
                let request = |n| put(FIRST + n, &text, &format!("own {}", FIRST + n));
                self.crowd(stage, 1, millis(250), millis(0), request).await
            }
            Self::SlowTrigger => {
                let body = r#"{"n":1}"#;
                let path = |n| format!("/slow/{}", n + 1);
                let request = |n| request("PATCH", &path(n), self.name(), None, body);
                self.crowd(stage, 16, millis(0), millis(0), request).await
            }
            Self::Lock => {
                let lock = format!(
                    "BEGIN; SELECT FROM notes WHERE id BETWEEN {FIRST} AND {} FOR UPDATE",
                    FIRST + 15
                );
                let request = |n| put(FIRST + n, "waits", &format!("own {}", FIRST + n));
                self.beside(stage, &lock, request).await
            }
            Self::HeldUnique => {
                let hold = "BEGIN; INSERT INTO notes (id, text, code) VALUES (0, 'theirs', 'held')";
                self.beside(stage, hold, |n| put(FIRST + n, "waits", "held")).await
            }
            Self::Flood => {
                let request = |n| put(FIRST + n, "flood", &format!("own {}", FIRST + n));
                self.crowd(stage, FLOOD, millis(1000), millis(0), request).await
            }
        }
    }

    /// A PUT of the neighbours' shape, so that it may share their statements.
    fn put(self, row: usize, text: &str, code: &str) -> Vec<u8> {
        let body = format!(r#"{{"text":"{text}","code":"{code}","n":1}}"#);
        request("PUT", &format!("/notes/{row}"), self.name(), None, &body)
    }

    /// So many clients that send the same request again and again, one `apart` from the next.
    async fn crowd(
        self,
        stage: Stage,
        clients: usize,
        period: Duration,
        apart: Duration,
        request: impl Fn(usize) -> Vec<u8>,
    ) -> Fallible<u64> {
        let mut ready = Vec::with_capacity(clients);
        for n in 0..clients {
            ready.push((Client::connect(DISTURBERS, stage.server).await?, request(n)));
        }
        let window = stage.go().await?;
        let begin = Instant::now() + Duration::from_millis(5);
        let lives = (0_u32..).zip(ready).map(async |(n, (mut client, request))| {
            let mut answered = 0;
            let mut due = begin + apart * n;
            loop {
                sleep_until(due.into()).await;
                if Instant::now() >= window.end {
                    return Fallible::Ok(answered);
                }
                let answer = client.exchange(&request).await?;
                if !self.expected().contains(&answer.status) {
                    let said = client.said(&answer);
                    return Err(format!("{}: {} {said}", self.name(), answer.status).into());
                }
                answered += 1;
                due = (due + period).max(Instant::now());
            }
        });
        Ok(try_join_all(lives).await?.into_iter().sum())
    }

    /// Sixteen clients beside a transaction that stays open as long as the window.
    async fn beside(
        self,
        stage: Stage,
        begin: &str,
        request: impl Fn(usize) -> Vec<u8>,
    ) -> Fallible<u64> {
        let mut holder = PgConnection::connect(&stage.url).await?;
        // One of those who waited in the last round has what they waited for.
        let back = "UPDATE notes SET code = 'own ' || id WHERE code = 'held'";
        sqlx::raw_sql(back).execute(&mut holder).await?;
        sqlx::raw_sql(AssertSqlSafe(begin.to_owned())).execute(&mut holder).await?;
        let window = stage.window.clone();
        let release = async {
            sleep_until(known(window).await?.end.into()).await;
            sqlx::raw_sql("ROLLBACK").execute(&mut holder).await?;
            Fallible::Ok(())
        };
        let crowd = self.crowd(stage, 16, Duration::ZERO, Duration::ZERO, request);
        let (answered, released) = tokio::join!(crowd, release);
        released?;
        answered
    }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A text in which nothing repeats, so that it takes all its room wherever it goes.
fn noise(length: usize) -> String {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let letter = |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        char::from(letters[usize::try_from(random >> 58).unwrap_or(0)])
    };
    (0..length).map(letter).collect()
}
