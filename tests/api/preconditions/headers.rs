//! What clients and proxies send, and what it means.

use super::rules::Demand::{self, Absent, Any, Malformed, Versions};

/// A header as it is sent, line by line, and what it asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) name: &'static str,
    pub(super) lines: &'static [&'static [u8]],
    demand: Demand,
    strict: Demand,
}

impl Header {
    pub(super) fn demand(self, strict: bool) -> Demand {
        if strict { self.strict } else { self.demand }
    }
}

const fn header(name: &'static str, lines: &'static [&'static [u8]], demand: Demand) -> Header {
    Header { name, lines, demand, strict: demand }
}

/// A header that means something else under `strict_etags`.
const fn lenient(
    name: &'static str,
    lines: &'static [&'static [u8]],
    demand: Demand,
    strict: Demand,
) -> Header {
    Header { name, lines, demand, strict }
}

/// No tag of ours: matches nothing, and is never taken as absent.
const NOTHING: Demand = Versions(&[]);

pub(super) const NO_HEADER: Header = header("absent", &[], Absent);

#[rustfmt::skip]
pub(super) const IF_MATCH: &[Header] = &[
    NO_HEADER,
    header("right", &[b"\"7\""], Versions(&[7])),
    header("stale", &[b"\"6\""], Versions(&[6])),
    header("future", &[b"\"9\""], Versions(&[9])),
    header("list with the right one", &[b"\"5\", \"7\",\"6\""], Versions(&[5, 6, 7])),
    header("list without it", &[b"\"5\", \"6\", \"4\""], Versions(&[4, 5, 6])),
    header("list with empty elements", &[b", \"7\" ,,"], Versions(&[7])),
    header("list of a stranger's tag and the right one", &[b"\"a,b\", \"7\""], Versions(&[7])),
    header("lines with the right one", &[b"\"5\"", b"\"6\", \"7\""], Versions(&[5, 6, 7])),
    header("lines without it", &[b"\"5\"", b"\"6\""], Versions(&[5, 6])),
    header("an empty line beside the right one", &[b"", b"\"7\""], Versions(&[7])),
    header("*", &[b"*"], Any),
    header("bare", &[b"7"], Versions(&[7])),
    header("bare and stale", &[b"6"], Versions(&[6])),
    lenient("weak", &[b"W/\"7\""], Versions(&[7]), NOTHING),
    lenient("weak and stale", &[b"W/\"6\""], Versions(&[6]), NOTHING),
    lenient("mangled by gzip", &[b"\"7-gzip\""], Versions(&[7]), NOTHING),
    lenient("mangled by jetty", &[b"\"7--gzip\""], Versions(&[7]), NOTHING),
    lenient("mangled by brotli", &[b"\"7;br\""], Versions(&[7]), NOTHING),
    lenient("mangled and stale", &[b"\"6-gzip\""], Versions(&[6]), NOTHING),
    header("abc", &[b"\"abc\""], NOTHING),
    header("leading zeros", &[b"\"007\""], NOTHING),
    header("bare leading zeros", &[b"007"], NOTHING),
    header("empty tag", &[b"\"\""], NOTHING),
    header("beyond 64 bits", &[b"\"99999999999999999999\""], NOTHING),
    header("beyond 32 bits", &[b"\"4294967303\""], NOTHING),
    header("signed", &[b"\"+7\""], NOTHING),
    header("text beyond ASCII", &["\"7\u{fc}\"".as_bytes()], NOTHING),
    header("unclosed quote", &[b"\"7"], Malformed),
    header("unopened quote", &[b"7\""], Malformed),
    header("* before a tag", &[b"*, \"7\""], Malformed),
    header("* after a tag", &[b"\"7\", *"], Malformed),
    header("* on one line, a tag on another", &[b"*", b"\"7\""], Malformed),
    header("bytes that are no text", &[b"\"7\xff\""], Malformed),
    header("empty value", &[b""], Malformed),
    header("only commas", &[b",,"], Malformed),
    header("no comma between tags", &[b"\"7\" \"6\""], Malformed),
    header("a word without quotes", &[b"abc"], Malformed),
    header("weak without quotes", &[b"W/7"], Malformed),
    header("a good line, then a broken one", &[b"\"7\"", b"\"6"], Malformed),
];

#[rustfmt::skip]
pub(super) const IF_NONE_MATCH: &[Header] = &[
    header("*", &[b"*"], Any),
    header("current", &[b"\"7\""], Versions(&[7])),
    header("other", &[b"\"6\""], Versions(&[6])),
    header("list with the current one", &[b"\"6\", \"7\""], Versions(&[6, 7])),
    header("list without it", &[b"\"5\", \"6\""], Versions(&[5, 6])),
    header("lines with the current one", &[b"\"6\"", b"\"7\""], Versions(&[6, 7])),
    header("weak", &[b"W/\"7\""], Versions(&[7])),
    lenient("mangled", &[b"\"7-gzip\""], Versions(&[7]), NOTHING),
    header("bare", &[b"7"], Versions(&[7])),
    header("abc", &[b"\"abc\""], NOTHING),
    header("unclosed quote", &[b"\"7"], Malformed),
    header("* in a list", &[b"\"7\", *"], Malformed),
    header("bytes that are no text", &[b"\"7\xff\""], Malformed),
    header("empty value", &[b""], Malformed),
];

/// One pair for each meaning, where the spelling is not what is asked about.
pub(super) fn meanings(strict: bool) -> Vec<(Header, Header)> {
    let mut seen = Vec::new();
    pairs()
        .into_iter()
        .filter(|(a, b)| {
            let meaning = (a.demand(strict), b.demand(strict));
            let new = !seen.contains(&meaning);
            seen.push(meaning);
            new
        })
        .collect()
}

/// Every pair of headers that is tried: each alone, and a few of the one with a few of the other.
pub(super) fn pairs() -> Vec<(Header, Header)> {
    let pick = |table: &[Header], names: &[&str]| -> Vec<Header> {
        let picked: Vec<_> = table.iter().filter(|h| names.contains(&h.name)).copied().collect();
        assert_eq!(picked.len(), names.len(), "{names:?}");
        picked
    };
    let firsts = pick(IF_MATCH, &["right", "stale", "*", "abc", "unclosed quote"]);
    let seconds = pick(IF_NONE_MATCH, &["*", "current", "other", "empty value"]);
    let alone = IF_MATCH.iter().map(|h| (*h, NO_HEADER));
    let other_alone = IF_NONE_MATCH.iter().map(|h| (NO_HEADER, *h));
    let both = firsts.iter().flat_map(|a| seconds.iter().map(|b| (*a, *b)));
    alone.chain(other_alone).chain(both).collect()
}
