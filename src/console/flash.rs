//! What the last action did, told once on the page that follows it. Kept in a cookie for a moment, so
//! that the server remembers nothing.

use crate::console::words;
use crate::version::Version;

/// The cookie.
pub(super) const COOKIE: &str = "counterfoil_flash";

/// What an action did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flash {
    what: What,
    version: Version,
    /// The record's page, where one is to be linked to.
    address: String,
}

/// The things that an action can have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A row came to be.
    Created,
    /// A row was saved.
    Saved,
    /// Two people's changes were saved together.
    Merged,
    /// An older version was written again.
    Restored,
    /// The row was deleted.
    Deleted,
    /// The saved version stays as it is, by choice.
    Kept,
    /// The row had all the values already.
    Already,
    /// The form was sent as it came.
    Unchanged,
    /// The visitor's name was kept.
    Named,
    /// What becomes of a blocked operation.
    Decided,
}

const WORDS: [(What, &str, &str); 10] = [
    (What::Created, "created", "Created."),
    (What::Saved, "saved", "Saved"),
    (What::Merged, "merged", "Both changes are saved"),
    (What::Restored, "restored", "Restored"),
    (What::Deleted, "deleted", "Deleted."),
    (What::Kept, "kept", "Nothing was written: the saved version stays as it is."),
    (What::Already, "already", "Already saved: the row has all these values."),
    (What::Unchanged, "unchanged", "Nothing to save: no field was changed."),
    (What::Named, "named", "Your name is kept."),
    (What::Decided, "decided", "Your decision is kept with the evidence."),
];

impl Flash {
    /// What was done, in which version, to the record at this address.
    pub(super) fn new(what: What, version: Version, address: impl Into<String>) -> Self {
        Self { what, version, address: address.into() }
    }

    /// As the cookie's value.
    pub(super) fn write(&self) -> String {
        let word = WORDS.iter().find(|(what, ..)| *what == self.what);
        let word = word.map_or("", |(_, word, _)| word);
        format!("{word}~{}~{}", self.version, words::encode(&self.address))
    }

    /// Reads the cookie's value.
    pub(super) fn read(cookie: &str) -> Option<Self> {
        let mut parts = cookie.splitn(3, '~');
        let word = parts.next()?;
        let (what, ..) = *WORDS.iter().find(|(_, known, _)| *known == word)?;
        let version = Version(parts.next()?.parse().ok()?);
        let address = words::decode(parts.next()?);
        let ours = address.is_empty() || address.starts_with("/console/");
        ours.then_some(Self { what, version, address })
    }

    /// The sentence.
    pub(super) fn text(&self) -> String {
        let words = WORDS.iter().find(|(what, ..)| *what == self.what);
        let words = words.map_or("", |(.., words)| words);
        match self.what {
            What::Saved | What::Merged | What::Restored => {
                format!("{words} as version {}.", self.version)
            }
            _ => words.to_owned(),
        }
    }

    /// Where to go next, and in what words.
    pub(super) fn link(&self) -> Option<(String, &'static str)> {
        match self.what {
            _ if self.address.is_empty() => None,
            What::Deleted => Some((self.address.clone(), "See the deleted row")),
            What::Saved | What::Merged | What::Restored | What::Created => {
                Some((format!("{}/history", self.address), "See the history"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flash_survives_its_cookie_and_strangers_write_none() {
        let flash = Flash::new(What::Deleted, Version(9), "/console/a/x%20;y~z");
        assert_eq!(Flash::read(&flash.write()), Some(flash));
        assert_eq!(Flash::read("saved~9~https%3A%2F%2Fevil.example"), None);
        assert_eq!(Flash::read("nonsense"), None);
    }
}
