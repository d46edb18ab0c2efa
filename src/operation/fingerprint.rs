//! What tells a repeat of a request from another one: a digest of all that it asks for, in a form that
//! does not depend on how a client writes its JSON.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::merge;

/// The digest of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The digest of a JSON text, however it is written.
    pub fn of_json(text: &str) -> Self {
        let canonical = canonical_json(text.as_bytes());
        Self(Sha256::digest(canonical.as_deref().unwrap_or(text)).into())
    }
}

/// The parts of a request that its fingerprint covers.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The method.
    pub method: &'a str,
    /// The path, as it came.
    pub path: &'a str,
    /// The query string, as it came.
    pub query: &'a str,
    /// The lines of `If-Match`.
    pub if_match: Vec<&'a [u8]>,
    /// The lines of `If-None-Match`.
    pub if_none_match: Vec<&'a [u8]>,
    /// The body's media type.
    pub media_type: &'a str,
    /// The body.
    pub body: &'a [u8],
}

impl Asked<'_> {
    /// The digest.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        for part in [self.method, self.path, self.query, self.media_type] {
            add(&mut digest, part.as_bytes());
        }
        for lines in [&self.if_match, &self.if_none_match] {
            digest.update(lines.len().to_be_bytes());
            for line in lines {
                add(&mut digest, line);
            }
        }
        match canonical_json(self.body) {
            Some(canonical) => add(&mut digest, canonical.as_bytes()),
            None => add(&mut digest, self.body),
        }
        Fingerprint(digest.finalize().into())
    }
}

/// A part with its length ahead of it, so that no two lists of parts look alike.
fn add(digest: &mut Sha256, part: &[u8]) {
    digest.update(part.len().to_be_bytes());
    digest.update(part);
}

/// A JSON text with sorted names, one spelling per number and no space; `None` where it is none.
fn canonical_json(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let mut text = String::with_capacity(body.len());
    write(&mut text, &value);
    Some(text)
}

fn write(text: &mut String, value: &Value) {
    match value {
        Value::Number(number) => {
            let spelled = number.to_string();
            text.push_str(&merge::canonical_number(&spelled).unwrap_or(spelled));
        }
        Value::Array(elements) => {
            text.push('[');
            for element in elements {
                write(text, element);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in members {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(text, value);
                text.push(',');
            }
            text.push('}');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Fingerprint {
        asked(body).fingerprint()
    }

    fn asked(body: &str) -> Asked<'_> {
        Asked {
            method: "PUT",
            path: "/api/v1/notes/1",
            query: "",
            if_match: vec![b"\"7\""],
            if_none_match: Vec::new(),
            media_type: "application/json",
            body: body.as_bytes(),
        }
    }

    #[test]
    fn a_body_written_otherwise_is_the_same_body() {
        let body = r#"{"a":1250,"b":{"c":"é","d":[1,null]}}"#;
        for same in [
            r#"{"b":{"d":[1,null],"c":"é"},"a":1250}"#,
            r#" { "a" : 1250.00 , "b" : { "c" : "\u00e9", "d" : [ 1e0, null ] } } "#,
            r#"{"a":1.25e3,"b":{"c":"é","d":[1.0,null]}}"#,
        ] {
            assert_eq!(of(same), of(body), "{same}");
        }
        for other in [
            r#"{"a":"1250","b":{"c":"é","d":[1,null]}}"#,
            r#"{"a":1250,"b":{"c":"é","d":[null,1]}}"#,
            r#"{"a":1250,"b":{"c":"é","d":[1]}}"#,
            "",
        ] {
            assert_ne!(of(other), of(body), "{other}");
        }
        assert_ne!(of(r#"{"a":9007199254740993}"#), of(r#"{"a":9007199254740992}"#));
    }

    #[test]
    fn every_part_counts() {
        let base = asked("{}").fingerprint();
        let others = [
            Asked { method: "PATCH", ..asked("{}") },
            Asked { path: "/api/v1/notes/2", ..asked("{}") },
            Asked { query: "on_conflict=merge", ..asked("{}") },
            Asked { if_match: Vec::new(), ..asked("{}") },
            Asked { if_match: Vec::new(), if_none_match: vec![b"\"7\""], ..asked("{}") },
            Asked { if_match: vec![b"\"7\"", b"\"8\""], ..asked("{}") },
            Asked { media_type: "application/merge-patch+json", ..asked("{}") },
        ];
        for other in others {
            assert_ne!(other.fingerprint(), base, "{other:?}");
        }
    }
}
