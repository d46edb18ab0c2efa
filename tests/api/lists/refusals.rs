//! Queries that cannot be answered are refused by name.

use reqwest::Method;

use super::{ask, encode, list};
use crate::support::Server;

const TABLE: &str = "
    CREATE TYPE mood AS ENUM ('calm');
    CREATE DOMAIN cents AS integer CHECK (value >= 0);
    CREATE TABLE t (id int PRIMARY KEY, n integer, a numeric(5,2), name text, due date, at timestamptz, u uuid, m mood,
        j json, b jsonb, p point, ip inet, tags text[], span int4range, d cents, c regclass, ok boolean, x xml, bits bit(3));
    INSERT INTO t VALUES (1, 1, 1, 'x', '2026-01-01', now(), '00000000-0000-0000-0000-000000000001', 'calm', '1', '1', '(1,2)',
        '10.0.0.1', '{a}', '[1,2)', 1, 'pg_class', true, '<a/>', B'101'), (2);";

#[expect(clippy::too_many_lines, reason = "a table, one line for each case")]
#[tokio::test]
async fn what_a_query_cannot_mean_is_refused_with_its_name() {
    let server =
        Server::start(&TABLE.replace(", (2);", "; INSERT INTO t VALUES (2);"), &["t"]).await;
    let cases = [
        ("nope=eq.1", "nope"),
        ("=eq.1", ""),
        ("N=eq.1", "N"),
        ("n=1", "n"),
        ("n=", "n"),
        ("n=eq", "n"),
        ("n=equals.1", "n"),
        ("n=eq(any).1", "n"),
        ("n=not.not.eq.1", "n"),
        ("n=not.", "n"),
        ("n=eq.x", "n"),
        ("n=eq.2147483648", "n"),
        ("n=eq.1.5", "n"),
        ("n=eq.", "n"),
        ("n=in.1,2", "n"),
        ("n=in.(1", "n"),
        ("n=in.(1,x)", "n"),
        ("n=in.(\"1)", "n"),
        ("n=is.true", "n"),
        ("n=is.5", "n"),
        ("n=cs.1", "n"),
        ("a=gt.x", "a"),
        ("a=lt.", "a"),
        ("name=match.(", "name"),
        ("name=imatch.*", "name"),
        ("name=match.a{2,1}", "name"),
        ("name=like.x\\", "name"),
        ("name=not.ilike.*\\\\\\", "name"),
        ("name=sl.x", "name"),
        ("name=fts.a b", "name"),
        ("name=fts(klingon).a", "name"),
        ("name=plfts(a b).a", "name"),
        ("name=fts(english.a", "name"),
        ("name=like(any).{a}", "name"),
        ("name=()fts.a", "name"),
        ("due=eq.2026-02-30", "due"),
        ("due=eq.yesterday", "due"),
        ("due=gt.x", "due"),
        ("at=eq.x", "at"),
        ("at=gt.2026-01-01T00:00:00+99:00", "at"),
        ("at=lt.now", "at"),
        ("u=eq.x", "u"),
        ("u=in.(00000000-0000-0000-0000-000000000001,x)", "u"),
        ("m=eq.angry", "m"),
        ("m=in.(calm,angry)", "m"),
        ("j=eq.1", "j"),
        ("j=in.(1)", "j"),
        ("b=eq.{", "b"),
        ("b=cs.x", "b"),
        ("p=gt.(1,2)", "p"),
        ("p=eq.(1,2)", "p"),
        ("ip=eq.300.0.0.1", "ip"),
        ("tags=cs.a", "tags"),
        ("tags=cs.{\"a", "tags"),
        ("span=ov.[2,1)", "span"),
        ("span=adj.x", "span"),
        ("d=eq.x", "d"),
        ("d=eq.-1", "d"),
        ("c=eq.no_such_table", "c"),
        ("ok=eq.maybe", "ok"),
        ("x=eq.<a/>", "x"),
        ("bits=eq.2", "bits"),
        ("or=n.eq.1", "or"),
        ("or=(n.eq.1", "or"),
        ("or=(n.eq.1,)", "or"),
        ("or=()", "or"),
        ("and=(nope.eq.1)", "nope"),
        ("and=(n.eq.1,or(n.nope.1))", "n"),
        ("and=(n)", "n"),
        ("or=(n.eq.x)", "n"),
        ("or=(name.match.\"(\")", "name"),
        ("not.xor=(n.eq.1)", "not.xor"),
        ("order=nope", "nope"),
        ("order=n.down", "n.down"),
        ("order=n.desc.asc", "n.desc"),
        ("order=", ""),
        ("order=n,,id", ""),
        ("order=j", "j"),
        ("order=p", "p"),
        ("order=x.desc", "x"),
        ("order=n&order=id", "order"),
        ("select=nope", "nope"),
        ("select=", "select"),
        ("select=id,n.m", "n.m"),
        ("select=id&select=n", "select"),
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=1&limit=2", "limit"),
        ("name=eq.a\0b", "name"),
        ("a\0b=eq.1", "a\0b"),
        ("offset=5", "offset"),
    ];
    for (query, field) in cases {
        let reply = list(&server, "t", query).await;
        assert_eq!(
            (reply.status, reply.code()),
            (400, "INVALID_QUERY"),
            "{query:?}: {}",
            reply.text
        );
        assert_eq!(reply.details()["field"], field, "{query:?}: {}", reply.text);
    }
    for path in
        ["/t?n=%ff", "/t?%ff=eq.1", "/t/1?select=nope", "/t/1?n=eq.1", "/t/1?select=id&select=n"]
    {
        server.get(path).await.expect_error(400, "INVALID_QUERY");
    }
    for (method, path) in [
        (Method::PUT, "/t/1?x=1"),
        (Method::DELETE, "/t/1?id=eq.1"),
        (Method::POST, "/t?dry_run=yes"),
    ] {
        ask(&server, method, path, "{}").await.expect_error(400, "INVALID_QUERY");
    }
}

#[tokio::test]
async fn a_query_is_bounded() {
    let server = Server::start(TABLE.split(", (2);").next().unwrap(), &["t"]).await;
    let conditions = |count: usize| vec!["n=gte.0"; count].join("&");
    list(&server, "t", &conditions(100)).await.expect(200);
    list(&server, "t", &conditions(101)).await.expect_error(400, "INVALID_QUERY");
    let tree = |count: usize| format!("or=({})", vec!["n.eq.1"; count].join(","));
    list(&server, "t", &tree(100)).await.expect(200);
    list(&server, "t", &tree(101)).await.expect_error(400, "INVALID_QUERY");
    let nested =
        |depth: usize| format!("and={}n.eq.1{}", "(and".repeat(depth) + "(", ")".repeat(depth + 1));
    list(&server, "t", &nested(15)).await.expect(200);
    list(&server, "t", &nested(16)).await.expect_error(400, "INVALID_QUERY");
    list(&server, "t", &nested(2000)).await.expect_error(400, "INVALID_QUERY");
    list(&server, "t", &format!("or={}", "(".repeat(5000)))
        .await
        .expect_error(400, "INVALID_QUERY");
    let long: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    list(&server, "t", &format!("n=in.({})", long.join(","))).await.expect(200);
    list(&server, "t", &format!("name=match.{}", "(a*)*".repeat(200))).await;
}

const PAYLOADS: [&str; 14] = [
    "'; DROP TABLE t; --",
    "\"; DROP TABLE t; --",
    "') OR true; --",
    "1 OR 1=1",
    "$1",
    "$1::text",
    "\\'; SELECT pg_sleep(9); --",
    "%27%3B",
    "id\" FROM t; DELETE FROM t; --",
    "/*",
    "*/ --",
    "\u{0}",
    "t.*",
    "{\"a\":\"'\"}",
];

#[tokio::test]
async fn nothing_that_a_stranger_writes_becomes_a_statement() {
    let server = Server::start(TABLE.split(", (2);").next().unwrap(), &["t"]).await;
    for payload in PAYLOADS {
        let p = encode(payload);
        let json = serde_json::Value::from(payload).to_string();
        let reads = [
            format!("/t?{p}=eq.1"),
            format!("/t?name=eq.{p}"),
            format!("/t?name=like.{p}"),
            format!("/t?name=in.({p})"),
            format!("/t?name=fts({p}).x"),
            format!("/t?name=plfts.{p}"),
            format!("/t?name={p}"),
            format!("/t?name={p}.1"),
            format!("/t?n=eq.{p}"),
            format!("/t?tags=cs.{p}"),
            format!("/t?or=({p}.eq.1)"),
            format!("/t?or=(name.eq.{p})"),
            format!("/t?order={p}"),
            format!("/t?select={p}"),
            format!("/t?limit={p}"),
            format!("/t?after={p}"),
            format!("/t/{p}"),
            format!("/{p}"),
            format!("/t/1?select={p}"),
        ];
        for path in reads {
            let reply = server.get(&path).await;
            assert!(reply.status < 500, "{path}: {}", reply.text);
        }
        let name = format!("{{{json}: 1}}");
        let value = format!("{{\"name\": {json}, \"id\": 1}}");
        let field = format!("{{\"field\": {json}}}");
        for (method, path, body) in [
            (Method::POST, "/t", &name),
            (Method::PUT, "/t/1", &name),
            (Method::PATCH, "/t/1", &value),
            (Method::PUT, "/t/1", &value),
            (Method::POST, "/t/1/increment", &field),
        ] {
            let reply = ask(&server, method, path, body).await;
            assert!(reply.status < 500, "{path} {body}: {}", reply.text);
        }
        if !payload.contains('\0') {
            let request = server.request(Method::PATCH, "/t/1").header("x-actor", payload);
            let request = crate::support::json(request, "{}")
                .header("if-match", format!("\"{}\"", payload.replace('"', "")));
            assert!(crate::support::Reply::of(request).await.status < 500);
            let request = server.request(Method::PATCH, "/t/1").header("x-actor", payload);
            crate::support::Reply::of(crate::support::json(request, "{}")).await.expect(200);
            let by = server
                .value("SELECT \"by\" FROM counterfoil.change ORDER BY version DESC LIMIT 1")
                .await;
            assert_eq!(by.as_deref(), Some(payload));
        }
    }
    assert_eq!(server.value("SELECT count(*) FROM t").await.as_deref(), Some("1"));
}
