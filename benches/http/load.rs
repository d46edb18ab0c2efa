//! The load generator: a closed loop over N connections on one thread, with requests built as bytes
//! and answers parsed no further than needed. A wrong answer fails the whole figure.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::unconstrained;
use tokio::time::{sleep_until, timeout};

use crate::Fallible;
use crate::histogram::Histogram;
use crate::proc::{Cpu, Meter};
use crate::response::{Response, parse};
use crate::workload::{Script, Target, Workload};

/// Not counted: connections, caches and statements settle in it.
const WARM_UP: Duration = Duration::from_millis(500);
/// How much longer than planned a figure may take.
const GRACE: Duration = Duration::from_secs(15);

/// One figure to take.
pub(crate) struct Plan<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) workload: Workload,
    pub(crate) target: &'a Target<'a>,
    pub(crate) clients: usize,
    pub(crate) seconds: f64,
}

/// What was measured in one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) rate: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// Processor time per request, in microseconds.
    pub(crate) cpu: Cpu,
}

struct Window {
    begin: Instant,
    end: Instant,
}

/// What one connection saw.
struct Seen {
    latencies: Histogram,
    statuses: BTreeMap<u16, u64>,
    wrong: Option<String>,
}

/// Takes the figure on the calling thread.
pub(crate) fn run(plan: &Plan<'_>, meter: &Meter) -> Fallible<Sample> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let limit = WARM_UP + Duration::from_secs_f64(plan.seconds) + GRACE;
    let (seen, cpu) = runtime
        .block_on(async { timeout(limit, unconstrained(measure(plan, meter))).await })
        .map_err(|_| format!("no end after {} s", limit.as_secs()))??;
    judge(plan, &seen, cpu)
}

/// Sends so many requests, spread over the clients, and nothing else; gives how long it took.
pub(crate) fn send(plan: &Plan<'_>, requests: usize) -> Fallible<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let begin = Instant::now();
    runtime.block_on(async {
        let each =
            connect(plan).await?.into_iter().enumerate().map(async |(connection, stream)| {
                let (mut stream, mut buffer) = (stream, vec![0; 64 * 1024]);
                let mut script = Script::new(plan.workload, plan.target, connection, plan.clients);
                for _ in 0..requests / plan.clients {
                    let answer = exchange(&mut stream, script.request(), &mut buffer).await?;
                    let (status, body) = (answer.status, &buffer[answer.body]);
                    if status != plan.workload.status() {
                        return Err(describe("unexpected status", status, body).into());
                    }
                    let verdict = script.accept(answer.version, body);
                    verdict.map_err(|problem| describe(problem, status, body))?;
                }
                Fallible::Ok(())
            });
        futures_util::future::try_join_all(each).await
    })?;
    Ok(begin.elapsed())
}

async fn connect(plan: &Plan<'_>) -> Fallible<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(plan.clients);
    for _ in 0..plan.clients {
        let stream = TcpStream::connect(plan.address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    Ok(streams)
}

async fn measure(plan: &Plan<'_>, meter: &Meter) -> Fallible<(Vec<Seen>, Cpu)> {
    let streams = connect(plan).await?;
    let begin = Instant::now() + WARM_UP;
    let window = Window { begin, end: begin + Duration::from_secs_f64(plan.seconds) };
    let scripts = streams.into_iter().enumerate().map(|(connection, stream)| {
        let script = Script::new(plan.workload, plan.target, connection, plan.clients);
        converse(stream, script, plan.workload.status(), &window)
    });
    let processor = async {
        sleep_until(window.begin.into()).await;
        let before = meter.read();
        sleep_until(window.end.into()).await;
        Fallible::Ok(meter.read()?.since(&before?))
    };
    let (seen, cpu) = tokio::join!(futures_util::future::join_all(scripts), processor);
    Ok((seen, cpu?))
}

/// One connection, until the window closes or an answer is wrong.
async fn converse(
    mut stream: TcpStream,
    mut script: Script<'_>,
    expected: u16,
    window: &Window,
) -> Seen {
    let mut seen = Seen { latencies: Histogram::new(), statuses: BTreeMap::new(), wrong: None };
    let mut buffer = vec![0; 64 * 1024];
    let mut expected_seen = 0;
    let mut start = Instant::now();
    while start < window.end && seen.wrong.is_none() {
        let answer = match exchange(&mut stream, script.request(), &mut buffer).await {
            Ok(answer) => answer,
            Err(error) => {
                seen.wrong = Some(error.to_string());
                break;
            }
        };
        let now = Instant::now();
        if answer.status == expected {
            expected_seen += 1;
            let body = &buffer[answer.body.clone()];
            let verdict = script.accept(answer.version, body);
            seen.wrong = verdict.err().map(|problem| describe(problem, answer.status, body));
        } else {
            *seen.statuses.entry(answer.status).or_default() += 1;
            seen.wrong = Some(describe("unexpected status", answer.status, &buffer[answer.body]));
        }
        if now >= window.begin && now <= window.end {
            let nanos = u64::try_from((now - start).as_nanos()).unwrap_or(u64::MAX);
            seen.latencies.record(nanos);
        }
        start = now;
    }
    *seen.statuses.entry(expected).or_default() += expected_seen;
    seen
}

/// Sends one request and reads its whole answer into the front of the buffer.
async fn exchange(
    stream: &mut TcpStream,
    request: &[u8],
    buffer: &mut Vec<u8>,
) -> Fallible<Response> {
    stream.write_all(request).await?;
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            buffer.resize(filled * 2, 0);
        }
        match stream.read(&mut buffer[filled..]).await? {
            0 => return Err("the server closed the connection".into()),
            n => filled += n,
        }
        if let Some(answer) = parse(&buffer[..filled])? {
            if answer.body.end != filled {
                return Err("more bytes than one response".into());
            }
            return Ok(answer);
        }
    }
}

fn describe(problem: &str, status: u16, body: &[u8]) -> String {
    let body: String = String::from_utf8_lossy(body).chars().take(300).collect();
    format!("{problem}: {status} {body}")
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn judge(plan: &Plan<'_>, seen: &[Seen], cpu: Cpu) -> Fallible<Sample> {
    let mut latencies = Histogram::new();
    let mut statuses = BTreeMap::new();
    for one in seen {
        latencies.merge(&one.latencies);
        for (&status, count) in &one.statuses {
            *statuses.entry(status).or_insert(0) += count;
        }
    }
    if let Some(wrong) = seen.iter().find_map(|one| one.wrong.as_ref()) {
        return Err(format!("statuses {statuses:?}; {wrong}").into());
    }
    if latencies.count() == 0 {
        return Err("not one answer in the measured time".into());
    }
    let count = latencies.count() as f64;
    Ok(Sample {
        rate: count / plan.seconds,
        p50: latencies.quantile_ms(500),
        p99: latencies.quantile_ms(990),
        max: latencies.max_ms(),
        cpu: cpu.per(count),
    })
}
