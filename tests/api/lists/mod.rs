//! Lists: filters, order, pages, and names and values that are no friends of SQL.

mod hidden;
mod ids;
mod keys;
mod large;
mod names;
mod operators;
mod pages;
mod refusals;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;

use crate::support::{Reply, Server};

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The query string of these parameters, written `a=eq.1&b=is.null`, percent-encoded.
fn encoded(query: &str) -> String {
    let pairs: Vec<_> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            format!("{}={}", encode(name), encode(value))
        })
        .collect();
    pairs.join("&")
}

/// A list of a resource under a query.
async fn list(server: &Server, resource: &str, query: &str) -> Reply {
    server.get(&format!("/{resource}?{}", encoded(query))).await
}

/// The ids that a query finds, in order.
async fn ids(server: &Server, resource: &str, query: &str) -> Vec<i64> {
    let reply = list(server, resource, query).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text);
    reply.data().as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

/// Every row of a list, page by page; `between` happens after each page.
async fn walk(
    server: &Server,
    resource: &str,
    query: &str,
    mut between: impl AsyncFnMut(usize),
) -> Vec<serde_json::Value> {
    let mut rows = Vec::new();
    let mut path = format!("/{resource}?{}", encoded(query));
    for page in 0.. {
        assert!(page < 500, "the list does not end: {path}");
        let reply = server.get(&path).await.expect(200);
        rows.extend(reply.data().as_array().unwrap().iter().cloned());
        let Some(next) = reply.json["page"]["next"].as_str() else {
            assert_eq!(reply.header("link"), "");
            break;
        };
        let link = reply.header("link");
        let address =
            link.strip_prefix("</api/v1").and_then(|l| l.strip_suffix(">; rel=\"next\"")).unwrap();
        assert!(address.ends_with(&format!("after={next}")), "{link}");
        path = address.to_owned();
        between(page).await;
    }
    rows
}

/// A request of this method to a raw path.
async fn ask(server: &Server, method: Method, path: &str, body: &str) -> Reply {
    let request = server.request(method, path).header("content-type", "application/json");
    Reply::of(if body.is_empty() { request } else { request.body(body.to_owned()) }).await
}
