//! The example of the design, word for word, and the story around it.

use crate::support::Server;

const INVOICES: &str = "
    CREATE TABLE invoices (id uuid PRIMARY KEY, amount integer NOT NULL, due_on date);
    INSERT INTO invoices VALUES ('01a11e82-d0bc-7367-9c39-5e9873953dde', 1000, '2026-10-28');";
const INVOICE: &str = "/invoices/01a11e82-d0bc-7367-9c39-5e9873953dde";

#[tokio::test]
async fn the_second_writer_is_told_and_shown() {
    let server = Server::start(INVOICES, &["invoices"]).await;
    for version in 1..=6 {
        let tag = format!("\"{version}\"");
        server.patch(INVOICE, Some(&tag), r#"{"amount": 1000}"#).await.expect(200);
    }
    let read = server.get(INVOICE).await.expect(200);
    assert_eq!(read.header("etag"), "\"7\"");
    assert_eq!(read.data()["version"], 7);

    let first = server.patch(INVOICE, Some("\"7\""), r#"{"amount": 1100}"#).await.expect(200);
    assert_eq!(first.header("etag"), "\"8\"");

    let body = r#"{ "amount": 1250, "due_on": "2026-11-01" }"#;
    let second = server.put(INVOICE, Some("\"7\""), body).await.expect(409);
    assert_eq!(second.header("etag"), "\"8\"");
    assert_eq!(second.header("cache-control"), "no-store");
    let error = &second.json["error"];
    assert_eq!(error["code"], "WRITE_CONFLICT");
    assert_eq!(error["message"], "This record changed since you loaded it");
    assert_eq!(error["details"]["your_version"], 7);
    assert_eq!(error["details"]["current_version"], 8);
    let row = r#"{"id":"01a11e82-d0bc-7367-9c39-5e9873953dde","amount":1100,"due_on":"2026-10-28","version":8}"#;
    assert!(second.text.ends_with(&format!("\"data\":{row}}}")), "{}", second.text);

    let stored = server.value("SELECT amount || '/' || version FROM invoices").await;
    assert_eq!(stored.as_deref(), Some("1100/8"));
}

#[tokio::test]
async fn a_conflict_says_field_by_field_who_changed_what() {
    let sql = "CREATE TABLE invoices (id uuid PRIMARY KEY, amount integer NOT NULL, due_on date, memo text);
        INSERT INTO invoices VALUES ('01a11e82-d0bc-7367-9c39-5e9873953dde', 1000, '2026-10-28');";
    let server = Server::start(sql, &["invoices"]).await;
    server.patch(INVOICE, None, r#"{"amount": 1000}"#).await.expect(200);
    server.patch(INVOICE, None, r#"{"amount": 1100, "memo": "paid"}"#).await.expect(200);

    let body = r#"{"amount": 1250, "due_on": "2026-11-01", "memo": null}"#;
    let refused = server.put(INVOICE, Some("\"2\""), body).await.expect(409);
    let details = refused.details();
    assert_eq!(details["base_available"], true);
    assert_eq!(details["mergeable"], false);
    let expected = serde_json::json!([
        {"field": "amount", "verdict": "both", "base": 1000, "yours": 1250, "theirs": 1100},
        {"field": "due_on", "verdict": "yours", "base": "2026-10-28", "yours": "2026-11-01", "theirs": "2026-10-28"},
        {"field": "memo", "verdict": "theirs", "base": null, "yours": null, "theirs": "paid"},
    ]);
    assert_eq!(details["fields"], expected);

    let merged = server
        .patch(
            &format!("{INVOICE}?on_conflict=merge"),
            Some("\"2\""),
            r#"{"due_on": "2026-11-01"}"#,
        )
        .await
        .expect(200);
    assert_eq!(merged.data()["amount"], 1100);
    assert_eq!(merged.data()["due_on"], "2026-11-01");
    assert_eq!(merged.json["merged"]["base"], 2);
    assert_eq!(merged.json["merged"]["onto"], 3);

    let history = server.get(&format!("{INVOICE}/history")).await.expect(200);
    assert_eq!(history.data()[0]["merged_from"], serde_json::json!([2, 3]));
    assert_eq!(history.data()[0]["changed"], serde_json::json!(["due_on"]));
    assert_eq!(history.data()[3]["op"], "baseline");
    let page = server.get(&format!("{INVOICE}/history?limit=3")).await.expect(200);
    let next = page.header("link").strip_prefix("</api/v1").unwrap();
    let rest = server.get(next.strip_suffix(">; rel=\"next\"").unwrap()).await.expect(200);
    assert_eq!(rest.data().as_array().unwrap().len(), 1, "{next}");
    assert_eq!(rest.data()[0]["version"], 1);
    assert!(!rest.headers.contains_key("link"), "{}", rest.text);
    let past = server.get(&format!("{INVOICE}?version=1")).await.expect(200);
    assert_eq!(past.data()["amount"], 1000);
}
