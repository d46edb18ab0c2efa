//! Processor time and memory, as Linux accounts for them.

use std::fs;

use crate::Fallible;

/// Processor time in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cpu {
    pub(crate) generator: f64,
    pub(crate) server: f64,
    pub(crate) postgres: f64,
}

impl Cpu {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            generator: self.generator - before.generator,
            server: self.server - before.server,
            postgres: self.postgres - before.postgres,
        }
    }

    pub(crate) fn per(&self, requests: f64) -> Self {
        Self {
            generator: self.generator / requests,
            server: self.server / requests,
            postgres: self.postgres / requests,
        }
    }
}

/// Where the server under load is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server {
    /// A process of its own.
    Process(u32),
    /// Threads of this process with this name.
    Threads(&'static str),
}

/// Reads the processor time of all who take part.
pub(crate) struct Meter {
    pub(crate) server: Server,
    pub(crate) postmaster: u32,
}

impl Meter {
    /// To be called on the generator's thread.
    pub(crate) fn read(&self) -> Fallible<Cpu> {
        let server = match self.server {
            Server::Process(pid) => process(pid)?.own,
            Server::Threads(name) => threads(name)?,
        };
        let generator = scheduled("/proc/thread-self/schedstat")?;
        Ok(Cpu { generator, server, postgres: postgres(self.postmaster)? })
    }
}

/// The whole of PostgreSQL: its live processes, and those that the postmaster has reaped.
pub(crate) fn postgres(postmaster: u32) -> Fallible<f64> {
    let root = process(postmaster)?;
    // A process that ended meanwhile is in what the postmaster reaped.
    let live = family(postmaster)?.into_iter().map(|(_, process)| process.own);
    Ok(root.own + root.reaped + live.sum::<f64>())
}

/// What PostgreSQL's processes had used that have ended.
pub(crate) fn reaped(postmaster: u32) -> Fallible<f64> {
    Ok(process(postmaster)?.reaped)
}

/// The processes that this one started and that live.
pub(crate) fn children(parent: u32) -> Fallible<Vec<u32>> {
    Ok(family(parent)?.into_iter().map(|(pid, _)| pid).collect())
}

fn family(parent: u32) -> Fallible<Vec<(u32, Process)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid
            && let Ok(one) = process(pid)
            && one.parent == parent
        {
            found.push((pid, one));
        }
    }
    Ok(found)
}

/// What the threads of a process used, to the nanosecond.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Use {
    pub(crate) micros: f64,
    /// How often one of them went on after it had waited.
    pub(crate) wakes: f64,
}

impl Use {
    pub(crate) fn of(pid: u32) -> Fallible<Self> {
        let mut total = Self::default();
        for entry in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            let path = entry.path();
            let micros = scheduled(&path.join("schedstat").to_string_lossy())?;
            let status = fs::read_to_string(path.join("status"))?;
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            let wakes = line.ok_or("no switches in status")?.trim().parse()?;
            total = total.and(Self { micros, wakes });
        }
        Ok(total)
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self { micros: self.micros + other.micros, wakes: self.wakes + other.wakes }
    }

    pub(crate) fn since(&self, before: Option<&Self>) -> Self {
        let before = before.copied().unwrap_or_default();
        Self { micros: self.micros - before.micros, wakes: self.wakes - before.wakes }
    }
}

struct Process {
    parent: u32,
    own: f64,
    reaped: f64,
}

fn process(pid: u32) -> Fallible<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(") ").ok_or("no name in stat")?.1;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks = |field: usize| -> Fallible<f64> {
        // A tick is 10 ms on every Linux that this runs on.
        Ok(fields.get(field).ok_or("a short stat")?.parse::<f64>()? * 10_000.0)
    };
    Ok(Process {
        parent: fields.get(1).ok_or("a short stat")?.parse()?,
        own: ticks(11)? + ticks(12)?,
        reaped: ticks(13)? + ticks(14)?,
    })
}

fn threads(name: &str) -> Fallible<f64> {
    let mut total = 0.0;
    for entry in fs::read_dir("/proc/self/task")?.flatten() {
        let path = entry.path();
        let comm = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if comm.trim() == name {
            total += scheduled(&path.join("schedstat").to_string_lossy())?;
        }
    }
    Ok(total)
}

fn scheduled(path: &str) -> Fallible<f64> {
    let text = fs::read_to_string(path)?;
    let nanos: f64 = text.split(' ').next().ok_or("an empty schedstat")?.parse()?;
    Ok(nanos / 1000.0)
}

/// `VmRSS` (now) or `VmHWM` (peak) of a process, in MiB.
pub(crate) fn memory(pid: u32, what: &str) -> Fallible<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line =
        status.lines().find(|line| line.starts_with(what)).ok_or("no such line in status")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no number in status")?.parse()?;
    Ok(kib / 1024.0)
}

/// Processes that ran or waited to run, over the last minute.
pub(crate) fn load_average() -> Fallible<f64> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().ok_or("an empty loadavg")?.parse()?)
}
