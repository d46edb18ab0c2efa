//! What is varied between one set of figures and the next.

use crate::data;
use crate::options::Options;
use crate::workload::Workload;

/// The tables without and with history, where a scene has two.
const PLAIN: &str = "doc";
const LOGGED: &str = "doc_h";

/// The side scenes are there to be compared with the main one, not to be measured as finely.
const SIDE_CLIENTS: [usize; 3] = [1, 32, 128];
const SIDE_WORKLOADS: [Workload; 2] = [Workload::Get, Workload::Put];

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// 10,000 rows, bodies of 200 bytes, PostgreSQL over its Unix socket: all workloads
    Main,
    /// As main, but PostgreSQL over TCP on loopback
    Tcp,
    /// As main, but bodies of 10 kB
    Bodies,
    /// As main, but 10 million rows
    Rows,
    /// What the guard trigger costs a plain UPDATE
    Guard,
}

impl Part {
    pub(crate) const ALL: [Self; 5] =
        [Self::Main, Self::Tcp, Self::Bodies, Self::Rows, Self::Guard];
}

/// A set of figures with all that they have in common.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) title: &'static str,
    /// Rows in each table.
    pub(crate) rows: u32,
    /// About how many bytes of JSON a row and a body have.
    pub(crate) body: usize,
    /// The text that makes them so long.
    pub(crate) memo: String,
    /// Whether PostgreSQL is reached over TCP.
    pub(crate) tcp: bool,
    /// Whether the rows are too many to be loaded twice: then the table gets its history for the second half.
    pub(crate) one_table: bool,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) clients: Vec<usize>,
    pub(crate) rounds: usize,
}

impl Scene {
    /// The scene of a part, as the caller wants it; none where the part is of another kind.
    pub(crate) fn of(part: Part, options: &Options) -> Option<Self> {
        let mut scene = Self {
            title: "Main",
            rows: 10_000,
            body: 200,
            memo: String::new(),
            tcp: false,
            one_table: false,
            workloads: Workload::ALL.to_vec(),
            clients: vec![1, 8, 32, 128, 512],
            rounds: 3,
        };
        match part {
            Part::Main => {}
            Part::Tcp => (scene.title, scene.tcp) = ("PostgreSQL over TCP", true),
            Part::Bodies => (scene.title, scene.body) = ("Bodies of 10 kB", 10_000),
            Part::Rows => {
                scene.title = "A large table";
                scene.rows = options.rows;
                scene.one_table = true;
            }
            Part::Guard => return None,
        }
        if part != Part::Main {
            scene.workloads = SIDE_WORKLOADS.to_vec();
            scene.clients = SIDE_CLIENTS.to_vec();
            scene.rounds = 1;
        }
        if !options.only.is_empty() {
            scene.workloads.clone_from(&options.only);
        }
        if !options.clients.is_empty() {
            scene.clients.clone_from(&options.clients);
        }
        scene.rounds = options.rounds.unwrap_or(scene.rounds);
        scene.memo = data::memo(scene.body);
        Some(scene)
    }

    /// The table of a half.
    pub(crate) const fn table(&self, history: bool) -> &'static str {
        if history && !self.one_table { LOGGED } else { PLAIN }
    }

    /// How PostgreSQL is reached.
    pub(crate) const fn way(&self) -> &'static str {
        if self.tcp { "TCP" } else { "Unix socket" }
    }
}
