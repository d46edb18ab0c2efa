//! Parallel repeats.

use futures_util::future::join_all;
use reqwest::Method;
use sqlx::Connection as _;

use super::{content, is_replay, keyed, notes};
use crate::support::{Reply, scale};

/// How many requests at once under each key.
const COPIES: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn parallel_repeats_have_one_effect_and_one_answer() {
    let server = notes().await;
    let keys_in_all = scale(300, 10_000);
    let begun = std::time::Instant::now();
    let mut replays = 0;
    for keys in (0..keys_in_all).collect::<Vec<_>>().chunks(10) {
        let requests = keys.iter().flat_map(|key| {
            let path = format!("/notes/{}/increment", key % 20 + 1);
            let key = format!("key-{key}");
            let request =
                || Reply::of(keyed(&server, Method::POST, &path, &key, r#"{"field":"n"}"#));
            (0..COPIES).map(|_| request()).collect::<Vec<_>>()
        });
        let replies = join_all(requests.collect::<Vec<_>>()).await;
        for copies in replies.chunks(COPIES) {
            let answered: Vec<_> = copies.iter().filter(|reply| reply.status == 200).collect();
            for reply in copies.iter().filter(|reply| reply.status != 200) {
                assert_eq!(reply.code(), "OPERATION_IN_PROGRESS", "{}", reply.text);
            }
            assert_eq!(answered.iter().filter(|reply| !is_replay(reply)).count(), 1);
            assert!(answered.iter().all(|reply| content(reply) == content(answered[0])));
            replays += answered.len() - 1;
        }
    }
    println!("{keys_in_all} keys x {COPIES}: {replays} replays in {:?}", begun.elapsed());
    assert_eq!(server.value("SELECT sum(n) FROM notes").await, Some(keys_in_all.to_string()));
    let changes = "SELECT count(*) FROM counterfoil.change WHERE op = 'update'";
    assert_eq!(server.value(changes).await, Some(keys_in_all.to_string()));
    let kept = "SELECT count(*) FROM counterfoil.operation WHERE status = 'completed'";
    assert_eq!(server.value(kept).await, Some(keys_in_all.to_string()));
}

#[tokio::test]
async fn a_repeat_of_a_request_that_runs_on_is_told_to_come_back() {
    let server = notes().await;
    // The row is held, so the first request stays under way.
    let mut holder = server.connect().await;
    let mut held = holder.begin().await.unwrap();
    sqlx::query("SELECT FROM notes WHERE id = 1 FOR UPDATE").execute(&mut *held).await.unwrap();
    let send =
        || Reply::of(keyed(&server, Method::POST, "/notes/1/increment", "k", r#"{"field":"n"}"#));
    let (first, second) = tokio::join!(send(), async {
        crate::support::wait_until("the first has its key", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                           AND datname = current_database()";
            server.value(waiting).await.as_deref() == Some("1")
        })
        .await;
        send().await
    });
    // The first gave the lock up and its key with it; the second waited for the key.
    first.expect_error(503, "LOCK_TIMEOUT");
    let second = if second.status == 409 {
        assert_eq!(second.header("retry-after"), "1");
        second.expect_error(409, "OPERATION_IN_PROGRESS")
    } else {
        second.expect_error(503, "LOCK_TIMEOUT")
    };
    drop(second);
    held.rollback().await.unwrap();
    assert!(!is_replay(&send().await.expect(200)));
    assert_eq!(server.value("SELECT n FROM notes WHERE id = 1").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_key_that_somebody_is_about_to_take_is_waited_for_within_bounds() {
    let server = notes().await;
    let mut holder = server.connect().await;
    let mut held = holder.begin().await.unwrap();
    sqlx::query(
        "INSERT INTO counterfoil.operation (key, id, fingerprint, kind, method, path, actor, expires_at) \
         VALUES ('k', gen_random_uuid(), '', 'write', 'POST', '/', 'mina', now() + interval '1 day')",
    )
    .execute(&mut *held)
    .await
    .unwrap();
    let send =
        || Reply::of(keyed(&server, Method::POST, "/notes/1/increment", "k", r#"{"field":"n"}"#));
    let told = send().await.expect_error(409, "OPERATION_IN_PROGRESS");
    assert_eq!(told.header("retry-after"), "1");
    held.commit().await.unwrap();
    send().await.expect_error(422, "IDEMPOTENCY_KEY_REUSED");
}
