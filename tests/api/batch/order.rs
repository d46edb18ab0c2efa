//! The order of a batch's operations, and where it gives way.

use serde_json::json;

use super::{create, delete, increment, notes, patch, refused, send, send_loose, statuses};
use crate::support::Server;

#[tokio::test]
async fn the_same_row_twice_sees_its_own_earlier_write() {
    let server = notes().await;
    let operations = json!([
        patch(1, Some("\"1\""), &json!({"n": 1})),
        patch(1, Some("\"2\""), &json!({"n": 2})),
        increment(1, 5),
        increment(1, 5),
        create(&json!({"id": 2000, "text": "new"})),
        patch(2000, Some("\"1\""), &json!({"n": 1})),
        delete(2000),
        create(&json!({"id": 2000, "text": "again"})),
        delete(2),
        {"method": "PUT", "resource": "notes", "id": "2", "if_none_match": "*", "body": {"text": "back"}},
    ]);
    let reply = send(&server, &operations).await.expect(200);
    assert_eq!(reply.data()[3]["data"], json!({"id": 1, "text": "note 1", "n": 12, "version": 5}));
    assert_eq!(reply.data()[7]["etag"], "\"4\"");
    assert_eq!(reply.data()[9]["etag"], "\"3\"");

    let stale = json!([
        patch(3, Some("\"1\""), &json!({"n": 1})),
        patch(3, Some("\"1\""), &json!({"n": 2})),
        patch(4, None, &json!({"n": 1})),
    ]);
    let reply = send(&server, &stale).await.expect_error(409, "WRITE_CONFLICT");
    assert_eq!(refused(&reply), [(1, "WRITE_CONFLICT".to_owned())]);
    assert_eq!(statuses(&send_loose(&server, &stale).await), [200, 409, 200]);
}

#[tokio::test]
async fn a_unique_value_may_move_between_rows() {
    let server = notes().await;
    // Each takes the value that only a later one gives up.
    let operations = json!([
        patch(1, None, &json!({"text": "note 2"})),
        patch(2, None, &json!({"text": "note 3"})),
        patch(3, None, &json!({"text": "free"})),
        create(&json!({"id": 2000, "text": "note 4"})),
        patch(1, Some("\"2\""), &json!({"n": 1})),
        delete(4),
    ]);
    let reply = send(&server, &operations).await.expect(200);
    assert_eq!(statuses(&reply), [200, 200, 200, 201, 200, 204]);
    let texts = "SELECT string_agg(text, ', ' ORDER BY id) FROM notes WHERE id < 5 OR id = 2000";
    assert_eq!(server.value(texts).await.as_deref(), Some("note 2, note 3, free, note 4"));

    let taken = json!([
        patch(5, None, &json!({"text": "note 6"})),
        patch(5, Some("\"2\""), &json!({"n": 1})),
        patch(7, None, &json!({"n": 1})),
    ]);
    let reply = send(&server, &taken).await.expect_error(409, "ALREADY_EXISTS");
    let expected = [(0, "ALREADY_EXISTS".to_owned()), (1, "WRITE_CONFLICT".to_owned())];
    assert_eq!(refused(&reply), expected);
}

#[tokio::test]
async fn a_constraint_that_may_wait_is_held_against_the_whole() {
    let server = Server::start(
        "CREATE TABLE seats (id integer PRIMARY KEY, place integer UNIQUE DEFERRABLE);
         CREATE TABLE guests (id integer PRIMARY KEY, seat integer REFERENCES seats DEFERRABLE);
         INSERT INTO seats VALUES (1, 10), (2, 20), (3, 30);",
        &["seats", "guests"],
    )
    .await;
    let seat = |id: i32, place: i32| json!({"method": "PATCH", "resource": "seats", "id": id, "body": {"place": place}});
    let guest = |id: i32, seat: i32| json!({"method": "POST", "resource": "guests", "body": {"id": id, "seat": seat}});
    let new_seat = json!({"method": "POST", "resource": "seats", "body": {"id": 9, "place": 90}});
    let swap = json!([seat(1, 20), seat(2, 10), guest(1, 9), new_seat]);
    send(&server, &swap).await.expect(200);
    let places = "SELECT string_agg(place::text, ' ' ORDER BY id) FROM seats";
    assert_eq!(server.value(places).await.as_deref(), Some("20 10 30 90"));

    let wrong = json!([seat(3, 31), guest(2, 77), seat(1, 10)]);
    let reply = send(&server, &wrong).await.expect_error(422, "REFERENCE_NOT_FOUND");
    let expected = [(1, "REFERENCE_NOT_FOUND".to_owned()), (2, "ALREADY_EXISTS".to_owned())];
    assert_eq!(refused(&reply), expected);
    assert_eq!(statuses(&send_loose(&server, &wrong).await), [200, 422, 409]);
}

#[tokio::test]
async fn records_of_several_resources_and_keys() {
    let server = Server::start(
        "CREATE TABLE a (x text, y integer, n integer DEFAULT 0, PRIMARY KEY (x, y));
         CREATE TABLE b (id numeric PRIMARY KEY, n integer DEFAULT 0);
         INSERT INTO a VALUES ('p,q', 1), ('r', 2); INSERT INTO b VALUES (1), (2.50);",
        &["a", "b"],
    )
    .await;
    let raise = |resource: &str, id: &str| json!({"method": "INCREMENT", "resource": resource, "id": id, "body": {"field": "n"}});
    let operations = json!([
        raise("a", "p%2Cq,1"),
        raise("a", "r,2"),
        raise("b", "1"),
        raise("b", "1.0"),
        raise("b", "2.5"),
    ]);
    let reply = send(&server, &operations).await.expect(200);
    let numbers: Vec<_> =
        reply.data().as_array().unwrap().iter().map(|l| l["data"]["n"].as_i64().unwrap()).collect();
    assert_eq!(numbers, [1, 1, 1, 2, 1]);
}
