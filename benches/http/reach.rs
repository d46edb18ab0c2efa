//! What was aimed at, and how far it was reached.

use crate::figure::{Figure, Rounds};
use crate::number;
use crate::summary::find;
use crate::table::Table;
use crate::workload::Workload;

/// The most time that 99 of 100 requests may take at 128 clients, in ms.
const P99: f64 = 25.0;
/// How much more a write may cost with history.
const HISTORY: f64 = 1.5;

/// The aims that figures were measured for.
pub(crate) fn table(plain: &[Figure], logged: &[Figure]) -> Table {
    let mut table = Table::new(&["aim", "at least", "without history", "with history"]);
    let mut push = |aim: String, least: f64, of: &dyn Fn(&[Figure]) -> Option<f64>| {
        let found = [of(plain), of(logged)];
        if found.iter().any(Option::is_some) {
            let [plain, logged] = found.map(|ratio| judged(ratio, |ratio| ratio >= least));
            table.push(vec![aim, format!("{least:.2}"), plain, logged]);
        }
    };
    for (workload, clients, least) in [
        (Workload::Get, 32, 0.85),
        (Workload::Get, 128, 1.3),
        (Workload::Put, 32, 1.2),
        (Workload::Put, 128, 2.0),
    ] {
        let aim = format!("{} ÷ pgbench, {clients} clients", workload.title());
        push(aim, least, &|figures| {
            let figure = find(figures, workload, clients)?;
            Some(subject(figure)? / median(&figure.pgbench, |rate| rate.per_second)?)
        });
    }
    for workload in Workload::ALL {
        let clients: &[usize] = if workload == Workload::List { &[1, 32, 128] } else { &[1] };
        for &clients in clients {
            let aim = format!("{} ÷ bare, {clients} client(s)", workload.title());
            push(aim, 1.0, &|figures| {
                let figure = find(figures, workload, clients)?;
                Some(subject(figure)? / median(&figure.bare, |sample| sample.rate)?)
            });
        }
    }
    for workload in [Workload::Get, Workload::Put] {
        let p99 = |figures| median(&find(figures, workload, 128)?.subject, |sample| sample.p99);
        let [plain, logged] = [p99(plain), p99(logged)];
        if plain.is_some() {
            let told = [plain, logged].map(|p99| judged(p99, |p99| p99 < P99));
            let [plain, logged] = told;
            let aim = format!("{}, p99 in ms, 128 clients", workload.title());
            table.push(vec![aim, format!("< {P99:.0}"), plain, logged]);
        }
    }
    for clients in [1, 32, 128] {
        let cost = |of: fn(&Figure) -> Option<f64>| {
            let [plain, logged] = [plain, logged].map(|all| find(all, Workload::Put, clients));
            Some(of(plain?)? / of(logged?)?)
        };
        let costs = [cost(|figure| median(&figure.pgbench, |rate| rate.per_second)), cost(subject)];
        if costs.iter().any(Option::is_some) {
            let told = costs.map(|cost| judged(cost, |cost| cost <= HISTORY));
            let [pgbench, ours] = told;
            let aim = format!("what history costs a PUT, {clients} client(s): pgbench; ours");
            table.push(vec![aim, format!("≤ {HISTORY:.2}"), pgbench, ours]);
        }
    }
    table
}

fn judged(figure: Option<f64>, reached: impl Fn(f64) -> bool) -> String {
    match figure {
        Some(figure) if reached(figure) => format!("{figure:.2} yes"),
        Some(figure) => format!("{figure:.2} no"),
        None => String::new(),
    }
}

fn subject(figure: &Figure) -> Option<f64> {
    median(&figure.subject, |sample| sample.rate)
}

fn median<T>(rounds: &Rounds<T>, of: impl Fn(&T) -> f64) -> Option<f64> {
    number::median(rounds, of).ok()
}
