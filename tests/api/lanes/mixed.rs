//! Requests that are alike only in part share a statement too: patches of different columns, and all
//! that missed.

use std::sync::Arc;

use reqwest::Method;

use super::{MANY, all, calls};
use crate::support::{Server, json};

const THINGS: &str = "
    CREATE TABLE things (
        id integer PRIMARY KEY,
        name text,
        short varchar(5),
        price numeric(10,2),
        rate double precision,
        small smallint NOT NULL DEFAULT 1 CHECK (small < 100),
        open boolean,
        at timestamptz,
        day date,
        ref uuid,
        tags text[],
        more jsonb);
    INSERT INTO things (id, name, short, price, rate, tags, more)
        SELECT id, 'thing', 'abc', 1.5, 0.1, '{a,b}', '{\"k\": 1}' FROM generate_series(1, 200) AS id;
    CREATE EXTENSION pg_stat_statements;";

async fn start() -> Arc<Server> {
    Arc::new(Server::configured(THINGS, &["things"], "[server]\nlanes = 1").await)
}

/// Bodies that set various columns to values that are easily changed on their way.
const BODIES: [&str; 16] = [
    r#"{"name":"tab\tand \"quotes\" \\ \u00fc \ud83d\ude00"}"#,
    r#"{"name":"","short":"     "}"#,
    r#"{"name":null,"price":12345678.905}"#,
    r#"{"name":"null","rate":-0.0}"#,
    r#"{"rate":1e-300,"open":true}"#,
    r#"{"rate":"NaN"}"#,
    r#"{"rate":"-Infinity","open":false}"#,
    r#"{"at":"2026-11-30T09:12:44.120031+02:00"}"#,
    r#"{"at":"infinity","day":"-infinity"}"#,
    r#"{"day":"2024-02-29","ref":"01A11E82-D0BC-7367-9C39-5E9873953DDE"}"#,
    r#"{"small":-7,"short":"äöü"}"#,
    r#"{"price":0.10,"name":"{}"}"#,
    r#"{"tags":["x",null,"y,z"]}"#,
    r#"{"more":{"k":{"deep":[1,2.50]}},"name":"with json"}"#,
    r#"{"short":null,"open":null,"at":null}"#,
    "{}",
];

/// What a row becomes does not depend on whom it shared its statement with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_of_different_columns_do_together_what_each_does_alone() {
    let server = start().await;
    for round in 0..8 {
        let body = |id: usize| BODIES[(id * 7 + round * 5) % BODIES.len()];
        let together = all(&server, 1..=MANY, |server, id| {
            json(server.request(Method::PATCH, &format!("/things/{id}")), body(id))
        });
        for (id, reply) in together.await {
            assert_eq!(reply.expect(200).data()["id"], id);
            server.patch(&format!("/things/{}", id + 100), None, body(id)).await.expect(200);
        }
    }
    let differing = server.value(
        "SELECT string_agg(t.id::text, ' ') FROM things AS t JOIN things AS a ON a.id = t.id + 100
         WHERE (to_jsonb(t) - 'id') <> (to_jsonb(a) - 'id') OR t.rate::text <> a.rate::text",
    );
    assert_eq!(differing.await, None);
    let logged = server.value(
        "SELECT string_agg(t.id, ' ') FROM counterfoil.change AS t JOIN counterfoil.change AS a
         ON a.resource = t.resource AND a.id = (t.id::int + 100)::text AND a.version = t.version
         WHERE t.id::int <= 48 AND t.version > 1
         AND (t.doc::jsonb - 'id' <> a.doc::jsonb - 'id' OR t.op <> a.op)",
    );
    assert_eq!(logged.await, None);
    assert!(calls(&server, "%g.sets%").await > 0, "they never shared a statement");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_does_not_fit_is_refused_by_name_and_alone() {
    let server = start().await;
    let bad = [
        (r#"{"short":"sechse"}"#, "INVALID_VALUE", "short"),
        (r#"{"price":123456789.5}"#, "INVALID_VALUE", "price"),
        (r#"{"small":100}"#, "CHECK_FAILED", "small"),
        (r#"{"small":null}"#, "INVALID_VALUE", "small"),
    ];
    for _ in 0..4 {
        let replies = all(&server, 1..=MANY, |server, id| {
            let body = if id % 5 == 0 { bad[id / 5 % 4].0 } else { BODIES[id % BODIES.len()] };
            json(server.request(Method::PATCH, &format!("/things/{id}")), body)
        });
        for (id, reply) in replies.await {
            if id % 5 == 0 {
                let (_, code, field) = bad[id / 5 % 4];
                assert_eq!(reply.expect_error(422, code).details()["field"], field);
            } else {
                reply.expect(200);
            }
        }
    }
    let raised = "SELECT count(*) FROM things WHERE id <= 48 AND (version <> 5) <> (id % 5 = 0)";
    assert_eq!(server.value(raised).await.as_deref(), Some("0"));
}

/// The losers of a group are told by one statement what each of them lost against.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losers_are_explained_together_and_each_its_own_row() {
    const ROUNDS: usize = 10;
    let server = start().await;
    let theirs =
        "UPDATE things SET name = 'theirs ' || id, price = id; DELETE FROM things WHERE id = 7";
    server.sql(theirs).await;
    for _ in 0..ROUNDS {
        let replies = all(&server, 1..=MANY, |server, id| {
            let path = format!("/things/{id}");
            let request = match id % 4 {
                0 => json(
                    server.request(Method::PATCH, &path),
                    &format!(r#"{{"name":"mine {id}"}}"#),
                ),
                1 => json(server.request(Method::PATCH, &path), r#"{"open":true,"name":"thing"}"#),
                2 => server.request(Method::DELETE, &path),
                _ => {
                    let body = r#"{"field":"small"}"#;
                    json(server.request(Method::POST, &format!("{path}/increment")), body)
                }
            };
            request.header("if-match", "\"1\"")
        });
        for (id, reply) in replies.await {
            if id == 7 {
                let reply = reply.expect_error(410, "RECORD_DELETED");
                assert_eq!(reply.details()["current_version"], 3);
                continue;
            }
            let reply = reply.expect_error(409, "WRITE_CONFLICT");
            assert_eq!(reply.header("etag"), "\"2\"");
            assert_eq!(reply.json["data"]["id"], id);
            assert_eq!(reply.json["data"]["name"], format!("theirs {id}"));
            assert_eq!(reply.details()["your_version"], 1);
            let verdict = |field: &str| {
                let fields = reply.details()["fields"].as_array().unwrap();
                fields.iter().find(|f| f["field"] == field).map(|f| f["verdict"].clone())
            };
            match id % 4 {
                0 => assert_eq!(verdict("name").unwrap(), "both"),
                1 => {
                    assert_eq!(verdict("open").unwrap(), "yours");
                    assert_eq!(verdict("name").unwrap(), "theirs");
                }
                _ => {}
            }
        }
    }
    assert_eq!(server.value("SELECT max(version) FROM things").await.as_deref(), Some("2"));
    let explained = calls(&server, "%LEFT JOIN LATERAL%").await;
    assert!((1..ROUNDS * MANY).contains(&explained), "{explained} explanations");
}
