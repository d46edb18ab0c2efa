//! Decimal numbers as digits: exact at any length, never a float.

/// The longest result [`sum`] writes out: more digits than a `numeric` can hold.
const MAX_DIGITS: i64 = 200_000;

/// A number as its digits and a power of ten: `-1.50` is `-`, `150`, `-2`.
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Reads JSON's and PostgreSQL's plain and exponent notation.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = digits(whole, fraction)?;
        let scale = i64::try_from(fraction.len()).ok()?;
        let exponent = power.parse::<i64>().ok()?.checked_sub(scale)?;
        Some(Self { negative, digits, exponent })
    }

    /// One spelling per number: equal numbers have equal texts.
    pub(super) fn canonical(&self) -> String {
        let Some(first) = self.digits.iter().position(|digit| *digit != 0) else {
            return "0".to_owned();
        };
        let last = self.digits.iter().rposition(|digit| *digit != 0).unwrap_or(first);
        let zeros = i128::try_from(self.digits.len() - 1 - last).unwrap_or(i128::MAX);
        let sign = if self.negative { "-" } else { "" };
        let digits: String =
            self.digits[first..=last].iter().map(|d| char::from(b'0' + d)).collect();
        format!("{sign}{digits}e{}", i128::from(self.exponent) + zeros)
    }

    /// The same number with the other sign.
    pub(super) fn negated(mut self) -> Self {
        self.negative = !self.negative;
        self
    }

    /// The power of ten just above the first digit.
    fn top(&self) -> Option<i64> {
        self.exponent.checked_add(i64::try_from(self.digits.len()).ok()?)
    }

    /// Adds the digits into columns that start at the power `low`, the lowest first.
    fn add_to(&self, columns: &mut [i32], low: i64) {
        let sign = if self.negative { -1 } else { 1 };
        let skip = usize::try_from(self.exponent - low).unwrap_or(columns.len());
        for (column, digit) in columns.iter_mut().skip(skip).zip(self.digits.iter().rev()) {
            *column += sign * i32::from(*digit);
        }
    }
}

fn digits(whole: &str, fraction: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        whole.bytes().chain(fraction.bytes()).map(|b| b.wrapping_sub(b'0')).collect();
    (!digits.is_empty() && digits.iter().all(|digit| *digit <= 9)).then_some(digits)
}

/// The exact sum, written plainly with the longest scale of its terms; `None` where writing it
/// out would be absurdly long (`1e999999999 + 1`).
pub(super) fn sum(terms: &[Decimal]) -> Option<String> {
    let low = terms.iter().map(|term| term.exponent).min()?.min(0);
    let tops: Option<Vec<i64>> = terms.iter().map(Decimal::top).collect();
    let width = tops?.into_iter().max()?.checked_sub(low).filter(|width| *width <= MAX_DIGITS)?;
    // One column more than the widest term takes the carry of up to ten terms.
    let mut columns = vec![0; usize::try_from(width).unwrap_or(0) + 1];
    for term in terms {
        term.add_to(&mut columns, low);
    }
    let negative = carry(&mut columns) < 0;
    if negative {
        for column in &mut columns {
            *column = -*column;
        }
        carry(&mut columns);
    }
    Some(render(&columns, negative, usize::try_from(-low).unwrap_or(0)))
}

/// Brings every column into 0..=9 and returns what is left above the highest.
fn carry(columns: &mut [i32]) -> i32 {
    columns.iter_mut().fold(0, |carried, column| {
        let total = *column + carried;
        *column = total.rem_euclid(10);
        total.div_euclid(10)
    })
}

fn render(columns: &[i32], negative: bool, scale: usize) -> String {
    let digits: String =
        columns.iter().rev().filter_map(|c| char::from_digit(c.unsigned_abs(), 10)).collect();
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(scale));
    let whole = whole.trim_start_matches('0');
    let sign = if negative { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        Decimal::parse(text).unwrap().canonical()
    }

    fn add(terms: &[&str]) -> Option<String> {
        sum(&terms.iter().map(|term| Decimal::parse(term).unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn one_number_has_one_canonical_text() {
        for same in ["1", "1.0", "1e0", "+1", "10e-1", "0.001E3", "01.000"] {
            assert_eq!(canonical(same), "1e0", "{same}");
        }
        for zero in ["0", "-0", "0.000", "0e12345", "-0e-9"] {
            assert_eq!(canonical(zero), "0", "{zero}");
        }
        assert_ne!(canonical("1"), canonical("-1"));
        assert_ne!(canonical("9007199254740993"), canonical("9007199254740992"));
        assert_ne!(canonical("0.1"), canonical("0.1000000000000000055511151231257827"));
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in [
            "",
            "-",
            ".",
            "e5",
            "1e",
            "1e1.5",
            "NaN",
            "Infinity",
            "1 ",
            "0x10",
            "1e99999999999999999999",
        ] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn sums_keep_the_longest_scale() {
        assert_eq!(add(&["1.10", "0.9"]).unwrap(), "2.00");
        assert_eq!(add(&["1", "-1.000"]).unwrap(), "0.000");
        assert_eq!(add(&["-5", "3"]).unwrap(), "-2");
        assert_eq!(add(&["1e3", "1"]).unwrap(), "1001");
        assert_eq!(add(&["9".repeat(40).as_str(), "1"]).unwrap(), format!("1{}", "0".repeat(40)));
        assert_eq!(add(&["0.5", "0.5", "-2"]).unwrap(), "-1.0");
    }

    #[test]
    fn a_sum_too_long_to_write_is_refused() {
        assert_eq!(add(&["1e999999999", "1"]), None);
        assert_eq!(add(&["1e-999999999", "1"]), None);
        assert_eq!(add(&["1e9223372036854775807", "1"]), None);
        assert_eq!(add(&["1e200", "1"]).unwrap().len(), 201);
    }

    proptest! {
        #[test]
        fn agrees_with_machine_integers(a in any::<i64>(), b in any::<i64>(), c in any::<i64>()) {
            let expected = i128::from(a) + i128::from(b) - i128::from(c);
            let [a, b, c] = [a, b, c].map(|n| Decimal::parse(&n.to_string()).unwrap());
            prop_assert_eq!(sum(&[a, b, c.negated()]).unwrap(), expected.to_string());
        }

        #[test]
        fn canonical_texts_agree_with_machine_integers(a in -2000i32..2000, b in -2000i32..2000, zeros in 0usize..5) {
            let spelled = format!("{b}{}e-{zeros}", "0".repeat(zeros));
            prop_assert_eq!(canonical(&a.to_string()) == canonical(&spelled), a == b);
        }
    }
}
