//! Three-way merge of rows, field by field: base is the row you read, yours the row you want,
//! theirs the row as somebody else left it meanwhile.
//!
//! Everything here is a pure function of JSON values. A field that one side changed takes that
//! side's value; a field that both changed combines by its rule ([`Rules`]) or clashes; one clash
//! and there is no merged row at all, unless the caller says whose changes stand ([`Resolve`]).
//!
//! The laws (`tests/merge_laws.rs`): merging with an unchanged side gives the other side, merging
//! equal sides gives them, merging a result again changes nothing, and swapping yours and theirs
//! swaps nothing but their names and the order of additions. Counters are the exception: two equal
//! differences are two.

mod change;
mod comparison;
mod counter;
mod decimal;
mod diff3;
mod ending;
mod group;
mod instant;
mod keyed;
mod order;
mod row;
mod rules;
mod set;
mod sides;
mod text;
mod verdict;

use std::collections::BTreeSet;

use serde_json::Value;

use change::Change;
pub use comparison::Comparison;
pub use row::Row;
pub use rules::{Rules, RulesError};
use sides::{Combined, Sides};
pub use verdict::{FieldVerdict, Verdict};

/// Whose change stands where two truly clash; what does not clash is merged either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Resolve {
    /// Nobody's: there is no merged row.
    #[default]
    Fail,
    /// Yours.
    Mine,
    /// Theirs.
    Theirs,
}

impl Resolve {
    fn pick<T>(self, yours: T, theirs: T) -> T {
        if self == Self::Mine { yours } else { theirs }
    }
}

/// A merge of two rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// The whole merged row; `None` where a clash was left unresolved. Never half of one.
    pub merged: Option<Row>,
    /// Every changed field, in the order of theirs.
    pub fields: Vec<FieldVerdict>,
}

impl Merge {
    /// Whether no field truly clashes.
    pub fn is_clean(&self) -> bool {
        self.fields.iter().all(|field| field.verdict != Verdict::Both)
    }
}

/// Who changed what since the base, field by field; unchanged fields are left out.
///
/// Without a base it is a two-way list: every field that differs, as a clash.
pub fn verdicts(base: Option<&Row>, yours: &Row, theirs: &Row, rules: &Rules) -> Vec<FieldVerdict> {
    match base {
        Some(base) => merge(base, yours, theirs, rules, Resolve::Fail).fields,
        None => differences(yours, theirs, rules),
    }
}

fn differences(yours: &Row, theirs: &Row, rules: &Rules) -> Vec<FieldVerdict> {
    let fields = field_names([theirs, yours]);
    let sides = fields.into_iter().map(|field| {
        (field, Sides { base: None, yours: yours.get(field), theirs: theirs.get(field) })
    });
    sides
        .filter(|(field, sides)| !rules.same(field, sides.yours, sides.theirs))
        .map(|(field, sides)| field_verdict(field, Verdict::Both, sides, None))
        .collect()
}

/// Merges yours into theirs, both made from base.
pub fn merge(base: &Row, yours: &Row, theirs: &Row, rules: &Rules, resolve: Resolve) -> Merge {
    let clashing = group::clashing(base, yours, theirs, rules);
    let mut merged = Row::default();
    let mut fields = Vec::new();
    for field in field_names([theirs, yours, base]) {
        let sides =
            Sides { base: base.get(field), yours: yours.get(field), theirs: theirs.get(field) };
        let (verdict, value) = if clashing.contains(field) {
            (Some(Verdict::Both), resolve.pick(sides.yours, sides.theirs).cloned())
        } else {
            merge_field(field, sides, rules, resolve)
        };
        fields.extend(verdict.map(|verdict| field_verdict(field, verdict, sides, value.as_ref())));
        if let Some(value) = value {
            merged.set(field, value);
        }
    }
    let failed = resolve == Resolve::Fail && fields.iter().any(|f| f.verdict == Verdict::Both);
    Merge { merged: (!failed).then_some(merged), fields }
}

/// The verdict on a field and its merged value; `None` where nobody changed it or it is gone.
fn merge_field(
    field: &str,
    sides: Sides<'_>,
    rules: &Rules,
    resolve: Resolve,
) -> (Option<Verdict>, Option<Value>) {
    let (verdict, value) = match sides.change(rules.comparison(field)) {
        Change::Nobody => return (None, sides.theirs.cloned()),
        Change::Yours => (Verdict::Yours, sides.yours.cloned()),
        Change::Theirs => (Verdict::Theirs, sides.theirs.cloned()),
        Change::Same => match rules.counted(field, sides) {
            Some(total) => (Verdict::Merged, Some(total)),
            None => (Verdict::Same, sides.theirs.cloned()),
        },
        Change::Diverged => {
            let Combined { value, clash } = rules.combine(field, sides, resolve);
            (if clash { Verdict::Both } else { Verdict::Merged }, value)
        }
    };
    (Some(verdict), value)
}

fn field_verdict(
    field: &str,
    verdict: Verdict,
    Sides { base, yours, theirs }: Sides<'_>,
    merged: Option<&Value>,
) -> FieldVerdict {
    FieldVerdict {
        field: field.to_owned(),
        verdict,
        base: base.cloned(),
        yours: yours.cloned(),
        theirs: theirs.cloned(),
        merged: merged.filter(|_| verdict == Verdict::Merged).cloned(),
    }
}

/// Every field of the rows, in the order in which they are met.
fn field_names<const N: usize>(rows: [&Row; N]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let names = rows.into_iter().flat_map(Row::iter).map(|(name, _)| name);
    names.filter(|name| seen.insert(*name)).collect()
}

/// One spelling per decimal number: equal numbers have equal texts. `None` where a text is none.
pub fn canonical_number(text: &str) -> Option<String> {
    decimal::Decimal::parse(text).map(|number| number.canonical())
}
