//! A stale tag with a body that cannot be stored is the conflict (RFC 9110 §13.2.1): the client is to
//! look at the row first.

use crate::support::Server;

const ROOMS: &str = "
    CREATE DOMAIN seats AS int NOT NULL CHECK (value > 0);
    CREATE TABLE rooms (id int PRIMARY KEY, during tstzrange, seats seats);
    INSERT INTO rooms VALUES (1, NULL, 4);";

#[tokio::test]
async fn a_stale_tag_is_told_before_a_value_that_no_column_takes() {
    let server = Server::start(ROOMS, &["rooms"]).await;
    for body in [
        r#"{"during": "soon"}"#,
        r#"{"seats": 0}"#,
        r#"{"seats": null}"#,
    ] {
        let stale = server
            .patch("/rooms/1", Some("\"7\""), body)
            .await
            .expect(409);
        assert_eq!(stale.code(), "WRITE_CONFLICT", "{body}");
        assert_eq!(stale.data()["version"], 1);
        server
            .patch("/rooms/1", Some("\"1\""), body)
            .await
            .expect(422);
    }
}
