//! Between the values of a row and the text that stands in a form. What a form cannot show without
//! loss is shown as plain text; what was not changed is never sent back.

use serde_json::Value;

use crate::catalog::Column;
use crate::catalog::kind::Kind;
use crate::json;

/// What stands in an input: a text, or no value at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// The text, empty where there is no value.
    pub(super) text: String,
    /// Whether there is no value (NULL).
    pub(super) null: bool,
}

impl Written {
    /// No value.
    pub(super) fn nothing() -> Self {
        Self { text: String::new(), null: true }
    }

    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), null: false }
    }

    /// As a hidden input keeps it: empty for no value, else the text behind a mark.
    pub(super) fn kept(&self) -> String {
        if self.null { String::new() } else { format!("={}", self.text) }
    }

    /// Reads what [`Self::kept`] wrote.
    pub(super) fn from_kept(kept: &str) -> Self {
        kept.strip_prefix('=').map_or_else(Self::nothing, |text| Self::text(lines(text)))
    }
}

/// Browsers send every line break as CR LF.
pub(super) fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Whether an empty text is a value of its own, so that a form must ask which of the two is meant.
pub(super) fn tells_empty_from_none(column: &Column) -> bool {
    !column.not_null && matches!(column.kind, Kind::Text(_) | Kind::Array(_) | Kind::Other)
}

/// The text of a value in a form.
pub(super) fn write(column: &Column, value: Option<&Value>) -> Written {
    let value = match value {
        None | Some(Value::Null) => return Written::nothing(),
        Some(value) => value,
    };
    match (&column.kind, value) {
        (Kind::Timestamp | Kind::TimestampTz, Value::String(text)) => {
            Written::text(local_moment(text, &column.kind).unwrap_or_else(|| text.clone()))
        }
        (Kind::Array(element), Value::Array(items)) => {
            Written::text(one_per_line(element, items).unwrap_or_else(|| value.to_string()))
        }
        (Kind::Json { .. } | Kind::Composite | Kind::Array(_), value) => {
            Written::text(lines(&pretty(&value.to_string())))
        }
        (_, Value::String(text)) => Written::text(lines(text)),
        (_, value) => Written::text(value.to_string()),
    }
}

/// `2026-09-28T08:12`, as browsers write a moment; `None` where that would lose something.
fn local_moment(text: &str, kind: &Kind) -> Option<String> {
    let plain = match kind {
        Kind::TimestampTz => text.strip_suffix("+00:00").or_else(|| text.strip_suffix('Z'))?,
        _ => text,
    };
    if !is_local_moment(plain) {
        return None;
    }
    Some(plain.strip_suffix(":00").filter(|p| p.len() == 16).unwrap_or(plain).to_owned())
}

/// Whether a browser's input for date and time takes this text as it is.
pub(super) fn is_local_moment(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    matches!(shape.as_str(), "0000-00-00T00:00" | "0000-00-00T00:00:00" | "0000-00-00T00:00:00.000")
}

/// Whether a browser's input for a date takes this text as it is.
pub(super) fn is_date(text: &str) -> bool {
    text.len() == 10 && is_local_moment(&format!("{text}T00:00"))
}

/// One element per line; `None` where that could not be read back.
fn one_per_line(element: &Kind, items: &[Value]) -> Option<String> {
    let simple = |item: &Value| match (element, item) {
        (Kind::Array(_) | Kind::Json { .. } | Kind::Composite, _) => None,
        (_, Value::String(text)) => {
            let plain = !text.is_empty() && text.trim() == text && !text.contains(['\n', '\r']);
            (plain && !text.starts_with('[')).then(|| text.clone())
        }
        (_, Value::Number(_) | Value::Bool(_)) => Some(item.to_string()),
        _ => None,
    };
    let lines: Option<Vec<String>> = items.iter().map(simple).collect();
    Some(lines?.join("\n"))
}

/// The JSON text of what was typed.
///
/// # Errors
/// What the field wants, as the end of the sentence "… must be".
pub(super) fn read(column: &Column, written: &Written) -> Result<String, String> {
    if written.null {
        return Ok("null".to_owned());
    }
    let text = written.text.as_str();
    match &column.kind {
        Kind::Json { .. } | Kind::Composite => read_json(text),
        Kind::Array(element) => read_array(element, text),
        kind => Ok(scalar(kind, text)),
    }
}

fn scalar(kind: &Kind, text: &str) -> String {
    let trimmed = text.trim();
    let number = matches!(kind, Kind::Integer(_) | Kind::Float | Kind::Numeric(_));
    if number && serde_json::from_str::<serde_json::Number>(trimmed).is_ok()
        || *kind == Kind::Bool && matches!(trimmed, "true" | "false")
    {
        return trimmed.to_owned();
    }
    let text = match kind {
        Kind::TimestampTz if is_local_moment(trimmed) => format!("{trimmed}Z"),
        Kind::Text(_) | Kind::Other | Kind::Enum(_) => text.to_owned(),
        _ => trimmed.to_owned(),
    };
    Value::String(text).to_string()
}

fn read_json(text: &str) -> Result<String, String> {
    match json::check(text.as_bytes()) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let at = |name: &str| error.details().get(name).cloned().unwrap_or_default();
            let place = match (at("line"), at("column")) {
                (Value::Null, _) | (_, Value::Null) => String::new(),
                (line, column) => format!(" (see line {line}, character {column})"),
            };
            Err(format!("valid JSON{place}"))
        }
    }
}

fn read_array(element: &Kind, text: &str) -> Result<String, String> {
    if text.trim_start().starts_with('[') {
        return read_json(text);
    }
    let items = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let items: Vec<String> = items.map(|line| scalar(element, line)).collect();
    Ok(format!("[{}]", items.join(",")))
}

/// JSON text with one member per line. Names, order and digits stay as they are.
pub(super) fn pretty(json: &str) -> String {
    let (mut out, mut depth, mut quoted, mut escaped) = (String::new(), 0_usize, false, false);
    let mut chars = json.chars().filter(|c| *c != '\r').peekable();
    let break_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    while let Some(c) = chars.next() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                quoted = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    break_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// A value as people read it: moments shortened, arrays of words with commas.
pub(super) fn show(kind: &Kind, value: &Value) -> String {
    match (kind, value) {
        (Kind::Timestamp | Kind::TimestampTz, Value::String(text)) => moment(text),
        (Kind::Bool, Value::Bool(yes)) => if *yes { "Yes" } else { "No" }.to_owned(),
        (_, Value::String(text)) => text.clone(),
        (Kind::Array(element), Value::Array(items)) => match one_per_line(element, items) {
            Some(lines) => lines.replace('\n', ", "),
            None => value.to_string(),
        },
        (Kind::Json { .. } | Kind::Composite, value) => pretty(&value.to_string()),
        (_, value) => value.to_string(),
    }
}

/// `2026-11-30T09:12:44.120031Z` as `2026-11-30 09:12 UTC`.
pub(super) fn moment(text: &str) -> String {
    let (plain, zone) = match text.strip_suffix("+00:00").or_else(|| text.strip_suffix('Z')) {
        Some(plain) => (plain, " UTC"),
        None => (text, ""),
    };
    match plain.get(..16) {
        Some(minute) if is_local_moment(minute) && plain.is_ascii() => {
            let zone = if zone.is_empty() && plain.len() > 19 {
                return text.to_owned();
            } else {
                zone
            };
            format!("{}{zone}", minute.replace('T', " "))
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: Kind, not_null: bool) -> Column {
        Column::sample("c", kind, not_null)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let json = Kind::Json { binary: true };
        let words = || Kind::Array(Box::new(Kind::Text(None)));
        let cases = [
            (Kind::Text(None), r#"" two\nlines ""#),
            (Kind::Text(None), r#""""#),
            (Kind::Numeric(None), "123456789012345678901234567890.10"),
            (Kind::Float, r#""NaN""#),
            (Kind::Bool, "true"),
            (Kind::Date, r#""2026-11-30""#),
            (Kind::Date, r#""infinity""#),
            (Kind::Timestamp, r#""2026-11-30T09:12:44.120031""#),
            (Kind::Timestamp, r#""2026-11-30T09:12:44""#),
            (words(), r#"["a","b c"]"#),
            (words(), r#"["a\nb",null,"","[x"]"#),
            (words(), "[]"),
            (Kind::Array(Box::new(Kind::Integer(4))), "[1,2]"),
            (json.clone(), r#""text""#),
            (json, r#"[1.10,{"a":{},"b":[]}]"#),
        ];
        for (kind, text) in cases {
            let column = column(kind, true);
            let value: Value = serde_json::from_str(text).unwrap();
            let read = read(&column, &write(&column, Some(&value))).unwrap();
            let again: Value = serde_json::from_str(&read).unwrap();
            assert_eq!(again, value, "{read}");
        }
    }

    #[test]
    fn moments_are_as_browsers_write_them_where_nothing_is_lost() {
        let column = column(Kind::TimestampTz, false);
        let text = |moment: &str| write(&column, Some(&Value::from(moment))).text;
        assert_eq!(text("2026-09-28T08:12:00+00:00"), "2026-09-28T08:12");
        assert_eq!(text("2026-09-28T08:12:44+00:00"), "2026-09-28T08:12:44");
        let exact = "2026-09-28T08:12:44.120031+00:00";
        assert_eq!(text(exact), exact);
        let typed = Written::text("2026-09-28T08:12");
        assert_eq!(read(&column, &typed).unwrap(), r#""2026-09-28T08:12Z""#);
        assert_eq!(moment(exact), "2026-09-28 08:12 UTC");
        assert_eq!(moment("infinity"), "infinity");
    }

    #[test]
    fn pretty_json_is_the_same_json() {
        let json = r#"{"b": 1.10,"a":[ ],"t":"x,{\"y\":\\\"","o":{"k":[1,2]}}"#;
        let pretty = pretty(json);
        assert!(pretty.contains("\n  \"b\": 1.10,\n  \"a\": [],"), "{pretty}");
        let same = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(same(&pretty), same(json));
    }
}
