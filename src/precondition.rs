//! Preconditions: from the headers `If-Match` and `If-None-Match` (RFC 9110 §13.1) to the predicate
//! of the one UPDATE. This is the only place that reads the headers and the only one that writes
//! the predicate.

use crate::error::{Code, Error};
use crate::version::{Tag, Version};

/// How many tags one request may name. A client names one, a cache a handful.
const MOST_TAGS: usize = 100;

/// One header's condition on the current version of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `*`: any current version.
    Any,
    /// One of these versions. Empty where the header was well formed but held no tag of ours:
    /// such a condition matches nothing, it is never taken as absent.
    Versions(Vec<Version>),
}

impl Condition {
    /// Whether the condition names this version.
    pub fn matches(&self, version: Version) -> bool {
        match self {
            Self::Any => true,
            Self::Versions(versions) => versions.contains(&version),
        }
    }
}

/// What a request demands of the row before anything is done to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    /// `If-Match`; `None` where the header is absent, which is no demand at all.
    pub if_match: Option<Condition>,
    /// `If-None-Match`.
    pub if_none_match: Option<Condition>,
}

/// How a precondition stands to a current version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Every demand is met.
    Holds,
    /// `If-Match` does not name the version: the row moved since the client read it.
    Stale,
    /// `If-None-Match` names the version.
    Unwanted,
}

impl Precondition {
    /// Reads both headers, each given as its lines in order.
    ///
    /// # Errors
    /// `INVALID_IF_MATCH` where a line is malformed. A broken header is never taken as absent,
    /// because that would turn a guarded write into an unguarded one.
    pub fn from_headers<'a>(
        if_match: impl Iterator<Item = &'a [u8]>,
        if_none_match: impl Iterator<Item = &'a [u8]>,
        strict: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            if_match: parse("If-Match", if_match, |tag| tag.read(strict))?,
            // Compared weakly in every case (RFC 9110 §13.1.2).
            if_none_match: parse("If-None-Match", if_none_match, |tag| {
                Tag { weak: false, ..tag }.read(strict)
            })?,
        })
    }

    /// What a write demands that says without headers which version it is based on; 0 stands for a record
    /// that is not there.
    pub fn based_on(version: Version) -> Self {
        match version {
            Version(0) => Self { if_match: None, if_none_match: Some(Condition::Any) },
            version => {
                Self { if_match: Some(Condition::Versions(vec![version])), if_none_match: None }
            }
        }
    }

    /// Demands the version that an earlier write of the same client came to. What is to be created
    /// demands no version: that the record is not there is all it asks for.
    pub fn follow(&mut self, version: Version) {
        if !self.demands_absence() {
            self.if_match = Some(Condition::Versions(vec![version]));
        }
    }

    /// The predicate on the version column, for the parameters of [`Self::wanted`] and
    /// [`Self::unwanted`]. One text for every request, so that a guarded and an unguarded write
    /// are the same prepared statement.
    pub fn predicate(version_column: &str, wanted: &str, unwanted: &str) -> String {
        format!(
            "({wanted}::int4[] IS NULL OR {version_column} = ANY({wanted}::int4[])) \
             AND ({unwanted}::int4[] IS NULL OR {version_column} <> ALL({unwanted}::int4[]))"
        )
    }

    /// The versions that the row must have one of; `None` where any will do (header absent, or `*`,
    /// which an UPDATE that finds its row fulfils).
    pub fn wanted(&self) -> Option<Vec<i32>> {
        versions(self.if_match.as_ref())
    }

    /// The versions that the row must not have. `If-None-Match: *` is no version predicate: it asks
    /// for the absence of the row, which the caller decides before it writes.
    pub fn unwanted(&self) -> Option<Vec<i32>> {
        versions(self.if_none_match.as_ref())
    }

    /// Judges a current version, `If-Match` first (RFC 9110 §13.2.2).
    pub fn standing(&self, current: Version) -> Standing {
        if self.if_match.as_ref().is_some_and(|c| !c.matches(current)) {
            Standing::Stale
        } else if self.if_none_match.as_ref().is_some_and(|c| c.matches(current)) {
            Standing::Unwanted
        } else {
            Standing::Holds
        }
    }

    /// The newest version that `If-Match` names: what a conflict reports as the client's.
    pub fn newest_named(&self) -> Option<Version> {
        match &self.if_match {
            Some(Condition::Versions(versions)) => versions.iter().max().copied(),
            Some(Condition::Any) | None => None,
        }
    }

    /// Whether the request is to happen only where there is no row.
    pub fn demands_absence(&self) -> bool {
        self.if_none_match == Some(Condition::Any)
    }
}

/// Whether an `If-None-Match` over these lines names the tag with this text between its quotes, in
/// the weak comparison (RFC 9110 §13.1.2). For answers that are no rows.
///
/// # Errors
/// As [`Precondition::from_headers`].
pub fn if_none_match_names<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    opaque: &str,
) -> Result<bool, Error> {
    let list = read_list("If-None-Match", lines)?;
    Ok(list.is_some_and(|list| list.any || list.tags.iter().any(|tag| tag.opaque == opaque)))
}

fn versions(condition: Option<&Condition>) -> Option<Vec<i32>> {
    match condition {
        Some(Condition::Versions(versions)) => Some(versions.iter().map(|v| v.0).collect()),
        Some(Condition::Any) | None => None,
    }
}

fn parse<'a>(
    header: &'static str,
    lines: impl Iterator<Item = &'a [u8]>,
    read: impl Fn(Tag<'a>) -> Option<Version>,
) -> Result<Option<Condition>, Error> {
    Ok(read_list(header, lines)?.map(|list| {
        if list.any {
            return Condition::Any;
        }
        Condition::Versions(list.tags.into_iter().filter_map(read).collect())
    }))
}

/// The tags of a header; `None` where it is absent.
fn read_list<'a>(
    header: &'static str,
    lines: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<TagList<'a>>, Error> {
    let malformed = |why: &str| {
        Error::new(Code::InvalidIfMatch, format!("{header} cannot be read: {why}"))
            .detail("header", header)
    };
    let mut list = TagList::default();
    let mut present = false;
    for line in lines {
        present = true;
        let text =
            std::str::from_utf8(line).map_err(|_| malformed("it holds bytes that are no text"))?;
        list.read_line(text).map_err(malformed)?;
    }
    if !present {
        return Ok(None);
    }
    match &list {
        TagList { any: true, tags } if !tags.is_empty() => Err(malformed("\"*\" stands in a list")),
        TagList { any: false, tags } if tags.is_empty() => Err(malformed("it is empty")),
        TagList { tags, .. } if tags.len() > MOST_TAGS => Err(malformed("it names too many tags")),
        _ => Ok(Some(list)),
    }
}

/// The elements of the header's list, all lines taken together (RFC 9110 §5.3).
#[derive(Default)]
struct TagList<'a> {
    any: bool,
    tags: Vec<Tag<'a>>,
}

impl<'a> TagList<'a> {
    fn read_line(&mut self, line: &'a str) -> Result<(), &'static str> {
        let mut rest = line;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                return Ok(());
            }
            rest = self.read_element(rest)?.trim_start_matches([' ', '\t']);
            if !rest.is_empty() && !rest.starts_with(',') {
                return Err("a comma is missing between tags");
            }
        }
    }

    fn read_element(&mut self, rest: &'a str) -> Result<&'a str, &'static str> {
        if let Some(after) = rest.strip_prefix('*') {
            if self.any {
                return Err("\"*\" stands in a list");
            }
            self.any = true;
            return Ok(after);
        }
        let (weak, quoted) = rest.strip_prefix("W/").map_or((false, rest), |after| (true, after));
        let (opaque, after) = match quoted.strip_prefix('"') {
            Some(inner) => inner.split_once('"').ok_or("a quote is not closed")?,
            None if !weak => bare_version(rest)?,
            None => return Err("a tag must stand in quotes"),
        };
        if opaque.chars().any(|c| c == ' ' || c.is_control()) {
            return Err("a tag holds a character that may not stand in one");
        }
        self.tags.push(Tag { weak, opaque });
        Ok(after)
    }
}

/// `If-Match: 7`, as scripts write it: digits without quotes.
fn bare_version(rest: &str) -> Result<(&str, &str), &'static str> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    if end == 0 { Err("a tag must stand in quotes") } else { Ok(rest.split_at(end)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&[u8]]) -> Result<Option<Condition>, String> {
        parse("If-Match", lines.iter().copied(), |tag| tag.read(false))
            .map_err(|e| e.message().to_owned())
    }

    fn of(versions: &[i32]) -> Condition {
        Condition::Versions(versions.iter().copied().map(Version).collect())
    }

    #[test]
    fn headers_are_read_as_the_contract_has_it() {
        let cases: &[(&[&[u8]], Option<Condition>)] = &[
            (&[], None),
            (&[b"\"7\""], Some(of(&[7]))),
            (&[b"\"6\", \"7\""], Some(of(&[6, 7]))),
            (&[b"\"6\"", b"\"7\",\"8\""], Some(of(&[6, 7, 8]))),
            (&[b",, \"6\" ,,\"7\" ,"], Some(of(&[6, 7]))),
            (&[b"*"], Some(Condition::Any)),
            (&[b" * "], Some(Condition::Any)),
            (&[b"W/\"7\""], Some(of(&[7]))),
            (&[b"\"7-gzip\""], Some(of(&[7]))),
            (&[b"7"], Some(of(&[7]))),
            (&[b"6, \"7\""], Some(of(&[6, 7]))),
            (&[b"\"abc\""], Some(of(&[]))),
            (&[b"\"007\""], Some(of(&[]))),
            (&[b"007"], Some(of(&[]))),
            (&[b"\"\""], Some(of(&[]))),
            (&[b"\"a,b\", \"7\""], Some(of(&[7]))),
            (&[b"\"99999999999999999999\""], Some(of(&[]))),
            (&["\"\u{fc}\"".as_bytes()], Some(of(&[]))),
        ];
        for (lines, expected) in cases {
            assert_eq!(read(lines).as_ref(), Ok(expected), "{lines:?}");
        }
    }

    #[test]
    fn a_malformed_header_is_never_taken_as_absent() {
        let cases: &[&[&[u8]]] = &[
            &[b""],
            &[b"  "],
            &[b","],
            &[b"\"7"],
            &[b"7\""],
            &[b"\"7\" \"8\""],
            &[b"*, \"7\""],
            &[b"\"7\", *"],
            &[b"*", b"*"],
            &[b"*", b"\"7\""],
            &[b"abc"],
            &[b"-7"],
            &[b"7.5"],
            &[b"W/7"],
            &[b"w/\"7\""],
            &[b"W/ \"7\""],
            &[b"\"a b\""],
            &[b"\"7\xff\""],
            &[b"'7'"],
        ];
        for lines in cases {
            assert!(read(lines).is_err(), "{lines:?}");
        }
        let many = "\"1\",".repeat(MOST_TAGS + 1);
        assert!(read(&[many.as_bytes()]).is_err());
    }

    #[test]
    fn if_match_is_judged_before_if_none_match() {
        let both = Precondition { if_match: Some(of(&[7])), if_none_match: Some(of(&[8])) };
        assert_eq!(both.standing(Version(8)), Standing::Stale);
        assert_eq!(both.standing(Version(7)), Standing::Holds);
        let none = Precondition { if_match: None, if_none_match: Some(of(&[8])) };
        assert_eq!(none.standing(Version(8)), Standing::Unwanted);
    }
}
