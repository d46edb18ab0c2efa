//! Members of a request's object that stand for something simple: a text, a flag, an id.

use serde_json::value::RawValue;

use crate::error::{Code, Error};
use crate::json::number::whole;

/// A text.
///
/// # Errors
/// `INVALID_VALUE` with the member's name.
pub fn text(name: &str, value: &RawValue) -> Result<String, Error> {
    serde_json::from_str(value.get())
        .map_err(|_| Error::field(Code::InvalidValue, name, format!("{name} must be a text")))
}

/// True or false.
///
/// # Errors
/// `INVALID_VALUE` with the member's name.
pub fn flag(name: &str, value: &RawValue) -> Result<bool, Error> {
    serde_json::from_str(value.get()).map_err(|_| {
        Error::field(Code::InvalidValue, name, format!("{name} must be true or false"))
    })
}

/// An id as clients write it.
///
/// # Errors
/// `INVALID_ID` with the member's name.
pub fn id(name: &str, value: &RawValue) -> Result<String, Error> {
    text_or_number(value).ok_or_else(|| {
        Error::field(Code::InvalidId, name, format!("{name} must be a text or a number"))
    })
}

/// A text, or a number with all its digits, a whole one without point and exponent; `None` for anything else.
pub fn text_or_number(value: &RawValue) -> Option<String> {
    let json = value.get();
    match serde_json::from_str(json) {
        Ok(text) => Some(text),
        Err(_) if json.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
            Some(whole(json).unwrap_or_else(|_| json.to_owned()))
        }
        Err(_) => None,
    }
}

/// A whole number; `None` where it is none, or out of bounds.
pub fn integer<N: std::str::FromStr>(value: &RawValue) -> Option<N> {
    whole(value.get()).ok()?.parse().ok()
}

/// A list of at most so many values.
///
/// # Errors
/// `INVALID_VALUE` with the member's name.
pub fn list(name: &str, value: &RawValue, most: usize) -> Result<Vec<Box<RawValue>>, Error> {
    let invalid = |message: String| Error::field(Code::InvalidValue, name, message);
    let list: Vec<Box<RawValue>> =
        serde_json::from_str(value.get()).map_err(|_| invalid(format!("{name} must be a list")))?;
    if list.len() > most {
        let message = format!("One request holds at most {most} {name}");
        return Err(invalid(message).detail(&format!("max_{name}"), most));
    }
    Ok(list)
}

/// The answer to a member that is not there and must be.
pub fn missing(name: &str) -> Error {
    Error::field(Code::MissingField, name, format!("{name} is required"))
}
