//! What a submitted form says: which fields were changed, to what.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::catalog::{Column, Resource};
use crate::console::value::{self, Written};
use crate::console::words;
use crate::error::{Code, Error};
use crate::json::Member;
use crate::version::Version;

/// A submitted form.
#[derive(Clone, Debug, Default)]
pub(super) struct Submitted(Vec<(String, String)>);

impl Submitted {
    /// A form of these inputs.
    pub(super) fn new(inputs: Vec<(String, String)>) -> Self {
        Self(inputs)
    }

    /// The inputs in order.
    pub(super) fn inputs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The input of this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The input of a field: `f` what was typed, `n` no value, `o` what it began with.
    pub(super) fn of(&self, prefix: &str, column: &Column) -> Option<&str> {
        self.get(&format!("{prefix}.{}", words::encode(&column.name)))
    }

    /// A version in a hidden input.
    ///
    /// # Errors
    /// `INVALID_VALUE`: the form is not one of ours.
    pub(super) fn version(&self, name: &str) -> Result<Version, Error> {
        let number = self.get(name).and_then(|text| text.parse().ok());
        number.map(Version).ok_or_else(|| {
            Error::field(
                Code::InvalidValue,
                name,
                "The form does not say which version it was made from",
            )
        })
    }

    /// What was typed for a column; `None` where the form has no input for it.
    pub(super) fn typed(&self, column: &Column) -> Option<Written> {
        let text = self.of("f", column).map(value::lines);
        if text.is_none() && self.of("o", column).is_none() && self.of("y", column).is_none() {
            return None;
        }
        // A box that is not ticked sends nothing.
        let text = text.unwrap_or_else(|| "false".to_owned());
        let null = if value::tells_empty_from_none(column) {
            self.of("n", column).is_some()
        } else {
            text.trim().is_empty() && !is_text(column)
        };
        Some(Written { text, null })
    }

    /// What a column's input began with.
    pub(super) fn original(&self, column: &Column) -> Written {
        self.of("o", column).map_or_else(Written::nothing, Written::from_kept)
    }
}

fn is_text(column: &Column) -> bool {
    matches!(
        column.kind,
        crate::catalog::kind::Kind::Text(_)
            | crate::catalog::kind::Kind::Array(_)
            | crate::catalog::kind::Kind::Other
    )
}

/// What was typed into a field that the resource has no more: it was renamed or dropped, or is no
/// longer to be written, while the form lay open. It must not be lost unseen.
pub(super) fn stray(resource: &Resource, form: &Submitted) -> Option<Error> {
    let writable = |name: &str| resource.column(name).is_some_and(Column::writable);
    form.inputs().iter().find_map(|(input, typed)| {
        let encoded = input.strip_prefix("f.")?;
        let name = words::decode(encoded);
        let kept =
            form.get(&format!("o.{encoded}")).map_or_else(Written::nothing, Written::from_kept);
        if writable(&name) || value::lines(typed) == kept.text {
            return None;
        }
        let label = words::label(&name);
        let message = format!(
            "{label} can no longer be written here. You had typed: \u{201c}{typed}\u{201d}"
        );
        Some(Error::field(Code::UnknownField, &name, message))
    })
}

/// The fields that were changed, and what is wrong with those that cannot be read.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Name and new value.
    pub(super) members: Vec<Member>,
    /// What is wrong, by field.
    pub(super) errors: Errors,
}

/// What is wrong, by field.
pub(super) type Errors = BTreeMap<String, String>;

/// Reads the fields that differ from what the form began with.
pub(super) fn changes(resource: &Resource, form: &Submitted) -> Changes {
    let mut changes = Changes::default();
    for column in resource.columns.iter().filter(|c| c.writable()) {
        let Some(typed) = form.typed(column) else {
            continue;
        };
        match changed(column, &typed, &form.original(column)) {
            Ok(None) => {}
            Ok(Some(json)) => changes.members.extend(member(&column.name, json)),
            Err(message) => {
                changes.errors.insert(column.name.clone(), message);
            }
        }
    }
    changes
}

/// The new value as JSON text; `None` where it is what the form began with.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub(super) fn changed(
    column: &Column,
    typed: &Written,
    original: &Written,
) -> Result<Option<String>, String> {
    let same_text = typed.text == original.text;
    if same_text && (typed.null == original.null || !value::tells_empty_from_none(column)) {
        return Ok(None);
    }
    let mut meant = typed.clone();
    if typed.null && !typed.text.trim().is_empty() && value::tells_empty_from_none(column) {
        // "No value" is ticked beside a text. Whichever of the two was changed is what was meant.
        if original.null {
            meant.null = false;
        } else if !same_text {
            let label = words::label(&column.name);
            return Err(format!(
                "{label} has a text, and “No value” is ticked too. Clear the text or untick the box."
            ));
        }
    }
    value::read(column, &meant)
        .map(Some)
        .map_err(|wanted| format!("{} must be {wanted}", words::label(&column.name)))
}

/// A member of a body; `None` where the text is no JSON.
pub(super) fn member(name: &str, json: String) -> Option<Member> {
    Some((name.to_owned(), RawValue::from_string(json).ok()?))
}

/// The fields that a refusal speaks of.
pub(super) fn errors_of(error: &Error) -> Errors {
    let mut errors = Errors::new();
    let details = error.details();
    let one = details.get("field").into_iter();
    let several = details.get("fields").and_then(|f| f.as_array());
    for name in one.chain(several.into_iter().flatten()) {
        if let Some(name) = name.as_str() {
            errors.insert(name.to_owned(), error.message().to_owned());
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::kind::Kind;

    fn column(kind: Kind, not_null: bool) -> Column {
        Column::sample("memo", kind, not_null)
    }

    fn submit(column: &Column, inputs: &[(&str, &str)]) -> Result<Option<String>, String> {
        let owned = inputs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        let form = Submitted::new(owned.collect());
        changed(column, &form.typed(column).unwrap(), &form.original(column))
    }

    #[test]
    fn no_value_is_told_from_an_empty_text() {
        let memo = column(Kind::Text(None), false);
        let null = || Ok(Some("null".to_owned()));
        let text = |t: &str| Ok(Some(format!("\"{t}\"")));
        assert_eq!(submit(&memo, &[("o.memo", ""), ("f.memo", ""), ("n.memo", "1")]), Ok(None));
        assert_eq!(submit(&memo, &[("o.memo", ""), ("f.memo", "")]), text(""));
        assert_eq!(submit(&memo, &[("o.memo", "="), ("f.memo", ""), ("n.memo", "1")]), null());
        assert_eq!(submit(&memo, &[("o.memo", ""), ("f.memo", "x"), ("n.memo", "1")]), text("x"));
        assert_eq!(submit(&memo, &[("o.memo", "=x"), ("f.memo", "x"), ("n.memo", "1")]), null());
        let both = submit(&memo, &[("o.memo", "=x"), ("f.memo", "y"), ("n.memo", "1")]);
        assert!(both.is_err());
        let amount = column(Kind::Integer(4), false);
        assert_eq!(submit(&amount, &[("o.memo", "=1"), ("f.memo", "")]), null());
    }

    #[test]
    fn what_was_not_changed_is_not_sent() {
        let memo = column(Kind::Text(None), true);
        assert_eq!(submit(&memo, &[("o.memo", "=a\r\nb"), ("f.memo", "a\r\nb")]), Ok(None));
        let done = column(Kind::Bool, true);
        assert_eq!(submit(&done, &[("o.memo", "=false")]), Ok(None));
        assert_eq!(submit(&done, &[("o.memo", "=true")]), Ok(Some("false".to_owned())));
        let amount = column(Kind::Numeric(None), true);
        let wrong = submit(&amount, &[("o.memo", "=1"), ("f.memo", "12 apples")]);
        assert_eq!(wrong, Ok(Some("\"12 apples\"".to_owned())));
    }
}
