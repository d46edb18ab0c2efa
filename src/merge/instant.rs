//! The moment a timestamp names, whatever offset it is written in.

const SECOND: i128 = 1_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;
const DAY: i128 = 24 * HOUR;

/// A point in time with PostgreSQL's resolution of one microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instant {
    /// `-infinity`
    Past,
    /// `infinity`
    Future,
    /// Microseconds since the first of March of year 0, in UTC.
    Utc(i128),
    /// The same without an offset: comparable only to its like.
    Local(i128),
}

impl Instant {
    /// Reads what PostgreSQL and RFC 3339 write: `2026-11-30T09:12:44.120031Z`,
    /// `2026-11-30 09:12:44+05:30`, `0044-03-15 12:00:00+00 BC`, `infinity`.
    ///
    /// What it cannot read (a finer fraction, a zone by name) is `None`, and the caller compares
    /// the text: a clash too many is better than a change unseen.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.to_ascii_lowercase().as_str() {
            "infinity" => return Some(Self::Future),
            "-infinity" => return Some(Self::Past),
            _ => {}
        }
        let (text, before_christ) = match text.strip_suffix(" BC") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (date, clock) = text.split_once(['T', 't', ' '])?;
        let (clock, offset) =
            clock.split_at(clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len()));
        let local = days(date, before_christ)? * DAY + time_of_day(clock.trim_end())?;
        match offset {
            "" => Some(Self::Local(local)),
            _ => Some(Self::Utc(local - shift(offset)?)),
        }
    }
}

/// Days since 0000-03-01 in the proleptic Gregorian calendar.
fn days(date: &str, before_christ: bool) -> Option<i128> {
    let mut parts = date.split('-');
    let written = number(parts.next()?, 4..=6)?;
    let (month, day) = (number(parts.next()?, 2..=2)?, number(parts.next()?, 2..=2)?);
    let year = if before_christ { 1 - written } else { written };
    let sound =
        parts.next().is_none() && written > 0 && (1..=month_length(year, month)?).contains(&day);
    // A year that begins in March ends with the leap day.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    sound.then_some(year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1)
}

fn month_length(year: i128, month: i128) -> Option<i128> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if leap { 29 } else { 28 }),
        _ => None,
    }
}

/// Microseconds of `HH:MM`, `HH:MM:SS` or `HH:MM:SS.ffffff`.
fn time_of_day(clock: &str) -> Option<i128> {
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.split(':').map(|part| number(part, 2..=2));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    let total = hour * HOUR + minute * MINUTE + second * SECOND + micros(fraction)?;
    let sound = parts.next().is_none() && minute < 60 && second <= 60 && total <= DAY;
    sound.then_some(total)
}

fn micros(fraction: &str) -> Option<i128> {
    let fraction = fraction.trim_end_matches('0');
    number(&format!("{fraction:0<6}"), 6..=6)
}

/// Microseconds east of UTC: `Z`, `+05`, `+0530`, `+05:30`, `+05:30:15`.
fn shift(offset: &str) -> Option<i128> {
    if offset.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let digits = offset.get(1..)?.replace(':', "");
    let part = |at: usize| {
        if digits.len() <= at { Some(0) } else { number(digits.get(at..at + 2)?, 2..=2) }
    };
    let (hours, minutes, seconds) = (part(0)?, part(2)?, part(4)?);
    let sound =
        !digits.is_empty() && digits.len() <= 6 && hours < 16 && minutes < 60 && seconds < 60;
    sound.then_some(sign * (hours * HOUR + minutes * MINUTE + seconds * SECOND))
}

fn number(text: &str, lengths: std::ops::RangeInclusive<usize>) -> Option<i128> {
    let plain = lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        let read = |text| Instant::parse(text).unwrap_or_else(|| panic!("{text}"));
        read(a) == read(b)
    }

    #[test]
    fn any_offset_names_the_same_instant() {
        let noon = "2026-03-01T00:30:00+00:00";
        for other in [
            "2026-03-01T00:30:00Z",
            "2026-03-01 00:30:00+00",
            "2026-03-01T00:30Z",
            "2026-02-28T23:30:00-01",
            "2026-03-01T06:00:00.000000+0530",
            "2026-03-01T06:00:15+05:30:15",
            "2026-02-28t23:30:00-01:00",
            "2026-03-01 00:30:00 +00",
        ] {
            assert!(same(noon, other), "{other}");
        }
    }

    #[test]
    fn a_microsecond_makes_a_difference() {
        assert!(!same("2026-11-30T09:12:44.120031Z", "2026-11-30T09:12:44.120032Z"));
        assert!(same("2026-11-30T09:12:44.12Z", "2026-11-30T09:12:44.120000Z"));
        assert!(same("2026-11-30T09:12:44.1200310Z", "2026-11-30T09:12:44.120031Z"));
    }

    #[test]
    fn knows_leap_years_and_the_years_before_christ() {
        assert!(same("2024-02-29T24:00:00Z", "2024-03-01T00:00:00Z"));
        assert!(same("2023-02-28T24:00:00Z", "2023-03-01T00:00:00Z"));
        assert!(same("1900-02-28T24:00:00Z", "1900-03-01T00:00:00Z"));
        assert!(same("0001-12-31 24:00:00+00 BC", "0001-01-01 00:00:00+00"));
        assert!(same("10000-01-01T00:00:00Z", "9999-12-31T24:00:00Z"));
        assert!(!same("0044-03-15 12:00:00+00 BC", "0044-03-15 12:00:00+00"));
    }

    #[test]
    fn infinity_is_itself_only() {
        assert!(same("infinity", "Infinity"));
        assert!(!same("infinity", "-infinity"));
        assert!(!same("infinity", "294276-12-31T23:59:59Z"));
    }

    #[test]
    fn a_local_time_equals_no_instant() {
        assert!(!same("2026-03-01T00:30:00", "2026-03-01T00:30:00Z"));
        assert!(same("2026-03-01T00:30:00", "2026-03-01 00:30"));
    }

    #[test]
    fn refuses_what_is_no_instant() {
        for text in [
            "",
            "now",
            "2026-03-01",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "2026-03-01T25:00:00Z",
            "2026-03-01T24:00:01Z",
            "2026-03-01T00:61:00Z",
            "2026-03-01T00:00:00.1234567Z",
            "2026-03-01T00:00:00+",
            "2026-03-01T00:00:00+5",
            "2026-03-01T00:00:00+99",
            "2026-03-01T00:00:00Zulu",
            "2026-3-1T00:00:00Z",
            "2026-03-01-01T00:00:00Z",
            "２026-03-01T00:00:00Z",
            "2026-03-01T00:00:00+0é",
            "9999999-03-01T00:00:00Z",
        ] {
            assert!(Instant::parse(text).is_none(), "{text}");
        }
    }
}
