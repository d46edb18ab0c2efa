//! Constraints: the answer names the field, and shows the record that stands in the way.

use crate::support::{Reply, Server};

const TABLES: &str = "
    CREATE DOMAIN cents AS integer CONSTRAINT not_negative CHECK (value >= 0);
    CREATE TABLE parents (id int PRIMARY KEY, code text UNIQUE);
    CREATE TABLE t (
        id int PRIMARY KEY, email text UNIQUE, a int, b int, name text, code text, active boolean,
        during int4range, parent int REFERENCES parents, parent_code text REFERENCES parents (code),
        x int CHECK (x > 0), lo int, hi int, d cents, ds cents[], n int NOT NULL DEFAULT 0, q int,
        share int GENERATED ALWAYS AS (100 / q) STORED, kind int NOT NULL DEFAULT 7, nr int,
        UNIQUE (a, b), UNIQUE (kind, nr), CONSTRAINT in_order CHECK (lo <= hi), EXCLUDE USING gist (during WITH &&));
    CREATE UNIQUE INDEX t_name ON t (lower(name));
    CREATE UNIQUE INDEX t_code ON t (code) WHERE active;
    INSERT INTO parents VALUES (1, 'one'), (2, 'two');
    INSERT INTO t (id, email, a, b, name, code, active, during, parent, parent_code, nr)
        VALUES (1, 'a@x', 1, 1, 'Anna', 'c1', true, '[1,10)', 1, 'one', 1);
    INSERT INTO t (id, b, active) VALUES (2, 1, true);";

/// A PATCH of row 2 with these members, and a POST of a new row with them.
async fn tried(server: &Server, members: &str) -> [Reply; 2] {
    let post = server.post("/t", &format!("{{\"id\": 3, \"active\": true, {members}}}")).await;
    [server.patch("/t/2", None, &format!("{{{members}}}")).await, post]
}

#[tokio::test]
async fn a_taken_value_shows_the_record_that_has_it() {
    let server = Server::start(TABLES, &["parents", "t"]).await;
    for (members, fields) in [
        (r#""email": "a@x""#, &["email"][..]),
        (r#""a": 1, "b": 1"#, &["a", "b"]),
        (r#""name": "ANNA""#, &["name"]),
        (r#""code": "c1""#, &["code", "active"]),
        (r#""during": "[5,20)""#, &["during"]),
        (r#""kind": 7, "nr": 1"#, &["kind", "nr"]),
        (r#""nr": 1"#, &["kind", "nr"]),
    ] {
        for reply in tried(&server, members).await {
            let reply = reply.expect_error(409, "ALREADY_EXISTS").expect_field(fields[0]);
            assert_eq!(reply.details()["fields"], serde_json::json!(fields), "{members}");
            assert_eq!(reply.details()["current_version"], 1, "{members}: {}", reply.text);
            assert_eq!(reply.data()["id"], 1, "{members}");
            // The tag of another record must not be taken for that of the one addressed.
            let created = reply.details()["kind"] == "create_create";
            assert_eq!(reply.header("etag"), if created { "\"1\"" } else { "" }, "{members}");
        }
    }
    // What the row has already counts for what the body leaves out.
    let reply = server.patch("/t/2", None, r#"{"a": 1}"#).await.expect_error(409, "ALREADY_EXISTS");
    assert_eq!(reply.data()["id"], 1);
    let taken = server.post("/t", r#"{"id": 1}"#).await.expect_error(409, "ALREADY_EXISTS");
    assert_eq!((&taken.details()["field"], &taken.data()["email"]), (&"id".into(), &"a@x".into()));
    // Outside the index's condition nothing stands in the way.
    server.post("/t", r#"{"id": 4, "code": "c1", "active": false}"#).await.expect(201);
    let reply = server.patch("/t/4", None, r#"{"active": true}"#).await;
    assert_eq!(reply.expect_error(409, "ALREADY_EXISTS").data()["id"], 1);
    assert_eq!(server.value("SELECT sum(version) FROM t WHERE id < 3").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn references_are_refused_at_either_end() {
    let server = Server::start(TABLES, &["parents", "t"]).await;
    for (members, field) in [(r#""parent": 9"#, "parent"), (r#""parent_code": "x""#, "parent_code")]
    {
        for reply in tried(&server, members).await {
            reply.expect_error(422, "REFERENCE_NOT_FOUND").expect_field(field);
        }
    }
    let reply = server.delete("/parents/1", None).await.expect_error(409, "REFERENCED");
    assert_eq!(reply.details()["table"], "t");
    server.patch("/parents/1", None, r#"{"code": "uno"}"#).await.expect_error(409, "REFERENCED");
    server.put("/parents/1", None, "{}").await.expect_error(409, "REFERENCED");
    server.delete("/parents/1?dry_run=true", None).await.expect_error(409, "REFERENCED");
    server.delete("/parents/2", None).await.expect(204);
    assert_eq!(server.get("/parents/1").await.data()["version"], 1);
}

#[tokio::test]
async fn references_of_partitions_and_to_the_own_table_are_told_apart() {
    let server = Server::start(
        "CREATE TABLE parents (id int PRIMARY KEY);
         CREATE TABLE p (id int PRIMARY KEY, parent int REFERENCES parents, x int CHECK (x > 0), u int, UNIQUE (id, u)) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
         CREATE TABLE s (id int PRIMARY KEY, boss int REFERENCES s);
         INSERT INTO parents VALUES (1); INSERT INTO p VALUES (1, 1, 1, 1); INSERT INTO s VALUES (1, NULL), (2, 1)",
        &["parents", "p", "s"],
    )
    .await;
    server
        .post("/p", r#"{"id": 2, "parent": 9}"#)
        .await
        .expect_error(422, "REFERENCE_NOT_FOUND")
        .expect_field("parent");
    server
        .patch("/p/1", None, r#"{"parent": 9}"#)
        .await
        .expect_error(422, "REFERENCE_NOT_FOUND")
        .expect_field("parent");
    server
        .patch("/p/1", None, r#"{"x": 0}"#)
        .await
        .expect_error(422, "CHECK_FAILED")
        .expect_field("x");
    let taken = server
        .post("/p", r#"{"id": 1}"#)
        .await
        .expect_error(409, "ALREADY_EXISTS")
        .expect_field("id");
    assert_eq!(taken.data()["parent"], 1);
    // No partition takes this key.
    server.post("/p", r#"{"id": 99}"#).await.expect_error(422, "CHECK_FAILED");
    server.delete("/parents/1", None).await.expect_error(409, "REFERENCED");
    server
        .patch("/s/1", None, r#"{"boss": 9}"#)
        .await
        .expect_error(422, "REFERENCE_NOT_FOUND")
        .expect_field("boss");
    server.delete("/s/1", None).await.expect_error(409, "REFERENCED");
}

#[tokio::test]
async fn rules_name_the_fields_that_they_speak_of() {
    let server = Server::start(TABLES, &["parents", "t"]).await;
    for (members, code, fields, rule) in [
        (r#""x": 0"#, "CHECK_FAILED", &["x"][..], "t_x_check"),
        (r#""lo": 2, "hi": 1"#, "CHECK_FAILED", &["lo", "hi"], "in_order"),
        (r#""d": -1"#, "CHECK_FAILED", &["d"], "not_negative"),
        (r#""ds": [1, -1]"#, "CHECK_FAILED", &["ds"], "not_negative"),
    ] {
        for reply in tried(&server, members).await {
            let reply = reply.expect_error(422, code).expect_field(fields[0]);
            assert_eq!(reply.details()["fields"], serde_json::json!(fields), "{members}");
            assert_eq!(reply.details()["constraint"], rule, "{members}");
        }
    }
    for reply in tried(&server, r#""n": null"#).await {
        reply.expect_error(422, "INVALID_VALUE").expect_field("n");
    }
    // The value is fine; what is computed from it is not.
    for reply in tried(&server, r#""q": 0"#).await {
        reply.expect_error(422, "INVALID_VALUE");
    }
    let increment = server.post("/t/2/increment", r#"{"field": "q", "by": 0}"#).await;
    increment.expect_error(422, "INVALID_VALUE").expect_field("q");
    let far = server.post("/t/1/increment", r#"{"field": "b", "by": 2147483647}"#).await;
    far.expect_error(422, "INVALID_VALUE").expect_field("b");
    server.patch("/t/1", None, r#"{"x": 5}"#).await.expect(200);
    let below = server.post("/t/1/increment", r#"{"field": "x", "by": -5}"#).await;
    below.expect_error(422, "CHECK_FAILED").expect_field("x");
}

#[tokio::test]
async fn deferred_constraints_are_refused_like_others() {
    let server = Server::start(
        "CREATE TABLE parents (id int PRIMARY KEY);
         CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED,
             parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
         CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF new.u = 13 THEN RAISE 'relation 13 is SQL'; END IF; RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON t DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION late();
         INSERT INTO parents VALUES (1); INSERT INTO t VALUES (1, 1, 1), (2, 2, 1)",
        &["parents", "t"],
    )
    .await;
    for dry in ["", "?dry_run=true"] {
        for (body, status, code) in [
            (r#"{"u": 1}"#, 409, "ALREADY_EXISTS"),
            (r#"{"parent": 9}"#, 422, "REFERENCE_NOT_FOUND"),
            (r#"{"u": 13}"#, 422, "CHECK_FAILED"),
        ] {
            let path = format!("/t/2{dry}");
            server.patch(&path, None, body).await.expect_error(status, code);
            server.put(&path, Some("\"1\""), body).await.expect_error(status, code);
            let body = body.replacen('{', "{\"id\": 3, ", 1);
            server.post(&format!("/t{dry}"), &body).await.expect_error(status, code);
        }
        server.delete(&format!("/parents/1{dry}"), None).await.expect_error(409, "REFERENCED");
    }
    let winner = server.patch("/t/2", None, r#"{"u": 1}"#).await;
    assert_eq!(winner.data()["id"], 1, "{}", winner.text);
    assert_eq!(
        server.value("SELECT sum(version) || '/' || count(*) FROM t").await.as_deref(),
        Some("2/2")
    );
}
