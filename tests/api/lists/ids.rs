//! Lists that name their records go another way than all others. Nothing is to be seen of that.

use std::sync::Arc;

use reqwest::Method;
use tokio::task::JoinSet;

use crate::support::{Reply, Server};

const TABLES: &str = "
    CREATE TABLE people (id uuid PRIMARY KEY, name text, secret text);
    INSERT INTO people
        SELECT ('01a11e82-d0bc-7367-9c39-' || lpad(to_hex(n * 7919), 12, '0'))::uuid, 'person ' || n, 's'
        FROM generate_series(1, 40) AS n;
    CREATE TABLE numbers (id smallint PRIMARY KEY, name text);
    INSERT INTO numbers SELECT n, 'number ' || n FROM generate_series(-5, 34) AS n;
    CREATE TABLE words (id text PRIMARY KEY, name text);
    INSERT INTO words VALUES ('a', 'A'), ('B', 'b'), ('ä', 'Ä');
    CREATE EXTENSION pg_stat_statements;";

async fn start() -> Arc<Server> {
    let tables = ["people", "numbers", "words"];
    Arc::new(Server::configured(TABLES, &tables, "[server]\nlanes = 1").await)
}

async fn get(server: &Server, path: &str, counts: bool) -> Reply {
    let request = server.request(Method::GET, path);
    let request = if counts { request.header("prefer", "count=exact") } else { request };
    Reply::of(request).await
}

/// The same question within `and=(…)` goes the usual way.
#[tokio::test]
async fn a_list_of_ids_is_answered_as_any_other_list() {
    let server = start().await;
    let uuid = |n: usize| format!("01a11e82-d0bc-7367-9c39-{:012x}", n * 7919);
    let people: Vec<_> = [3, 1, 2, 41, 1].into_iter().map(uuid).collect();
    let upper = people.join(",").to_uppercase();
    let people = people.join(",");
    for (table, ids) in [
        ("people", people.as_str()),
        ("people", upper.as_str()),
        ("people", "no-uuid"),
        ("numbers", "10,9,-5,-4,007,99,\"3\""),
        ("numbers", "1,40000"),
        ("numbers", "1,x"),
        ("words", "a,B,\"ä\",c"),
        ("words", ""),
    ] {
        for rest in ["", "&order=id.desc", "&order=name", "&select=name", "&limit=2", "&limit=9"] {
            for counts in [false, true] {
                let named = get(&server, &format!("/{table}?id=in.({ids}){rest}"), counts).await;
                let usual = format!("/{table}?and=(id.in.({ids})){rest}");
                let usual = get(&server, &usual, counts).await;
                assert_eq!(named.status, usual.status, "{table} {ids} {rest}: {}", named.text);
                if named.status == 200 {
                    assert_eq!(named.json["data"], usual.json["data"], "{table} {ids} {rest}");
                    let next = |reply: &Reply| reply.json["page"]["next"].is_null();
                    assert_eq!(next(&named), next(&usual), "{table} {ids} {rest}");
                    assert_eq!(
                        named.headers.get("content-range"),
                        usual.headers.get("content-range"),
                        "{table} {ids} {rest}"
                    );
                } else {
                    assert_eq!(named.code(), usual.code(), "{table} {ids} {rest}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_look_up_records_at_once_share_statements() {
    const MANY: usize = 40;
    let server = start().await;
    for _ in 0..10 {
        let mut sent = JoinSet::new();
        for n in 0..MANY {
            let server = server.clone();
            sent.spawn(async move {
                let (one, other) = (n % 30, n % 30 + 4);
                let path = format!("/numbers?id=in.({other},{one},500)&select=id");
                (one, other, get(&server, &path, false).await)
            });
        }
        for (one, other, reply) in sent.join_all().await {
            let rows = reply.expect(200).json["data"].clone();
            let ids: Vec<_> =
                rows.as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
            assert_eq!(ids, [one, other]);
        }
    }
    let calls = server.value(
        "SELECT sum(calls) FROM pg_stat_statements WHERE query LIKE '%JOIN \"public\".\"numbers\"%'
         AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())",
    );
    let calls: usize = calls.await.unwrap().parse().unwrap();
    assert!((1..10 * MANY).contains(&calls), "{calls} statements");
}
