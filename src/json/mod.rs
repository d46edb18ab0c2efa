//! Reading JSON that a stranger sent: bounded depth, no name twice in one object, and an error that
//! says where. Values stay as the text they came as, so that numbers keep every digit.

pub mod member;
pub mod number;

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Code, Error};

/// How deeply arrays and objects may be nested.
pub const MAX_DEPTH: usize = 64;

/// A member of an object: its name and its value as JSON text.
pub type Member = (String, Box<RawValue>);

/// Reads the members of one JSON object, in order.
///
/// # Errors
/// `INVALID_JSON`, `DUPLICATE_KEY` or `TOO_DEEP`, each with `line` and `column` where one is known.
pub fn read_object(bytes: &[u8]) -> Result<Vec<Member>, Error> {
    let text = check(bytes)?;
    serde_json::from_str::<Members>(text)
        .map(|members| members.0)
        .map_err(|e| invalid(&e, "the body must be a JSON object"))
}

/// Checks that bytes are one JSON value within the limits and gives them as text.
///
/// # Errors
/// As [`read_object`].
pub fn check(bytes: &[u8]) -> Result<&str, Error> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        Error::new(Code::InvalidJson, "The body is not UTF-8 text")
            .detail("offset", e.valid_up_to())
    })?;
    if text.trim_ascii().is_empty() {
        return Err(Error::new(Code::InvalidJson, "The body is empty where JSON is expected"));
    }
    if depth(text) > MAX_DEPTH {
        let message = format!("The body is nested more than {MAX_DEPTH} levels deep");
        return Err(Error::new(Code::TooDeep, message).detail("max_depth", MAX_DEPTH));
    }
    let duplicate = Cell::new(None);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let walked = Walk { duplicate: &duplicate }.deserialize(&mut deserializer);
    match walked.and_then(|()| deserializer.end()) {
        Ok(()) => Ok(text),
        Err(e) => Err(match duplicate.take() {
            Some(name) => Error::field(
                Code::DuplicateKey,
                &name,
                format!("The name \"{name}\" stands twice in one object"),
            )
            .detail("line", e.line())
            .detail("column", e.column()),
            None => invalid(&e, "the body is not valid JSON"),
        }),
    }
}

/// How far the exponent of a number may go where it is to be stored as a `numeric` or in a `jsonb`,
/// which write all its digits out: ten bytes of a body could become a hundred thousand of a row.
pub const MOST_EXPONENT: usize = 1000;

/// Whether no number in a JSON text has an exponent beyond [`MOST_EXPONENT`].
pub fn modest(json: &str) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    let bytes = json.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'e' | b'E' if !in_string && at > 0 && bytes[at - 1].is_ascii_digit() => {
                let digits: Vec<u8> = bytes[at + 1..]
                    .iter()
                    .skip_while(|b| matches!(b, b'-' | b'+' | b'0'))
                    .take_while(|b| b.is_ascii_digit())
                    .take(5)
                    .copied()
                    .collect();
                let exponent = digits.iter().fold(0, |n, b| n * 10 + usize::from(b - b'0'));
                if exponent > MOST_EXPONENT {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

/// Whether a JSON text holds the character NUL, which PostgreSQL cannot store in text.
pub fn holds_nul(json: &str) -> bool {
    json.match_indices("\\u0000").any(|(at, _)| {
        json[..at].bytes().rev().take_while(|b| *b == b'\\').count().is_multiple_of(2)
    })
}

fn invalid(error: &serde_json::Error, what: &str) -> Error {
    let (line, column) = (error.line(), error.column());
    let message = format!("At line {line}, column {column}: {what}");
    Error::new(Code::InvalidJson, message).detail("line", line).detail("column", column)
}

/// The nesting of a text, valid JSON or not. A scan of the bytes, so that a hostile body is refused
/// before anything recurses over it.
pub fn depth(text: &str) -> usize {
    let (mut now, mut most, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                now += 1;
                most = most.max(now);
            }
            b']' | b'}' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Visits every value and keeps nothing but the names of the objects that are open.
#[derive(Clone, Copy)]
struct Walk<'a> {
    duplicate: &'a Cell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            map.next_value_seed(self)?;
            if let Some(name) = names.replace(name) {
                self.duplicate.set(Some(name));
                return Err(de::Error::custom("duplicate name"));
            }
        }
        Ok(())
    }
}

struct Members(Vec<Member>);

impl<'de> de::Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> &'static str {
        read_object(body.as_bytes()).map_or_else(|e| e.code().as_str(), |_| "ok")
    }

    #[test]
    fn values_stay_as_they_came() {
        let members =
            read_object(br#"{"a": 1.10, "b": 12345678901234567890123, "c":{"x" : 1e400}}"#)
                .unwrap();
        let values: Vec<_> = members.iter().map(|(_, v)| v.get()).collect();
        assert_eq!(values, ["1.10", "12345678901234567890123", r#"{"x" : 1e400}"#]);
    }

    #[test]
    fn what_a_stranger_may_send_is_bounded() {
        let nested = |n: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(n - 1), "]".repeat(n - 1));
        assert_eq!(code(&nested(MAX_DEPTH)), "ok");
        assert_eq!(code(&nested(MAX_DEPTH + 1)), "TOO_DEEP");
        assert_eq!(code(&"[".repeat(1_000_000)), "TOO_DEEP");
        for body in [
            "",
            "  ",
            "{",
            "[1]",
            "1",
            "null",
            r#"{"a":1}x"#,
            r#"{"a":"\ud800"}"#,
            "{\"a\":\"\u{1}\"}",
            "{a:1}",
            r#"{"a":01}"#,
            r#"{"a":NaN}"#,
        ] {
            assert_eq!(code(body), "INVALID_JSON", "{body}");
        }
        for body in
            [r#"{"a":1,"a":2}"#, r#"{"a":{"b":1,"c":[{"d":1,"d":2}]}}"#, r#"{"a":1,"\u0061":2}"#]
        {
            assert_eq!(code(body), "DUPLICATE_KEY", "{body}");
        }
        assert_eq!(read_object(b"{\"a\":\"\xff\"}").unwrap_err().code(), Code::InvalidJson);
    }

    #[test]
    fn errors_say_where() {
        let error = read_object(b"{\n  \"a\": 1,\n  \"b\" 2\n}").unwrap_err();
        assert_eq!(error.details()["line"], 3);
    }

    #[test]
    fn exponents_are_bounded_outside_of_texts() {
        for number in ["1e1000", "[1E+0999, -2.5e-1000]", r#"{"a1e9999": "1e9999"}"#, "true", "0"] {
            assert!(modest(number), "{number}");
        }
        for immodest in ["1e1001", "[0, 1.5E-131071]", r#"{"a": 1e+0099999999999}"#] {
            assert!(!modest(immodest), "{immodest}");
        }
    }

    #[test]
    fn nul_is_told_from_a_backslash() {
        assert!(holds_nul(r#""a\u0000b""#));
        assert!(holds_nul(r#""a\\\u0000b""#));
        assert!(!holds_nul(r#""a\\u0000b""#));
    }
}
