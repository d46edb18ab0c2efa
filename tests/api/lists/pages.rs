//! Keyset pages: no row is lost and none comes twice, whatever the order and whatever happens
//! between the pages.

use super::{list, walk};
use crate::support::Server;

const ROWS: &str = "
    CREATE TABLE t (id int PRIMARY KEY, tie int, maybe int, name text, score float8, at timestamptz NOT NULL, price numeric, kind text NOT NULL);
    INSERT INTO t SELECT n, n % 3, nullif(n % 4, 0), nullif('n' || n % 5, 'n2'), CASE n % 6 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' WHEN 2 THEN NULL ELSE n / 7.0 END,
        '2026-01-01'::timestamptz + n % 4 * interval '1 microsecond', (n % 3)::numeric / 3, 'k' || n % 2
    FROM generate_series(1, 60) AS n;";

fn numbers(rows: &[serde_json::Value]) -> Vec<i64> {
    rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn pages_over_ties_nulls_and_mixed_directions_are_the_whole_list() {
    let server = Server::start(ROWS, &["t"]).await;
    for (order, sql) in [
        ("id", "id"),
        ("id.desc", "id DESC"),
        ("tie", "tie, id"),
        ("tie.desc", "tie DESC, id"),
        ("kind,at", "kind, at, id"),
        ("kind.desc,at.desc,id.desc", "kind DESC, at DESC, id DESC"),
        ("maybe", "maybe, id"),
        ("maybe.desc", "maybe DESC, id"),
        ("maybe.nullsfirst", "maybe NULLS FIRST, id"),
        ("maybe.desc.nullslast,tie", "maybe DESC NULLS LAST, tie, id"),
        ("name,maybe.desc,tie.desc.nullslast", "name, maybe DESC, tie DESC NULLS LAST, id"),
        ("score", "score, id"),
        ("score.desc.nullsfirst,name.desc", "score DESC, name DESC, id"),
        ("at.desc,tie", "at DESC, tie, id"),
        ("price,version.desc,id.desc", "price, version DESC, id DESC"),
    ] {
        let wanted = server
            .value(&format!("SELECT string_agg(id::text, ',' ORDER BY {sql}) FROM t"))
            .await
            .unwrap();
        for limit in [7, 20, 59, 60] {
            let rows =
                walk(&server, "t", &format!("order={order}&limit={limit}"), async |_| {}).await;
            let found: Vec<_> = numbers(&rows).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(","), wanted, "{order} by {limit}");
        }
    }
    // The filter and the selection go along with the link.
    let rows = walk(
        &server,
        "t",
        "or=(tie.eq.1,maybe.is.null)&select=id,name&order=name.desc&limit=4",
        async |_| {},
    )
    .await;
    assert_eq!(rows.len(), 30);
    assert!(rows.iter().all(|row| row.as_object().unwrap().len() == 3));
}

#[tokio::test]
async fn rows_that_stay_are_seen_once_while_others_come_and_go() {
    let server = Server::start(ROWS, &["t"]).await;
    for (turn, order) in
        ["tie,name", "maybe.desc", "score.nullsfirst,id.desc", "at.desc"].iter().enumerate()
    {
        let turn = i64::try_from(turn).unwrap();
        let rows = walk(&server, "t", &format!("order={order}&limit=5"), async |page| {
            let page = i64::try_from(page).unwrap();
            // Rows not divisible by 5 stay; the others go as pages pass, and new ones come everywhere.
            let gone = (page * 5) % 60 + 5;
            let new = 1000 * (turn + 1) + page;
            server
                .sql(&format!(
                    "DELETE FROM t WHERE id = {gone}; INSERT INTO t SELECT {new}, tie, maybe, name, score, at, price, kind FROM t WHERE id = {page} % 50 + 1 ON CONFLICT DO NOTHING"
                ))
                .await;
        })
        .await;
        let mut stayed: Vec<_> =
            numbers(&rows).into_iter().filter(|id| *id <= 60 && id % 5 != 0).collect();
        stayed.sort_unstable();
        let wanted: Vec<_> = (1..=60).filter(|id| id % 5 != 0).collect();
        assert_eq!(stayed, wanted, "{order}");
        let mut all = numbers(&rows);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), rows.len(), "{order}: a row came twice");
    }
}

#[tokio::test]
async fn a_cursor_serves_only_the_list_it_was_made_for() {
    let server = Server::start(
        &format!("{ROWS} CREATE TABLE other (id int PRIMARY KEY, tie int); INSERT INTO other SELECT n, n FROM generate_series(1, 9) n;"),
        &["t", "other"],
    )
    .await;
    let reply = list(&server, "t", "order=tie&limit=5").await.expect(200);
    let cursor = reply.json["page"]["next"].as_str().unwrap().to_owned();
    list(&server, "t", &format!("order=tie&limit=7&after={cursor}")).await.expect(200);
    for (resource, query) in [
        ("t", format!("after={cursor}")),
        ("t", format!("order=tie.desc&after={cursor}")),
        ("t", format!("order=tie.nullsfirst&after={cursor}")),
        ("t", format!("order=tie,name&after={cursor}")),
        ("t", format!("order=maybe&after={cursor}")),
        ("other", format!("order=tie&after={cursor}")),
        ("t", format!("order=tie&after={}", &cursor[1..])),
        ("t", format!("order=tie&after={cursor}x")),
        ("t", format!("order=tie&after={cursor}=")),
        ("t", "order=tie&after=".to_owned()),
        ("t", "order=tie&after=garbage".to_owned()),
        ("t", "order=tie&after=бред".to_owned()),
        (
            "t",
            format!(
                "order=tie&after={}",
                base64_of("[\"t/tie/false/false/id/false/false\",[\"x\",\"1\"]]")
            ),
        ),
        (
            "t",
            format!(
                "order=tie&after={}",
                base64_of("[\"t/tie/false/false/id/false/false\",[\"1\"]]")
            ),
        ),
        (
            "t",
            format!(
                "order=tie&after={}",
                base64_of("[\"t/tie/false/false/id/false/false\",[\"1\",\"1\\u0000\"]]")
            ),
        ),
        (
            "t",
            format!(
                "order=tie&after={}",
                base64_of("[\"t/tie/false/false/id/false/false\",[\"1\",\"99999999999\"]]")
            ),
        ),
        ("t", format!("order=tie&after={}", base64_of(&"[".repeat(3000)))),
    ] {
        let reply = list(&server, resource, &query).await;
        assert_eq!(
            (reply.status, reply.code()),
            (400, "INVALID_CURSOR"),
            "{resource} {query}: {}",
            reply.text
        );
        assert_eq!(reply.details()["field"], "after");
    }
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(text)
}
