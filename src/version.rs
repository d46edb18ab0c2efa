//! The version of a row and its HTTP entity tag. One function writes the tag and one reads it, so
//! that the format of a response and the format accepted in a request cannot drift apart.

use std::fmt;

/// The version of a row: 1 when the row is created, raised by one by every accepted write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub i32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An entity tag as a client sent it (RFC 9110 §8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// Whether it carried the prefix `W/`.
    pub weak: bool,
    /// What stood between the quotes.
    pub opaque: &'a str,
}

/// What compressing proxies append to a tag that they pass on.
const PROXY_SUFFIXES: [&str; 5] = ["gzip", "br", "deflate", "zstd", "df"];

impl Tag<'_> {
    /// Writes the strong tag of a version: `"7"`.
    pub fn write(version: Version) -> String {
        format!("\"{version}\"")
    }

    /// Reads the version that the tag names, `None` where it is not one of ours.
    ///
    /// Weak tags and the suffixes of compressing proxies (`7-gzip`, `7--gzip`, `7;br`) count as the
    /// tag itself, because a row version does not depend on the encoding of its transfer; with
    /// `strict` they name nothing, as RFC 9110 §8.8.3.2 has it for the strong comparison.
    pub fn read(&self, strict: bool) -> Option<Version> {
        if strict {
            return if self.weak { None } else { canonical(self.opaque) };
        }
        let digits = self.opaque.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.opaque.len());
        let (number, suffix) = self.opaque.split_at(digits);
        let known = suffix.is_empty()
            || ["--", "-", ";"]
                .iter()
                .find_map(|mark| suffix.strip_prefix(mark))
                .is_some_and(|encoding| PROXY_SUFFIXES.contains(&encoding));
        if known { canonical(number) } else { None }
    }
}

/// A decimal without sign, leading zeros or overflow: the only spelling that `Tag::write` makes.
fn canonical(digits: &str) -> Option<Version> {
    let plain = !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if plain { digits.parse().ok().map(Version) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(opaque: &str) -> Option<i32> {
        Tag { weak: false, opaque }.read(false).map(|v| v.0)
    }

    #[test]
    fn what_proxies_make_of_a_tag_is_the_tag() {
        for opaque in ["7", "7-gzip", "7--gzip", "7;br", "7-br", "7;gzip", "7-zstd"] {
            assert_eq!(read(opaque), Some(7), "{opaque}");
        }
        assert_eq!(Tag { weak: true, opaque: "7" }.read(false), Some(Version(7)));
    }

    #[test]
    fn what_is_not_our_tag_names_nothing() {
        for opaque in [
            "",
            "abc",
            "007",
            "+7",
            "-7",
            "7.0",
            "99999999999999999999",
            "2147483648",
            "7-",
            "7-xyz",
            "٧",
        ] {
            assert_eq!(read(opaque), None, "{opaque}");
        }
    }

    #[test]
    fn strict_tags_are_compared_as_rfc_9110_has_it() {
        assert_eq!(Tag { weak: true, opaque: "7" }.read(true), None);
        assert_eq!(Tag { weak: false, opaque: "7-gzip" }.read(true), None);
        assert_eq!(Tag { weak: false, opaque: "7" }.read(true), Some(Version(7)));
    }

    proptest! {
        #[test]
        fn every_tag_written_is_read_back(number in 0..=i32::MAX) {
            let tag = Tag::write(Version(number));
            prop_assert_eq!(read(tag.trim_matches('"')), Some(number));
        }
    }
}
