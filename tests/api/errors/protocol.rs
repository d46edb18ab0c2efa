//! What HTTP asks of every answer: methods, media types, request ids, problem documents, HEAD, CORS.

use reqwest::Method;
use reqwest::header::HeaderMap;

use crate::support::{Reply, Server, json};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, a text, n numeric); INSERT INTO t VALUES (1, 'x', 1.50), (2, 'y', 2)";

async fn ask(server: &Server, method: Method, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = server.request(method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Reply::of(request).await
}

#[tokio::test]
async fn an_address_that_does_not_take_a_method_says_which_it_takes() {
    let server = Server::start(TABLE, &["t"]).await;
    for (method, path, allowed) in [
        (Method::PUT, "/t", "GET,HEAD,POST"),
        (Method::PATCH, "/t", "GET,HEAD,POST"),
        (Method::DELETE, "/t", "GET,HEAD,POST"),
        (Method::OPTIONS, "/t", "GET,HEAD,POST"),
        (Method::POST, "/t/1", "GET,HEAD,PUT,PATCH,DELETE"),
        (Method::OPTIONS, "/t/1", "GET,HEAD,PUT,PATCH,DELETE"),
        (Method::TRACE, "/t/1", "GET,HEAD,PUT,PATCH,DELETE"),
        (Method::GET, "/t/1/increment", "POST"),
        (Method::PUT, "/t/1/increment", "POST"),
        (Method::POST, "/t/1/history", "GET,HEAD"),
    ] {
        let reply =
            ask(&server, method.clone(), path, &[]).await.expect_error(405, "METHOD_NOT_ALLOWED");
        assert_eq!(reply.header("allow"), allowed, "{method} {path}");
    }
    for path in ["/nothing", "/nothing/1", "/t/1/no/such", "/t/9", "/T/1", "//t", "/t/"] {
        ask(&server, Method::GET, path, &[]).await.expect_error(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn a_body_of_another_media_type_is_refused() {
    let server = Server::start(TABLE, &["t"]).await;
    for media_type in [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "json",
        "application/jsonp",
    ] {
        let patch = ask(&server, Method::PATCH, "/t/1", &[("content-type", media_type)]).await;
        let accepted =
            patch.expect_error(415, "UNSUPPORTED_MEDIA_TYPE").header("accept-patch").to_owned();
        for taken in
            ["application/json", "application/merge-patch+json", "application/json-patch+json"]
        {
            assert!(accepted.split(", ").any(|a| a == taken), "{accepted}");
        }
        for (method, path) in
            [(Method::PUT, "/t/1"), (Method::POST, "/t"), (Method::POST, "/t/1/increment")]
        {
            ask(&server, method, path, &[("content-type", media_type)])
                .await
                .expect_error(415, "UNSUPPORTED_MEDIA_TYPE");
        }
    }
    for media_type in
        ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json ;x=y"]
    {
        server.patch_as(media_type, "/t/1", r#"{"a": "z"}"#).await.expect(200);
    }
    server.put("/t/1", None, "").await.expect_error(400, "INVALID_JSON");
}

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let server = Server::start(TABLE, &["t"]).await;
    let longest = "i".repeat(128);
    for id in ["abc", "!~", longest.as_str()] {
        for path in ["/t/1", "/t", "/t/9", "/nothing", "/t?x=1"] {
            let reply = ask(&server, Method::GET, path, &[("x-request-id", id)]).await;
            assert_eq!(reply.header("x-request-id"), id);
            if reply.status >= 400 {
                assert_eq!(reply.json["error"]["request_id"], id);
            }
        }
    }
    let too_long = "i".repeat(129);
    for id in ["", "a b", "a\tb", too_long.as_str(), "ä"] {
        let reply = ask(&server, Method::GET, "/t/9", &[("x-request-id", id)]).await.expect(404);
        let given = reply.header("x-request-id");
        assert_ne!(given, id);
        assert_eq!(given.len(), 36, "{given}");
        assert_eq!(reply.json["error"]["request_id"], given);
    }
}

#[tokio::test]
async fn a_failure_may_be_a_problem_document() {
    let server = Server::start(TABLE, &["t"]).await;
    server.patch("/t/1", None, r#"{"n": 12345678901234567890.10}"#).await.expect(200);
    for accept in [
        "application/problem+json",
        "application/json;q=0.5, application/problem+json",
        "APPLICATION/PROBLEM+JSON; q=1",
    ] {
        let request = server
            .request(Method::PATCH, "/t/1")
            .header("accept", accept)
            .header("if-match", "\"1\"");
        let reply = Reply::of(json(request, r#"{"n": 3}"#)).await.expect(409);
        assert_eq!(reply.header("content-type"), "application/problem+json");
        let problem = &reply.json;
        assert_eq!(problem["status"], 409);
        assert_eq!(problem["code"], "WRITE_CONFLICT");
        assert_eq!(problem["details"]["current_version"], 2);
        assert_eq!(problem["data"]["version"], 2);
        assert!(reply.text.contains("12345678901234567890.10"), "{}", reply.text);
        assert!(
            problem["title"].is_string()
                && problem["type"].is_string()
                && problem["detail"].is_string()
        );
        let read = ask(&server, Method::GET, "/t/1", &[("accept", accept)]).await.expect(200);
        assert_eq!(read.header("content-type"), "application/json");
    }
}

/// What must be the same in the answers to GET and HEAD.
fn comparable(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in ["date", "x-request-id", "connection", "content-length", "transfer-encoding"] {
        headers.remove(name);
    }
    headers
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = Server::start(TABLE, &["t"]).await;
    server.delete("/t/2", None).await.expect(204);
    for (path, headers, status) in [
        ("/t/1", &[][..], 200),
        ("/t/1?select=a", &[], 200),
        ("/t/1", &[("if-none-match", "\"1\"")], 304),
        ("/t/1", &[("if-match", "\"9\"")], 412),
        ("/t/1", &[("if-match", "nonsense")], 400),
        ("/t", &[("prefer", "count=exact")], 200),
        ("/t?limit=1", &[], 200),
        ("/t?nope=eq.1", &[], 400),
        ("/t/9", &[], 404),
        ("/t/2", &[], 410),
        ("/nothing", &[], 404),
        ("/t/x", &[], 400),
        ("/t/1/history", &[], 200),
        ("/t/1/increment", &[], 405),
    ] {
        let get = ask(&server, Method::GET, path, headers).await.expect(status);
        let head = ask(&server, Method::HEAD, path, headers).await.expect(status);
        assert_eq!(comparable(&head.headers), comparable(&get.headers), "{path}");
        assert_eq!(head.text, "", "{path}");
        if !head.header("content-length").is_empty() && status != 304 {
            assert_eq!(head.header("content-length"), get.text.len().to_string(), "{path}");
        }
    }
}

#[tokio::test]
async fn browsers_of_allowed_origins_may_call_and_read_the_headers() {
    let config = "[server]\ncors_origins = [\"https://app.example\"]\n";
    let server = Server::configured(TABLE, &["t"], config).await;
    let origin = ("origin", "https://app.example");
    let preflight = [
        origin,
        ("access-control-request-method", "PATCH"),
        ("access-control-request-headers", "if-match, content-type, x-actor, idempotency-key"),
    ];
    let reply = ask(&server, Method::OPTIONS, "/t/1", &preflight).await;
    assert!(reply.status < 300, "{reply:?}");
    assert_eq!(reply.header("access-control-allow-origin"), "https://app.example");
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] {
        assert!(reply.header("access-control-allow-methods").contains(method));
    }
    for name in [
        "if-match",
        "if-none-match",
        "content-type",
        "x-actor",
        "prefer",
        "x-request-id",
        "authorization",
        "idempotency-key",
    ] {
        assert!(reply.header("access-control-allow-headers").contains(name), "{name}");
    }
    let cases = [
        (Method::GET, "/t/1", None, 200),
        (Method::GET, "/t/1", Some(("if-none-match", "\"1\"")), 304),
        (Method::DELETE, "/t/1", Some(("if-match", "\"9\"")), 409),
        (Method::GET, "/t/9", None, 404),
        (Method::PUT, "/t", None, 405),
        (Method::GET, "/t?limit=1", None, 200),
    ];
    for (method, path, header, status) in cases {
        let headers: Vec<_> = [origin].into_iter().chain(header).collect();
        let reply = ask(&server, method, path, &headers).await.expect(status);
        assert_eq!(reply.header("access-control-allow-origin"), "https://app.example", "{path}");
        for name in [
            "etag",
            "location",
            "link",
            "content-location",
            "retry-after",
            "x-request-id",
            "idempotency-replayed",
            "counterfoil-result",
        ] {
            assert!(reply.header("access-control-expose-headers").contains(name), "{name} {path}");
        }
        assert!(reply.header("vary").contains("origin"));
        let stranger = ask(&server, Method::GET, path, &[("origin", "https://evil.example")]).await;
        assert_eq!(stranger.header("access-control-allow-origin"), "");
    }
    let any = Server::on(&server.database_url, "[server]\ncors_origins = [\"*\"]\n").await;
    let reply = ask(&any, Method::GET, "/t/1", &[origin]).await.expect(200);
    assert_eq!(reply.header("access-control-allow-origin"), "*");
    let none = Server::on(&server.database_url, "").await;
    assert_eq!(
        ask(&none, Method::GET, "/t/1", &[origin])
            .await
            .expect(200)
            .header("access-control-allow-origin"),
        ""
    );
}
