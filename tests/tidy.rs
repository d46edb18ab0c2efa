//! The house rules that a compiler does not know: who may name whom, and what may stand where.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources is to fail")]

use std::fs;
use std::path::{Path, PathBuf};

/// Every source file with its text, tests inside it cut off.
fn sources() -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &mut found);
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            (name, code)
        })
        .collect()
}

/// The lines of code, without comments, that hold a word.
fn lines_with<'a>(code: &'a str, word: &str) -> Vec<&'a str> {
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .filter(|line| line.contains(word))
        .collect()
}

/// Asserts that a word stands only in the files that may hold it.
fn only_in(word: &str, allowed: impl Fn(&str) -> bool) {
    let offenders: Vec<_> = sources()
        .into_iter()
        .filter(|(name, code)| !allowed(name) && !lines_with(code, word).is_empty())
        .map(|(name, _)| name)
        .collect();
    assert!(offenders.is_empty(), "\"{word}\" stands in {offenders:?}");
}

#[test]
fn axum_is_known_to_the_http_rooms_alone() {
    only_in("axum::", |name| {
        name.starts_with("http/")
            || name.starts_with("console/")
            || name.ends_with("/http.rs")
            || name == "record/past.rs"
            || name == "service.rs"
    });
}

#[test]
fn sqlx_is_known_to_the_rooms_that_speak_with_the_database() {
    only_in("sqlx::", |name| {
        name.starts_with("db/")
            || name.starts_with("postgres/")
            || name.starts_with("cli/")
            || name.ends_with("/store.rs")
            || matches!(
                name,
                "service.rs"
                    | "http/health.rs"
                    | "record/history.rs"
                    | "record/list.rs"
                    | "record/merging.rs"
                    | "record/patch.rs"
                    | "record/refusal.rs"
                    | "record/retention.rs"
                    | "record/unique.rs"
            )
    });
}

#[test]
fn the_database_rooms_know_nothing_of_http() {
    for (name, code) in sources() {
        if name.starts_with("db/") || name.starts_with("catalog/") || name.ends_with("/store.rs") {
            assert!(lines_with(&code, "crate::http").is_empty(), "{name} knows of HTTP");
        }
    }
}

/// Batches and operations are made of records; records know neither.
#[test]
fn rooms_are_entered_in_one_direction() {
    let pure = [
        "batch/read.rs",
        "record/several/order.rs",
        "batch/answer.rs",
        "operation/fingerprint.rs",
        "operation/attempt.rs",
        "operation/settle.rs",
    ];
    for (name, code) in sources() {
        if name.starts_with("record/") {
            for room in ["crate::batch", "crate::operation"] {
                assert!(lines_with(&code, room).is_empty(), "{name} knows of {room}");
            }
        }
        if name.starts_with("operation/") && !name.ends_with("/http.rs") {
            assert!(lines_with(&code, "crate::batch").is_empty(), "{name} knows of batches");
        }
        if pure.contains(&name.as_str()) {
            assert!(lines_with(&code, "crate::http").is_empty(), "{name} knows of HTTP");
        }
    }
}

#[test]
fn the_predicate_is_made_in_one_place() {
    only_in("= ANY({wanted}", |name| name == "precondition.rs");
    only_in("(IF_MATCH)", |name| name == "http/request.rs");
}

#[test]
fn a_write_conflict_is_worded_in_one_place() {
    only_in("Code::WriteConflict", |name| {
        matches!(name, "record/conflict.rs" | "record/patch.rs" | "http/openapi/resource.rs")
    });
}

#[test]
fn every_file_says_what_it_is_for() {
    for (name, code) in sources() {
        assert!(code.starts_with("//!"), "{name} does not begin with a //! line");
    }
}

#[test]
fn no_file_does_too_much() {
    for (name, code) in sources() {
        let lines = code.lines().count();
        assert!(lines <= 520, "{name} has {lines} lines of code: does it still do one thing?");
    }
}
