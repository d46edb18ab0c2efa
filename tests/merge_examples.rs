//! The merge rule by rule, and what an adversary would try.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use counterfoil::merge::{Comparison, Merge, Resolve, Row, Rules, Verdict, merge, verdicts};
use serde_json::{Value, json};

/// Merges one field, `f`, under the rules.
fn one(rules: &str, base: &str, yours: &str, theirs: &str) -> Merge {
    let row = |value: &str| -> Row { serde_json::from_str(&format!("{{\"f\":{value}}}")).unwrap() };
    let rules: Rules = toml::from_str(rules).unwrap();
    merge(&row(base), &row(yours), &row(theirs), &rules, Resolve::Fail)
}

/// The merged field as JSON text, `None` where it clashes.
fn text(merge: Merge) -> Option<String> {
    Some(merge.merged?.get("f").map_or_else(String::new, Value::to_string))
}

fn row(value: Value) -> Row {
    serde_json::from_value(value).unwrap()
}

fn verdict_of(merge: &Merge, field: &str) -> Option<Verdict> {
    merge.fields.iter().find(|verdict| verdict.field == field).map(|verdict| verdict.verdict)
}

#[test]
fn the_conflict_of_the_contract() {
    let base = row(json!({"amount": 1000, "due_on": "2026-10-28", "memo": null, "version": 7}));
    let yours = row(json!({"amount": 1250, "due_on": "2026-11-01", "memo": null, "version": 7}));
    let theirs = row(json!({"amount": 1100, "due_on": "2026-10-28", "memo": "paid", "version": 8}));
    let rules = Rules {
        comparisons: [("version".to_owned(), Comparison::Managed)].into(),
        ..Rules::default()
    };
    let fields = verdicts(Some(&base), &yours, &theirs, &rules);
    assert_eq!(
        serde_json::to_value(&fields).unwrap(),
        json!([
            {"field": "amount", "verdict": "both", "base": 1000, "yours": 1250, "theirs": 1100},
            {"field": "due_on", "verdict": "yours",
             "base": "2026-10-28", "yours": "2026-11-01", "theirs": "2026-10-28"},
            {"field": "memo", "verdict": "theirs", "base": null, "yours": null, "theirs": "paid"},
        ])
    );
    assert_eq!(
        serde_json::to_value(verdicts(None, &yours, &theirs, &rules)).unwrap(),
        json!([
            {"field": "amount", "verdict": "both", "yours": 1250, "theirs": 1100},
            {"field": "due_on", "verdict": "both", "yours": "2026-11-01", "theirs": "2026-10-28"},
            {"field": "memo", "verdict": "both", "yours": null, "theirs": "paid"},
        ])
    );
    let mine = merge(&base, &yours, &theirs, &rules, Resolve::Mine);
    assert_eq!(
        mine.merged.unwrap(),
        row(json!({"amount": 1250, "due_on": "2026-11-01", "memo": "paid", "version": 8}))
    );
    let others = merge(&base, &yours, &theirs, &rules, Resolve::Theirs);
    assert_eq!(others.merged.unwrap().get("amount"), Some(&json!(1100)));
}

#[test]
fn columns_stay_in_order() {
    let read = |text| serde_json::from_str::<Row>(text).unwrap();
    let base = read(r#"{"z":1,"a":1,"m":1}"#);
    let result = merge(
        &base,
        &read(r#"{"a":2,"m":1,"z":1}"#),
        &read(r#"{"z":1,"a":1,"m":3}"#),
        &Rules::default(),
        Resolve::Fail,
    );
    assert_eq!(serde_json::to_string(&result.merged).unwrap(), r#"{"z":1,"a":2,"m":3}"#);
}

#[test]
fn a_missing_field_is_not_null() {
    let base = row(json!({"a": 1, "b": null}));
    let result = merge(
        &base,
        &row(json!({"a": 1})),
        &row(json!({"a": 2, "b": null})),
        &Rules::default(),
        Resolve::Fail,
    );
    assert_eq!(verdict_of(&result, "b"), Some(Verdict::Yours));
    assert_eq!(result.merged.unwrap(), row(json!({"a": 2})));
    let dropped = serde_json::to_value(&result.fields).unwrap();
    assert_eq!(dropped[1], json!({"field": "b", "verdict": "yours", "base": null, "theirs": null}));
}

#[test]
fn spelling_is_no_change() {
    let mut rules = Rules::default();
    rules.comparisons.insert("at".to_owned(), Comparison::Instant);
    rules.comparisons.insert("n".to_owned(), Comparison::Number);
    let read = |text| serde_json::from_str::<Row>(text).unwrap();
    let base = read(r#"{"n":1.0,"at":"2026-11-30T09:00:00+00:00","doc":{"a":1,"b":[2]}}"#);
    let yours = read(r#"{"n":"1e0","at":"2026-11-30T10:00:00+01:00","doc":{"b":[2.0],"a":1}}"#);
    assert_eq!(verdicts(Some(&base), &yours, &base, &rules), []);
    assert_eq!(verdicts(None, &yours, &base, &rules), []);
}

#[test]
fn huge_numbers_are_compared_to_the_last_digit() {
    let long = "1".repeat(5_000);
    let result = one("", &format!("{long}1"), &format!("{long}1.0"), &format!("{long}2"));
    assert_eq!(verdict_of(&result, "f"), Some(Verdict::Theirs));
    assert_eq!(text(result).unwrap(), format!("{long}2"));
    assert_eq!(text(one("", "1e400", "1e401", "1e402")), None);
}

#[test]
fn a_group_clashes_as_one() {
    let rules: Rules = toml::from_str("groups = [['amount', 'currency', 'rate']]").unwrap();
    let base = row(json!({"amount": 1, "currency": "EUR", "rate": 1, "memo": ""}));
    let yours = row(json!({"amount": 2, "currency": "EUR", "rate": 1, "memo": "y"}));
    let theirs = row(json!({"amount": 1, "currency": "USD", "rate": 1, "memo": ""}));
    let result = merge(&base, &yours, &theirs, &rules, Resolve::Fail);
    assert_eq!(result.merged, None);
    assert_eq!(verdict_of(&result, "amount"), Some(Verdict::Both));
    assert_eq!(verdict_of(&result, "currency"), Some(Verdict::Both));
    assert_eq!(verdict_of(&result, "rate"), None);
    let mine = merge(&base, &yours, &theirs, &rules, Resolve::Mine).merged.unwrap();
    assert_eq!(mine, yours);
    let others = merge(&base, &yours, &theirs, &rules, Resolve::Theirs).merged.unwrap();
    assert_eq!(others, row(json!({"amount": 1, "currency": "USD", "rate": 1, "memo": "y"})));
}

#[test]
fn a_group_is_no_clash_where_one_side_or_both_alike_changed_it() {
    let rules: Rules = toml::from_str("groups = [['a', 'b']]").unwrap();
    let base = row(json!({"a": 1, "b": 1}));
    let changed = row(json!({"a": 2, "b": 2}));
    let result = merge(&base, &changed, &changed, &rules, Resolve::Fail);
    assert_eq!(verdict_of(&result, "a"), Some(Verdict::Same));
    assert!(merge(&base, &changed, &base, &rules, Resolve::Fail).is_clean());
    let half = row(json!({"a": 2, "b": 1}));
    let result = merge(&base, &changed, &half, &rules, Resolve::Fail);
    assert_eq!(verdict_of(&result, "a"), Some(Verdict::Both), "(2, 2) is not (2, 1)");
}

#[test]
fn objects_merge_by_key_at_every_depth() {
    let base = r#"{"city":"Bern","geo":{"lat":1,"lon":2}}"#;
    let yours = r#"{"city":"Basel","geo":{"lat":1,"lon":2}}"#;
    let theirs = r#"{"city":"Bern","geo":{"lat":1,"lon":3,"alt":null}}"#;
    let result = one("", base, yours, theirs);
    assert_eq!(verdict_of(&result, "f"), Some(Verdict::Merged));
    assert_eq!(text(result).unwrap(), r#"{"city":"Basel","geo":{"alt":null,"lat":1,"lon":3}}"#);
    assert_eq!(text(one("", r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#)), None);
    assert_eq!(text(one("", r#"{"a":1}"#, r#"{"a":null}"#, "{}")), None, "null is not removed");
    assert_eq!(text(one("", r#"{"a":1}"#, "{}", r#"{"a":1,"b":2}"#)).unwrap(), r#"{"b":2}"#);
    assert_eq!(text(one("", r#"{"a":1}"#, "null", r#"{"a":2}"#)), None);
    assert_eq!(text(one("", "null", r#"{"a":1}"#, r#"{"b":1}"#)), None, "no object to begin with");
}

#[test]
fn a_clash_deep_inside_is_resolved_alone() {
    let base = row(json!({"doc": {"a": 1, "b": 1, "c": 1}}));
    let yours = row(json!({"doc": {"a": 2, "b": 2, "c": 1}}));
    let theirs = row(json!({"doc": {"a": 3, "b": 1, "c": 3}}));
    let mine = merge(&base, &yours, &theirs, &Rules::default(), Resolve::Mine);
    assert_eq!(verdict_of(&mine, "doc"), Some(Verdict::Both));
    assert_eq!(mine.merged.unwrap(), row(json!({"doc": {"a": 2, "b": 2, "c": 3}})));
}

#[test]
fn sixty_four_levels_are_no_trouble() {
    let nest = |inner: &str| format!("{}{inner}{}", "{\"k\":".repeat(64), "}".repeat(64));
    let result =
        one("", &nest(r#"{"a":1,"b":1}"#), &nest(r#"{"a":2,"b":1}"#), &nest(r#"{"a":1,"b":2}"#));
    assert_eq!(text(result).unwrap(), nest(r#"{"a":2,"b":2}"#));
    let arrays = |inner: &str| format!("{}{inner}{}", "[".repeat(64), "]".repeat(64));
    assert_eq!(
        text(one("set = ['f']", &arrays("1"), &arrays("2"), &arrays("1.0"))).unwrap(),
        arrays("2")
    );
}

#[test]
fn arrays_are_one_value_unless_declared() {
    assert_eq!(text(one("", "[1,2]", "[1,2,3]", "[0,1,2]")), None);
    assert_eq!(text(one("", "[1,2]", "[1,2,3]", "[1.0,2]")).unwrap(), "[1,2,3]");
}

#[test]
fn sets_take_every_addition_and_removal() {
    let set = |base, yours, theirs| text(one("set = ['f']", base, yours, theirs));
    assert_eq!(set("[1,2,3]", "[1,3,4]", "[1,2,5]").unwrap(), "[1,5,4]");
    assert_eq!(set("[1]", "[1,2]", "[1,2.0,3]").unwrap(), "[1,2.0,3]");
    assert_eq!(set("[1,1,2]", "[1,1,2,2,3]", "[1]").unwrap(), "[1,3]");
    assert_eq!(set(r#"[{"a":1,"b":2}]"#, r#"[{"b":2,"a":1.0},1]"#, "[2]").unwrap(), "[2,1]");
    assert_eq!(set("null", "[1]", "[2]").unwrap(), "[2,1]");
    assert_eq!(set("[1]", "[]", "[2]").unwrap(), "[2]");
    assert_eq!(set("[1]", "null", "[2]"), None, "NULL is no empty set");
}

fn keyed(base: &str, yours: &str, theirs: &str) -> Option<String> {
    text(one("keyed = { f = 'id' }", base, yours, theirs))
}

#[test]
fn keyed_arrays_match_by_key() {
    let merged = keyed(
        r#"[{"id":1,"qty":1,"text":"a"},{"id":2,"qty":1}]"#,
        r#"[{"id":1,"qty":5,"text":"a"},{"id":2,"qty":1},{"id":3}]"#,
        r#"[{"id":4},{"id":1,"qty":1,"text":"b"}]"#,
    );
    assert_eq!(merged.unwrap(), r#"[{"id":4},{"id":1,"qty":5,"text":"b"},{"id":3}]"#);
}

#[test]
fn an_element_edited_and_removed_clashes() {
    let base = r#"[{"id":1,"qty":1},{"id":2}]"#;
    let edited = r#"[{"id":1,"qty":2},{"id":2}]"#;
    let removed = r#"[{"id":2}]"#;
    assert_eq!(keyed(base, edited, removed), None);
    assert_eq!(keyed(base, removed, edited), None);
    let (base, edited, removed) = (
        row(json!({"f": [{"id": 1, "qty": 1}, {"id": 2}]})),
        row(json!({"f": [{"id": 1, "qty": 2}, {"id": 2}, {"id": 3}]})),
        row(json!({"f": [{"id": 2}]})),
    );
    let rules: Rules = toml::from_str("keyed = { f = 'id' }").unwrap();
    let resolved = |resolve| merge(&base, &edited, &removed, &rules, resolve).merged.unwrap();
    assert_eq!(resolved(Resolve::Mine), edited);
    assert_eq!(resolved(Resolve::Theirs), row(json!({"f": [{"id": 2}, {"id": 3}]})));
}

#[test]
fn both_moving_elements_clash() {
    let [base, yours, theirs] = ["123", "321", "213"].map(|order| {
        let items: Vec<String> = order.chars().map(|id| format!("{{\"id\":{id}}}")).collect();
        format!("[{}]", items.join(","))
    });
    assert_eq!(keyed(&base, &yours, &theirs), None);
    assert_eq!(keyed(&base, &yours, &base).unwrap(), yours);
    assert_eq!(keyed(&base, &yours, &yours).unwrap(), yours);
}

#[test]
fn keys_must_be_there_once() {
    let base = r#"[{"id":1}]"#;
    for broken in [
        r#"[{"id":1},{"id":1.0}]"#,
        r#"[{"id":1},{"qty":1}]"#,
        r#"[{"id":1},{"id":null}]"#,
        r#"[{"id":1},{"id":[2]}]"#,
        r#"[{"id":1},7]"#,
        r#"{"id":1}"#,
        "null",
    ] {
        let added = r#"[{"id":1},{"id":2}]"#;
        assert_eq!(keyed(base, broken, added), None, "{broken}");
        assert_eq!(keyed(base, added, broken), None, "{broken}");
        assert_eq!(keyed(base, broken, base).unwrap(), broken, "one side may do as it likes");
    }
}

#[test]
fn a_number_and_a_text_are_two_keys() {
    let merged = keyed(r#"[{"id":1}]"#, r#"[{"id":1},{"id":"1"}]"#, r#"[{"id":1,"a":1}]"#);
    assert_eq!(merged.unwrap(), r#"[{"a":1,"id":1},{"id":"1"}]"#);
}

#[test]
fn counters_add_both_differences_exactly() {
    let counter = |base, yours, theirs| text(one("counter = ['f']", base, yours, theirs));
    assert_eq!(counter("10", "11", "15").unwrap(), "16");
    assert_eq!(counter("10", "11", "11").unwrap(), "12", "two who count one are two");
    assert_eq!(counter("0.1", "0.3", "0.2").unwrap(), "0.4");
    assert_eq!(
        counter("9007199254740992", "9007199254740993", "9007199254740994").unwrap(),
        "9007199254740995"
    );
    assert_eq!(counter("5", "0", "1").unwrap(), "-4");
    assert_eq!(counter("0", "1e999999999", "1"), None, "too long to write out");
    assert_eq!(counter("null", "1", "2"), None);
    assert_eq!(counter("null", "1", "1").unwrap(), "1", "nothing to count from: both set it");
    assert_eq!(counter("1", "\"2\"", "3"), None);
    let result = one("counter = ['f']", "10", "11", "15");
    assert_eq!(
        serde_json::to_value(&result.fields).unwrap(),
        json!([{"field": "f", "verdict": "merged", "base": 10, "yours": 11, "theirs": 15, "merged": 16}])
    );
}

#[test]
fn long_texts_merge_line_by_line() {
    let lines = |base: &str, yours: &str, theirs: &str| {
        let quote = |text: &str| Value::from(text).to_string();
        text(one("text = ['f']", &quote(base), &quote(yours), &quote(theirs)))
    };
    assert_eq!(lines("a\nb\nc", "A\nb\nc", "a\nb\nC").unwrap(), r#""A\nb\nC""#);
    assert_eq!(lines("a\nb\nc", "A\nb\nc", "X\nb\nc"), None);
    assert_eq!(lines("", "mine", "theirs"), None);
    assert_eq!(text(one("text = ['f']", "null", "\"\"", "null")).unwrap(), "\"\"");
    assert_eq!(text(one("text = ['f']", "\"a\"", "\"\"", "null")), None, "empty is not NULL");
    assert_eq!(text(one("text = ['f']", "\"a\\nb\\nc\"", "1", "\"a\\nb\"")), None);
    assert_eq!(
        text(one("", "\"a\\nb\\nc\"", "\"A\\nb\\nc\"", "\"a\\nb\\nC\"")),
        None,
        "undeclared"
    );
}
