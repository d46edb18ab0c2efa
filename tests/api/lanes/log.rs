//! What is written together is logged apart: each change with its own actor and operation.

use std::sync::Arc;

use reqwest::Method;

use super::{MANY, all, patch, start};
use crate::support::{Server, json};

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

/// Their ids are known beforehand, and still they are new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_creates_by_put_in_company_is_named() {
    let server = start().await;
    let creations = all(&server, 1001..=1000 + MANY, |server, id| {
        let request = server.request(Method::PUT, &format!("/notes/{id}"));
        let request = request.header("if-none-match", "*").header("x-actor", format!("{id}"));
        json(request, r#"{"text":"new"}"#)
    });
    for (id, reply) in creations.await {
        assert_eq!(reply.expect(201).data()["id"], id);
    }
    let wrong = "SELECT string_agg(id || ' by ' || \"by\", ', ') FROM counterfoil.change \
         WHERE op = 'create' AND \"by\" <> id";
    assert_eq!(server.value(wrong).await, None);
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

/// What an update takes along in other tables is its writer's doing, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_an_update_takes_along_are_logged_as_its_writers() {
    let sql = "CREATE TABLE parents (id int PRIMARY KEY, name text UNIQUE);
        CREATE TABLE children (id int PRIMARY KEY, parent text REFERENCES parents (name) ON UPDATE CASCADE);
        INSERT INTO parents SELECT i, 'p' || i FROM generate_series(1, 48) AS i;
        INSERT INTO children SELECT 49 - i, 'p' || i FROM generate_series(1, 48) AS i";
    let tables = ["parents", "children"];
    let server = Arc::new(Server::configured(sql, &tables, "[server]\nlanes = 1").await);
    let renamed = all(&server, 1..=MANY, |server, id| {
        let patch = server.request(Method::PATCH, &format!("/parents/{id}"));
        json(patch, &format!(r#"{{"name":"by {id}"}}"#)).header("x-actor", format!("by {id}"))
    });
    for (_, reply) in renamed.await {
        reply.expect(200);
    }
    let told = "SELECT count(*) FROM counterfoil.change \
        WHERE resource = 'children' AND op = 'update' AND \"by\" = doc ->> 'parent'";
    assert_eq!(server.value(told).await, Some(MANY.to_string()));
}

/// So is what a domain's own function reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_domain_that_reads_the_actor_reads_each_ones_own() {
    let sql = "CREATE TABLE seen (who text);
        CREATE FUNCTION see(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO seen VALUES (current_setting('counterfoil.actor', true)); RETURN true; END $$;
        CREATE DOMAIN watched AS text CHECK (see(value));
        CREATE DOMAIN inner_watched AS watched;
        CREATE TABLE t (id int PRIMARY KEY, x inner_watched);
        INSERT INTO t SELECT i FROM generate_series(1, 48) AS i; DELETE FROM seen";
    let server = Arc::new(Server::configured(sql, &["t"], "[server]\nlanes = 1").await);
    let written = all(&server, 1..=MANY, |server, id| {
        let patch = server.request(Method::PATCH, &format!("/t/{id}"));
        json(patch, r#"{"x":"y"}"#).header("x-actor", format!("number {id}"))
    });
    for (_, reply) in written.await {
        reply.expect(200);
    }
    let seen = server.value("SELECT count(DISTINCT who) FROM seen WHERE who LIKE 'number %'").await;
    assert_eq!(seen, Some(MANY.to_string()));
}
