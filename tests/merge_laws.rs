//! The laws of the merge, over random triples that are mostly related: yours and theirs are made
//! from the base by a few edits each.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use counterfoil::merge::{Comparison, Merge, Resolve, Row, Rules, Verdict, merge, verdicts};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

const CASES: u32 = 15_000;

const FIELDS: [&str; 10] =
    ["amount", "currency", "due_at", "memo", "tags", "lines", "views", "notes", "meta", "steps"];

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let mut rules: Rules = toml::from_str(
        "groups = [['amount', 'currency']]
         set = ['tags']
         keyed = { lines = 'id' }
         counter = ['views']
         text = ['notes']",
    )
    .unwrap();
    rules.validate(FIELDS).unwrap();
    let kinds = [
        ("amount", Comparison::Number),
        ("due_at", Comparison::Instant),
        ("memo", Comparison::Text),
        ("views", Comparison::Number),
    ];
    rules.comparisons = kinds.map(|(field, kind)| (field.to_owned(), kind)).into();
    rules
});

/// One change: which field, and two numbers that say what becomes of it.
type Edit = (u8, u8, u8);

fn edited(row: &Row, edits: &[Edit]) -> Row {
    let mut row = row.clone();
    for (field, how, what) in edits {
        let field = FIELDS[usize::from(*field) % FIELDS.len()];
        let value = edited_value(field, row.get(field), *how, *what);
        row.set(field, value);
    }
    row
}

fn edited_value(field: &str, old: Option<&Value>, how: u8, what: u8) -> Value {
    if how.is_multiple_of(31) && field != "views" {
        return Value::Null;
    }
    match field {
        "amount" => {
            spelled(&["1", "1.0", "10e-1", "2", "99999999999999999999.10", "-0", "0"], what)
        }
        "views" => spelled(&["0", "1", "7", "-3", "1e2", "123456789012345678901234567890"], what),
        "currency" => json!(["EUR", "USD", "CHF"][usize::from(what) % 3]),
        "due_at" => json!(INSTANTS[usize::from(what) % INSTANTS.len()]),
        "memo" => json!(["", " ", "paid", "é", "e\u{301}"][usize::from(what) % 5]),
        "tags" => edited_list(old, how, json!(what % 7)),
        "lines" => edited_lines(old, how, what),
        "notes" => edited_text(old, how, what),
        "meta" => edited_object(old.unwrap_or(&Value::Null), how, what),
        _ => edited_list(old, how, json!(what % 3)),
    }
}

const INSTANTS: [&str; 5] = [
    "2026-11-30T09:00:00Z",
    "2026-11-30 10:00:00+01",
    "2026-11-30T09:00:00.000001Z",
    "infinity",
    "2026-11-30T09:00:00",
];

fn spelled(numbers: &[&str], what: u8) -> Value {
    serde_json::from_str(numbers[usize::from(what) % numbers.len()]).unwrap()
}

fn edited_list(old: Option<&Value>, how: u8, item: Value) -> Value {
    let mut list = old.and_then(Value::as_array).cloned().unwrap_or_default();
    let at = usize::from(how / 4) % (list.len() + 1);
    match how % 4 {
        0 if at < list.len() => drop(list.remove(at)),
        1 => list.rotate_left(at),
        _ => list.insert(at, item),
    }
    Value::Array(list)
}

/// Removes, moves, changes or adds a line; now and then with a key that is taken or missing.
fn edited_lines(old: Option<&Value>, how: u8, what: u8) -> Value {
    let mut lines = old.and_then(Value::as_array).cloned().unwrap_or_default();
    let at = usize::from(how / 8) % (lines.len() + 1);
    let taken = |id: u8| lines.iter().any(|line| line["id"] == json!(id));
    let free = (0..64).map(|step: u8| what.wrapping_add(step) % 64).find(|id| !taken(*id));
    match how % 8 {
        0 if at < lines.len() => drop(lines.remove(at)),
        1 if at < lines.len() => lines[at..].reverse(),
        2 if at < lines.len() => lines[at]["qty"] = json!(what % 4),
        3 if at < lines.len() => lines[at]["text"] = json!(what % 4),
        4 if what.is_multiple_of(16) => lines.insert(at, json!({"id": what % 4})),
        5 if what.is_multiple_of(32) => lines.insert(at, json!({"qty": what % 4})),
        _ => lines.insert(at, json!({"id": free, "qty": 1})),
    }
    Value::Array(lines)
}

/// Few different lines, so that they repeat and diff3 has to guess.
fn edited_text(old: Option<&Value>, how: u8, what: u8) -> Value {
    let text = old.and_then(Value::as_str).unwrap_or_default();
    let mut lines: Vec<&str> = text.split('\n').collect();
    let at = usize::from(how / 8) % lines.len();
    match how % 8 {
        0 => drop(lines.remove(at)),
        1 => lines[at] = "changed",
        2 => return json!(text.replace("\r\n", "\n").replace('\n', "\r\n")),
        3 => return json!(text.replacen('\n', "\r\n", 1)),
        _ => lines.insert(at, ["a", "b", "c", "", "x\r", "ß", "d", "e"][usize::from(what) % 8]),
    }
    json!(lines.join("\n"))
}

fn edited_object(old: &Value, how: u8, what: u8) -> Value {
    let mut object = old.as_object().cloned().unwrap_or_default();
    let key = ["a", "b", "c", "d"][usize::from(what) % 4];
    let inner = object.get(key).unwrap_or(&Value::Null).clone();
    match how % 6 {
        0 => drop(object.remove(key)),
        1 => drop(object.insert(key.to_owned(), Value::Null)),
        2 | 3 if how > 16 => {
            drop(object.insert(key.to_owned(), edited_object(&inner, how / 6, what / 4)));
        }
        _ => drop(object.insert(key.to_owned(), spelled(&["1", "1.0", "2", "3"], what / 4))),
    }
    Value::Object(object)
}

fn edits(most: usize) -> impl Strategy<Value = Vec<Edit>> {
    vec(any::<Edit>(), 0..=most)
}

fn triple() -> impl Strategy<Value = [Row; 3]> {
    (edits(30), edits(5), edits(5)).prop_map(|(base, yours, theirs)| {
        let base = edited(&json_row(json!({"views": 0})), &base);
        [edited(&base, &yours), edited(&base, &theirs), base]
    })
}

fn triple_without_counter() -> impl Strategy<Value = [Row; 3]> {
    triple().prop_map(|rows| rows.map(|row| without_counter(&row)))
}

fn without_counter(row: &Row) -> Row {
    let fields = row.iter().filter(|(field, _)| *field != "views");
    fields.map(|(field, value)| (field.to_owned(), value.clone())).collect()
}

fn json_row(value: Value) -> Row {
    serde_json::from_value(value).unwrap()
}

fn assert_same(a: &Row, b: &Row) {
    let differences = verdicts(None, a, b, &RULES);
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Arrays in a fixed order: a set has none, and that of additions tells who came first.
fn sorted(fields: &[&str], row: &Row) -> Row {
    let sort = |field: &str, value: &Value| match value {
        Value::Array(items) if fields.contains(&field) => {
            let mut items = items.clone();
            items.sort_by_key(Value::to_string);
            if field == "tags" {
                items.dedup();
            }
            Value::Array(items)
        }
        _ => value.clone(),
    };
    row.iter().map(|(field, value)| (field.to_owned(), sort(field, value))).collect()
}

fn clashes(merge: &Merge) -> Vec<&str> {
    let both = merge.fields.iter().filter(|field| field.verdict == Verdict::Both);
    let mut both: Vec<&str> = both.map(|field| field.field.as_str()).collect();
    both.sort_unstable();
    both
}

fn merged(base: &Row, yours: &Row, theirs: &Row) -> Option<Row> {
    merge(base, yours, theirs, &RULES, Resolve::Fail).merged
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(CASES))]

    #[test]
    fn an_unchanged_side_gives_the_other([yours, _, base] in triple()) {
        assert_same(&merged(&base, &base, &yours).unwrap(), &yours);
        assert_same(&merged(&base, &yours, &base).unwrap(), &yours);
    }

    #[test]
    fn equal_sides_give_themselves([yours, _, base] in triple_without_counter()) {
        assert_same(&merged(&base, &yours, &yours).unwrap(), &yours);
    }

    #[test]
    fn a_result_merges_to_itself([yours, theirs, base] in triple_without_counter()) {
        if let Some(result) = merged(&base, &yours, &theirs) {
            let again = merged(&base, &result, &theirs).unwrap();
            assert_same(&sorted(&["tags"], &again), &sorted(&["tags"], &result));
        }
    }

    #[test]
    fn the_sides_may_be_swapped([yours, theirs, base] in triple()) {
        let there = merge(&base, &yours, &theirs, &RULES, Resolve::Fail);
        let back = merge(&base, &theirs, &yours, &RULES, Resolve::Fail);
        prop_assert_eq!(clashes(&there), clashes(&back));
        match (there.merged, back.merged) {
            (Some(there), Some(back)) => assert_same(&sorted(&["tags", "lines"], &there), &sorted(&["tags", "lines"], &back)),
            (there, back) => prop_assert_eq!(there, back),
        }
    }

    #[test]
    fn a_resolution_is_swapped_with_the_sides([yours, theirs, base] in triple()) {
        let mine = merge(&base, &yours, &theirs, &RULES, Resolve::Mine).merged.unwrap();
        let back = merge(&base, &theirs, &yours, &RULES, Resolve::Theirs).merged.unwrap();
        assert_same(&sorted(&["tags", "lines"], &mine), &sorted(&["tags", "lines"], &back));
    }

    #[test]
    fn a_clash_leaves_no_merged_row([yours, theirs, base] in triple()) {
        let result = merge(&base, &yours, &theirs, &RULES, Resolve::Fail);
        prop_assert_eq!(result.merged.is_none(), !clashes(&result).is_empty());
        prop_assert_eq!(result.is_clean(), result.merged.is_some());
        prop_assert_eq!(&result.fields, &verdicts(Some(&base), &yours, &theirs, &RULES));
    }

    #[test]
    fn resolutions_touch_clashes_only([yours, theirs, base] in triple()) {
        let failing = merge(&base, &yours, &theirs, &RULES, Resolve::Fail);
        let mine = merge(&base, &yours, &theirs, &RULES, Resolve::Mine);
        let others = merge(&base, &yours, &theirs, &RULES, Resolve::Theirs);
        prop_assert_eq!(&mine.fields, &failing.fields);
        prop_assert_eq!(&others.fields, &failing.fields);
        let (mine, others) = (mine.merged.unwrap(), others.merged.unwrap());
        let clashing = clashes(&failing);
        for field in FIELDS.iter().filter(|field| !clashing.contains(*field)) {
            prop_assert_eq!(mine.get(field), others.get(field), "{}", field);
            if let Some(merged) = &failing.merged {
                prop_assert_eq!(merged.get(field), mine.get(field), "{}", field);
            }
        }
    }

    #[test]
    fn every_change_is_accounted_for([yours, theirs, base] in triple()) {
        let result = merge(&base, &yours, &theirs, &RULES, Resolve::Mine);
        let row = result.merged.unwrap();
        for field in FIELDS {
            let same = |a: &Row, b: &Row| RULES.same(field, a.get(field), b.get(field));
            let verdict = result.fields.iter().find(|v| v.field == field).map(|v| v.verdict);
            let explained = match verdict {
                None => same(&base, &yours) && same(&base, &theirs) && same(&row, &base),
                Some(Verdict::Yours) => same(&base, &theirs) && same(&row, &yours),
                Some(Verdict::Theirs) => same(&base, &yours) && same(&row, &theirs),
                Some(Verdict::Same) => same(&yours, &theirs) && same(&row, &theirs),
                Some(Verdict::Merged) => !same(&base, &yours) && !same(&base, &theirs),
                Some(Verdict::Both) => true,
            };
            prop_assert!(explained, "{}: {:?}", field, verdict);
        }
    }

    #[test]
    fn counters_count_everything(
        base in -1000i64..1000,
        yours in -1000i64..1000,
        theirs in -1000i64..1000,
    ) {
        let row = |views: i64| json_row(json!({"views": views}));
        let result = merged(&row(base), &row(base + yours), &row(base + theirs)).unwrap();
        assert_same(&result, &row(base + yours + theirs));
    }
}

/// The laws say little about triples that never clash or never combine.
#[test]
fn the_triples_reach_every_verdict_of_every_field() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<(String, Verdict), u32> = BTreeMap::new();
    let mut clean = 0;
    for _ in 0..4_000 {
        let [yours, theirs, base] = triple().new_tree(&mut runner).unwrap().current();
        let result = merge(&base, &yours, &theirs, &RULES, Resolve::Fail);
        clean += u32::from(result.is_clean());
        for field in result.fields {
            *seen.entry((field.field, field.verdict)).or_default() += 1;
        }
    }
    assert!((1_000..3_500).contains(&clean), "{clean} of 4000 merge clean");
    for field in FIELDS {
        for verdict in
            [Verdict::Yours, Verdict::Theirs, Verdict::Same, Verdict::Both, Verdict::Merged]
        {
            let never = match verdict {
                Verdict::Both | Verdict::Same => field == "views",
                Verdict::Merged => !["tags", "lines", "views", "notes", "meta"].contains(&field),
                Verdict::Yours | Verdict::Theirs => false,
            };
            let times = seen.get(&(field.to_owned(), verdict)).copied().unwrap_or(0);
            assert_eq!(times == 0, never, "{field} {verdict:?}: {times} times");
        }
    }
}

/// Any JSON whatever, on each side for itself.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i32..3).prop_map(Value::from),
        vec(prop::sample::select(vec!["a", "b", "\n", "\r\n"]), 0..4)
            .prop_map(|parts| Value::from(parts.concat())),
    ];
    let key = prop::sample::select(vec!["id", "a", "b"]).prop_map(str::to_owned);
    leaf.prop_recursive(4, 16, 3, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((key.clone(), inner), 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_row() -> impl Strategy<Value = Row> {
    vec((0..FIELDS.len(), any_json()), 0..6).prop_map(|fields| {
        fields.into_iter().map(|(field, value)| (FIELDS[field].to_owned(), value)).collect()
    })
}

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn the_laws_hold_for_unrelated_rows(
        base in any_row(),
        yours in any_row(),
        theirs in any_row(),
    ) {
        let [base, yours, theirs] = [base, yours, theirs].map(|row| without_counter(&row));
        let there = merge(&base, &yours, &theirs, &RULES, Resolve::Fail);
        let back = merge(&base, &theirs, &yours, &RULES, Resolve::Fail);
        prop_assert_eq!(clashes(&there), clashes(&back));
        if let (Some(there), Some(back)) = (&there.merged, &back.merged) {
            assert_same(&sorted(&["tags", "lines"], there), &sorted(&["tags", "lines"], back));
            let again = merged(&base, there, &theirs).unwrap();
            assert_same(&sorted(&["tags"], &again), &sorted(&["tags"], there));
        }
        assert_same(&merged(&base, &base, &theirs).unwrap(), &theirs);
        assert_same(&merged(&base, &yours, &base).unwrap(), &yours);
        assert_same(&merged(&base, &yours, &yours).unwrap(), &yours);
    }
}
