//! What changed between two values, word by word.

use std::time::{Duration, Instant};

use askama::Template;
use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::catalog::kind::Kind;
use crate::console::value;

/// How long the comparison of two texts may take; what is left then counts as replaced.
const TIME: Duration = Duration::from_millis(50);

/// A piece of a value as a comparison shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// In both.
    Same(String),
    /// Only in the older.
    Removed(String),
    /// Only in the newer.
    Added(String),
}

/// A value to be shown, whole or as a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Template)]
#[template(path = "shown.html")]
pub(super) struct Shown {
    /// Why there is no text, where there is none: NULL, an empty text, not known.
    pub(super) empty: Option<&'static str>,
    /// The text, in pieces.
    pub(super) pieces: Vec<Piece>,
    /// Whether it is code rather than words.
    pub(super) code: bool,
}

impl Shown {
    /// A value as it is.
    pub(super) fn whole(kind: &Kind, value: Option<&Value>) -> Self {
        let text = text(kind, value);
        let pieces = match &text {
            Ok(text) => vec![Piece::Same(text.clone())],
            Err(_) => Vec::new(),
        };
        Self { empty: text.err(), pieces, code: is_code(kind) }
    }

    /// The value that both sides began with.
    pub(super) fn original(kind: &Kind, value: Option<&Value>) -> Self {
        match value {
            None => Self { empty: Some("not known any more"), ..Self::default() },
            value => Self::whole(kind, value),
        }
    }

    /// Only what the newer value has: its new words marked. The whole value where there is no older.
    pub(super) fn against(kind: &Kind, old: Option<&Value>, new: Option<&Value>) -> Self {
        match (text(kind, old), text(kind, new)) {
            (Ok(old), Ok(new)) if old != new => {
                Self { empty: None, pieces: compare(&old, &new), code: is_code(kind) }
            }
            _ => Self::whole(kind, new),
        }
    }

    /// Both values in one text.
    pub(super) fn between(kind: &Kind, old: Option<&Value>, new: Option<&Value>) -> (Self, Self) {
        let both = Self::against(kind, old, new).pieces;
        let keep = |drop: fn(&Piece) -> bool, value| Self {
            pieces: both.iter().filter(|p| !drop(p)).cloned().collect(),
            ..Self::whole(kind, value)
        };
        if both.len() < 2 {
            return (Self::whole(kind, old), Self::whole(kind, new));
        }
        (keep(|p| matches!(p, Piece::Added(_)), old), keep(|p| matches!(p, Piece::Removed(_)), new))
    }
}

fn is_code(kind: &Kind) -> bool {
    matches!(kind, Kind::Json { .. } | Kind::Composite)
}

fn text(kind: &Kind, value: Option<&Value>) -> Result<String, &'static str> {
    match value {
        None => Err("not there"),
        Some(Value::Null) => Err("no value"),
        Some(Value::String(text)) if text.is_empty() => Err("empty text"),
        Some(Value::Array(items)) if items.is_empty() => Err("empty list"),
        Some(value) => Ok(value::show(kind, value)),
    }
}

fn compare(old: &str, new: &str) -> Vec<Piece> {
    let (old, new) = (words(old), words(new));
    let deadline = Some(Instant::now() + TIME);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
    let same: usize = ops
        .iter()
        .map(|op| {
            if let DiffOp::Equal { new_index, len, .. } = op {
                new[*new_index..new_index + len].iter().filter(|w| is_word(w)).count()
            } else {
                0
            }
        })
        .sum();
    if same == 0 {
        // Shared blanks and commas alone explain nothing.
        return vec![Piece::Removed(old.concat()), Piece::Added(new.concat())];
    }
    let mut pieces = Vec::new();
    for op in ops {
        let (removed, added) = (old[op.old_range()].concat(), new[op.new_range()].concat());
        if let DiffOp::Equal { .. } = op {
            pieces.push(Piece::Same(added));
            continue;
        }
        if !removed.is_empty() {
            pieces.push(Piece::Removed(removed));
        }
        if !added.is_empty() {
            pieces.push(Piece::Added(added));
        }
    }
    pieces
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric())
}

/// Words, and what stands between them one character at a time. A number is one word.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, c)| *c);
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let inside = c.is_alphanumeric() && next.is_some_and(char::is_alphanumeric)
            || c.is_ascii_digit() && matches!(next, Some('.' | '-' | ':' | ','))
            || matches!(c, '.' | '-' | ':' | ',') && at > start && digit(next);
        if !inside {
            let end = at + c.len_utf8();
            words.push(&text[start..end]);
            start = end;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_and_numbers_are_one_word() {
        let (same, removed, added) = (
            |t: &str| Piece::Same(t.to_owned()),
            |t: &str| Piece::Removed(t.to_owned()),
            |t: &str| Piece::Added(t.to_owned()),
        );
        assert_eq!(
            compare("Second oven, first part", "Second oven, last part"),
            [same("Second oven, "), removed("first"), added("last"), same(" part")]
        );
        assert_eq!(compare("1100.00", "1250.00"), [removed("1100.00"), added("1250.00")]);
        assert_eq!(
            compare("2026-10-28", "2026-11-01"),
            [removed("2026-10-28"), added("2026-11-01")]
        );
        assert_eq!(words("a, ü!").concat(), "a, ü!");
    }

    #[test]
    fn the_sides_of_a_difference_are_the_values() {
        let kind = Kind::Text(None);
        let (old, new) = (Value::from("one two"), Value::from("one three"));
        let (left, right) = Shown::between(&kind, Some(&old), Some(&new));
        let text = |shown: Shown| -> String {
            let pieces = shown.pieces.into_iter().map(|p| match p {
                Piece::Same(t) | Piece::Removed(t) | Piece::Added(t) => t,
            });
            pieces.collect()
        };
        assert_eq!((text(left), text(right)), ("one two".to_owned(), "one three".to_owned()));
        assert_eq!(Shown::whole(&kind, Some(&Value::Null)).empty, Some("no value"));
    }
}
