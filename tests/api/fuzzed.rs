//! What generated requests once found.

use crate::support::Server;

const ROOMS: &str = "
    CREATE DOMAIN capacity AS int NOT NULL CHECK (value > 0);
    CREATE TABLE rooms (id int PRIMARY KEY, during tstzrange, seats capacity);
    INSERT INTO rooms VALUES (1, NULL, 4);
    CREATE TABLE keys (name text PRIMARY KEY, hooks int);
    CREATE TABLE seats (room int, row text, PRIMARY KEY (room, row));
    INSERT INTO seats VALUES (1, 'a,b'), (1, '');";

/// RFC 9110 §13.2.1: the client is to look at the row first.
#[tokio::test]
async fn a_stale_tag_is_told_before_a_value_that_no_column_takes() {
    let server = Server::start(ROOMS, &["rooms"]).await;
    for body in [r#"{"during": "soon"}"#, r#"{"seats": 0}"#, r#"{"seats": null}"#] {
        let stale = server.patch("/rooms/1", Some("\"7\""), body).await.expect(409);
        assert_eq!(stale.code(), "WRITE_CONFLICT", "{body}");
        assert_eq!(stale.data()["version"], 1);
        server.patch("/rooms/1", Some("\"1\""), body).await.expect(422);
    }
}

#[tokio::test]
async fn a_whole_number_may_come_with_a_point() {
    let server = Server::start(ROOMS, &["keys"]).await;
    let created = server.post("/keys", r#"{"name": "k", "hooks": 7.0}"#).await.expect(201);
    assert_eq!(created.data()["hooks"], 7);
    server.patch("/keys/k", None, r#"{"hooks": 7.5}"#).await.expect(422);
    let raised = r#"{"field": "hooks", "by": 2.00}"#;
    let raised = server.post("/keys/k/increment", raised).await.expect(200);
    assert_eq!(raised.data()["hooks"], 9);
}

#[tokio::test]
async fn an_id_that_no_address_can_hold_is_not_taken() {
    let server = Server::start(ROOMS, &["keys"]).await;
    for name in ["", ".", ".."] {
        let refused = server.post("/keys", &format!(r#"{{"name": "{name}"}}"#)).await.expect(422);
        assert_eq!(
            (refused.code(), &refused.details()["field"]),
            ("INVALID_VALUE", &"name".into())
        );
    }
    server.post("/keys", r#"{"name": "..."}"#).await.expect(201);
    server.get("/keys/...").await.expect(200);
}

#[tokio::test]
async fn an_id_in_the_body_is_of_its_type() {
    let server = Server::start(ROOMS, &["keys"]).await;
    server.post("/keys", r#"{"name": "7"}"#).await.expect(201);
    server.put("/keys/7", None, r#"{"name": "7"}"#).await.expect(200);
    let refused = server.put("/keys/7", None, r#"{"name": 7}"#).await.expect(422);
    assert_eq!(refused.details()["field"], "name");
}

#[tokio::test]
async fn a_composite_id_may_be_encoded_as_one_text() {
    let server = Server::start(ROOMS, &["seats"]).await;
    for id in ["1,a%2Cb", "1%2Ca%252Cb"] {
        assert_eq!(server.get(&format!("/seats/{id}")).await.expect(200).data()["row"], "a,b");
    }
    for id in ["1,", "1%2C"] {
        assert_eq!(server.get(&format!("/seats/{id}")).await.expect(200).data()["row"], "");
    }
    for id in ["1", "1%2C%2C", "1,a,b"] {
        assert_eq!(server.get(&format!("/seats/{id}")).await.expect(400).code(), "INVALID_ID");
    }
}
