//! As much of an HTTP/1.1 response as the generator needs.

use std::ops::Range;

/// One whole response at the front of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The number in the `ETag`, where there is one.
    pub(crate) version: Option<u32>,
    /// Where the body stands in the buffer.
    pub(crate) body: Range<usize>,
}

/// What the buffer holds: a response, or too little yet.
pub(crate) fn parse(buffer: &[u8]) -> Result<Option<Response>, &'static str> {
    let mut version = None;
    let mut content_length = None;
    let Some(mut line_end) = find_line_end(buffer, 0) else {
        return Ok(None);
    };
    let status = buffer
        .get(9..12)
        .filter(|_| buffer.starts_with(b"HTTP/1.1 "))
        .and_then(number)
        .and_then(|status| u16::try_from(status).ok())
        .ok_or("not an HTTP/1.1 status line")?;
    loop {
        let start = line_end + 2;
        let Some(end) = find_line_end(buffer, start) else {
            return Ok(None);
        };
        line_end = end;
        let line = &buffer[start..end];
        if line.is_empty() {
            break;
        }
        if let Some(value) = header(line, b"content-length:") {
            content_length = number(value);
        } else if let Some(value) = header(line, b"etag:") {
            let tag = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
            version = tag.and_then(number);
        }
    }
    let from = line_end + 2;
    let end = from + content_length.ok_or("a response without Content-Length")? as usize;
    Ok((end <= buffer.len()).then_some(Response { status, version, body: from..end }))
}

fn find_line_end(buffer: &[u8], from: usize) -> Option<usize> {
    let newline = buffer.get(from..)?.iter().position(|&byte| byte == b'\n')? + from;
    (newline > from && buffer[newline - 1] == b'\r').then(|| newline - 1)
}

/// The value, if the line is this header (named in lower case, with its colon).
fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (head, value) = line.split_at_checked(name.len())?;
    head.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn number(digits: &[u8]) -> Option<u32> {
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Run at every start, as a bench target without a harness has no unit tests.
pub(crate) fn self_check() {
    let whole = b"HTTP/1.1 409 Conflict\r\nETag: \"12\"\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 2";
    let end = whole.len() - 10;
    let response = Response { status: 409, version: Some(12), body: end - 3..end };
    assert_eq!(parse(whole), Ok(Some(response)), "a whole response");
    assert!((0..end).all(|cut| parse(&whole[..cut]) == Ok(None)), "a response cut short");
    assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "no length");
    assert!(parse(b"SSH-2.0-x\r\n").is_err(), "not HTTP");
}
