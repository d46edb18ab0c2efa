//! One figure: a workload at a number of clients, measured in turns for each party.

use crate::Fallible;
use crate::load::Sample;
use crate::pgbench::Rate;
use crate::stage::Stage;
use crate::workload::Workload;

/// The rounds of one party, or what went wrong.
pub(crate) type Rounds<T> = Result<Vec<T>, String>;

pub(crate) struct Figure {
    pub(crate) workload: Workload,
    pub(crate) history: bool,
    pub(crate) clients: usize,
    pub(crate) subject: Rounds<Sample>,
    pub(crate) bare: Rounds<Sample>,
    pub(crate) pgbench: Rounds<Rate>,
    /// Of workloads that write: how many times a second the disk could sync before each round.
    pub(crate) syncs: Vec<f64>,
}

impl Figure {
    pub(crate) fn failures(&self) -> impl Iterator<Item = &String> {
        let http =
            [&self.subject, &self.bare].into_iter().filter_map(|rounds| rounds.as_ref().err());
        http.chain(self.pgbench.as_ref().err())
    }
}

#[derive(Clone, Copy)]
enum Party {
    Subject,
    Bare,
    Pgbench,
}

/// The machine is not steady, so the parties take turns, and every other round in reverse order.
pub(crate) fn measure(
    stage: &mut Stage<'_>,
    workload: Workload,
    history: bool,
    clients: usize,
) -> Figure {
    let table = stage.scene.table(history);
    let mut figure = Figure {
        workload,
        history,
        clients,
        subject: Ok(Vec::new()),
        bare: Ok(Vec::new()),
        pgbench: Ok(Vec::new()),
        syncs: Vec::new(),
    };
    let mut order = [Party::Bare, Party::Subject, Party::Pgbench];
    for _ in 0..stage.scene.rounds {
        for party in order {
            match stage.tidy(workload, table) {
                Ok(syncs) => figure.syncs.extend(syncs),
                Err(error) => figure.bare = Err(format!("before a round: {error}")),
            }
            match party {
                Party::Subject => {
                    if let Some(target) = stage.subject() {
                        let taken = stage.http(workload, table, clients, &target);
                        keep(&mut figure.subject, taken);
                    }
                }
                Party::Bare => {
                    let target = stage.bare();
                    let taken = stage.http(workload, table, clients, &target);
                    keep(&mut figure.bare, taken);
                }
                Party::Pgbench => {
                    let taken = stage.pgbench(workload, table, clients);
                    keep(&mut figure.pgbench, taken);
                }
            }
        }
        order.reverse();
    }
    figure
}

/// Adds a round to those before it.
pub(crate) fn keep<T>(rounds: &mut Rounds<T>, taken: Fallible<T>) {
    match (rounds.as_mut(), taken) {
        (Ok(samples), Ok(sample)) => samples.push(sample),
        (Ok(_), Err(error)) => *rounds = Err(error.to_string()),
        // The first failure is the one to report.
        (Err(_), _) => {}
    }
}
