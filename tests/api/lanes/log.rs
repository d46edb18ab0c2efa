//! What is written together is logged apart: each change with its own actor and operation.

use reqwest::Method;

use super::{MANY, all, patch, start};
use crate::support::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_names_its_own_actor_and_operation() {
    let server = start().await;
    for round in 0..5 {
        let changes = all(&server, 1..=MANY, |server, id| {
            let body = format!(r#"{{"n":{round}}}"#);
            patch(server, id, &body).header("x-actor", format!("actor \"{id}\" in {round}"))
        });
        for (id, reply) in changes.await {
            assert_eq!(reply.expect(200).data()["version"], round + 2, "{id}");
        }
        let creations = all(&server, 1..=MANY, |server, n| {
            let body = format!(r#"{{"text":"{n} in {round}"}}"#);
            json(server.request(Method::POST, "/events"), &body)
                .header("x-actor", format!("creator of {n} in {round}"))
        });
        for (_, reply) in creations.await {
            reply.expect(201);
        }
    }
    let wrong = "SELECT count(*) FROM counterfoil.change WHERE op <> 'baseline' AND \"by\" <> \
         CASE resource WHEN 'notes' THEN format('actor \"%s\" in %s', id, version - 2) \
         ELSE 'creator of ' || (doc ->> 'text') END";
    assert_eq!(server.value(wrong).await.as_deref(), Some("0"));
    let operations = "SELECT count(DISTINCT operation) || ' of ' || count(*) \
         FROM counterfoil.change WHERE op <> 'baseline'";
    let all = format!("{0} of {0}", 5 * 2 * MANY);
    assert_eq!(server.value(operations).await, Some(all));
}

/// A table whose owner reads who writes sees each writer alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_that_reads_the_actor_reads_each_ones_own() {
    let server = start().await;
    server
        .sql("ALTER TABLE events ADD COLUMN who text DEFAULT current_setting('counterfoil.actor', true)")
        .await;
    crate::support::wait_until("the column is known", async || {
        let reply = server.get("/events?select=who").await;
        reply.status == 200
    })
    .await;
    let created = all(&server, 1..=MANY, |server, n| {
        json(server.request(Method::POST, "/events"), r#"{"text":"x"}"#)
            .header("x-actor", format!("number {n}"))
    });
    for (n, reply) in created.await {
        assert_eq!(reply.expect(201).data()["who"], format!("number {n}"));
    }
}
