//! A hidden column answers exactly like one that does not exist.

use reqwest::Method;

use super::ask;
use crate::support::{Reply, Server};

const TABLE: &str = "
    CREATE TABLE other (id int PRIMARY KEY);
    CREATE TABLE t (id int PRIMARY KEY, name text, secret text UNIQUE, pin integer CHECK (pin > 0), owner int REFERENCES other,
        must int NOT NULL DEFAULT 1, j json, UNIQUE (name, secret));
    CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF new.name = 'taken' THEN new.secret := 's1'; END IF;
        IF new.name = 'check' THEN new.pin := -1; END IF;
        IF new.name = 'ref' THEN new.owner := 99; END IF;
        IF new.name = 'null' THEN new.must := NULL; END IF;
        RETURN new; END $$;
    CREATE TRIGGER fill BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION fill();
    INSERT INTO t VALUES (1, 'a', 's1', 1), (2, 'b', 's2', 2);";
const CONFIG: &str = "[resource.t]\nhidden = [\"secret\", \"pin\", \"owner\", \"must\"]\n";

/// What a client sees, without what differs in every answer.
fn seen(reply: &Reply) -> (u16, String, String) {
    let mut json = reply.json.clone();
    if let Some(error) = json["error"].as_object_mut() {
        error.remove("request_id");
    }
    (reply.status, json.to_string(), reply.header("etag").to_owned())
}

#[tokio::test]
async fn hidden_columns_answer_like_unknown_ones() {
    let server = Server::configured(TABLE, &["other", "t"], CONFIG).await;
    let tries = [
        (Method::GET, "/t?NAME=eq.s1", ""),
        (Method::GET, "/t?NAME=bogus", ""),
        (Method::GET, "/t?NAME=is.null", ""),
        (Method::GET, "/t?or=(NAME.eq.s1,id.eq.1)", ""),
        (Method::GET, "/t?and=(not.or(NAME.like.*))", ""),
        (Method::GET, "/t?order=NAME", ""),
        (Method::GET, "/t?order=NAME.desc.nullslast", ""),
        (Method::GET, "/t?select=NAME", ""),
        (Method::GET, "/t?select=id,NAME", ""),
        (Method::GET, "/t/1?select=NAME", ""),
        (Method::POST, "/t", r#"{"id": 9, "NAME": "x"}"#),
        (Method::POST, "/t", r#"{"id": 9, "NAME": null}"#),
        (Method::PUT, "/t/1", r#"{"NAME": "s1"}"#),
        (Method::PATCH, "/t/1", r#"{"NAME": "s1"}"#),
        (Method::PATCH, "/t/1", r#"{"NAME": {}}"#),
        (Method::POST, "/t/1/increment", r#"{"field": "NAME"}"#),
    ];
    for (method, path, body) in tries {
        let with = |name: &str| (path.replace("NAME", name), body.replace("NAME", name));
        for hidden in ["secret", "pin", "must"] {
            let (path_a, body_a) = with(hidden);
            let (path_b, body_b) = with("nothing");
            let a = seen(&ask(&server, method.clone(), &path_a, &body_a).await);
            let b = seen(&ask(&server, method.clone(), &path_b, &body_b).await);
            assert!(a.0 >= 400, "{path_a} {body_a}");
            assert_eq!((a.0, a.1.replace(hidden, "nothing"), a.2), b, "{path_a} {body_a}");
        }
    }
    for operation in [
        r#"{"op":"test","path":"/NAME","value":"s1"}"#,
        r#"{"op":"add","path":"/NAME","value":"s1"}"#,
        r#"{"op":"replace","path":"/NAME","value":"s1"}"#,
        r#"{"op":"remove","path":"/NAME"}"#,
        r#"{"op":"copy","from":"/NAME","path":"/name"}"#,
        r#"{"op":"move","from":"/name","path":"/NAME"}"#,
    ] {
        let with = |name: &str| format!("[{}]", operation.replace("NAME", name));
        let a =
            seen(&server.patch_as("application/json-patch+json", "/t/1", &with("secret")).await);
        let b =
            seen(&server.patch_as("application/json-patch+json", "/t/1", &with("nothing")).await);
        assert!(a.0 >= 400, "{operation}: {}", a.1);
        assert_eq!((a.0, a.1.replace("secret", "nothing"), a.2), b, "{operation}");
    }
}

#[tokio::test]
async fn no_answer_shows_or_names_a_hidden_column() {
    let server = Server::configured(TABLE, &["other", "t"], CONFIG).await;
    let unseen = |reply: &Reply| {
        for word in ["secret", "pin", "owner", "must", "s1", "s2"] {
            assert!(!reply.text.contains(word), "{word}: {}", reply.text);
        }
    };
    let shown = server.get("/t/1").await.expect(200);
    unseen(&shown);
    assert_eq!(shown.raw_data(), r#"{"id":1,"name":"a","j":null,"version":1}"#);
    unseen(&server.get("/t").await.expect(200));
    unseen(
        &server
            .put("/t/1", Some("\"1\""), r#"{"name": "c", "j": {"z": 1.50, "a": 2}}"#)
            .await
            .expect(200),
    );
    unseen(&server.patch("/t/1", Some("\"1\""), r#"{"name": "d"}"#).await.expect(409));
    // A replacement leaves what the client cannot know of as it was.
    let kept = server.value("SELECT secret || pin || must FROM t WHERE id = 1").await;
    assert_eq!(kept.as_deref(), Some("s111"));

    for (name, code) in [
        ("taken", "ALREADY_EXISTS"),
        ("check", "CHECK_FAILED"),
        ("null", "CHECK_FAILED"),
        ("ref", "REFERENCE_NOT_FOUND"),
    ] {
        let body = format!("{{\"name\": \"{name}\"}}");
        let reply = server.patch("/t/2", None, &body).await;
        assert_eq!(reply.code(), code, "{name}: {}", reply.text);
        unseen(&reply);
        let reply = server.post("/t", &body.replacen('{', "{\"id\": 50, ", 1)).await;
        assert_eq!(reply.code(), code, "{name}: {}", reply.text);
        unseen(&reply);
    }
    unseen(&server.get("/t/1/history").await.expect(200));
    unseen(&server.get("/t/1?version=2").await.expect(200));
    let preview = server.post("/t/1/merge", r#"{"base_version": 1, "data": {"name": "e"}}"#).await;
    unseen(&preview.expect(200));
    let preview = server.post("/t/1/merge", r#"{"base_version": 1, "data": {"secret": 1}}"#).await;
    preview.expect_error(422, "UNKNOWN_FIELD");
    unseen(&server.delete("/t/1", None).await.expect(204));
    let gone = server.get("/t/1").await.expect(410);
    unseen(&gone);
    assert!(
        gone.text.contains(r#"{"id":1,"name":"c","j":{"z": 1.50, "a": 2},"version":2}"#),
        "{}",
        gone.text
    );
}
