//! Cursors: places in the log that a client carries and cannot make. Signed, so that one that was
//! changed is refused instead of read from a place that never was.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::digest::Key;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::error::{Code, Error};
use crate::feed::{Expired, Filter, Mark, Position};

/// The form of the bytes; another one when they change.
const FORM: u8 = 1;
/// How many bytes of the signature are kept.
const SIGNED: usize = 16;
/// The bytes ahead of a snapshot's place and of the signature.
const HEAD: usize = 2 + 8 + 8 + 8 + 8 + 8;
/// The longest cursor that is looked at; a key's text may stand in it.
const MOST: usize = 16 * 1024;

/// What signs and names the cursors of a database.
#[derive(Clone)]
pub struct Keys {
    /// The log as a whole.
    pub epoch: i64,
    /// What signs.
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// What a cursor goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The changes.
    Pull = 1,
    /// A first copy.
    Snapshot = 2,
}

/// A cursor as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// What it goes on with.
    pub kind: Kind,
    /// The log that it is of.
    pub epoch: i64,
    /// Where in the log.
    pub position: Position,
    /// What its filter asked for.
    pub asked: Mark,
    /// Which logs that stood for.
    pub logs: Mark,
    /// How far a first copy came; empty for changes.
    pub place: Vec<u8>,
}

impl Cursor {
    /// A cursor of this filter.
    pub fn new(kind: Kind, epoch: i64, position: Position, filter: &Filter) -> Self {
        let (asked, logs) = (filter.asked(), filter.logs());
        Self { kind, epoch, position, asked, logs, place: Vec::new() }
    }

    /// Writes it down for a client.
    pub fn write(&self, keys: &Keys) -> String {
        let mut bytes = vec![FORM, self.kind as u8];
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend(self.position.xid.to_be_bytes());
        bytes.extend(self.position.seq.to_be_bytes());
        bytes.extend(self.asked);
        bytes.extend(self.logs);
        bytes.extend(&self.place);
        let signature = sign(keys, &bytes).finalize().into_bytes();
        bytes.extend(signature.iter().take(SIGNED));
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads what a client sent, which must go on with this and be of this filter.
    ///
    /// # Errors
    /// `INVALID_CURSOR` for `field`, or `CURSOR_EXPIRED`.
    pub fn read(
        text: &str,
        field: &str,
        kind: Kind,
        filter: &Filter,
        keys: &Keys,
    ) -> Result<Self, Error> {
        let invalid = |message: &'static str| Error::field(Code::InvalidCursor, field, message);
        let unknown = || invalid("This is not a cursor of this address");
        let cursor = parts(text).ok_or_else(unknown)?;
        // Of another log there is no telling whether its signature is right.
        if cursor.epoch != keys.epoch {
            return Err(Expired::Database.error(filter));
        }
        if !is_signed(text, keys) || cursor.kind != kind {
            return Err(unknown());
        }
        if cursor.asked != filter.asked() {
            return Err(invalid(
                "This cursor was made for other resources: send the same `resources` with it",
            ));
        }
        if cursor.logs != filter.logs() {
            return Err(Expired::Resources.error(filter));
        }
        Ok(cursor)
    }
}

fn sign(keys: &Keys, bytes: &[u8]) -> Hmac<Sha256> {
    // HMAC fills a short key up with zeros; ours is shorter than a block.
    let mut key = Key::<Hmac<Sha256>>::default();
    key.iter_mut().zip(&keys.secret).for_each(|(to, from)| *to = *from);
    let mut mac = Hmac::<Sha256>::new(&key);
    mac.update(bytes);
    mac
}

fn decode(text: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    if text.len() > MOST {
        return None;
    }
    let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let signature = bytes.split_off(bytes.len().checked_sub(SIGNED).filter(|&n| n >= HEAD)?);
    Some((bytes, signature))
}

fn is_signed(text: &str, keys: &Keys) -> bool {
    // In constant time, so that nobody finds a signature byte by byte.
    decode(text).is_some_and(|(bytes, signature)| {
        sign(keys, &bytes).verify_truncated_left(&signature).is_ok()
    })
}

fn parts(text: &str) -> Option<Cursor> {
    let (bytes, _) = decode(text)?;
    let (head, place) = bytes.split_first_chunk::<HEAD>()?;
    let number = |from: usize| -> Option<[u8; 8]> { head.get(from..from + 8)?.try_into().ok() };
    let kind = match head {
        [FORM, 1, ..] => Kind::Pull,
        [FORM, 2, ..] => Kind::Snapshot,
        _ => return None,
    };
    let position =
        Position { xid: u64::from_be_bytes(number(10)?), seq: i64::from_be_bytes(number(18)?) };
    Some(Cursor {
        kind,
        epoch: i64::from_be_bytes(number(2)?),
        position,
        asked: number(26)?,
        logs: number(34)?,
        place: place.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    fn keys() -> Keys {
        Keys { epoch: 7, secret: vec![1; 32] }
    }

    fn filter() -> Filter {
        Filter::read(&Catalog::default(), None).unwrap()
    }

    fn cursor() -> Cursor {
        Cursor::new(Kind::Pull, 7, Position { xid: 1 << 40, seq: 3 }, &filter())
    }

    fn read(text: &str, kind: Kind) -> Result<Cursor, Code> {
        Cursor::read(text, "cursor", kind, &filter(), &keys()).map_err(|error| error.code())
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let mut cursor = cursor();
        assert_eq!(read(&cursor.write(&keys()), Kind::Pull), Ok(cursor.clone()));
        cursor.kind = Kind::Snapshot;
        cursor.place = b"[1]".to_vec();
        assert_eq!(read(&cursor.write(&keys()), Kind::Snapshot), Ok(cursor.clone()));
        assert_eq!(read(&cursor.write(&keys()), Kind::Pull), Err(Code::InvalidCursor));
    }

    #[test]
    fn no_byte_of_a_cursor_can_be_changed() {
        let text = cursor().write(&keys());
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(&text).unwrap();
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[place] ^= 1 << bit;
                // A changed epoch is one that this database does not know.
                let epoch = (2..10).contains(&place);
                let refused = if epoch { Code::CursorExpired } else { Code::InvalidCursor };
                assert_eq!(read(&BASE64_URL_SAFE_NO_PAD.encode(bytes), Kind::Pull), Err(refused));
            }
        }
        for end in 0..text.len() {
            assert_eq!(read(&text[..end], Kind::Pull), Err(Code::InvalidCursor));
        }
        assert_eq!(read(&format!("{text}AAAA"), Kind::Pull), Err(Code::InvalidCursor));
    }

    #[test]
    fn a_cursor_of_another_secret_is_forged_and_one_of_another_epoch_expired() {
        let forged = cursor().write(&Keys { secret: vec![2; 32], ..keys() });
        assert_eq!(read(&forged, Kind::Pull), Err(Code::InvalidCursor));
        let foreign =
            Cursor { epoch: 8, ..cursor() }.write(&Keys { epoch: 8, secret: vec![2; 32] });
        assert_eq!(read(&foreign, Kind::Pull), Err(Code::CursorExpired));
    }
}
