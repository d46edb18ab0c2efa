//! What values a column takes. The check is by JSON kind and, where a type's rules are short, by
//! value; the rest is PostgreSQL's to judge, which has the last word anyhow.

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::json;
use crate::json::number::{self, NotWhole, is_decimal};
use crate::merge::Comparison;

/// The longest `name`, in bytes, of a PostgreSQL built as it comes.
const MOST_NAME: usize = 63;

/// The kind of a column's type, domains resolved to their base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `boolean`
    Bool,
    /// `smallint`, `integer`, `bigint`, by their size in bytes
    Integer(u8),
    /// `real`, `double precision`
    Float,
    /// `numeric`, with precision and scale where the type has them
    Numeric(Option<(i32, i32)>),
    /// `text`, `varchar(n)`, `char(n)`, with the longest length in characters
    Text(Option<usize>),
    /// `name`, which PostgreSQL would cut off silently
    Name,
    /// `uuid`
    Uuid,
    /// `date`
    Date,
    /// `timestamp`
    Timestamp,
    /// `timestamptz`
    TimestampTz,
    /// `time`, `timetz`
    Time,
    /// `json`, `jsonb`
    Json {
        /// Whether it is `jsonb`.
        binary: bool,
    },
    /// `bytea`, written `\x0102`
    Bytea,
    /// An enum, with its labels in order
    Enum(Vec<String>),
    /// An array of this kind
    Array(Box<Kind>),
    /// `int2vector`, `oidvector`: arrays of a kind of their own, which begin at 0
    Vector,
    /// A row type
    Composite,
    /// Anything else: written as PostgreSQL writes it in text
    Other,
}

impl Kind {
    /// A JSON value in the spelling that the column takes: whole numbers without point and exponent, alone or
    /// in an array.
    pub fn spelled(&self, value: Box<RawValue>) -> Box<RawValue> {
        let json = value.get();
        // Not to be taken for a number are texts. All others are as they should be where no such letter is.
        if json.starts_with('"') || !json.contains(['.', 'e', 'E']) {
            return value;
        }
        let spelled = match self {
            Self::Integer(_) => number::whole(json).ok(),
            Self::Array(element) => element.spelled_all(json),
            Self::Vector => Self::Integer(8).spelled_all(json),
            _ => None,
        };
        spelled.and_then(|json| RawValue::from_string(json).ok()).unwrap_or(value)
    }

    /// An array of values of this kind, which may be nested; `None` where it is none.
    fn spelled_all(&self, json: &str) -> Option<String> {
        if !matches!(self, Self::Integer(_)) {
            return None;
        }
        let elements: Vec<Box<RawValue>> = serde_json::from_str(json).ok()?;
        let elements = elements.into_iter().map(|element| {
            if element.get().starts_with('[') {
                self.spelled_all(element.get()).unwrap_or_else(|| element.get().to_owned())
            } else {
                self.spelled(element).get().to_owned()
            }
        });
        Some(format!("[{}]", elements.collect::<Vec<_>>().join(",")))
    }

    /// Checks a JSON value other than `null`.
    ///
    /// # Errors
    /// What the field wants, as the end of the sentence "… must be".
    pub fn check(&self, value: &RawValue) -> Result<(), String> {
        let json = value.get();
        let first = json.as_bytes().first().copied().unwrap_or(b' ');
        let is_string = first == b'"';
        let is_number = first == b'-' || first.is_ascii_digit();
        let string = || serde_json::from_str::<String>(json).map_err(|_| "a text".to_owned());
        let wanted = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_owned()) };
        match self {
            Self::Json { binary: true } if !json::modest(json) => {
                Err(format!("free of numbers with an exponent beyond {}", json::MOST_EXPONENT))
            }
            Self::Json { .. } => Ok(()),
            Self::Bool => wanted(matches!(first, b't' | b'f'), "true or false"),
            Self::Integer(size) => {
                let text = if is_string { string()? } else { json.to_owned() };
                integer(&text, *size)
            }
            Self::Float if is_string => {
                let text = string()?;
                let special = matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity");
                wanted(
                    special || is_decimal(&text),
                    "a number, \"NaN\", \"Infinity\" or \"-Infinity\"",
                )
            }
            Self::Numeric(_) if is_string => {
                let text = string()?;
                let special = matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity");
                if special { Ok(()) } else { self.check_decimal(&text) }
            }
            Self::Float => wanted(is_number, "a number"),
            Self::Numeric(_) if is_number => self.check_decimal(json),
            Self::Numeric(_) => Err("a number".to_owned()),
            Self::Array(element) => check_array(element, json),
            Self::Vector => check_array(&Self::Integer(8), json),
            Self::Composite => wanted(first == b'{', "an object"),
            _ if !is_string => Err("a text".to_owned()),
            text_like => text_like.check_text(&string()?),
        }
    }

    /// Whether all values of this kind are about as small as their row itself.
    pub fn is_small(&self) -> bool {
        matches!(
            self,
            Self::Bool
                | Self::Integer(_)
                | Self::Float
                | Self::Uuid
                | Self::Date
                | Self::Timestamp
                | Self::TimestampTz
        )
    }

    /// How values of this kind are compared when rows are merged.
    pub fn comparison(&self) -> Comparison {
        match self {
            Self::Integer(_) | Self::Float | Self::Numeric(_) => Comparison::Number,
            Self::TimestampTz => Comparison::Instant,
            Self::Text(_) | Self::Name | Self::Enum(_) | Self::Uuid => Comparison::Text,
            _ => Comparison::Json,
        }
    }

    /// The type of an array's elements, where they are JSON and may be arrays themselves.
    pub fn json_elements(&self) -> Option<&'static str> {
        match self {
            Self::Array(element) => match **element {
                Self::Json { binary: true } => Some("jsonb"),
                Self::Json { binary: false } => Some("json"),
                _ => None,
            },
            _ => None,
        }
    }

    fn check_decimal(&self, text: &str) -> Result<(), String> {
        if !is_decimal(text) {
            return Err("a number".to_owned());
        }
        if !json::modest(text) {
            return Err(format!("a number with an exponent within {}", json::MOST_EXPONENT));
        }
        let Self::Numeric(Some((precision, scale))) = self else {
            return Ok(());
        };
        // Written with an exponent it is left to PostgreSQL.
        let whole = text.trim_start_matches(['-', '+', '0']);
        let digits = whole.bytes().take_while(u8::is_ascii_digit).count();
        let plain = !text.contains(['e', 'E']);
        if plain && digits > usize::try_from(precision - scale).unwrap_or(0) {
            return Err(format!(
                "a number of at most {} digits before the point",
                precision - scale
            ));
        }
        Ok(())
    }

    /// Checks a text that is to become a value of this kind.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_text(&self, text: &str) -> Result<(), String> {
        match self {
            Self::Text(Some(most)) if text.trim_end_matches(' ').chars().count() > *most => {
                Err(format!("a text of at most {most} characters"))
            }
            Self::Name if text.len() > MOST_NAME => {
                Err(format!("a text of at most {MOST_NAME} bytes"))
            }
            Self::Integer(size) => integer(text, *size),
            Self::Uuid if Uuid::parse_str(text).is_err() => Err("a UUID".to_owned()),
            Self::Enum(labels) if !labels.iter().any(|l| l == text) => {
                Err(format!("one of {}", labels.join(", ")))
            }
            // PostgreSQL takes words such as "tomorrow" for a date; what a client meant by them
            // depends on when and where it is read.
            Self::Date if !is_moment(text) => Err("a date such as 2026-11-30".to_owned()),
            Self::Timestamp | Self::TimestampTz if !is_moment(text) => {
                Err("a date and time such as 2026-11-30T09:00:00Z".to_owned())
            }
            Self::Time if !text.starts_with(|c: char| c.is_ascii_digit()) => {
                Err("a time such as 09:00:00".to_owned())
            }
            Self::Bytea if !is_hex_bytes(text) => {
                Err("bytes in hexadecimal, such as \\x0aff".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn integer(text: &str, size: u8) -> Result<(), String> {
    let (low, high) = match size {
        2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    match text.parse::<i64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(()),
        _ if number::whole(text) == Err(NotWhole::Fraction) => {
            Err(format!("a whole number from {low} to {high}, without a fraction"))
        }
        _ => Err(format!("a whole number from {low} to {high}")),
    }
}

fn is_moment(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) || matches!(text, "infinity" | "-infinity")
}

fn is_hex_bytes(text: &str) -> bool {
    text.strip_prefix("\\x").is_some_and(|hex| {
        hex.len().is_multiple_of(2) && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// Arrays may be nested: PostgreSQL's array types do not say how many dimensions they have.
fn check_array(element: &Kind, json: &str) -> Result<(), String> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| "an array".to_owned())?;
    for value in elements {
        match value.get().as_bytes().first() {
            Some(b'n') => {}
            Some(b'[') if !matches!(element, Kind::Json { .. }) => {
                check_array(element, value.get())?;
            }
            _ => {
                element
                    .check(value)
                    .map_err(|wanted| format!("an array, each element {wanted}"))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &Kind, json: &str) -> bool {
        kind.check(&RawValue::from_string(json.to_owned()).unwrap()).is_ok()
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_nothing() {
        let spelled = |kind: Kind, json: &str| {
            kind.spelled(RawValue::from_string(json.to_owned()).unwrap()).get().to_owned()
        };
        assert_eq!(spelled(Kind::Integer(4), "-7.00"), "-7");
        assert_eq!(spelled(Kind::Integer(4), "7.01"), "7.01");
        assert_eq!(spelled(Kind::Integer(2), "1e3"), "1000");
        let integers = || Kind::Array(Box::new(Kind::Integer(4)));
        assert_eq!(
            spelled(integers(), "[1.0, [2e1, null], \"3\", 4.5]"),
            "[1,[20,null],\"3\",4.5]"
        );
        assert_eq!(spelled(integers(), "[\"e\"]"), "[\"e\"]");
        assert_eq!(spelled(integers(), "{\"e\": 1.0}"), "{\"e\": 1.0}");
        assert_eq!(spelled(Kind::Vector, "[1e1]"), "[10]");
        assert_eq!(spelled(Kind::Integer(4), "\"7.0\""), "\"7.0\"");
        assert_eq!(spelled(Kind::Numeric(None), "7.0"), "7.0");
    }

    #[test]
    fn values_are_taken_by_their_kind() {
        let numeric = Kind::Numeric(Some((5, 2)));
        let labels = Kind::Enum(vec!["draft".to_owned(), "sent".to_owned()]);
        let cases: &[(&Kind, &[&str], &[&str])] = &[
            (&Kind::Bool, &["true", "false"], &["1", "\"true\""]),
            (
                &Kind::Integer(2),
                &["1", "-32768", "\"7\""],
                &["32768", "1.5", "true", "\"x\"", "[]"],
            ),
            (&Kind::Integer(8), &["9223372036854775807"], &["9223372036854775808", "1e3"]),
            (&Kind::Float, &["1e300", "\"NaN\"", "\"-Infinity\""], &["\"x\"", "false", "{}"]),
            (
                &numeric,
                &["999.999", "-1", "\"12.30\"", "\"NaN\""],
                &["1000", "\"1000\"", "\"a\"", "[]"],
            ),
            (&Kind::Text(Some(3)), &["\"äöü\"", "\"abc   \""], &["\"abcd\"", "5", "null1"]),
            (&Kind::Uuid, &["\"01a11e82-d0bc-7367-9c39-5e9873953dde\""], &["\"x\"", "1"]),
            (&labels, &["\"draft\""], &["\"paid\"", "0"]),
            (&Kind::Date, &["\"2026-11-30\"", "\"infinity\""], &["\"tomorrow\"", "20261130"]),
            (&Kind::Bytea, &["\"\\\\x0aFF\"", "\"\\\\x\""], &["\"\\\\x0\"", "\"abc\""]),
            (
                &Kind::Array(Box::new(Kind::Integer(4))),
                &["[1,null,2]", "[[1],[2]]"],
                &["[\"a\"]", "\"{1}\""],
            ),
            (&Kind::Json { binary: true }, &["1", "null", "{}"], &[]),
            (&Kind::Composite, &["{\"a\":1}"], &["\"(1)\""]),
        ];
        for (kind, good, bad) in cases {
            for json in *good {
                assert!(check(kind, json), "{kind:?} takes {json}");
            }
            for json in bad.iter().filter(|j| serde_json::from_str::<&RawValue>(j).is_ok()) {
                assert!(!check(kind, json), "{kind:?} refuses {json}");
            }
        }
    }
}
