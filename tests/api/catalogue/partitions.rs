//! Tables in partitions are one resource.

use crate::support::Server;

const TABLE: &str = "
    CREATE TABLE events (at date, id int, note text, n int CHECK (n > 0), PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
    CREATE TABLE early PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-07-01') PARTITION BY HASH (id);
    CREATE TABLE early_0 PARTITION OF early FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE early_1 PARTITION OF early FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    -- Its columns stand in another order.
    CREATE TABLE late (note text, id int NOT NULL, n int CONSTRAINT events_n_check CHECK (n > 0), gone int, at date NOT NULL);
    ALTER TABLE late DROP gone;
    ALTER TABLE events ATTACH PARTITION late FOR VALUES FROM ('2026-07-01') TO ('2027-01-01');
    INSERT INTO events SELECT '2026-01-01'::date + n * 20, n, 'x', n FROM generate_series(1, 16) n;";

#[tokio::test]
async fn a_partitioned_table_is_one_resource() {
    let server = Server::start(TABLE, &["events"]).await;
    let list = server.get("/events?order=at.desc&limit=1000").await.expect(200);
    let rows = list.data().as_array().unwrap().clone();
    assert_eq!(rows.len(), 16);
    for row in &rows {
        let path = format!("/events/{},{}", row["id"], row["at"].as_str().unwrap());
        let read = server.get(&path).await.expect(200);
        server.put(&path, Some("\"1\""), read.raw_data()).await.expect(200);
        let stale = server.patch(&path, Some("\"1\""), r#"{"note": "y"}"#).await;
        assert_eq!(stale.expect_error(409, "WRITE_CONFLICT").details()["current_version"], 2);
        server.patch(&path, Some("\"2\""), r#"{"note": "y"}"#).await.expect(200);
        server.post(&format!("{path}/increment"), r#"{"field": "n"}"#).await.expect(200);
    }
    assert_eq!(
        server
            .value("SELECT count(*) FROM events WHERE version = 4 AND note = 'y'")
            .await
            .as_deref(),
        Some("16")
    );

    // The log and the tombstones are the table's, whichever partition a row lies in.
    for (id, at) in [(90, "2026-02-01"), (91, "2026-12-01")] {
        let path = format!("/events/{id},{at}");
        let body = format!(r#"{{"id": {id}, "at": "{at}", "n": 1}}"#);
        let created = server.post("/events", &body).await.expect(201);
        assert_eq!(created.header("location"), format!("/api/v1{path}"));
        server.post("/events", &body).await.expect_error(409, "ALREADY_EXISTS");
        server
            .patch(&path, None, r#"{"n": 0}"#)
            .await
            .expect_error(422, "CHECK_FAILED")
            .expect_field("n");
        server.delete(&path, Some("\"1\"")).await.expect(204);
        assert_eq!(server.get(&path).await.expect(410).details()["current_version"], 2);
        let request = server.request(reqwest::Method::PUT, &path).header("if-none-match", "*");
        let again = crate::support::Reply::of(crate::support::json(request, r#"{"n": 2}"#))
            .await
            .expect(201);
        assert_eq!(again.data()["version"], 3);
    }
    server
        .post("/events", r#"{"id": 1, "at": "2030-01-01"}"#)
        .await
        .expect_error(422, "CHECK_FAILED");
    server
        .sql(
            "CREATE TABLE far PARTITION OF events FOR VALUES FROM ('2030-01-01') TO ('2031-01-01')",
        )
        .await;
    server.post("/events", r#"{"id": 1, "at": "2030-01-01"}"#).await.expect(201);
    server.patch("/events/1,2030-01-01", Some("\"1\""), r#"{"n": 5}"#).await.expect(200);
    assert_eq!(
        server.value("SELECT count(*) FROM counterfoil.audit()").await.as_deref(),
        Some("0")
    );
}
