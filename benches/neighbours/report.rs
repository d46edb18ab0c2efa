//! The table, in markdown.

use std::fmt::Write as _;

use crate::disturber::Disturber;
use crate::neighbour::{Class, Sample};
use crate::table::Table;

/// Stands where a figure should be.
pub(crate) const FAILED: &str = "FAILED";

/// The neighbours by themselves and beside a disturber, one soon after the other.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) without: Sample,
    pub(crate) with: Sample,
    /// How many requests of the disturber were answered.
    pub(crate) answered: u64,
}

/// All rounds of a disturber, or why there are none.
pub(crate) type Rounds = (Disturber, Result<Vec<Pair>, String>);

/// Writes the table, and what the disturbers do.
pub(crate) fn tables(rounds: &[Rounds], seconds: f64) -> String {
    let mut table = Table::new(&[
        "beside",
        "neighbours",
        "p50 ms alone",
        "p50 ms",
        "p99 ms alone",
        "p99 ms",
        "p99 ÷ alone",
        "within 2 ×",
        "requests/s ÷ alone",
        "turned away",
    ]);
    let mut disturbers =
        Table::new(&["who, and what it does", "its requests/s", "share alone", "share with it"]);
    let mut failures = String::new();
    for (disturber, pairs) in rounds {
        match pairs {
            Ok(pairs) => {
                for (place, class) in Class::ALL.into_iter().enumerate() {
                    table.push(row(*disturber, class, place, pairs));
                }
                disturbers.push(vec![
                    format!("{}: {}", disturber.name(), disturber.what()),
                    format!("{:.0}", median(pairs, |pair| whole(pair.answered) / seconds)),
                    format!("{:.0} %", 100.0 * median(pairs, |pair| pair.without.share)),
                    format!("{:.0} %", 100.0 * median(pairs, |pair| pair.with.share)),
                ]);
            }
            Err(problem) => {
                // Writing to a text cannot fail.
                let _ = writeln!(failures, "- {FAILED}: beside {}: {problem}", disturber.name());
            }
        }
    }
    format!("{}{table}{failures}\n## Who disturbs\n\n{disturbers}", noise(rounds))
}

/// How far two measurements of the same differ, where that was measured.
fn noise(rounds: &[Rounds]) -> String {
    let nobody = rounds.iter().find(|(disturber, _)| *disturber == Disturber::Nobody);
    let Some((_, Ok(pairs))) = nobody else { return String::new() };
    let ratios = (0..Class::ALL.len()).map(|place| ratio(pairs, place));
    let most = ratios.map(|ratio| ratio.max(1.0 / ratio)).fold(1.0, f64::max);
    format!(
        "Beside nobody, p99 differed by {most:.1} ×: smaller ratios of this run say nothing.\n\n"
    )
}

/// The p99 of a class beside a disturber, by its p99 alone.
fn ratio(pairs: &[Pair], place: usize) -> f64 {
    let p99 = |sample: &Sample| sample.classes[place].latencies.quantile_ms(990);
    median(pairs, |pair| p99(&pair.with) / p99(&pair.without))
}

fn row(disturber: Disturber, class: Class, place: usize, pairs: &[Pair]) -> Vec<String> {
    let quantile =
        |sample: &Sample, per_mille| sample.classes[place].latencies.quantile_ms(per_mille);
    let count = |sample: &Sample| whole(sample.classes[place].answered);
    let half = median(pairs, |pair| quantile(&pair.without, 500));
    let half_beside = median(pairs, |pair| quantile(&pair.with, 500));
    let most = median(pairs, |pair| quantile(&pair.without, 990));
    let most_beside = median(pairs, |pair| quantile(&pair.with, 990));
    let ratio = ratio(pairs, place);
    let rate = median(pairs, |pair| count(&pair.with) / count(&pair.without));
    let refused: u64 = pairs.iter().map(|pair| pair.with.classes[place].refused).sum();
    let within = if ratio <= 2.0 && refused == 0 { "yes" } else { "**no**" };
    vec![
        disturber.name().to_owned(),
        class.title().to_owned(),
        format!("{half:.2}"),
        format!("{half_beside:.2}"),
        format!("{most:.2}"),
        format!("{most_beside:.2}"),
        format!("{ratio:.2}"),
        within.to_owned(),
        format!("{rate:.2}"),
        refused.to_string(),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
const fn whole(count: u64) -> f64 {
    count as f64
}

/// The median of what every round gives.
fn median(pairs: &[Pair], of: impl Fn(&Pair) -> f64) -> f64 {
    let mut values: Vec<f64> = pairs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
