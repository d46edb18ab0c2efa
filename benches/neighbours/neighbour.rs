//! Those whose requests are measured: each on rows of its own, one request after another at a steady pace, so
//! that the machine has room for somebody who disturbs them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::time::sleep_until;

use crate::Fallible;
use crate::client::{Client, NEIGHBOURS, request};
use crate::histogram::Histogram;
use crate::proc::Meter;

/// What a neighbour does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Conditional PUTs that find their version.
    Put,
    /// Reads of one record.
    Get,
    /// Conditional PUTs that do not: 409, explained.
    Stale,
}

impl Class {
    pub(crate) const ALL: [Self; 3] = [Self::Put, Self::Get, Self::Stale];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Put => "PUT, If-Match",
            Self::Get => "GET",
            Self::Stale => "PUT, stale: 409",
        }
    }

    /// How many of them there are.
    const fn clients(self) -> usize {
        match self {
            Self::Put | Self::Get => 16,
            Self::Stale => 8,
        }
    }

    /// A request of each comes due so often.
    const fn period(self) -> Duration {
        match self {
            Self::Put | Self::Get => Duration::from_millis(10),
            Self::Stale => Duration::from_millis(20),
        }
    }

    const fn status(self) -> u16 {
        match self {
            Self::Put | Self::Get => 200,
            Self::Stale => 409,
        }
    }

    /// The row of the client with this number.
    const fn row(self, number: usize) -> usize {
        match self {
            Self::Put => 1 + number,
            Self::Get => 101 + number,
            Self::Stale => 201 + number,
        }
    }
}

/// So many moments share a period, and at each some of every class come at once: groups come to be.
const MOMENTS: u32 = 4;

/// When to measure. Before it begins, connections and statements settle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
}

/// What one class saw in one window.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Of all requests that came due.
    pub(crate) latencies: Histogram,
    /// How many were answered before the window closed.
    pub(crate) answered: u64,
    /// How many were turned away, with 503.
    pub(crate) refused: u64,
}

/// What was measured in one window.
#[derive(Debug)]
pub(crate) struct Sample {
    /// In the order of [`Class::ALL`].
    pub(crate) classes: Vec<Seen>,
    /// How much of the machine's processor time the server and PostgreSQL took.
    pub(crate) share: f64,
}

/// Runs all neighbours and gives what they saw.
pub(crate) async fn run(server: SocketAddr, window: Window, meter: &Meter) -> Fallible<Sample> {
    let classes = Class::ALL.into_iter().map(|class| {
        try_join_all((0..class.clients()).map(move |number| live(server, class, number, window)))
    });
    let processor = async {
        sleep_until(window.begin.into()).await;
        let before = meter.read()?;
        sleep_until(window.end.into()).await;
        Fallible::Ok(meter.read()?.since(&before))
    };
    let (classes, cpu) = tokio::try_join!(try_join_all(classes), processor)?;
    let cores = u32::try_from(std::thread::available_parallelism()?.get())?;
    let micros = (window.end - window.begin).as_secs_f64() * 1e6 * f64::from(cores);
    let merged = classes.into_iter().map(|clients| {
        let mut all = Seen { latencies: Histogram::new(), answered: 0, refused: 0 };
        for one in clients {
            all.latencies.merge(&one.latencies);
            all.answered += one.answered;
            all.refused += one.refused;
        }
        all
    });
    Ok(Sample { classes: merged.collect(), share: (cpu.server + cpu.postgres) / micros })
}

/// One neighbour, until the window closes.
async fn live(server: SocketAddr, class: Class, number: usize, window: Window) -> Fallible<Seen> {
    let mut client = Client::connect(NEIGHBOURS, server).await?;
    let mut seen = Seen { latencies: Histogram::new(), answered: 0, refused: 0 };
    let row = class.row(number);
    let (path, actor) = (format!("/notes/{row}"), format!("{} {number}", class.title()));
    let read = request("GET", &path, &actor, None, "");
    let mut version = client.exchange(&read).await?.version.ok_or("no version")?;
    let moment = u32::try_from(number)? % MOMENTS;
    let mut due = Instant::now() + class.period() * moment / MOMENTS;
    for n in 0_u32.. {
        sleep_until(due.into()).await;
        // Who was late with the last answer has waited since this one was due; a late clock does not count.
        let lag = due.elapsed();
        let begun = if lag > CLOCK { due } else { Instant::now() };
        if begun >= window.end {
            break;
        }
        let body = format!(
            r#"{{"text":"{n} of the measurements that {actor} wrote down on the way to the northern pumping station","code":"own {row}","n":{n}}}"#
        );
        let answer = match class {
            Class::Get => client.exchange(&read).await?,
            Class::Put => {
                client.exchange(&request("PUT", &path, &actor, Some(version), &body)).await?
            }
            Class::Stale => client.exchange(&request("PUT", &path, &actor, Some(1), &body)).await?,
        };
        let answered = Instant::now();
        let took = u64::try_from((answered - begun).as_nanos())?;
        let counts = begun >= window.begin;
        match answer.status {
            status if status == class.status() => {
                if class == Class::Put {
                    version = answer
                        .version
                        .filter(|new| *new == version + 1)
                        .ok_or("a version was passed over")?;
                }
            }
            503 => seen.refused += u64::from(counts),
            status => {
                return Err(format!("{actor} was told {status} {}", client.said(&answer)).into());
            }
        }
        if counts {
            seen.latencies.record(took);
            seen.answered += u64::from(answered <= window.end);
        }
        due += class.period();
    }
    Ok(seen)
}

/// How far the clock of the runtime may be behind.
const CLOCK: Duration = Duration::from_millis(2);
