//! The description of the API is kept: by the file in the repository, by the router, by the error
//! codes, and by real answers held against its schemas.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::Path;

use counterfoil::error::Code;
use counterfoil::http::openapi::to_yaml;
use jsonschema::Validator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Reply, Server, json as body};

const DEMO: &str = include_str!("../../examples/demo.sql");
const DEMO_CONFIG: &str = include_str!("../../examples/demo.toml");
const DEMO_TABLES: [&str; 5] = ["invoices", "bookings", "offers", "games", "counters"];
const INVOICES_PATH: &str = "/api/v1/invoices";
const INVOICE_PATH: &str = "/api/v1/invoices/{id}";
const INVOICE: &str = "01a11e82-d0bc-7367-9c39-5e9873953dde";

async fn demo() -> (Server, Document) {
    let server = Server::configured(DEMO, &DEMO_TABLES, DEMO_CONFIG).await;
    let document = Document::of(&server).await;
    (server, document)
}

struct Document(Value);

impl Document {
    async fn of(server: &Server) -> Self {
        let answer = reqwest::get(format!("{}/openapi.json", server.url)).await.unwrap();
        assert_eq!(answer.status(), 200);
        Self(serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    }

    fn operation(&self, method: &str, path: &str) -> &Value {
        &self.0["paths"][path][method]
    }

    /// What a reference stands for.
    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(reference) => self.0.pointer(&reference[1..]).unwrap(),
            None => value,
        }
    }

    /// A schema with the components that it needs, and no others: each one costs time.
    fn validator(&self, schema: &Value) -> Validator {
        let mut schema = schema.clone();
        let mut wanted = references(&schema);
        schema["components"] = json!({ "schemas": {} });
        while let Some(name) = wanted.pop() {
            if schema["components"]["schemas"][&name].is_null() {
                let component = &self.0["components"]["schemas"][&name];
                wanted.extend(references(component));
                schema["components"]["schemas"][&name] = component.clone();
            }
        }
        jsonschema::draft202012::options().should_validate_formats(true).build(&schema).unwrap()
    }

    /// Asserts that an answer is one that the description of its request has.
    #[track_caller]
    fn check(&self, method: &str, path: &str, reply: &Reply) {
        let status = reply.status.to_string();
        let responses = &self.operation(method, path)["responses"];
        let response = self.resolve(&responses[&status]);
        assert!(response.is_object(), "{method} {path}: {status} is not described");
        for name in response["headers"].as_object().unwrap().keys() {
            let always = matches!(name.as_str(), "X-Request-Id" | "Location" | "Retry-After");
            assert!(!always || reply.headers.contains_key(name), "{method} {path}: no {name}");
        }
        let media_type = reply.header("content-type");
        if media_type.is_empty() {
            assert!(reply.text.is_empty());
            return;
        }
        let schema = &response["content"][media_type]["schema"];
        assert!(schema.is_object(), "{method} {path}: {status} has no {media_type}");
        let errors: Vec<_> =
            self.validator(schema).iter_errors(&reply.json).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{method} {path}: {status}: {errors:?}\n{}", reply.text);
    }
}

/// The names of the schemas that a part of the document refers to.
fn references(part: &Value) -> Vec<String> {
    let text = part.to_string();
    let names = text.split("\"#/components/schemas/").skip(1);
    names.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[tokio::test]
async fn openapi_yaml_is_the_description_of_the_demo() {
    let (_server, document) = demo().await;
    let text = to_yaml(&document.0).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.yaml");
    if std::env::var_os("COUNTERFOIL_WRITE").is_some_and(|name| name == "openapi.yaml") {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(text.lines()).position(|(kept, made)| kept != made);
    assert!(
        kept == text,
        "openapi.yaml and the server part at line {}; if the server is right, run: make openapi",
        differs.map_or_else(|| kept.lines().count().min(text.lines().count()) + 1, |line| line + 1)
    );
}

/// The routes stand in one list, which is read as text: axum does not tell what it routes.
#[tokio::test]
async fn every_route_is_described() {
    let (_server, document) = demo().await;
    let source = include_str!("../../src/http/mod.rs");
    let routes: Vec<&str> = source
        .split(".route(")
        .skip(1)
        .filter_map(|rest| rest.split('"').nth(1))
        // Pages for people.
        .filter(|route| !route.starts_with("/docs") && !route.starts_with("/console"))
        .collect();
    assert!(routes.len() >= 6, "{routes:?}");
    for route in routes {
        let path = route.replace("{resource}", "invoices");
        assert!(document.0["paths"][&path].is_object(), "{route} is not in the document");
    }
}

#[tokio::test]
async fn every_method_that_an_address_takes_is_described() {
    let (server, document) = demo().await;
    for (path, item) in document.0["paths"].as_object().unwrap() {
        let url = format!("{}{}", server.url, path.replace("{id}", "1"));
        let request = reqwest::Client::new().request(Method::from_bytes(b"BREW").unwrap(), url);
        let reply = Reply::of(request).await.expect(405);
        document.check(
            item.as_object().unwrap().keys().find(|k| *k != "parameters").unwrap(),
            path,
            &reply,
        );
        for method in reply.header("allow").split(',').filter(|method| *method != "HEAD") {
            assert!(item[method.to_lowercase()].is_object(), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn every_error_code_is_described() {
    let server = Server::configured(
        "CREATE TABLE notes (id int PRIMARY KEY, text text)",
        &["notes"],
        "[resource.notes]\nrequire_if_match = true",
    )
    .await;
    let document = Document::of(&server).await;
    let text = document.0["paths"].to_string() + &document.0["components"]["responses"].to_string();
    for code in Code::ALL {
        assert!(text.contains(&format!("`{}`", code.as_str())), "{}", code.as_str());
    }
}

#[tokio::test]
async fn names_are_unique_and_references_lead_somewhere() {
    let (_server, document) = demo().await;
    let mut ids = std::collections::BTreeSet::new();
    for item in document.0["paths"].as_object().unwrap().values() {
        for (method, operation) in item.as_object().unwrap() {
            if method != "parameters" {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "{id} stands twice");
            }
        }
    }
    let text = document.0.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document.0.pointer(reference).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn reads_are_answered_as_described() {
    let (server, document) = demo().await;
    let list = async |query: &str, status| {
        let reply = server.get(&format!("/invoices{query}")).await;
        document.check("get", INVOICES_PATH, &reply.expect(status));
    };
    list("?status=in.(draft,sent)&order=due_on.desc", 200).await;
    list("?select=id,amount&limit=2", 200).await;
    list("?nothing=eq.1", 400).await;
    let read = async |id: &str, status| {
        let reply = server.get(&format!("/invoices/{id}")).await;
        document.check("get", INVOICE_PATH, &reply.expect(status));
    };
    read(INVOICE, 200).await;
    read(&format!("{INVOICE}?select=memo"), 200).await;
    read("7", 400).await;
    read("01a11e82-0000-7000-8000-000000000000", 404).await;
    for (header, tag, status) in [("if-none-match", "\"1\"", 304), ("if-match", "\"7\"", 412)] {
        let path = format!("/invoices/{INVOICE}");
        let reply = Reply::of(server.request(Method::GET, &path).header(header, tag)).await;
        document.check("get", INVOICE_PATH, &reply.expect(status));
    }
    let offer = "/offers/01a11e90-0000-7000-8000-000000000001,blue-van";
    document.check("get", "/api/v1/offers/{id}", &server.get(offer).await.expect(200));
}

#[tokio::test]
async fn creations_and_ends_are_answered_as_described() {
    let (server, document) = demo().await;
    let new = r#"{"number": "2026-0200", "customer": "Quay Books", "amount": "12.50"}"#;
    let unfinished = r#"{"number": "2026-0201"}"#;
    for (body, status) in [(new, 201), (new, 409), ("{", 400), (unfinished, 422)] {
        let reply = server.post("/invoices", body).await;
        document.check("post", INVOICES_PATH, &reply.expect(status));
    }
    let invoice = &format!("/invoices/{INVOICE}");
    let absent = server.request(Method::PUT, invoice).header("if-none-match", "*");
    document.check("put", INVOICE_PATH, &Reply::of(body(absent, new)).await.expect(412));
    for status in [204, 410] {
        let reply = server.delete(invoice, None).await;
        document.check("delete", INVOICE_PATH, &reply.expect(status));
    }
    document.check("get", INVOICE_PATH, &server.get(invoice).await.expect(410));
    let referenced = server.delete("/bookings/01a11e90-0000-7000-8000-000000000001", None).await;
    document.check("delete", "/api/v1/bookings/{id}", &referenced.expect(409));
}

#[tokio::test]
async fn changes_are_answered_as_described() {
    let (server, document) = demo().await;
    let invoice = &format!("/invoices/{INVOICE}");
    let large = format!(r#"{{"memo": "{}"}}"#, "x".repeat(2 << 20));
    let changes = [
        (Some("\"1\""), r#"{"amount": 7}"#, 200),
        (Some("\"1\""), r#"{"amount": 8}"#, 409),
        (None, r#"{"amount": -8}"#, 422),
        (Some("7\""), "{}", 400),
        (None, large.as_str(), 413),
    ];
    for (tag, body, status) in changes {
        let reply = server.patch(invoice, tag, body).await;
        document.check("patch", INVOICE_PATH, &reply.expect(status));
    }
    let patch = || server.request(Method::PATCH, invoice);
    let text = patch().header("content-type", "text/plain").body("x");
    document.check("patch", INVOICE_PATH, &Reply::of(text).await.expect(415));
    let minimal = body(patch().header("prefer", "return=minimal"), "{}");
    document.check("patch", INVOICE_PATH, &Reply::of(minimal).await.expect(204));
    let merge = format!("{invoice}?on_conflict=merge");
    let merged = server.patch(&merge, Some("\"1\""), r#"{"memo": "mine"}"#).await.expect(200);
    assert_eq!(merged.json["merged"]["onto"], 3);
    document.check("patch", INVOICE_PATH, &merged);
    let preview = r#"{"base_version": 1, "data": {"amount": 9}}"#;
    let preview = server.post(&format!("{invoice}/merge"), preview).await.expect(200);
    document.check("post", "/api/v1/invoices/{id}/merge", &preview);
    let history = server.get(&format!("{invoice}/history?limit=2")).await.expect(200);
    document.check("get", "/api/v1/invoices/{id}/history", &history);
    let old = server.get(&format!("{invoice}?version=1")).await.expect(200);
    document.check("get", INVOICE_PATH, &old);
    let problem = patch().header("if-match", "\"1\"").header("accept", "application/problem+json");
    let problem = Reply::of(body(problem, r#"{"amount": 9}"#)).await.expect(409);
    assert_eq!(problem.header("content-type"), "application/problem+json");
    document.check("patch", INVOICE_PATH, &problem);
    for (body, status) in [(r#"{"field": "views"}"#, 200), (r#"{"field": "name"}"#, 422)] {
        let reply = server.post("/counters/deck-oven/increment", body).await;
        document.check("post", "/api/v1/counters/{id}/increment", &reply.expect(status));
    }
}

/// One column of every kind that the description tells apart.
const KINDS: &str = r#"
    CREATE TYPE mood AS ENUM ('calm', 'a|b');
    CREATE TYPE place AS (street text, number int);
    CREATE DOMAIN share AS numeric(5, 4) CHECK (value <= 1);
    CREATE TABLE kinds (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        flag boolean, tiny smallint, wide bigint, ratio real, exact numeric, money_like numeric(20, 4),
        part share, code varchar(5), fixed char(4), label mood, uid uuid, day date, moment timestamp,
        instant timestamptz, clock time, zoned timetz, raw bytea, doc json, tree jsonb NOT NULL,
        words text[], grid int[], home place, span interval, address inet, during tstzrange,
        "a.b/~c" text, secret text, twice int GENERATED ALWAYS AS (tiny * 2) STORED);
    COMMENT ON COLUMN kinds.code IS 'Five letters at most';
    INSERT INTO kinds (flag, tiny, wide, ratio, exact, money_like, part, code, fixed, label, uid, day,
        moment, instant, clock, zoned, raw, doc, tree, words, grid, home, span, address, during, "a.b/~c", secret)
    VALUES (true, -32768, 9223372036854775807, 'NaN', '-Infinity', 1234567890123456.7891, 0.5, 'abcde', 'ab',
        'a|b', 'a11e8200-0000-7000-8000-000000000000', '0044-03-15 BC', '2026-11-30 09:00', 'infinity',
        '24:00', '09:00+02', '\x0aff', '{"a": 1}', 'null', '{a,NULL}', '{{1,2},{3,4}}', '("High St",4)',
        '1 day 02:00', '10.0.0.1', '[2026-11-30 09:00+00,)', 'x', 'hidden'), (NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[1]', NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL);"#;

#[tokio::test]
async fn every_type_is_described_as_it_is_read_and_written() {
    let config =
        "[resource.kinds]\nhidden = [\"secret\"]\nread_only = [\"flag\"]\nconflict_status = 412";
    let server = Server::configured(KINDS, &["kinds"], config).await;
    let document = Document::of(&server).await;
    let schemas = &document.0["components"]["schemas"];
    let row = document.validator(&json!({ "$ref": "#/components/schemas/Kinds" }));
    let replace = document.validator(&json!({ "$ref": "#/components/schemas/KindsReplace" }));
    for id in [1, 2] {
        let read = server.get(&format!("/kinds/{id}")).await.expect(200);
        document.check("get", "/api/v1/kinds/{id}", &read);
        let errors: Vec<_> = row.iter_errors(read.data()).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        let known = schemas["Kinds"]["properties"].as_object().unwrap();
        assert_eq!(read.data().as_object().unwrap().len(), known.len());
        let put =
            server.put(&format!("/kinds/{id}"), Some("\"1\""), &read.data().to_string()).await;
        document.check("put", "/api/v1/kinds/{id}", &put.expect(200));
    }
    // A date before Christ is beyond the formats of JSON Schema; the other row is not.
    let second = server.get("/kinds/2").await;
    assert!(replace.is_valid(second.data()));

    assert!(!document.0.to_string().contains("secret"), "a hidden column shows");
    let properties = &schemas["Kinds"]["properties"];
    for managed in ["id", "version", "twice", "flag"] {
        assert_eq!(properties[managed]["readOnly"], true, "{managed}");
    }
    assert_eq!(properties["code"]["description"], "Five letters at most");
    assert_eq!(properties["code"]["maxLength"], 5);
    assert_eq!(schemas["KindsCreate"]["required"], json!(["tree"]));
    assert_eq!(schemas["KindsCreate"]["properties"]["tiny"]["anyOf"][0]["minimum"], -32768);
    let stale = server.patch("/kinds/1", Some("\"1\""), r#"{"tiny": 1}"#).await.expect(412);
    assert_eq!(stale.code(), "WRITE_CONFLICT");
    document.check("patch", "/api/v1/kinds/{id}", &stale);
}

#[tokio::test]
async fn the_document_has_a_tag_and_follows_the_tables() {
    let (server, _) = demo().await;
    let get = |tag: &str| {
        reqwest::Client::new()
            .get(format!("{}/openapi.json", server.url))
            .header("if-none-match", tag)
    };
    let first = Reply::of(get("\"x\"")).await.expect(200);
    let tag = first.header("etag").to_owned();
    let again = Reply::of(get(&format!("\"y\", W/{tag}"))).await.expect(304);
    assert_eq!((again.header("etag"), again.text.as_str()), (tag.as_str(), ""));
    Reply::of(get("*")).await.expect(304);
    Reply::of(get("\"")).await.expect(400);

    server.sql("COMMENT ON TABLE counters IS 'Counted'").await;
    server.sql("ALTER TABLE counters ADD colour text").await;
    for _ in 0..200 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let now = Reply::of(get(&tag)).await;
        if now.status == 200 {
            assert!(now.text.contains("\"colour\""));
            return;
        }
    }
    panic!("the document still is the old one after four seconds");
}

#[tokio::test]
async fn the_documentation_needs_no_other_host() {
    let (server, _) = demo().await;
    let get = async |path: &str| {
        Reply::of(reqwest::Client::new().get(format!("{}{path}", server.url))).await
    };
    let page = get("/docs").await.expect(200);
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("content-type"), "text/html");
    for part in page.text.split(['"', '\'']).filter_map(|part| part.strip_prefix("./")) {
        assert!(!part.contains("//"), "{part}");
        get(&format!("/docs/{part}")).await.expect(200);
    }
    assert!(get("/docs/swagger-initializer.js").await.text.contains("../openapi.json"));
    get("/docs/nothing.js").await.expect(404);
}
