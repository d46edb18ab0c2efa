//! Conditional reads: GET and HEAD under every header, on a record in every state.

use std::collections::BTreeMap;

use reqwest::Method;

use super::headers::{Header, pairs};
use super::rules::{CURRENT, Demand, State};
use crate::support::{Reply, Server};

const ITEMS: &str = "CREATE TABLE items (id integer PRIMARY KEY, amount integer NOT NULL);";

/// The rules: a broken header, existence, `If-Match`, then `If-None-Match`.
fn expected(state: State, if_match: Demand, if_none_match: Demand) -> (u16, &'static str) {
    let names = |demand: Demand| match demand {
        Demand::Any => true,
        Demand::Versions(versions) => versions.contains(&CURRENT),
        Demand::Absent | Demand::Malformed => false,
    };
    match (state, if_match, if_none_match) {
        (_, Demand::Malformed, _) | (_, _, Demand::Malformed) => (400, "INVALID_IF_MATCH"),
        (State::NeverSeen, ..) => (404, "NOT_FOUND"),
        (State::Deleted, ..) => (410, "RECORD_DELETED"),
        (_, first, _) if first != Demand::Absent && !names(first) => (412, "PRECONDITION_FAILED"),
        (_, _, second) if names(second) => (304, ""),
        _ => (200, ""),
    }
}

async fn read(server: &Server, method: Method, id: i32, first: Header, second: Header) -> Reply {
    let mut request = server.request(method, &format!("/items/{id}"));
    for line in first.lines {
        request = request.header("if-match", *line);
    }
    for line in second.lines {
        request = request.header("if-none-match", *line);
    }
    Reply::of(request).await
}

/// The headers, but for those that differ from one answer to the next and those of the body.
fn headers(reply: &Reply) -> BTreeMap<String, String> {
    let names = reply.headers.keys().map(ToString::to_string);
    names
        .filter(|name| !matches!(name.as_str(), "date" | "content-type" | "content-length"))
        .map(|name| {
            let value = if name == "x-request-id" { "" } else { reply.header(&name) };
            (name.clone(), value.to_owned())
        })
        .collect()
}

async fn try_every_read(strict: bool) {
    let config = format!("[resource.items]\nstrict_etags = {strict}");
    let server = Server::configured(ITEMS, &["items"], &config).await;
    let raise = "UPDATE items SET amount = amount + 1;".repeat(6);
    server
        .sql(&format!(
            "INSERT INTO items VALUES (1, 94), (2, 94); {raise} DELETE FROM items WHERE id = 2"
        ))
        .await;
    let plain = server.get("/items/1").await.expect(200);
    for (if_match, if_none_match) in pairs() {
        for (state, id) in [(State::Live, 1), (State::Deleted, 2), (State::NeverSeen, 3)] {
            let (first, second) = (if_match.demand(strict), if_none_match.demand(strict));
            let (status, code) = expected(state, first, second);
            let told = format!(
                "{state:?}, If-Match {}, If-None-Match {}",
                if_match.name, if_none_match.name
            );
            let get = read(&server, Method::GET, id, if_match, if_none_match).await;
            assert_eq!((get.status, get.code()), (status, code), "{told}");
            match status {
                200 => assert_eq!(get.text, plain.text, "{told}"),
                304 => {
                    assert_eq!(get.text, "", "{told}");
                    assert_eq!(headers(&get), headers(&plain), "{told}");
                }
                412 => {
                    assert_eq!(get.data(), plain.data(), "{told}");
                    assert_eq!(get.details()["current_version"], CURRENT, "{told}");
                    assert_eq!(get.header("etag"), "\"7\"", "{told}");
                }
                410 => assert_eq!(get.data()["version"], CURRENT, "{told}"),
                _ => assert!(get.data().is_null(), "{told}"),
            }
            let head = read(&server, Method::HEAD, id, if_match, if_none_match).await;
            assert_eq!((head.status, head.text.as_str()), (status, ""), "HEAD {told}");
            assert_eq!(headers(&head), headers(&get), "HEAD {told}");
            assert_eq!(head.header("content-type"), get.header("content-type"), "HEAD {told}");
        }
    }
}

#[tokio::test]
async fn a_reader_who_has_the_current_version_is_told_so_without_it() {
    try_every_read(false).await;
}

#[tokio::test]
async fn strict_etags_leave_if_none_match_to_the_weak_comparison() {
    try_every_read(true).await;
}
