//! Operations that fail in a function of the table's owner.

use serde_json::json;

use super::{NOTES, increment, patch, send_loose, statuses};
use crate::support::Server;

#[tokio::test]
async fn an_operation_whose_trigger_fails_is_its_own_trouble() {
    let sql = format!("{NOTES} {}", crate::push::FAILING);
    let server = Server::start(&sql, &["notes"]).await;
    let operations = json!([
        patch(1, Some("\"1\""), &json!({"n": 1})),
        patch(2, Some("\"1\""), &json!({"n": 13})),
        patch(3, Some("\"1\""), &json!({"n": 3})),
        patch(4, Some("\"7\""), &json!({"n": 4})),
        increment(5, 13),
        increment(6, 1),
    ]);
    let reply = send_loose(&server, &operations).await.expect(200);
    assert_eq!(statuses(&reply), [200, 500, 200, 409, 500, 200]);
    assert_eq!(reply.data()[1]["error"]["code"], "INTERNAL");
    let written =
        "SELECT string_agg(id || ' ' || n, ', ' ORDER BY id) FROM notes WHERE version > 1";
    assert_eq!(server.value(written).await.as_deref(), Some("1 1, 3 3, 6 1"));
}
