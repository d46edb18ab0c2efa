//! What a number says, read off its digits: no float is on the way.

/// More digits than any integer column holds; longer ones need not be written out to be refused.
const MOST_DIGITS: usize = 20;

/// Why a text is no integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWhole {
    /// It is no number.
    NoNumber,
    /// It has a fraction.
    Fraction,
    /// It has more digits than any integer column holds.
    Large,
}

/// The digits of a whole number, however it is spelled: to JSON, and to many of its writers, 7.0 and 70e-1 are
/// the number 7. To PostgreSQL they are none.
///
/// # Errors
/// Why it is none.
pub fn whole(text: &str) -> Result<String, NotWhole> {
    if !is_decimal(text) {
        return Err(NotWhole::NoNumber);
    }
    let negative = text.starts_with('-');
    let unsigned = text.trim_start_matches(['-', '+']);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    if digits.is_empty() {
        return Ok("0".to_owned());
    }
    // Where the point stands among the digits, counted from the first that is not 0.
    let leading = i64::try_from(all.len() - digits.len()).unwrap_or(i64::MAX);
    let written = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let down = exponent.starts_with('-');
    // An exponent of more digits than a number has is as good as endless.
    let exponent = exponent.parse::<i64>().unwrap_or(if down { i64::MIN } else { i64::MAX });
    let point = exponent.saturating_add(written - leading);
    let Ok(point) = usize::try_from(point) else { return Err(NotWhole::Fraction) };
    let (kept, rest) = digits.split_at(point.min(digits.len()));
    if rest.bytes().any(|digit| digit != b'0') {
        return Err(NotWhole::Fraction);
    }
    if point > MOST_DIGITS {
        return Err(NotWhole::Large);
    }
    let sign = if negative { "-" } else { "" };
    Ok(format!("{sign}{kept:0<point$}"))
}

/// Whether a text is a decimal as JSON or PostgreSQL writes one, exponent allowed.
pub fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, exponent.strip_prefix(['-', '+']).unwrap_or(exponent))
        }
        None => (unsigned, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    digits(whole) && digits(fraction) && digits(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_one_in_every_spelling() {
        for (text, wanted) in [
            ("7", "7"),
            ("-7.00", "-7"),
            ("1e3", "1000"),
            ("1E+03", "1000"),
            ("1.5e1", "15"),
            ("-15000e-3", "-15"),
            ("0.001e3", "1"),
            ("0.0", "0"),
            ("-0e99999999999999999999", "0"),
            ("9223372036854775807.000", "9223372036854775807"),
            ("9.223372036854775807e18", "9223372036854775807"),
            ("00012e0", "12"),
        ] {
            assert_eq!(whole(text).as_deref(), Ok(wanted), "{text}");
        }
        for text in ["1.5", "1e-1", "15e-1", "0.5", "1e-99999999999999999999", "1000.0000001"] {
            assert_eq!(whole(text), Err(NotWhole::Fraction), "{text}");
        }
        for text in ["1e20", "1e99999999999999999999", "1e1000000000"] {
            assert_eq!(whole(text), Err(NotWhole::Large), "{text}");
        }
        for text in ["", "-", "e3", "1e", ".5", "5.", "1_000", "0x10", "NaN", "--1", "1e1.0"] {
            assert_eq!(whole(text), Err(NotWhole::NoNumber), "{text}");
        }
    }
}
