//! Who changed a field, as a conflict answer lists it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who changed a field since the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Only you.
    Yours,
    /// Only they.
    Theirs,
    /// Both, to the same value.
    Same,
    /// Both, to values that combine by the field's rule.
    Merged,
    /// Both, and the changes truly clash.
    Both,
}

/// One changed field with its three values; an absent value is left out, `null` is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldVerdict {
    /// The field's name.
    pub field: String,
    /// Who changed it.
    pub verdict: Verdict,
    /// The value both sides began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Value>,
    /// The value you sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yours: Option<Value>,
    /// The current value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theirs: Option<Value>,
    /// The combined value, with [`Verdict::Merged`] only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged: Option<Value>,
}
