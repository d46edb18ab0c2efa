//! What is wrong with one request is no neighbour's trouble.

use reqwest::Method;
use sqlx::Connection as _;
use tokio::task::JoinSet;

use super::{MANY, all, patch, start};
use crate::support::{Reply, json, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_row_fails_alone() {
    let server = start().await;
    for round in 1..=5 {
        let replies = all(&server, 1..=MANY, |server, id| {
            let text = if id % 7 == 0 { "bad".to_owned() } else { format!("good {round}") };
            patch(server, id, &format!(r#"{{"text":"{text}"}}"#))
        });
        for (id, reply) in replies.await {
            if id % 7 == 0 {
                let reply = reply.expect_error(422, "CHECK_FAILED");
                assert_eq!(reply.json["data"]["id"], id, "the row shown is the one addressed");
            } else {
                assert_eq!(reply.expect(200).data()["version"], round + 1);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_those_who_want_one_unique_value_one_gets_it_and_the_rest_get_theirs() {
    let server = start().await;
    let replies = all(&server, 1..=MANY, |server, n| {
        let code = if n % 6 == 0 { "same".to_owned() } else { n.to_string() };
        let body = format!(r#"{{"text":"{n}","code":"{code}"}}"#);
        json(server.request(Method::POST, "/events"), &body)
    });
    let (mut winners, mut losers) = (0, 0);
    for (n, reply) in replies.await {
        if n % 6 == 0 && reply.status == 409 {
            let reply = reply.expect_error(409, "ALREADY_EXISTS");
            assert_eq!(reply.json["data"]["code"], "same");
            losers += 1;
        } else {
            assert_eq!(reply.expect(201).data()["text"], n.to_string());
            winners += usize::from(n % 6 == 0);
        }
    }
    assert_eq!((winners, losers), (1, MANY / 6 - 1));
}

/// Some of the rows are locked by somebody at `psql`, from before the writes came until long after
/// all the others were answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_somebody_else_holds_up_nobody_but_its_row() {
    const HELD: usize = 5;
    let server = start().await;
    let mut holder = server.connect().await;
    let lock = format!("BEGIN; SELECT FROM notes WHERE id <= {HELD} FOR UPDATE");
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut holder).await.unwrap();
    let mut waiting = JoinSet::new();
    for id in 1..=HELD {
        let request = patch(&server, id, r#"{"text":"late"}"#);
        waiting.spawn(async move { Reply::of(request).await });
    }
    for round in 1..=5 {
        let free = HELD + 1..=MANY;
        for (_, reply) in all(&server, free, |server, id| patch(server, id, r#"{"n":1}"#)).await {
            assert_eq!(reply.expect(200).data()["version"], round + 1);
        }
    }
    assert!(waiting.try_join_next().is_none(), "the held rows were not to be had meanwhile");
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    for reply in waiting.join_all().await {
        assert_eq!(reply.expect(200).data()["text"], "late");
    }
}

/// A second write to a row waits for the next statement; it is never lost, and never first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_to_one_row_draw_one_line_of_versions() {
    let server = start().await;
    let replies = all(&server, 0..4 * MANY, |server, n| {
        // Half of them to a single row, the others to all.
        let id = if n % 2 == 0 { 1 } else { n % MANY + 1 };
        json(server.request(Method::POST, &format!("/notes/{id}/increment")), r#"{"field":"n"}"#)
    });
    let mut seen = std::collections::HashSet::new();
    for (_, reply) in replies.await {
        let reply = reply.expect(200);
        let (id, version) = (reply.data()["id"].clone(), reply.data()["version"].clone());
        assert_eq!(reply.data()["n"].as_i64().unwrap() + 1, version.as_i64().unwrap());
        assert!(seen.insert((id.to_string(), version.to_string())), "a version was given twice");
    }
    let stored = server.value("SELECT sum(n) FROM notes").await;
    assert_eq!(stored, Some((4 * MANY).to_string()));
    let gaps = "SELECT string_agg(a::text, '; ') FROM counterfoil.audit() AS a";
    assert_eq!(server.value(gaps).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_body_and_one_that_is_refused_travel_with_small_ones() {
    let server = start().await;
    let huge = "x".repeat(900_000);
    let replies = all(&server, 1..=MANY, |server, id| match id {
        7 => patch(server, id, &format!(r#"{{"text":"{huge}"}}"#)),
        8 => patch(server, id, r#"{"text":"cannot be stored: \u0000"}"#),
        9 => patch(server, id, r#"{"n":99999999999}"#),
        _ => patch(server, id, &format!(r#"{{"text":"small {id}"}}"#)),
    });
    for (id, reply) in replies.await {
        match id {
            7 => assert_eq!(reply.expect(200).data()["text"].as_str().unwrap().len(), huge.len()),
            8 | 9 => assert_eq!(reply.expect_error(422, "INVALID_VALUE").json["data"]["id"], id),
            _ => assert_eq!(reply.expect(200).data()["text"], format!("small {id}")),
        }
    }
}

/// A trigger that takes its time, here until the test lets it go, is met outside of the lanes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_trigger_of_another_table_holds_nobody_up() {
    let server = start().await;
    server
        .sql(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END';
             CREATE TRIGGER dawdle BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION dawdle()",
        )
        .await;
    let mut holder = server.connect().await;
    sqlx::raw_sql("SELECT pg_advisory_lock(7)").execute(&mut holder).await.unwrap();
    let mut slow = JoinSet::new();
    for _ in 0..3 {
        let request = json(server.request(Method::POST, "/events"), r#"{"text":"slow"}"#);
        slow.spawn(async move { Reply::of(request).await });
    }
    let mut observer = server.connect().await;
    wait_until("the trigger is met", async || {
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        sqlx::query_scalar::<_, i64>(waits).fetch_one(&mut observer).await.unwrap() >= 1
    })
    .await;
    for round in 1..=3 {
        for (_, reply) in all(&server, 1..=MANY, |server, id| patch(server, id, r#"{"n":1}"#)).await
        {
            assert_eq!(reply.expect(200).data()["version"], round + 1);
        }
    }
    assert!(slow.try_join_next().is_none(), "the trigger holds its own writers");
    sqlx::raw_sql("SELECT pg_advisory_unlock(7)").execute(&mut holder).await.unwrap();
    holder.close().await.unwrap();
    for reply in slow.join_all().await {
        reply.expect(201);
    }
}

/// A unique value that an open transaction holds cannot be seen beforehand: a statement that meets it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unique_value_that_somebody_else_holds_keeps_only_those_waiting_who_want_it() {
    const WANTING: usize = 4;
    let server = start().await;
    let mut holder = server.connect().await;
    let hold = "BEGIN; INSERT INTO notes (id, text, code) VALUES (1000, 'theirs', 'held')";
    sqlx::raw_sql(hold).execute(&mut holder).await.unwrap();
    let mut wanting = JoinSet::new();
    for id in 1..=WANTING {
        let request = patch(&server, id, r#"{"code":"held"}"#);
        wanting.spawn(async move { Reply::of(request).await });
    }
    for round in 1..=2 {
        let replies = all(&server, WANTING + 1..=MANY, |server, id| {
            patch(server, id, &format!(r#"{{"code":"{id} in {round}"}}"#))
        });
        for (_, reply) in replies.await {
            assert_eq!(reply.expect(200).data()["version"], round + 1);
        }
    }
    let early = wanting.try_join_next().map(|reply| reply.unwrap().text);
    assert_eq!(early, None, "the value was not to be had meanwhile");
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    let mut winners = 0;
    for reply in wanting.join_all().await {
        if reply.status == 200 {
            assert_eq!(reply.data()["code"], "held");
            winners += 1;
        } else {
            reply.expect_error(409, "ALREADY_EXISTS");
        }
    }
    assert_eq!(winners, 1);
}
