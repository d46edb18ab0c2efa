//! Mutations that fail in a function of the table's owner.

use serde_json::json;

use super::{FAILING, NOTES, follow, patch, push, results, statuses};
use crate::support::Server;

#[tokio::test]
async fn a_mutation_whose_trigger_fails_stops_only_what_is_behind_it() {
    let server = Server::start(&format!("{NOTES} {FAILING}"), &["notes"]).await;
    let mutations = json!([
        patch(1, 1, 1, &json!({"n": 1})),
        patch(2, 2, 1, &json!({"n": 13})),
        patch(3, 3, 1, &json!({"n": 3})),
        {"id": 4, "op": "fly"},
        follow(5, 3, 4, &json!({"n": 5})),
    ]);
    let reply = push(&server, &mutations).await;
    assert_eq!(statuses(&reply), ["applied", "retry", "retry", "retry", "retry"]);
    assert_eq!(reply.data()["last_mutation_id"], 1);
    assert!(!reply.header("retry-after").is_empty());
    let lines = results(&reply);
    assert_eq!(lines[1]["error"]["code"], "INTERNAL");
    assert_eq!(lines[2].get("error"), None);
    let written =
        "SELECT string_agg(id || ' ' || n, ', ' ORDER BY id) FROM notes WHERE version > 1";
    assert_eq!(server.value(written).await.as_deref(), Some("1 1"));

    // Once the trigger is mended, the queue goes on from there.
    server.sql("DROP TRIGGER unlucky ON notes").await;
    let reply = push(&server, &mutations).await;
    assert_eq!(statuses(&reply), ["applied", "applied", "applied", "rejected", "blocked"]);
    assert_eq!(results(&reply)[0]["replayed"], true);
    assert_eq!(results(&reply)[1].get("replayed"), None);
    assert_eq!(server.value(written).await.as_deref(), Some("1 1, 2 13, 3 3"));
}
