//! Every operator finds the rows that PostgreSQL would.

use super::{ids, list};
use crate::support::Server;

const ROWS: &str = r#"
    CREATE TYPE mood AS ENUM ('draft', 'sent', 'paid');
    CREATE TABLE t (id int PRIMARY KEY, status mood, amount numeric(10,2), name text, due date, ok boolean,
        tags text[], span int4range, doc jsonb, at timestamptz, words tsvector, ip inet, n integer, c char(4), raw json);
    INSERT INTO t VALUES
        (1, 'draft', 10, 'Anna', '2026-01-01', true, '{a,b}', '[1,5)', '{"a": 1}', '2026-01-01 00:00+00', to_tsvector('english', 'fat cats'), '10.0.0.1', 1, 'ab', '1'),
        (2, 'sent', 20.50, 'a,b', '2026-02-01', false, '{b}', '[5,9)', '{"a": 2, "b": [1]}', '2026-01-01 00:00:00.000001+00', to_tsvector('english', 'rats'), '10.0.0.2', 2, 'x', '2'),
        (3, 'paid', -3, 'c"d\e', 'infinity', NULL, '{}', 'empty', '[]', 'infinity', '', '::1', NULL, NULL, NULL),
        (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (5, 'draft', 100, '50% (of) Ärger_*', '2026-03-01', true, '{"x,y",NULL}', '(,0)', '"s"', '2025-12-31 23:00-02', to_tsvector('english', 'fat rats'), '192.168.0.1/24', 5, 'a.b', '5')"#;

/// Queries and the ids that they find.
const FOUND: &[(&str, &[i64])] = &[
    ("", &[1, 2, 3, 4, 5]),
    ("amount=eq.10", &[1]),
    ("amount=eq.10.000", &[1]),
    ("amount=neq.10", &[2, 3, 5]),
    ("amount=gt.10", &[2, 5]),
    ("amount=gte.10&amount=lt.100", &[1, 2]),
    ("amount=lte.-3", &[3]),
    ("amount=like.*0", &[1, 2, 3, 5]),
    ("status=eq.draft", &[1, 5]),
    ("status=gt.draft", &[2, 3]),
    ("status=in.(sent,paid)", &[2, 3]),
    ("status=not.in.(sent,paid)", &[1, 5]),
    ("status=isdistinct.draft", &[2, 3, 4]),
    ("status=not.isdistinct.draft", &[1, 5]),
    ("name=eq.a,b", &[2]),
    ("name=in.(\"a,b\",Anna)", &[1, 2]),
    ("name=in.(\"c\\\"d\\\\e\")", &[3]),
    ("name=in.()", &[]),
    ("name=not.in.()", &[1, 2, 3, 4, 5]),
    ("name=like.A*", &[1]),
    ("name=like.*\\**", &[5]),
    ("name=like.%", &[1, 2, 3, 5]),
    ("name=ilike.*ä*", &[5]),
    ("name=ilike.*A*", &[1, 2]),
    ("name=like.50\\% (of)*", &[5]),
    ("name=match.^[Aa]", &[1, 2]),
    ("name=imatch.^ANNA$", &[1]),
    ("name=not.like.A*", &[2, 3, 5]),
    ("name=eq.", &[]),
    ("name=is.null", &[4]),
    ("name=not.is.null", &[1, 2, 3, 5]),
    ("name=is.not_null", &[1, 2, 3, 5]),
    ("ok=is.true", &[1, 5]),
    ("ok=is.false", &[2]),
    ("ok=is.unknown", &[3, 4]),
    ("ok=not.is.true", &[2, 3, 4]),
    ("ok=eq.true", &[1, 5]),
    ("due=gte.2026-02-01", &[2, 3, 5]),
    ("due=eq.infinity", &[3]),
    ("at=gt.2026-01-01T00:00:00Z", &[2, 3, 5]),
    ("at=eq.2026-01-01T02:00:00+02:00", &[1]),
    ("at=eq.2026-01-01T01:00:00Z", &[5]),
    ("tags=cs.{b}", &[1, 2]),
    ("tags=cd.{a,b,c}", &[1, 2, 3]),
    ("tags=ov.{a,\"x,y\"}", &[1, 5]),
    ("tags=eq.{}", &[3]),
    ("tags=in.(\"{a,b}\",\"{}\")", &[1, 3]),
    ("span=cs.[2,3)", &[1]),
    ("span=ov.[4,6)", &[1, 2]),
    ("span=sl.[5,9)", &[1, 5]),
    ("span=sr.[1,5)", &[2]),
    ("span=adj.[9,10)", &[2]),
    ("span=nxr.[1,6)", &[1, 5]),
    ("span=nxl.[5,6)", &[2]),
    ("span=eq.empty", &[3]),
    ("doc=cs.{\"a\":1}", &[1]),
    ("doc=cs.{\"b\":[1]}", &[2]),
    ("doc=eq.\"s\"", &[5]),
    ("doc=eq.[]", &[3]),
    ("words=fts.fat", &[1, 5]),
    ("words=fts(english).fat <-> cat", &[1]),
    ("words=plfts(english).the fat rat", &[5]),
    ("words=phfts(english).fat cats", &[1]),
    ("words=wfts(english).fat -cat", &[5]),
    ("words=not.fts.fat", &[2, 3]),
    ("name=wfts(simple).anna", &[1]),
    ("ip=eq.10.0.0.1", &[1]),
    ("ip=lt.10.0.0.3", &[1, 2]),
    ("ip=sl.10.0.0.0/8", &[1, 2]),
    ("c=eq.ab", &[1]),
    ("c=in.(a.b,x)", &[2, 5]),
    ("n=in.(1,5,77)", &[1, 5]),
    ("raw=is.null", &[3, 4]),
    ("version=eq.1", &[1, 2, 3, 4, 5]),
    ("or=(id.eq.1,id.eq.4)", &[1, 4]),
    ("or=(amount.lt.0,and(status.eq.draft,amount.gt.50))", &[3, 5]),
    ("and=(id.gt.1,or(name.is.null,ok.is.false))", &[2, 4]),
    ("not.or=(id.eq.1,id.eq.4)", &[2, 3, 5]),
    ("not.and=(status.eq.draft,ok.is.true)", &[2, 3, 4]),
    ("and=(not.or(id.eq.1,id.eq.2),not.and(id.eq.3))", &[4, 5]),
    ("or=(id.not.in.(1,2,3),name.in.(\"a,b\",\"x)\"))", &[2, 4, 5]),
    ("or=(name.eq.\"a,b\",name.eq.\"c\\\"d\\\\e\")", &[2, 3]),
    ("or=(name.like.\"50\\\\% (of)*\",tags.cs.{\"x,y\"},id.eq.1)", &[1, 5]),
    ("or=(c.eq.a.b,id.eq.4)", &[4, 5]),
    ("or=(span.eq.[1,5),span.eq.(,0))", &[1, 5]),
    ("or=(id.eq.1)&or=(id.eq.1,id.eq.2)", &[1]),
    ("or=( id.eq.1 , id.eq.2 )", &[1, 2]),
];

#[tokio::test]
async fn operators_find_what_they_say() {
    let server = Server::start(ROWS, &["t"]).await;
    for (query, wanted) in FOUND {
        assert_eq!(ids(&server, "t", query).await, *wanted, "{query}");
    }
}

#[tokio::test]
async fn order_select_limit_and_count_are_as_asked() {
    let server = Server::start(ROWS, &["t"]).await;
    let cases: &[(&str, &[i64])] = &[
        ("order=amount", &[3, 1, 2, 5, 4]),
        ("order=amount.desc", &[4, 5, 2, 1, 3]),
        ("order=amount.desc.nullslast", &[5, 2, 1, 3, 4]),
        ("order=amount.nullsfirst", &[4, 3, 1, 2, 5]),
        ("order=amount.asc.nullsfirst", &[4, 3, 1, 2, 5]),
        ("order=status,id.desc", &[5, 1, 2, 3, 4]),
        ("order=status.desc.nullslast,amount.desc", &[3, 2, 5, 1, 4]),
        ("order=id.desc&limit=2", &[5, 4]),
        ("order=ok,ok.desc,id", &[2, 1, 5, 3, 4]),
        ("order=doc,id", &[3, 5, 1, 2, 4]),
    ];
    for (query, wanted) in cases {
        assert_eq!(ids(&server, "t", query).await, *wanted, "{query}");
    }
    for (select, row) in [
        ("id,amount", r#"{"id":1,"amount":10.00,"version":1}"#),
        ("amount,id,amount", r#"{"amount":10.00,"id":1,"version":1}"#),
        ("version", r#"{"version":1}"#),
        ("version,id", r#"{"version":1,"id":1}"#),
    ] {
        let reply = list(&server, "t", &format!("select={select}&id=eq.1")).await.expect(200);
        assert_eq!(reply.text, format!("{{\"data\":[{row}],\"page\":{{\"next\":null}}}}"));
        let reply = server.get(&format!("/t/1?select={select}")).await.expect(200);
        assert_eq!((reply.raw_data(), reply.header("etag")), (row, "\"1\""));
    }
    let whole = server.get("/t/1").await.expect(200).text;
    assert_eq!(server.get("/t/1?select=*").await.expect(200).text, whole);

    for (query, range) in [
        ("", "0-4/5"),
        ("limit=2", "0-1/5"),
        ("status=eq.draft&limit=1", "0-0/2"),
        ("id=eq.99", "*/0"),
    ] {
        let request = server
            .request(reqwest::Method::GET, &format!("/t?{}", super::encoded(query)))
            .header("prefer", "count=exact");
        let reply = crate::support::Reply::of(request).await.expect(200);
        assert_eq!(reply.header("content-range"), range, "{query}");
        assert_eq!(reply.header("preference-applied"), "count=exact");
    }
    assert_eq!(list(&server, "t", "limit=2").await.header("content-range"), "");
}
