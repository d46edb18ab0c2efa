//! Rules that the table's owner wrote: triggers and row security.

use crate::support::{Reply, Server};

const TABLE: &str = "
    CREATE TABLE t (id int PRIMARY KEY, say text, n int);
    CREATE TABLE side (id int PRIMARY KEY, must text NOT NULL);
    CREATE FUNCTION rule() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE got record; said text := CASE WHEN tg_op = 'DELETE' THEN old.say ELSE new.say END;
    BEGIN
        CASE said
            WHEN 'plain' THEN RAISE EXCEPTION 'relation \"t\" violates SQL';
            WHEN 'skip' THEN RETURN NULL;
            WHEN 'strict' THEN SELECT * INTO STRICT got FROM side;
            WHEN 'assert' THEN ASSERT false, 'column \"x\" does not exist';
            WHEN 'case' THEN CASE 1 WHEN 2 THEN NULL; END CASE;
            WHEN 'two' THEN new.n := (SELECT * FROM generate_series(1, 2));
            WHEN 'zero' THEN new.n := 1 / 0;
            WHEN 'again' THEN UPDATE t SET n = n + 1 WHERE id = new.id;
            WHEN 'side' THEN INSERT INTO side VALUES (1, NULL);
            ELSE IF said LIKE 'code %' THEN RAISE EXCEPTION 'SQL' USING ERRCODE = substr(said, 6); END IF;
        END CASE;
        RETURN CASE WHEN tg_op = 'DELETE' THEN old ELSE new END;
    END $$;
    INSERT INTO t VALUES (1, 'fine', 1);
    CREATE TRIGGER rule BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION rule();";

#[tokio::test]
async fn what_a_trigger_raises_is_a_rule_and_its_words_stay_inside() {
    let server = Server::start(TABLE, &["t"]).await;
    let codes = [
        "P0001", "45000", "U0001", "P0002", "2F005", "38001", "39004", "XX001", "0A000", "42P01",
        "22023", "28000", "99999", "ABCDE", "23505", "23503", "23502", "42883",
    ];
    let said: Vec<_> = codes.iter().map(|code| format!("code {code}")).collect();
    let says = ["plain", "skip", "strict", "assert", "case", "two", "again"];
    for say in says.into_iter().chain(said.iter().map(String::as_str)) {
        let body = format!("{{\"say\": \"{say}\"}}");
        for reply in [
            server.patch("/t/1", None, &body).await,
            server.put("/t/1", Some("\"1\""), &body).await,
            server.patch_as("application/merge-patch+json", "/t/1?dry_run=true", &body).await,
        ] {
            assert_eq!(
                (reply.status, reply.code()),
                (422, "CHECK_FAILED"),
                "{say}: {}",
                reply.text
            );
        }
        if say != "again" {
            let post = server.post("/t", &format!("{{\"id\": 2, \"say\": \"{say}\"}}")).await;
            assert_eq!((post.status, post.code()), (422, "CHECK_FAILED"), "{say}: {}", post.text);
        }
    }
    for say in ["zero", "code 22012"] {
        let reply = server.patch("/t/1", None, &format!("{{\"say\": \"{say}\"}}")).await;
        assert_eq!(reply.status, 422, "{say}: {}", reply.text);
    }
    let reply = server.patch("/t/1", None, r#"{"say": "side"}"#).await;
    assert_eq!(reply.status, 422, "{}", reply.text);
    server.patch("/t/1", None, r#"{"say": "code 42501"}"#).await.expect_error(403, "NOT_ALLOWED");
    server.patch("/t/1", None, r#"{"say": "code 40001"}"#).await.expect_error(503, "OVERLOADED");
    server.patch("/t/1", None, r#"{"say": "code 55P03"}"#).await.expect_error(503, "LOCK_TIMEOUT");
    let still = server.value("SELECT (t.*)::text FROM t").await;
    assert_eq!(still.as_deref(), Some("(1,fine,1,1)"));
}

#[tokio::test]
async fn a_trigger_that_keeps_a_row_from_going_is_told_as_a_rule() {
    let server = Server::start(TABLE, &["t"]).await;
    server.sql("ALTER TABLE t DISABLE TRIGGER rule; UPDATE t SET say = 'skip'; ALTER TABLE t ENABLE TRIGGER rule").await;
    server.delete("/t/1", None).await.expect_error(422, "CHECK_FAILED");
    server.delete("/t/1", Some("\"2\"")).await.expect_error(422, "CHECK_FAILED");
    server.delete("/t/1?dry_run=true", None).await.expect_error(422, "CHECK_FAILED");
    server.delete("/t/1", Some("\"1\"")).await.expect_error(409, "WRITE_CONFLICT");
    server.post("/t/1/increment", r#"{"field": "n"}"#).await.expect_error(422, "CHECK_FAILED");
    server.get("/t/1").await.expect(200);
    server.patch("/t/1", None, r#"{"say": "well"}"#).await.expect(200);
    server.delete("/t/1", None).await.expect(204);
}

const SHARED: &str = "
    CREATE TABLE t (id int PRIMARY KEY, owner text, n int);
    INSERT INTO t VALUES (1, 'me', 1), (2, 'you', 1), (3, 'none', 1);
    ALTER TABLE t ENABLE ROW LEVEL SECURITY;
    CREATE POLICY reading ON t FOR SELECT USING (owner <> 'none');
    CREATE POLICY adding ON t FOR INSERT WITH CHECK (owner = 'me');
    CREATE POLICY changing ON t FOR UPDATE USING (owner = 'me') WITH CHECK (owner IN ('me', 'you'));";

/// A server that comes to its database as a role of few rights.
async fn as_clerk(sql: &str) -> Server {
    let owner = Server::start(sql, &["t"]).await;
    // Roles belong to all databases, so one may be left from an earlier run.
    owner
        .sql(
            "DO $$ BEGIN CREATE ROLE clerk LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
             SELECT counterfoil.entrust_service('clerk');
             GRANT SELECT, INSERT, UPDATE ON t TO clerk",
        )
        .await;
    let (head, rest) = owner.database_url.split_once("://").unwrap();
    let (_, rest) = rest.split_once('@').unwrap();
    Server::on(&format!("{head}://clerk@{rest}"), "").await
}

#[tokio::test]
async fn an_entrusted_role_may_serve_all_there_is() {
    let server =
        as_clerk("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)").await;
    let request = || {
        let patch = server.request(reqwest::Method::PATCH, "/t/1").header("idempotency-key", "one");
        crate::support::json(patch, r#"{"n": 2}"#)
    };
    Reply::of(request()).await.expect(200);
    let again = Reply::of(request()).await.expect(200);
    assert_eq!(again.header("idempotency-replayed"), "true");
    let mutation = r#"{"client_id": "0193a0b4-7f66-7cc3-8d5c-0f2a3b4c5d6e", "mutations":
        [{"id": 1, "op": "patch", "resource": "t", "record_id": "1", "base_version": 2, "data": {"n": 3}}]}"#;
    let pushed = server.post("/sync/push", mutation).await.expect(200);
    assert_eq!(pushed.data()["results"][0]["status"], "applied", "{}", pushed.text);
    let copied = server.get("/sync/snapshot").await.expect(200);
    let cursor = copied.data()["cursor"].as_str().unwrap();
    server.patch("/t/1", None, r#"{"n": 4}"#).await.expect(200);
    server.get(&format!("/sync/pull?cursor={cursor}")).await.expect(200);
    server.get("/operations").await.expect(200);
}

#[tokio::test]
async fn row_security_refuses_and_hides() {
    let server = as_clerk(SHARED).await;
    server.get("/t/2").await.expect(200);
    server.get("/t/3").await.expect_error(404, "NOT_FOUND");
    assert_eq!(server.get("/t").await.expect(200).data().as_array().unwrap().len(), 2);
    server.post("/t", r#"{"id": 4, "owner": "you"}"#).await.expect_error(403, "NOT_ALLOWED");
    server.post("/t", r#"{"id": 4, "owner": "me"}"#).await.expect(201);
    server.patch("/t/1", None, r#"{"owner": "them"}"#).await.expect_error(403, "NOT_ALLOWED");
    server.patch("/t/2", None, r#"{"n": 2}"#).await.expect_error(403, "NOT_ALLOWED");
    server.patch("/t/2", Some("\"1\""), r#"{"n": 2}"#).await.expect_error(403, "NOT_ALLOWED");
    server.patch("/t/2", Some("\"9\""), r#"{"n": 2}"#).await.expect_error(409, "WRITE_CONFLICT");
    server.patch("/t/3", None, r#"{"n": 2}"#).await.expect_error(404, "NOT_FOUND");
    // Whoever holds the id of a record that the caller may not see is not shown.
    let taken =
        server.post("/t", r#"{"id": 3, "owner": "me"}"#).await.expect_error(409, "ALREADY_EXISTS");
    assert!(taken.data().is_null());
    server.delete("/t/1", None).await.expect_error(403, "NOT_ALLOWED");
}
