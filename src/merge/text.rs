//! Long texts merged line by line.

use serde_json::Value;

use super::Resolve;
use super::diff3::diff3;
use super::ending::Ending;
use super::sides::{Combined, Sides};

/// Texts with more lines on any side are one value: a merge must not cost a request's time.
const MAX_LINES: usize = 20_000;

/// Merges the lines; a `null` or absent base counts as the empty text.
pub(super) fn merge_text(sides: Sides<'_>, resolve: Resolve) -> Combined {
    let base = match sides.base {
        None | Some(Value::Null) => Some(""),
        Some(base) => base.as_str(),
    };
    let texts = (base, sides.yours.and_then(Value::as_str), sides.theirs.and_then(Value::as_str));
    match texts {
        (Some(base), Some(yours), Some(theirs)) => merge_lines([base, yours, theirs], resolve)
            .map_or_else(
                || Combined::clash(sides, resolve),
                |(text, clash)| Combined { value: Some(Value::String(text)), clash },
            ),
        _ => Combined::clash(sides, resolve),
    }
}

/// The merged text and whether lines clashed; `None` where the whole text must be one value.
///
/// diff3 is not stable by nature: where lines repeat, merging its result once more may differ.
/// Such a merge guessed where a change belongs, so it is none.
fn merge_lines([base, yours, theirs]: [&str; 3], resolve: Resolve) -> Option<(String, bool)> {
    if [base, yours, theirs].iter().any(|text| text.lines().count() > MAX_LINES) {
        return None;
    }
    let (merged, clash) = merge_once([base, yours, theirs], resolve);
    let again =
        |yours, theirs| merge_once([base, yours, theirs], resolve) == (merged.clone(), false);
    (clash || (again(&merged, theirs) && again(yours, &merged))).then_some((merged, clash))
}

/// Merges lines and line endings apart, so that a form that sends CRLF for LF changes no line.
fn merge_once(texts: [&str; 3], resolve: Resolve) -> (String, bool) {
    let endings = texts.map(Ending::of);
    if endings.contains(&Ending::Mixed) {
        let [base, yours, theirs] = texts.map(lines);
        let merged = diff3(&base, &yours, &theirs, resolve);
        return (merged.lines.join("\n"), merged.clash);
    }
    let plain = texts.map(|text| text.replace("\r\n", "\n"));
    let [base, yours, theirs] = plain.each_ref().map(|text| lines(text));
    let merged = diff3(&base, &yours, &theirs, resolve);
    let (ending, clash) = Ending::merge(endings, resolve);
    (merged.lines.join(ending), merged.clash || clash)
}

fn lines(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(base: &str, yours: &str, theirs: &str) -> Option<String> {
        let (text, clash) = merge_lines([base, yours, theirs], Resolve::Fail)?;
        (!clash).then_some(text)
    }

    #[test]
    fn changes_to_different_lines_combine() {
        assert_eq!(merge("a\nb\nc", "A\nb\nc", "a\nb\nC").unwrap(), "A\nb\nC");
        assert_eq!(merge("a\nb\nc\n", "a\nb\nc\nd\n", "0\na\nb\nc\n").unwrap(), "0\na\nb\nc\nd\n");
        assert_eq!(merge("a\nb\nc\nd\ne", "a\nc\nd\ne", "a\nb\nc\ne").unwrap(), "a\nc\ne");
        assert_eq!(merge("α\nβ\n👩‍👩‍👧", "α!\nβ\n👩‍👩‍👧", "α\nβ\n🎉").unwrap(), "α!\nβ\n🎉");
    }

    #[test]
    fn changes_that_meet_clash() {
        assert_eq!(merge("a\nb\nc", "a\nx\nc", "a\ny\nc"), None);
        assert_eq!(merge("a\nb", "A\nb", "a\nB"), None, "no line between them");
        assert_eq!(merge("a", "a\ny", "a\nt"), None, "two additions in one place");
        assert_eq!(merge("", "y", "t"), None);
    }

    #[test]
    fn the_same_change_is_made_once() {
        assert_eq!(merge("a\nb\nc", "x\nb\nc", "x\nb\nC").unwrap(), "x\nb\nC");
    }

    #[test]
    fn only_clashing_lines_are_resolved() {
        let texts = ["a\nb\nc\nd\ne", "A\nb\nmine\nd\ne", "a\nb\ntheirs\nd\nE"];
        let resolved = |resolve| merge_lines(texts, resolve).unwrap();
        assert_eq!(resolved(Resolve::Mine), ("A\nb\nmine\nd\nE".to_owned(), true));
        assert_eq!(resolved(Resolve::Theirs), ("A\nb\ntheirs\nd\nE".to_owned(), true));
    }

    #[test]
    fn line_endings_are_no_lines() {
        assert_eq!(merge("a\nb\nc", "A\r\nb\r\nc", "a\nb\nC").unwrap(), "A\r\nb\r\nC");
        assert_eq!(merge("a\r\nb\r\nc", "A\r\nb\r\nc", "a\nb\nC").unwrap(), "A\nb\nC");
        assert_eq!(merge("a\r\nb\nc", "A\r\nb\nc", "a\r\nb\nC").unwrap(), "A\r\nb\nC");
        assert_eq!(merge("a\r\nb\r\nc", "A\r\nb\r\nc", "a\r\nb\r\nC").unwrap(), "A\r\nb\r\nC");
    }

    #[test]
    fn a_text_of_too_many_lines_is_one_value() {
        let base = "x\n".repeat(MAX_LINES + 1);
        assert_eq!(merge(&base, &format!("y\n{base}"), &format!("{base}t\n")), None);
    }
}
