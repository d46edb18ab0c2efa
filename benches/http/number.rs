//! How figures are written.

use crate::figure::Rounds;

/// Stands where a figure should be.
pub(crate) const FAILED: &str = "FAILED";
/// Stands where nothing was measured.
pub(crate) const NONE: &str = "–";

/// A figure with what the rounds say of it.
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) value: Option<f64>,
}

impl Cell {
    /// The median of the rounds, and half their range.
    pub(crate) fn of<T>(rounds: &Rounds<T>, of: impl Fn(&T) -> f64, digits: usize) -> Self {
        match median(rounds, &of) {
            Err(word) => Self { text: word.to_owned(), value: None },
            Ok(value) => {
                let mut text = written(value, digits);
                let values = rounds.iter().flatten().map(of);
                let (low, high) =
                    values.fold((value, value), |(low, high), one| (one.min(low), one.max(high)));
                if rounds.as_ref().is_ok_and(|rounds| rounds.len() > 1) {
                    text = format!("{text} ± {:.0} %", (high - low) / value * 50.0);
                }
                Self { text, value: Some(value) }
            }
        }
    }

    pub(crate) fn ratio(&self, other: &Self) -> String {
        match (self.value, other.value) {
            (Some(mine), Some(theirs)) => format!("{:.2}", mine / theirs),
            _ => NONE.to_owned(),
        }
    }
}

/// The median over the rounds, or the word that stands for it.
pub(crate) fn median<T>(rounds: &Rounds<T>, of: impl Fn(&T) -> f64) -> Result<f64, &'static str> {
    let samples = rounds.as_ref().map_err(|_| FAILED)?;
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().ok_or(NONE)
}

fn written(value: f64, digits: usize) -> String {
    if digits == 0 { thousands(value) } else { format!("{value:.digits$}") }
}

/// A whole number with a comma before each three digits.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
