//! History that need not be kept is let go; what guards the versions stays.

use counterfoil::catalog::Retention;
use counterfoil::db::{Db, connect};
use counterfoil::record::retention::sweep;

use crate::feed::settled;
use crate::support::Server;

const NOTES: &str = "
    CREATE TABLE notes (id text PRIMARY KEY, text text);
    INSERT INTO notes VALUES ('a', ''), ('b', ''), ('c', '');";

async fn versions(server: &Server) -> String {
    let logged = "SELECT string_agg(id || version || left(op, 1), ' ' ORDER BY id, version) FROM counterfoil.change";
    server.value(logged).await.unwrap_or_default()
}

#[tokio::test]
async fn the_newest_version_and_every_deletion_stay() {
    let server = Server::start(NOTES, &["notes"]).await;
    for id in ["a", "a", "a", "b", "b"] {
        server.patch(&format!("/notes/{id}"), None, "{}").await.expect(200);
    }
    server.delete("/notes/b", None).await.expect(204);
    assert_eq!(versions(&server).await, "a1b a2u a3u a4u b1b b2u b3u b4d");

    // What a reader of the feed has yet to come to is left alone.
    settled(&server).await;
    let db = Db::start(&connect::options(&server.database_url).unwrap(), 1);
    let two = Retention { days: None, versions: Some(2) };
    assert_eq!(sweep(&db, "notes", two).await, Ok(4));
    assert_eq!(versions(&server).await, "a3u a4u b3u b4d");

    let month = Retention { days: Some(30), versions: None };
    assert_eq!(sweep(&db, "notes", month).await, Ok(0));
    server.sql("UPDATE counterfoil.change SET at = at - interval '31 days'").await;
    assert_eq!(sweep(&db, "notes", month).await, Ok(2));
    assert_eq!(versions(&server).await, "a4u b4d");

    // A base that was let go makes the conflict a two-way list.
    let refused = server.patch("/notes/a", Some("\"1\""), r#"{"text": "x"}"#).await.expect(409);
    assert_eq!(refused.details()["base_available"], false);
    assert_eq!(refused.details()["fields"][0]["verdict"], "both");
}
