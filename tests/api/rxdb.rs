//! RxDB's replication: documents compared with what the client took the server's for.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Reply, Server, wait_until};

const NOTES: &str = "
    CREATE TABLE authors (id uuid PRIMARY KEY);
    CREATE TABLE notes (id text PRIMARY KEY, title text UNIQUE, n integer NOT NULL DEFAULT 0 CHECK (n >= 0),
        memo text, big numeric, author uuid REFERENCES authors);
    CREATE TABLE numbered (id integer PRIMARY KEY, text text);
    CREATE TABLE pairs (a integer, b integer, PRIMARY KEY (a, b));
    CREATE TABLE stamped (id text PRIMARY KEY, text text, stamp integer NOT NULL DEFAULT 0);
    CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN new.stamp := new.stamp + 1; RETURN new; END';
    CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON stamped FOR EACH ROW EXECUTE FUNCTION stamp();
    INSERT INTO notes (id, title) SELECT 'n' || i, 'note ' || i FROM generate_series(1, 9) AS i;";

const CLIENT: &str = "0193aaaa-0000-7000-8000-000000000001";

async fn start() -> Server {
    Server::start(NOTES, &["authors", "notes", "numbered", "pairs", "stamped"]).await
}

async fn push_to(server: &Server, address: &str, rows: &Value) -> Reply {
    server.post(&format!("/sync/rxdb/{address}"), &rows.to_string()).await
}

/// The documents that a push is answered with.
async fn push(server: &Server, address: &str, rows: Value) -> Vec<Value> {
    let reply = push_to(server, address, &rows).await.expect(200);
    reply.json.as_array().unwrap().clone()
}

/// What the server has, as a client of RxDB pulls it.
async fn pulled(server: &Server, resource: &str, id: &str) -> Value {
    let page = pull(server, resource, "", 1000).await;
    let documents = page["documents"].as_array().unwrap();
    documents.iter().rfind(|document| document["id"] == id).unwrap().clone()
}

async fn pull(server: &Server, resource: &str, cursor: &str, limit: usize) -> Value {
    let path = format!("/sync/rxdb/{resource}/pull?cursor={cursor}&limit={limit}");
    server.get(&path).await.expect(200).json
}

fn cursor(page: &Value) -> String {
    page["checkpoint"]["cursor"].as_str().unwrap().to_owned()
}

fn with(document: &Value, changes: Value) -> Value {
    let mut document = document.clone();
    let Value::Object(changes) = changes else { panic!("{changes} are no changes") };
    document.as_object_mut().unwrap().extend(changes);
    document
}

fn change(assumed: &Value, wanted: &Value) -> Value {
    json!([{ "assumedMasterState": assumed, "newDocumentState": wanted }])
}

async fn version(server: &Server, path: &str) -> i64 {
    server.get(path).await.expect(200).data()["version"].as_i64().unwrap()
}

#[tokio::test]
async fn a_document_is_written_only_over_the_one_that_the_client_knew() {
    let server = start().await;
    let known = pulled(&server, "notes", "n1").await;
    assert_eq!(known["_deleted"], false);
    let mine = with(&known, json!({ "memo": "mine" }));
    assert!(push(&server, "notes/push", change(&known, &mine)).await.is_empty());
    // What others wrote is told with the row as it stands, whether or not the client says who it is.
    for address in ["notes/push", &format!("notes/push?client_id={CLIENT}")] {
        server.patch("/notes/n1", None, r#"{"n": 5}"#).await.expect(200);
        let other = with(&mine, json!({ "memo": "other" }));
        let answer = push(&server, address, change(&mine, &other)).await;
        let current = server.get("/notes/n1").await;
        assert_eq!(answer, [with(current.data(), json!({ "_deleted": false }))]);
        assert_eq!(answer[0]["memo"], "mine");
        let gone = with(&mine, json!({ "_deleted": true }));
        assert_eq!(push(&server, address, change(&mine, &gone)).await, answer);
        assert_eq!(push(&server, address, change(&Value::Null, &other)).await, answer);
    }
    // Sent again, a push finds its effect there.
    let before = version(&server, "/notes/n1").await;
    let holds = pulled(&server, "notes", "n1").await;
    assert!(push(&server, "notes/push", change(&known, &holds)).await.is_empty());
    assert_eq!(version(&server, "/notes/n1").await, before);
}

#[tokio::test]
async fn an_own_edit_is_known_though_its_version_is_not() {
    let server = start().await;
    let own = format!("notes/push?client_id={CLIENT}");
    let known = pulled(&server, "notes", "n1").await;
    // By what the document holds.
    let first = with(&known, json!({ "memo": "first" }));
    let second = with(&known, json!({ "memo": "second" }));
    assert!(push(&server, "notes/push", change(&known, &first)).await.is_empty());
    assert!(push(&server, "notes/push", change(&first, &second)).await.is_empty());
    // By who wrote it, also where the client went back to an older one for a moment; then it overwrites
    // only what it changed.
    let known = pulled(&server, "notes", "n2").await;
    let first = with(&known, json!({ "memo": "first" }));
    let second = with(&known, json!({ "n": 2 }));
    assert!(push(&server, &own, change(&known, &first)).await.is_empty());
    assert!(push(&server, &own, change(&known, &second)).await.is_empty());
    let row = server.get("/notes/n2").await;
    assert_eq!((&row.data()["memo"], &row.data()["n"]), (&json!("first"), &json!(2)));
    // One version of somebody else in between is enough.
    server.patch("/notes/n2", None, r#"{"title": "theirs"}"#).await.expect(200);
    assert!(
        push(&server, &own, change(&second, &with(&second, json!({ "n": 3 })))).await.len() == 1
    );
    // A client may keep no versions, and only some of the fields.
    let narrow = json!({ "id": "n3", "n": 0, "memo": null, "color": "red" });
    let edited = with(&narrow, json!({ "n": 7 }));
    assert!(push(&server, "notes/push", change(&narrow, &edited)).await.is_empty());
    let row = server.get("/notes/n3").await;
    assert_eq!((&row.data()["title"], &row.data()["n"]), (&json!("note 3"), &json!(7)));
    server.patch("/notes/n3", None, r#"{"n": 8}"#).await.expect(200);
    let again = with(&edited, json!({ "memo": "x" }));
    assert_eq!(push(&server, "notes/push", change(&edited, &again)).await.len(), 1);
    // A field taken out of a document is empty.
    let known = pulled(&server, "notes", "n4").await;
    let mut without = known.clone();
    without.as_object_mut().unwrap().remove("title");
    assert!(push(&server, "notes/push", change(&known, &without)).await.is_empty());
    assert_eq!(server.get("/notes/n4").await.data()["title"], Value::Null);
}

#[tokio::test]
async fn a_client_that_rounds_numbers_does_not_write_them() {
    let server = start().await;
    server.patch("/notes/n1", None, r#"{"big": 12345678901234567890.5}"#).await.expect(200);
    let rounded = json!({ "id": "n1", "big": 12_345_678_901_234_567_000_u64, "memo": null });
    let edited = with(&rounded, json!({ "memo": "edited" }));
    assert!(push(&server, "notes/push", change(&rounded, &edited)).await.is_empty());
    let again = with(&edited, json!({ "memo": "again" }));
    assert!(push(&server, "notes/push", change(&edited, &again)).await.is_empty());
    let row = server.get("/notes/n1").await;
    assert!(row.text.contains("12345678901234567890.5"), "{}", row.text);
    assert_eq!(row.data()["memo"], "again");
}

#[tokio::test]
async fn creations_and_deletions() {
    let server = start().await;
    let made = json!({ "id": "new", "title": "made", "_deleted": false });
    assert!(push(&server, "notes/push", change(&Value::Null, &made)).await.is_empty());
    assert!(push(&server, "notes/push", json!([{ "newDocumentState": made }])).await.is_empty());
    assert_eq!(version(&server, "/notes/new").await, 1);
    let gone = with(&made, json!({ "_deleted": true }));
    for _ in 0..2 {
        assert!(push(&server, "notes/push", change(&made, &gone)).await.is_empty());
    }
    server.get("/notes/new").await.expect_error(410, "RECORD_DELETED");
    // Who did not know of the deletion is told of it, with the last row.
    let edited = with(&made, json!({ "memo": "edited" }));
    for assumed in [&made, &Value::Null] {
        let answer = push(&server, "notes/push", change(assumed, &edited)).await;
        assert_eq!(answer.len(), 1);
        let Value::Object(told) = &answer[0] else { panic!("{answer:?}") };
        assert_eq!(
            (&told["_deleted"], &told["version"], &told["title"]),
            (&json!(true), &json!(2), &json!("made"))
        );
    }
    // Who knew of it brings the record back.
    assert!(push(&server, "notes/push", change(&gone, &edited)).await.is_empty());
    assert_eq!(version(&server, "/notes/new").await, 3);
    // Made and thrown away before it was ever pushed.
    let never = json!({ "id": "never", "_deleted": true });
    assert!(push(&server, "notes/push", change(&Value::Null, &never)).await.is_empty());
    server.get("/notes/never").await.expect_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn what_can_never_hold_is_answered_with_what_the_server_has() {
    let server = start().await;
    let known = pulled(&server, "notes", "n1").await;
    let rows = json!([
        { "assumedMasterState": known, "newDocumentState": with(&known, json!({ "n": -1 })) },
        { "newDocumentState": { "id": "bad", "title": "note 2", "_deleted": false } },
        { "newDocumentState": { "id": "odd", "color": "red" } },
        { "newDocumentState": { "id": "good" } },
    ]);
    let answer = push(&server, "notes/push", rows.clone()).await;
    assert_eq!(
        answer,
        [
            known.clone(),
            json!({ "id": "bad", "title": "note 2", "_deleted": true }),
            json!({ "id": "odd", "color": "red", "_deleted": true }),
        ]
    );
    assert_eq!(version(&server, "/notes/good").await, 1);
    let report = push_to(&server, "notes/push?report=true", &rows).await.expect(200).json;
    assert_eq!(report["documents"], json!(answer));
    let told: Vec<_> = report["rejected"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rejected| {
            (rejected["id"].as_str().unwrap(), rejected["error"]["code"].as_str().unwrap())
        })
        .collect();
    assert_eq!(told, [("n1", "CHECK_FAILED"), ("bad", "ALREADY_EXISTS"), ("odd", "UNKNOWN_FIELD")]);
}

#[tokio::test]
async fn what_a_document_refers_to_may_be_on_its_way() {
    let server = start().await;
    let author = "0193aaaa-0000-7000-8000-00000000000a";
    let rows = json!([
        { "newDocumentState": { "id": "good" } },
        { "newDocumentState": { "id": "early", "author": author } },
    ]);
    let reply =
        push_to(&server, "notes/push", &rows).await.expect_error(422, "REFERENCE_NOT_FOUND");
    assert_eq!(reply.details()["document"], "early");
    assert_eq!(version(&server, "/notes/good").await, 1, "the others are kept");
    let made = json!([{ "newDocumentState": { "id": author } }]);
    assert!(push(&server, "authors/push", made).await.is_empty());
    assert!(push(&server, "notes/push", rows).await.is_empty());
}

#[tokio::test]
async fn what_the_table_makes_of_a_document_is_told() {
    let server = start().await;
    let answer = push(
        &server,
        "stamped/push",
        json!([{ "newDocumentState": { "id": "a", "text": "x", "stamp": 0 } }]),
    )
    .await;
    assert_eq!(
        answer,
        [json!({ "id": "a", "text": "x", "stamp": 1, "version": 1, "_deleted": false })]
    );
    let known = &answer[0];
    let answer =
        push(&server, "stamped/push", change(known, &with(known, json!({ "text": "y" })))).await;
    assert_eq!((&answer[0]["stamp"], &answer[0]["version"]), (&json!(2), &json!(2)));
    // A client that says who it is pulls it, and may go on before it has.
    let own = format!("stamped/push?client_id={CLIENT}");
    let (known, first) = (&answer[0], with(&answer[0], json!({ "text": "z" })));
    assert!(push(&server, &own, change(known, &first)).await.is_empty());
    let second = with(&first, json!({ "text": "zz" }));
    assert!(push(&server, &own, change(&first, &second)).await.is_empty());
    assert_eq!(pulled(&server, "stamped", "a").await["stamp"], 4);
}

#[tokio::test]
async fn keys_are_texts_to_rxdb() {
    let server = start().await;
    let made = json!([{ "newDocumentState": { "id": "7", "text": "seven" } }]);
    assert!(push(&server, "numbered/push", made).await.is_empty());
    let known = pulled(&server, "numbered", "7").await;
    assert!(
        push(&server, "numbered/push", change(&known, &with(&known, json!({ "text": "7" }))))
            .await
            .is_empty()
    );
    assert_eq!(version(&server, "/numbered/7").await, 2);
    push_to(&server, "numbered/push?report=true", &json!([{ "newDocumentState": { "id": "x" } }]))
        .await
        .expect(200);
    server.get("/sync/rxdb/pairs/pull").await.expect_error(404, "NOT_FOUND");
    server.get("/sync/rxdb/nothing/pull").await.expect_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn merging_where_it_is_wished() {
    let server = start().await;
    let known = pulled(&server, "notes", "n1").await;
    server.patch("/notes/n1", None, r#"{"n": 5}"#).await.expect(200);
    let mine = with(&known, json!({ "memo": "mine" }));
    let answer = push(&server, "notes/push?on_conflict=merge", change(&known, &mine)).await;
    assert_eq!(
        (&answer[0]["n"], &answer[0]["memo"], &answer[0]["version"]),
        (&json!(5), &json!("mine"), &json!(3))
    );
    let clash = with(&known, json!({ "n": 6 }));
    let answer = push(&server, "notes/push?on_conflict=merge", change(&known, &clash)).await;
    assert_eq!((&answer[0]["n"], &answer[0]["version"]), (&json!(5), &json!(3)));
    let answer = push(&server, "notes/push?on_conflict=merge_mine", change(&known, &clash)).await;
    assert_eq!((&answer[0]["n"], &answer[0]["memo"]), (&json!(6), &json!("mine")));
}

#[tokio::test]
async fn a_page_that_is_not_full_is_the_last() {
    let server = start().await;
    let mut seen = Vec::new();
    let mut at = String::new();
    server.delete("/notes/n5", None).await.expect(204);
    let mut late = false;
    loop {
        crate::feed::settled(&server).await;
        let page = pull(&server, "notes", &at, 3).await;
        let documents = page["documents"].as_array().unwrap().clone();
        at = cursor(&page);
        let full = documents.len() == 3;
        seen.extend(documents);
        if !late {
            // While the first copy is under way.
            late = true;
            server.patch("/notes/n1", None, r#"{"memo": "late"}"#).await.expect(200);
            server.delete("/notes/n9", None).await.expect(204);
        }
        if !full {
            break;
        }
    }
    let newest = |id: &str| seen.iter().rfind(|document| document["id"] == id).cloned();
    assert_eq!(newest("n1").unwrap()["memo"], "late");
    assert_eq!(newest("n5"), None);
    let gone = newest("n9").unwrap();
    assert_eq!(
        (&gone["_deleted"], &gone["version"], &gone["title"]),
        (&json!(true), &json!(2), &json!("note 9"))
    );
    assert!(pull(&server, "notes", &at, 3).await["documents"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn a_page_of_large_documents_is_filled_up() {
    let server = start().await;
    let body = json!({ "memo": "x".repeat(900_000) }).to_string();
    for i in 0..22 {
        let request = server.request(Method::PUT, &format!("/notes/large{i}"));
        let request =
            request.header("if-none-match", "*").header("content-type", "application/json");
        Reply::of(request.body(body.clone())).await.expect(201);
    }
    let page = pull(&server, "notes", "", 40).await;
    assert_eq!(page["documents"].as_array().unwrap().len(), 40);
    let page = pull(&server, "notes", &cursor(&page), 40).await;
    assert!(page["documents"].as_array().unwrap().len() < 40);
}

#[tokio::test]
async fn what_is_no_push_or_pull_is_refused() {
    let server = start().await;
    for body in [
        "{}",
        "[1]",
        r#"[{"newDocumentState": 1}]"#,
        r#"[{"assumedMasterState": {}}]"#,
        r#"[{"newDocumentState": {}, "x": 1}]"#,
    ] {
        let reply = server.post("/sync/rxdb/notes/push", body).await;
        assert_eq!(reply.status, 422, "{body}: {}", reply.text);
    }
    server.post("/sync/rxdb/notes/push", "[").await.expect_error(400, "INVALID_JSON");
    let many = vec![json!({ "newDocumentState": { "id": "x" } }); 501];
    push_to(&server, "notes/push", &json!(many)).await.expect_error(422, "INVALID_VALUE");
    for query in ["client_id=x", "client_id=", "report=x", "on_conflict=x", "other=1"] {
        push_to(&server, &format!("notes/push?{query}"), &json!([]))
            .await
            .expect_error(400, "INVALID_QUERY");
    }
    for query in ["cursor=x", "limit=0", "limit=1001", "resources=notes"] {
        let reply = server.get(&format!("/sync/rxdb/notes/pull?{query}")).await;
        assert_eq!(reply.status, 400, "{query}: {}", reply.text);
    }
    let other = pull(&server, "numbered", "", 10).await;
    let path = format!("/sync/rxdb/notes/pull?cursor={}", cursor(&other));
    server.get(&path).await.expect_error(400, "INVALID_CURSOR");
    let page = pull(&server, "notes", "", 3).await;
    server.sql("SELECT counterfoil.new_epoch()").await;
    wait_until("the epoch is known", async || {
        let path = format!("/sync/rxdb/notes/pull?cursor={}", cursor(&page));
        server.get(&path).await.code() == "CURSOR_EXPIRED"
    })
    .await;
}

/// The data of the next event.
async fn event(response: &mut reqwest::Response, text: &mut String) -> Value {
    loop {
        while let Some((event, rest)) = text.clone().split_once("\n\n") {
            rest.clone_into(text);
            assert!(!event.contains("event:"), "RxDB listens to what has no name: {event}");
            if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) {
                return serde_json::from_str(data).unwrap();
            }
        }
        let chunk = response.chunk().await.unwrap().expect("the stream goes on");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
}

#[tokio::test]
async fn the_stream_moves_the_checkpoint_of_a_client_that_said_where_it_is() {
    let server = start().await;
    let page = pull(&server, "notes", "", 1000).await;
    let open = async |query: &str, last: &str| {
        let request = server.request(Method::GET, &format!("/sync/rxdb/notes/stream{query}"));
        let response = request.header("last-event-id", last).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response
    };
    let mut followed = open(&format!("?cursor={}", cursor(&page)), "").await;
    let mut overheard = open("", "").await;
    let (mut text, mut other) = (String::new(), String::new());
    // Where it stands is told ahead of all events, so that a client that comes back goes on from there.
    while !other.contains("\nid: ") {
        other.push_str(std::str::from_utf8(&overheard.chunk().await.unwrap().unwrap()).unwrap());
    }
    let place = other.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    server.delete("/notes/n1", None).await.expect(204);
    let told = event(&mut followed, &mut text).await;
    assert_eq!(told["documents"][0]["_deleted"], true);
    assert_eq!(told["documents"][0]["title"], "note 1");
    assert!(
        pull(&server, "notes", &cursor(&told), 10).await["documents"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let heard = event(&mut overheard, &mut other).await;
    assert_eq!(heard["documents"], told["documents"]);
    assert_eq!(heard["checkpoint"], json!({}));
    let mut back = open("", &place).await;
    assert_eq!(event(&mut back, &mut String::new()).await["documents"], told["documents"]);
}
