//! One field of a form, made from its column in the catalogue.

use askama::Template;

use crate::catalog::kind::Kind;
use crate::catalog::{Column, Resource};
use crate::console::value::{self, Written};
use crate::console::words;

/// A text longer than this gets more than one line.
const LINE: usize = 80;
/// Names that promise a text of several lines.
const LONG: [&str; 10] = [
    "memo",
    "note",
    "notes",
    "description",
    "comment",
    "comments",
    "body",
    "message",
    "summary",
    "text",
];

/// One field of a form.
#[derive(Clone, Debug, Template)]
#[template(path = "field.html")]
pub(super) struct Field {
    /// The `id` of its input.
    pub(super) id: String,
    /// The column's name, escaped so that it can stand in the name of an input.
    pub(super) key: String,
    /// What people call it.
    pub(super) label: String,
    /// The column's comment.
    pub(super) hint: Option<String>,
    /// The type as SQL has it, and what goes without saying.
    pub(super) kind: String,
    /// The input.
    pub(super) control: Control,
    /// Where empty and no value are two things: whether it is "no value".
    pub(super) none: Option<bool>,
    /// Whether something must be given.
    pub(super) required: bool,
    /// What the form began with, as a hidden input keeps it.
    pub(super) original: Option<String>,
    /// What is wrong with it.
    pub(super) error: Option<String>,
    /// The record that it refers to.
    pub(super) link: Option<Link>,
}

/// A way to another page.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The address.
    pub(super) address: String,
    /// What stands there.
    pub(super) text: String,
}

/// The input of a field.
#[derive(Clone, Debug)]
pub(super) enum Control {
    /// One line.
    Line(Line),
    /// Several lines.
    Area {
        /// The text.
        text: String,
        /// How many lines are shown.
        rows: usize,
        /// Whether it is code rather than words.
        code: bool,
    },
    /// Yes or no.
    Check(bool),
    /// One of a list.
    Select(Vec<Choice>),
}

/// An input of one line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The text.
    pub(super) text: String,
    /// `text`, `date` or `datetime-local`.
    pub(super) kind: &'static str,
    /// Which keys a phone shows.
    pub(super) mode: &'static str,
    /// What `datetime-local` counts in.
    pub(super) step: &'static str,
    /// The most characters.
    pub(super) most: Option<usize>,
    /// Whether it is code rather than words.
    pub(super) code: bool,
    /// How wide it need be: `s`, `m`, `l`.
    pub(super) width: &'static str,
}

/// One element of a list to choose from.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// What is sent.
    pub(super) value: String,
    /// What is shown.
    pub(super) text: String,
    /// Whether it is chosen.
    pub(super) chosen: bool,
}

impl Field {
    /// The field of the column at `place`, with what stands in its input.
    pub(super) fn new(resource: &Resource, place: usize, written: &Written, creates: bool) -> Self {
        let column = &resource.columns[place];
        let tells = value::tells_empty_from_none(column);
        Self {
            id: format!("f{place}"),
            key: words::encode(&column.name),
            label: words::label(&column.name),
            hint: column.comment.clone(),
            kind: describe(column, creates),
            control: control(column, written, creates),
            none: tells.then_some(written.null),
            required: required(column, creates),
            original: None,
            error: None,
            link: None,
        }
    }

    /// With what the form began with.
    pub(super) fn beginning_with(mut self, original: &Written) -> Self {
        self.original = Some(original.kept());
        self
    }

    /// The ids of what explains the input.
    pub(super) fn described_by(&self) -> String {
        let mut ids = vec![format!("{}-kind", self.id)];
        if self.hint.is_some() {
            ids.push(format!("{}-hint", self.id));
        }
        if self.error.is_some() {
            ids.insert(0, format!("{}-error", self.id));
        }
        ids.join(" ")
    }
}

fn required(column: &Column, creates: bool) -> bool {
    let empty_is_a_value = matches!(column.kind, Kind::Text(_) | Kind::Array(_) | Kind::Bool);
    if creates {
        column.required() && !matches!(column.kind, Kind::Array(_) | Kind::Bool)
    } else {
        column.not_null && !empty_is_a_value && !matches!(column.kind, Kind::Enum(_))
    }
}

fn describe(column: &Column, creates: bool) -> String {
    let mut text = match &column.kind {
        // The schema of a type says nothing to people.
        Kind::Enum(_) => column.sql_type.rsplit('.').next().unwrap_or_default().to_owned(),
        _ => column.sql_type.clone(),
    };
    match column.kind {
        Kind::TimestampTz => text.push_str(", in UTC"),
        Kind::Array(_) => text.push_str(", one per line or as JSON"),
        _ => {}
    }
    if creates && let Some(default) = &column.default {
        text.push_str(", default ");
        text.push_str(plain(default));
    }
    text
}

/// A default as people say it: `'draft'::invoice_status` is `draft`.
fn plain(default: &str) -> &str {
    let value = default.split("::").next().unwrap_or(default);
    let quoted = value.strip_prefix('\'').and_then(|v| v.strip_suffix('\''));
    match quoted {
        Some("") | None => value,
        Some(text) => text,
    }
}

fn control(column: &Column, written: &Written, creates: bool) -> Control {
    let text = written.text.clone();
    match &column.kind {
        Kind::Bool if column.not_null && !(creates && column.default.is_some()) => {
            Control::Check(text == "true")
        }
        Kind::Bool => {
            let labels = [("true", "Yes"), ("false", "No")];
            Control::Select(choices(column, written, creates, &labels))
        }
        Kind::Enum(labels) => {
            let labels: Vec<_> = labels.iter().map(|l| (l.as_str(), l.as_str())).collect();
            Control::Select(choices(column, written, creates, &labels))
        }
        Kind::Json { .. } | Kind::Composite => area(text, true, 3),
        Kind::Array(_) => {
            let code = text.trim_start().starts_with('[');
            area(text, code, 2)
        }
        Kind::Text(most) => {
            let name = column.name.as_str();
            let long = most.is_none_or(|most| most > 255)
                && LONG.iter().any(|word| name.split('_').any(|part| part == *word));
            if long || text.contains(['\n', '\r']) || text.chars().count() > LINE {
                area(text, false, 3)
            } else {
                Control::Line(line(column, text))
            }
        }
        _ if text.contains(['\n', '\r']) => area(text, true, 3),
        _ => Control::Line(line(column, text)),
    }
}

fn area(text: String, code: bool, least: usize) -> Control {
    let wrapped = |line: &str| line.chars().count() / LINE + 1;
    let rows = text.split('\n').map(wrapped).sum::<usize>().clamp(least, 18);
    Control::Area { text, rows, code }
}

fn line(column: &Column, text: String) -> Line {
    let (mut kind, mut mode, mut step) = ("text", "text", "");
    let mut code = false;
    let mut width = "m";
    match &column.kind {
        Kind::Integer(_) => (mode, width) = ("numeric", "s"),
        Kind::Numeric(_) | Kind::Float => (mode, width) = ("decimal", "s"),
        Kind::Date => {
            width = "s";
            if text.is_empty() || value::is_date(&text) {
                kind = "date";
            }
        }
        Kind::Timestamp | Kind::TimestampTz if text.is_empty() || value::is_local_moment(&text) => {
            kind = "datetime-local";
            step = match text.len() {
                19 => "1",
                23 => "0.001",
                _ => "",
            };
        }
        Kind::Time => width = "s",
        Kind::Text(most) => width = if most.is_some_and(|most| most < 20) { "s" } else { "l" },
        Kind::Uuid | Kind::Bytea | Kind::Other => (code, width) = (true, "l"),
        _ => {}
    }
    let most = match column.kind {
        // What is there already may be longer by trailing blanks.
        Kind::Text(most) => most.map(|most| most.max(text.encode_utf16().count())),
        _ => None,
    };
    Line { text, kind, mode, step, most, code, width }
}

/// The list, with a place for "nothing chosen" where that can be meant, and for a value that is no
/// longer on it.
fn choices(
    column: &Column,
    written: &Written,
    creates: bool,
    labels: &[(&str, &str)],
) -> Vec<Choice> {
    let none = match (creates, &column.default, column.not_null) {
        (true, Some(default), _) => Some(format!("{} (the default)", plain(default))),
        (_, _, false) => Some("(no value)".to_owned()),
        (true, None, true) => Some("Choose…".to_owned()),
        (false, _, true) => None,
    };
    let choice = |value: &str, text: &str| Choice {
        value: value.to_owned(),
        text: text.to_owned(),
        chosen: written.text == value,
    };
    let mut choices: Vec<_> = none.iter().map(|text| choice("", text)).collect();
    choices.extend(labels.iter().map(|(value, text)| choice(value, text)));
    if choices.iter().all(|c| !c.chosen) && !written.text.is_empty() {
        choices.push(choice(&written.text, &written.text));
    }
    choices
}
