//! A batch whose connection is lost around COMMIT.

use serde_json::json;

use super::{NOTES, increment, send, statuses};
use crate::support::wire::{Cut, Wire};
use crate::support::{Server, database, prepare, scale};

#[tokio::test]
async fn a_batch_whose_commit_is_lost_is_answered_with_what_happened() {
    let database_url = database::create().await;
    prepare(&database_url, NOTES, &["notes"]).await;
    let wire = Wire::to(&database_url).await;
    let server = Server::on(&wire.url, "").await;
    let mut expected = 0;
    for round in 0..i64::try_from(scale(20, 300)).unwrap() {
        let cut = if round % 2 == 0 { Cut::Statement } else { Cut::Answer };
        wire.cut(cut, "COMMIT", 1);
        let reply = send(&server, &json!([increment(1, 1), increment(2, 1)])).await;
        let stored = Server::on(&database_url, "").await.get("/notes/1").await;
        let stored = stored.data()["n"].as_i64().unwrap();
        if reply.status == 200 {
            expected += 1;
            assert_eq!(statuses(&reply), [200, 200]);
            assert_eq!(reply.data()[0]["data"]["n"], expected);
        } else {
            reply.expect_error(503, "DATABASE_UNAVAILABLE");
        }
        assert_eq!(stored, expected, "{cut:?}");
        assert!(cut == Cut::Answer || stored <= round / 2, "a COMMIT that never came was made");
    }
    println!("of the lost answers to COMMIT, {expected} were of batches that held");
}
