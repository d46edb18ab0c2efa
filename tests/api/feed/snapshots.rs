//! A first copy, and what is pulled after it.

use sqlx::AssertSqlSafe;

use super::{Copy, settled, start};
use crate::support::{Server, wait_until};

/// Takes a first copy, with something done after each page.
async fn copy(server: &Server, more: &str, mut between: impl AsyncFnMut(usize)) -> (Copy, usize) {
    let mut copy = Copy::default();
    let mut after = String::new();
    for pages in 1.. {
        let reply = server.get(&format!("/sync/snapshot?after={after}{more}")).await.expect(200);
        let page = reply.data();
        copy.take(page);
        if page["after"].is_null() {
            assert!(page["cursor"].is_string(), "{}", reply.text);
            return (copy, pages);
        }
        assert!(page["cursor"].is_null(), "{}", reply.text);
        page["after"].as_str().unwrap().clone_into(&mut after);
        between(pages).await;
    }
    unreachable!()
}

/// Asserts that a copy holds just what the tables do.
async fn assert_same(server: &Server, copy: &Copy) {
    for table in ["notes", "tasks"] {
        let rows =
            format!("SELECT coalesce(json_agg(t ORDER BY id)::text, '[]') FROM {table} AS t");
        let rows: serde_json::Value =
            serde_json::from_str(&server.value(&rows).await.unwrap()).unwrap();
        let mut held: Vec<_> = copy
            .records
            .iter()
            .filter(|((resource, _), _)| resource == table)
            .filter_map(|(_, (_, row))| row.clone())
            .collect();
        held.sort_by_key(|row| (row["id"].as_i64(), row["id"].as_str().map(str::to_owned)));
        assert_eq!(held, *rows.as_array().unwrap());
    }
}

#[tokio::test]
async fn a_first_copy_and_its_pulls_lose_nothing_that_happens_meanwhile() {
    let server = start().await;
    server
        .sql(
            "INSERT INTO notes SELECT i, 'old' FROM generate_series(1, 50) i;
             INSERT INTO tasks SELECT 'a,' || chr(64 + i), '2026-01-01' FROM generate_series(1, 25) i",
        )
        .await;
    // Began before the copy, and ends after it.
    let mut open = server.connect().await;
    let early = "BEGIN; INSERT INTO notes VALUES (1000, 'early'); UPDATE notes SET text = 'early' WHERE id = 2";
    sqlx::raw_sql(early).execute(&mut open).await.unwrap();
    let (mut first, pages) = copy(&server, "&limit=20", async |page| {
        // Behind the page, ahead of it, moved from one side to the other.
        let sql = format!(
            "UPDATE notes SET text = 'page {page}' WHERE id IN (1, 49); DELETE FROM notes WHERE id IN ({page} + 3, {page} + 40);
             INSERT INTO notes VALUES (-{page}, 'new'), ({page} + 60, 'new');
             UPDATE notes SET id = 200 + {page} WHERE id = 10 + {page}; UPDATE notes SET id = -200 - {page} WHERE id = 45 - {page}"
        );
        server.sql(&sql).await;
    })
    .await;
    assert!(pages >= 4, "{pages}");
    sqlx::raw_sql("COMMIT").execute(&mut open).await.unwrap();
    first.catch_up(&server, "&limit=7").await;
    assert_same(&server, &first).await;

    // Applied once more, nothing changes.
    let before = first.records.clone();
    let mut again = Copy { records: before.clone(), ..Copy::default() };
    again.catch_up(&server, "").await;
    assert_eq!(again.records, before);
    // A fresh copy says the same.
    let (fresh, _) = copy(&server, "", async |_| ()).await;
    let living = |copy: &Copy| {
        copy.records
            .iter()
            .filter(|(_, (_, row))| row.is_some())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(living(&fresh), living(&first));
}

#[tokio::test]
async fn copies_of_some_resources_of_none_and_of_changed_ones() {
    let server = start().await;
    server.sql("INSERT INTO tasks SELECT i, '2026-01-01' FROM generate_series(1, 3) i; INSERT INTO notes VALUES (1)").await;
    // Else the pulls tell once more what the copy holds.
    settled(&server).await;
    let (mut tasks, _) = copy(&server, "&resources=tasks&limit=1", async |_| ()).await;
    assert_eq!(
        tasks.versions(),
        ["tasks/1,2026-01-01@1", "tasks/2,2026-01-01@1", "tasks/3,2026-01-01@1"]
    );
    tasks.catch_up(&server, "&resources=tasks").await;
    assert_eq!(tasks.seen.len(), 3);

    // Neither kind of cursor is the other.
    let reply = server.get("/sync/snapshot?limit=1").await.expect(200);
    let after = reply.data()["after"].as_str().unwrap().to_owned();
    server.get(&format!("/sync/pull?cursor={after}")).await.expect_error(400, "INVALID_CURSOR");
    let cursor = &tasks.cursor;
    let wrong = server.get(&format!("/sync/snapshot?resources=tasks&after={cursor}")).await;
    wrong.expect_error(400, "INVALID_CURSOR").expect_field("after");
    let other = server.get(&format!("/sync/snapshot?resources=notes&after={after}")).await;
    other.expect_error(400, "INVALID_CURSOR");
    server.get("/sync/snapshot?resources=nothing").await.expect_error(400, "INVALID_QUERY");

    server.sql("SELECT counterfoil.adopt('quiet')").await;
    let path = format!("/sync/snapshot?limit=1&after={after}");
    wait_until("the copy has ended", async || server.get(&path).await.status == 410).await;
    server.get(&path).await.expect_error(410, "CURSOR_EXPIRED");

    let empty = Server::start("", &[]).await;
    let reply = empty.get("/sync/snapshot").await.expect(200);
    assert_eq!(reply.data()["changes"], serde_json::json!([]));
    let cursor = reply.data()["cursor"].as_str().unwrap();
    empty.get(&format!("/sync/pull?cursor={cursor}")).await.expect(200);
}

/// Keys of every kind of order.
#[tokio::test]
async fn every_row_is_copied_once_whatever_its_key() {
    let tables = [
        (
            "texts",
            "id text PRIMARY KEY",
            "(VALUES (''), ('a'), ('B'), ('b,'), ('%'), ('ä'), ('a/b'), ('\"')) AS v(id)",
        ),
        (
            "numbers",
            "id numeric PRIMARY KEY",
            "(VALUES (1.50), (-3), (1e30), ('NaN'::numeric), (0)) AS v(id)",
        ),
        (
            "floats",
            "id float8 PRIMARY KEY",
            "(VALUES (0.1), ('Infinity'), ('-Infinity'), ('NaN'), (1e-300)) AS v(id)",
        ),
        (
            "moments",
            "id timestamptz PRIMARY KEY",
            "(VALUES ('2026-01-01 00:00:00.000001Z'::timestamptz), ('2026-01-01Z'), ('infinity')) AS v(id)",
        ),
        (
            "pairs",
            "id int, sub uuid, PRIMARY KEY (sub, id)",
            "(SELECT i % 3 AS id, gen_random_uuid() AS sub FROM generate_series(1, 9) i) AS v",
        ),
    ];
    let sql = tables.map(|(name, columns, rows)| {
        format!("CREATE TABLE {name} ({columns}); INSERT INTO {name} SELECT * FROM {rows};")
    });
    let sql = sql.concat();
    let names = tables.map(|(name, ..)| name);
    let server = Server::start(&sql, &names).await;
    let (copied, _) = copy(&server, "&limit=2", async |_| ()).await;
    let mut conn = server.connect().await;
    for name in names {
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(format!("SELECT count(*) FROM {name}")))
            .fetch_one(&mut conn)
            .await
            .unwrap();
        let seen = copied.seen.iter().filter(|(resource, ..)| resource == name).count();
        assert_eq!(i64::try_from(seen), Ok(count), "{name}");
    }
    assert_eq!(copied.records.len(), copied.seen.len());
    // The ids are those that the log has.
    for name in names {
        let key =
            server.value(&format!("SELECT counterfoil.key_text('{name}', 't')")).await.unwrap();
        for (_, id, _) in copied.seen.iter().filter(|(resource, ..)| resource == name) {
            let known = format!("SELECT count(*) FROM {name} AS t WHERE {key} = $1");
            let known: i64 = sqlx::query_scalar(AssertSqlSafe(known))
                .bind(id)
                .fetch_one(&mut conn)
                .await
                .unwrap();
            assert_eq!(known, 1, "{name} {id}");
        }
    }
}

#[tokio::test]
async fn rows_that_lack_values_fill_a_page_like_others() {
    let sql = "CREATE TABLE t (id int PRIMARY KEY, x text, y numeric);
        INSERT INTO t SELECT i, nullif(i % 2, 0)::text FROM generate_series(1, 1000) AS i";
    let server = Server::start(sql, &["t"]).await;
    let page = server.get("/sync/snapshot?resources=t&limit=1000").await.expect(200);
    assert_eq!(page.data()["changes"].as_array().unwrap().len(), 1000);
    assert!(page.data()["after"].is_null());
}

#[tokio::test]
async fn a_parameter_that_stands_twice_is_refused() {
    let server = start().await;
    for address in ["pull?resources=notes&resources=tasks", "snapshot?limit=1&limit=2"] {
        let reply = server.get(&format!("/sync/{address}")).await;
        reply.expect_error(400, "INVALID_QUERY");
    }
}
