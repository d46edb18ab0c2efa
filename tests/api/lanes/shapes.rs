//! Requests that wait for one lane in a known order, and are not alike: whoever stands first decides what the next
//! statement is, and nobody else may come into it. Every column may be NULL here, so that a statement which is not
//! one's own would go through.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json as value};
use tokio::task::JoinSet;

use super::busy::Busy;
use crate::support::wire::Cut;
use crate::support::{Reply, json, wait_until};

const TABLES: &str = "
    CREATE TABLE notes (id integer PRIMARY KEY, text text);
    INSERT INTO notes VALUES (1, 'note');
    CREATE TABLE words (id text PRIMARY KEY, a text DEFAULT 'none', b text DEFAULT 'none', n integer DEFAULT 0, m integer DEFAULT 0);
    INSERT INTO words SELECT 'w' || i, 'a', 'b', 1, 1 FROM generate_series(1, 64) AS i;
    INSERT INTO words VALUES ('keeper', 'a', 'b', 1, 1);
    CREATE TABLE other (LIKE words INCLUDING ALL);
    INSERT INTO other SELECT * FROM words;";

/// Sends requests one after another into a queue, so that they stand in it in this order, then lets the lane go.
async fn in_order(busy: &Busy, lane: &str, requests: Vec<RequestBuilder>) -> Vec<Reply> {
    let gauge = format!("counterfoil_lane_queue{{lane=\"{lane}\"}}");
    let mut sent = JoinSet::new();
    for (place, request) in requests.into_iter().enumerate() {
        sent.spawn(async move { (place, Reply::of(request).await) });
        wait_until("it is in the queue", async || busy.gauge(&gauge).await == place + 1).await;
    }
    busy.wire.release();
    let mut replies = sent.join_all().await;
    replies.sort_by_key(|(place, _)| *place);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

/// A write to a word, and what the word's columns are afterwards; `None` where it is gone.
type Case = (Method, &'static str, &'static str, Option<Value>);

fn cases() -> Vec<Case> {
    vec![
        (Method::PATCH, "", r#"{"a":"x"}"#, Some(value!(["x", "b", 1, 1]))),
        (Method::PATCH, "", r#"{"b":"x"}"#, Some(value!(["a", "x", 1, 1]))),
        (Method::PATCH, "", r#"{"a":"x","b":null}"#, Some(value!(["x", null, 1, 1]))),
        (Method::PUT, "", r#"{"a":"x"}"#, Some(value!(["x", "none", 0, 0]))),
        (Method::PUT, "", r#"{"b":"x"}"#, Some(value!(["none", "x", 0, 0]))),
        (Method::POST, "/increment", r#"{"field":"n"}"#, Some(value!(["a", "b", 2, 1]))),
        (Method::POST, "/increment", r#"{"field":"m"}"#, Some(value!(["a", "b", 1, 2]))),
        (Method::DELETE, "", "", None),
    ]
}

/// Each kind of write stands first once, ahead of all the others, and in two tables that are alike.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_are_not_alike_are_never_one_statement() {
    let busy = Busy::start(TABLES, &["notes", "words", "other"]).await;
    let mut cases = cases();
    for round in 0..cases.len() {
        cases.rotate_left(1);
        let each = cases.iter().enumerate().flat_map(|(place, case)| {
            let id = format!("w{}", round * cases.len() + place + 1);
            ["words", "other"].map(|table| (table, id.clone(), case))
        });
        let each: Vec<_> = each.collect();
        let requests = each.iter().map(|(table, id, (method, under, body, _))| {
            let request = busy.door.request(method.clone(), &format!("/{table}/{id}{under}"));
            if body.is_empty() { request } else { json(request, body) }
        });
        let first = busy.keep().await;
        let replies = in_order(&busy, "writes", requests.collect()).await;
        first.await.unwrap().expect(200);
        for ((table, id, (method, _, body, after)), reply) in each.iter().zip(replies) {
            let what = format!("{method} {body} in round {round}: {} {}", reply.status, reply.text);
            let stored = format!(
                "SELECT json_build_array(a, b, n, m)::jsonb FROM {table} WHERE id = '{id}'"
            );
            let stored = busy.value(&stored).await.map(|row| serde_json::from_str(&row).unwrap());
            assert_eq!(&stored, after, "{what}");
            if let Some(after) = after {
                let row = reply.data();
                assert_eq!(row["id"], **id, "{what}");
                assert_eq!(&value!([row["a"], row["b"], row["n"], row["m"]]), after, "{what}");
            } else {
                assert_eq!(reply.status, 204, "{what}");
            }
        }
    }
}

/// The same for reads: of other columns, of all, and of another table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_are_not_alike_are_never_one_statement() {
    let tables = format!("{TABLES} UPDATE other SET a = 'other'");
    let busy = Busy::start(&tables, &["notes", "words", "other"]).await;
    let mut cases = [
        ("words", "?select=a", value!({"a": "a", "version": 1})),
        ("words", "?select=b,n", value!({"b": "b", "n": 1, "version": 1})),
        ("words", "", value!({"id": "", "a": "a", "b": "b", "n": 1, "m": 1, "version": 1})),
        ("other", "?select=a", value!({"a": "other", "version": 1})),
        ("other", "", value!({"id": "", "a": "other", "b": "b", "n": 1, "m": 1, "version": 1})),
    ];
    for _ in 0..cases.len() {
        cases.rotate_left(1);
        busy.wire.cut(Cut::Wait, "keeper", 1);
        let first = tokio::spawn(Reply::of(busy.door.request(Method::GET, "/words/keeper")));
        wait_until("the lane is kept", async || busy.wire.holds()).await;
        let requests = (1..=10).map(|n| {
            let (table, select, _) = &cases[n % cases.len()];
            busy.door.request(Method::GET, &format!("/{table}/w{n}{select}"))
        });
        let replies = in_order(&busy, "reads", requests.collect()).await;
        first.await.unwrap().expect(200);
        for (n, reply) in (1..).zip(replies) {
            let mut expected = cases[n % cases.len()].2.clone();
            if expected.get("id").is_some() {
                expected["id"] = format!("w{n}").into();
            }
            assert_eq!(reply.expect(200).data(), &expected, "w{n}");
        }
    }
}

/// Two answers at each other's place, as a defect would have it: here the database itself turns every list round
/// before it numbers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_at_the_wrong_place_reaches_nobody() {
    let turned = format!(
        "{TABLES} CREATE SCHEMA turned;
        CREATE FUNCTION turned.unnest(list text[]) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS
            'SELECT x FROM pg_catalog.unnest(list) WITH ORDINALITY AS l(x, i) ORDER BY i DESC';
        DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = turned, pg_catalog, public',
            current_database()); END $$;"
    );
    let busy = Busy::start(&turned, &["public.notes", "public.words"]).await;
    busy.wire.cut(Cut::Wait, "keeper", 1);
    let first = tokio::spawn(Reply::of(busy.door.request(Method::GET, "/words/keeper")));
    wait_until("the lane is kept", async || busy.wire.holds()).await;
    let reads = (1..=10).map(|n| busy.door.request(Method::GET, &format!("/words/w{n}")));
    let replies = in_order(&busy, "reads", reads.collect()).await;
    first.await.unwrap().expect(200);
    for (n, reply) in (1..).zip(replies) {
        assert_eq!(reply.expect(200).data()["id"], format!("w{n}"));
    } // They did come back turned round, and were asked for once more by themselves.
    assert!(busy.gauge("counterfoil_lane_left_total{lane=\"reads\"}").await > 1);
}
