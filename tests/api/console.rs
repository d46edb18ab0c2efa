//! The console without a browser: forms as a browser without scripts sends them, and the pages that
//! answer. Nothing that was typed may be lost, and nothing that stands in a row may become markup.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder};

use crate::support::{self, Server};

const TABLE: &str = "
    CREATE TABLE invoices (
        id       integer PRIMARY KEY,
        amount   numeric(12,2) NOT NULL CHECK (amount >= 0),
        currency text NOT NULL DEFAULT 'EUR',
        due_on   date,
        memo     text,
        paid     boolean NOT NULL DEFAULT false,
        tags     text[] NOT NULL DEFAULT '{}',
        meta     jsonb,
        seen_at  timestamptz DEFAULT '2026-09-28 08:12:44.120031+00'
    );
    COMMENT ON TABLE invoices IS 'Invoices to customers';
    COMMENT ON COLUMN invoices.due_on IS 'The day by which it is to be paid';
    INSERT INTO invoices (id, amount, due_on, memo) VALUES (1, 1000, '2026-10-28', 'first');";

const PAGE: &str = "/console/invoices/1";

/// A page, or where it leads to.
struct Page {
    status: u16,
    headers: HeaderMap,
    html: String,
}

impl Page {
    async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            html: response.text().await.unwrap(),
        }
    }

    #[track_caller]
    fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.html);
        self
    }

    #[track_caller]
    fn shows(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.html.contains(text), "no {text:?} in\n{}", self.html);
        }
        self
    }

    #[track_caller]
    fn hides(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(!self.html.contains(text), "{text:?} in\n{}", self.html);
        }
        self
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// Every input of the page's first form with this action, as a browser sends them.
    fn form(&self, action: &str) -> Form {
        let marker = format!("action=\"{action}\"");
        let at = self.html.find(&marker).expect("no such form");
        let html = &self.html[at..];
        let end = html.find("</form>").unwrap();
        Form::read(&html[..end])
    }
}

/// The inputs of a form, to be changed and sent.
#[derive(Clone)]
struct Form(Vec<(String, String)>);

impl Form {
    fn read(html: &str) -> Self {
        let mut inputs = Vec::new();
        for (at, _) in html.match_indices('<') {
            let tag = &html[at..at + html[at..].find('>').unwrap()];
            let rest = &html[at + tag.len() + 1..];
            let Some(name) = attribute(tag, "name") else {
                continue;
            };
            let kind = attribute(tag, "type").unwrap_or_default();
            if tag.starts_with("<textarea") {
                let text = &rest[..rest.find("</textarea>").unwrap()];
                let text = text.strip_prefix('\n').unwrap_or(text);
                inputs.push((name, unescape(text).replace('\n', "\r\n")));
            } else if tag.starts_with("<select") {
                let options = &rest[..rest.find("</select>").unwrap()];
                let chosen = options
                    .split("<option")
                    .skip(1)
                    .find(|o| o.split('>').next().unwrap().contains(" selected"))
                    .or(options.split("<option").nth(1));
                let value = attribute(chosen.unwrap(), "value").unwrap();
                inputs.push((name, value));
            } else if tag.starts_with("<input")
                && (!matches!(kind.as_str(), "checkbox" | "radio") || tag.contains(" checked"))
            {
                inputs.push((name, attribute(tag, "value").unwrap_or_default()));
            }
        }
        Self(inputs)
    }

    /// With an input set, or added where it was not sent.
    fn with(mut self, name: &str, value: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value.to_owned()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let marker = format!(" {name}=\"");
    let at = tag.find(&marker)? + marker.len();
    let value = &tag[at..];
    Some(unescape(&value[..value.find('"')?]))
}

fn unescape(text: &str) -> String {
    text.replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&#60;", "<")
        .replace("&#62;", ">")
        .replace("&#38;", "&")
}

/// A visitor of the console.
struct Visitor<'s> {
    server: &'s Server,
    client: Client,
    name: &'static str,
}

impl<'s> Visitor<'s> {
    fn new(server: &'s Server, name: &'static str) -> Self {
        let client = Client::builder().no_proxy().redirect(Policy::none());
        Self { server, client: client.build().unwrap(), name }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.server.url);
        let request = self.client.request(method, url);
        request.header("cookie", format!("counterfoil_you={}", self.name))
    }

    async fn get(&self, path: &str) -> Page {
        Page::of(self.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, form: &Form) -> Page {
        Page::of(self.request(Method::POST, path).form(&form.0)).await
    }

    /// Opens the record's form.
    async fn open(&self) -> Form {
        self.get(PAGE).await.expect(200).form(PAGE)
    }
}

#[tokio::test]
async fn resources_rows_and_a_form_are_made_from_the_catalogue() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let mina = Visitor::new(&server, "mina");
    let start = mina.get("/console").await.expect(200);
    start.shows(&["Invoices to customers", "1 row", "/console/invoices"]);
    let list = mina.get("/console/invoices").await.expect(200);
    let list = list.shows(&["1000.00", "2026-10-28", "href=\"/console/invoices/1\""]);
    assert!(list.header("content-security-policy").contains("default-src 'self'"));
    let page = mina.get(PAGE).await.expect(200);
    let page = page.shows(&[
        "type=\"date\"",
        "The day by which it is to be paid",
        "inputmode=\"decimal\"",
        "Kept by the system",
        "Version 1",
    ]);
    let form = page.form(PAGE);
    assert_eq!(form.get("base"), Some("1"));
    assert_eq!(form.get("f.amount"), Some("1000.00"));
    assert_eq!(form.get("f.paid"), None);
    assert_eq!(form.get("n.memo"), None);
    assert_eq!(form.get("f.version"), None);
    // A moment that a browser's input would cut stays a text.
    assert_eq!(form.get("f.seen_at"), Some("2026-09-28T08:12:44.120031+00:00"));
    mina.get("/console/nothing").await.expect(404).shows(&["<h1>Nothing here</h1>"]);
    mina.get("/console/invoices/2").await.expect(404);
    mina.get("/console/invoices/x").await.expect(400);
}

#[tokio::test]
async fn only_what_was_changed_is_written() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let mina = Visitor::new(&server, "mina");
    let untouched = mina.post(PAGE, &mina.open().await).await.expect(303);
    assert!(untouched.header("set-cookie").contains("unchanged"));
    let form = mina.open().await;
    let form =
        form.with("f.memo", "two\r\nlines").with("f.paid", "true").with("f.tags", "a\r\nb c");
    let saved = mina.post(PAGE, &form).await.expect(303);
    assert_eq!(saved.header("location"), PAGE);
    assert!(saved.header("set-cookie").contains("saved~2~"));
    let stored =
        server.value("SELECT concat_ws('|', memo, paid, tags, seen_at, version) FROM invoices");
    let expected = "two\nlines|t|{a,\"b c\"}|2026-09-28 08:12:44.120031+00|2";
    assert_eq!(stored.await.as_deref(), Some(expected));
    let by = server.value("SELECT \"by\" FROM counterfoil.change WHERE version = 2").await;
    assert_eq!(by.as_deref(), Some("mina"));
    let none =
        mina.open().await.with("n.memo", "1").without("f.paid").with("f.meta", "{\"a\": 1.10}");
    mina.post(PAGE, &none).await.expect(303);
    let stored =
        server.value("SELECT concat_ws('|', coalesce(memo, 'NULL'), paid, meta) FROM invoices");
    assert_eq!(stored.await.as_deref(), Some("NULL|f|{\"a\": 1.10}"));
    let empty = mina.open().await.without("n.memo").with("f.memo", "");
    mina.post(PAGE, &empty).await.expect(303);
    assert_eq!(server.value("SELECT memo = '' FROM invoices").await.as_deref(), Some("true"));
}

#[tokio::test]
async fn a_refused_form_comes_back_with_all_that_was_typed() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let mina = Visitor::new(&server, "mina");
    let form = mina.open().await.with("f.memo", "kept & <safe>");
    let cases = [
        ("f.amount", "12 apples", "amount must be a number"),
        ("f.amount", "-1", "The rule invoices_amount_check does not allow this amount"),
        ("f.amount", "99999999999", "amount must be a number of at most 10 digits"),
        ("f.due_on", "tomorrow", "due_on must be a date"),
        ("f.due_on", "2026-02-31", "due_on holds a value that date cannot take"),
        ("f.meta", "{\"a\": }", "Meta must be valid JSON (see line 1, character 7)"),
        ("f.amount", "", "amount must be something other than null"),
    ];
    for (input, typed, message) in cases {
        let page = mina.post(PAGE, &form.clone().with(input, typed)).await.expect(422);
        let page = page.shows(&[message, "role=\"alert\"", "aria-invalid=\"true\"", "Not saved"]);
        let again = page.form(PAGE);
        assert_eq!(again.get(input), Some(typed));
        assert_eq!(again.get("f.memo"), Some("kept & <safe>"));
        assert_eq!(again.get("base"), Some("1"));
    }
    let both = form.with("n.memo", "1");
    mina.post(PAGE, &both).await.expect(422).shows(&["“No value” is ticked too"]);
    let corrected = mina.open().await.with("f.amount", "12 apples");
    let again = mina.post(PAGE, &corrected).await.expect(422).form(PAGE);
    mina.post(PAGE, &again.with("f.amount", "12")).await.expect(303);
    assert_eq!(server.value("SELECT amount FROM invoices").await.as_deref(), Some("12.00"));
}

#[tokio::test]
async fn different_fields_are_saved_with_one_click() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let (mina, otto) = (Visitor::new(&server, "mina"), Visitor::new(&server, "otto"));
    let (his, hers) = (otto.open().await, mina.open().await);
    mina.post(PAGE, &hers.with("f.memo", "paid")).await.expect(303);
    let page = otto.post(PAGE, &his.with("f.amount", "1250")).await.expect(409);
    let page = page.shows(&[
        "<title>Conflict – 1",
        "<strong>mina</strong> saved version 2",
        "You started from version 1",
        "Save both changes",
        "Combined automatically",
        "Your change",
        "Saved by mina",
    ]);
    let page = page.hides(&["Needs your decision"]);
    let merge = format!("{PAGE}/merge");
    let done = otto.post(&merge, &page.form(&merge)).await.expect(303);
    assert!(done.header("set-cookie").contains("merged~3~"));
    let stored = server.value("SELECT concat_ws('|', amount, memo, version) FROM invoices");
    assert_eq!(stored.await.as_deref(), Some("1250.00|paid|3"));
    let parents = server.value("SELECT merged_from FROM counterfoil.change WHERE version = 3");
    assert_eq!(parents.await.as_deref(), Some("{1,2}"));
    otto.get(&format!("{PAGE}/history")).await.expect(200).shows(&["Merged", "from 1 and 2"]);
}

#[tokio::test]
async fn a_clash_is_decided_by_a_person() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let (mina, otto) = (Visitor::new(&server, "mina"), Visitor::new(&server, "otto"));
    let (his, hers) = (otto.open().await, mina.open().await);
    mina.post(PAGE, &hers.with("f.amount", "1100").with("f.memo", "paid")).await.expect(303);
    let his = his.with("f.amount", "1250").with("f.due_on", "2026-11-01");
    let page = otto.post(PAGE, &his).await.expect(409).shows(&[
        "Needs your decision",
        "<legend>Amount</legend>",
        "Use theirs (saved by mina)",
        "</span>1000.00</del>",
        "</span>1100.00</ins>",
        "</span>1250.00</ins>",
    ]);
    let merge = format!("{PAGE}/merge");
    let form = page.form(&merge);
    assert_eq!(form.get("d.amount"), None, "a clash has no preset");
    assert_eq!(form.get("d.due_on"), Some("mine"));
    assert_eq!(form.get("d.memo"), Some("theirs"));
    assert_eq!(form.get("f.amount"), Some("1250.00"));
    let missing = otto.post(&merge, &form).await.expect(422);
    let missing = missing.shows(&["Still to be decided", "Choose what is to be saved for Amount"]);
    let form = missing.form(&merge).with("d.amount", "edit").with("f.amount", "a lot");
    let wrong = otto.post(&merge, &form).await.expect(422).shows(&["amount must be a number"]);
    let form = wrong.form(&merge);
    assert_eq!((form.get("d.amount"), form.get("f.amount")), (Some("edit"), Some("a lot")));
    otto.post(&merge, &form.with("f.amount", "1175")).await.expect(303);
    let stored = server.value("SELECT concat_ws('|', amount, due_on, memo, version) FROM invoices");
    assert_eq!(stored.await.as_deref(), Some("1175.00|2026-11-01|paid|3"));
}

#[tokio::test]
async fn what_combines_by_itself_can_be_overruled() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let (mina, otto) = (Visitor::new(&server, "mina"), Visitor::new(&server, "otto"));
    let (his, hers) = (otto.open().await, mina.open().await);
    mina.post(PAGE, &hers.with("f.memo", "paid").with("f.due_on", "2026-12-24")).await.expect(303);
    let page = otto.post(PAGE, &his.with("f.amount", "1250")).await.expect(409);
    let merge = format!("{PAGE}/merge");
    let form = page.form(&merge);
    let typed = form.clone().with("f.memo", "typed beside a preset");
    otto.post(&merge, &typed)
        .await
        .expect(422)
        .shows(&["“Edit” is not chosen", "typed beside a preset"]);
    let form = form.with("d.memo", "mine").with("d.amount", "theirs");
    otto.post(&merge, &form).await.expect(303);
    let stored = server.value("SELECT concat_ws('|', amount, due_on, memo, version) FROM invoices");
    assert_eq!(stored.await.as_deref(), Some("1000.00|2026-12-24|first|3"));
    // Whoever leaves all as it is saved writes nothing.
    let his = otto.open().await.with("f.amount", "7");
    server.patch("/invoices/1", None, r#"{"amount": 8}"#).await.expect(200);
    let form = otto.post(PAGE, &his).await.expect(409).form(&merge).with("d.amount", "theirs");
    let kept = otto.post(&merge, &form).await.expect(303);
    assert!(kept.header("set-cookie").contains("kept~4~"));
}

#[tokio::test]
async fn a_further_change_keeps_the_decisions_that_still_hold() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let his = otto.open().await.with("f.amount", "1250").with("f.memo", "his");
    server.patch("/invoices/1", None, r#"{"amount": 1100, "memo": "hers"}"#).await.expect(200);
    let merge = format!("{PAGE}/merge");
    let form = otto.post(PAGE, &his).await.expect(409).form(&merge);
    let form = form.with("d.amount", "edit").with("f.amount", "1175").with("d.memo", "mine");
    server
        .patch("/invoices/1", None, r#"{"memo": "hers again", "currency": "USD"}"#)
        .await
        .expect(200);
    let page = otto.post(&merge, &form).await.expect(409);
    let page = page.shows(&["changed again", "The saved value moved again", "hers again"]);
    let form = page.form(&merge);
    assert_eq!(form.get("onto"), Some("3"));
    assert_eq!(form.get("base"), Some("1"));
    assert_eq!((form.get("d.amount"), form.get("f.amount")), (Some("edit"), Some("1175")));
    assert_eq!(form.get("d.memo"), None, "what moved is to be decided again");
    assert_eq!(form.get("f.memo"), Some("his"));
    assert_eq!(form.get("d.currency"), Some("theirs"));
    otto.post(&merge, &form.with("d.memo", "mine")).await.expect(303);
    let stored =
        server.value("SELECT concat_ws('|', amount, memo, currency, version) FROM invoices");
    assert_eq!(stored.await.as_deref(), Some("1175.00|his|USD|4"));
    let parents = server.value("SELECT merged_from FROM counterfoil.change WHERE version = 4");
    assert_eq!(parents.await.as_deref(), Some("{1,3}"));
}

#[tokio::test]
async fn a_stale_form_with_a_value_that_cannot_be_stored_loses_neither() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let form = otto.open().await.with("f.memo", "his");
    server.patch("/invoices/1", None, r#"{"memo": "hers"}"#).await.expect(200);
    for wrong in ["tomorrow", "2026-02-31"] {
        let page = otto.post(PAGE, &form.clone().with("f.due_on", wrong)).await.expect(422);
        let again = page.form(PAGE);
        assert_eq!((again.get("f.due_on"), again.get("f.memo")), (Some(wrong), Some("his")));
        assert_eq!(again.get("base"), Some("1"));
        otto.post(PAGE, &again.with("f.due_on", "2026-02-28"))
            .await
            .expect(409)
            .shows(&["his", "hers"]);
    }
    // A rule of the table is met when the merge is written; the page stays, with the field named.
    let merge = format!("{PAGE}/merge");
    let page = otto.post(PAGE, &form.with("f.amount", "-5")).await.expect(409);
    let refused = otto.post(&merge, &page.form(&merge).with("d.memo", "mine")).await.expect(422);
    let refused = refused.shows(&["invoices_amount_check", "Not saved"]);
    let form = refused.form(&merge);
    assert_eq!(form.get("d.memo"), Some("mine"));
    otto.post(&merge, &form.with("d.amount", "edit").with("f.amount", "5")).await.expect(303);
    let stored = server.value("SELECT concat_ws('|', amount, memo) FROM invoices").await;
    assert_eq!(stored.as_deref(), Some("5.00|his"));
}

#[tokio::test]
async fn changes_inside_one_document_are_merged() {
    let server = Server::start(TABLE, &["invoices"]).await;
    server.patch("/invoices/1", None, r#"{"meta": {"a": 1, "b": 1}}"#).await.expect(200);
    let otto = Visitor::new(&server, "otto");
    let his = otto.open().await.with("f.meta", "{\"a\": 2, \"b\": 1}");
    server.patch("/invoices/1", None, r#"{"meta": {"a": 1, "b": 1, "c": 3}}"#).await.expect(200);
    let page =
        otto.post(PAGE, &his).await.expect(409).shows(&["Merged from both", "Save both changes"]);
    let merge = format!("{PAGE}/merge");
    otto.post(&merge, &page.form(&merge)).await.expect(303);
    let stored = server.value("SELECT meta FROM invoices").await;
    assert_eq!(stored.as_deref(), Some(r#"{"a": 2, "b": 1, "c": 3}"#));
}

#[tokio::test]
async fn without_history_every_difference_is_shown_and_nothing_combines() {
    let server = Server::start(TABLE, &[]).await;
    server.sql("SELECT counterfoil.adopt('invoices', NULL, false)").await;
    let server = Server::on(&server.database_url, "").await;
    let otto = Visitor::new(&server, "otto");
    let his = otto.open().await.with("f.amount", "1250");
    server.patch("/invoices/1", None, r#"{"memo": "hers"}"#).await.expect(200);
    let page = otto.post(PAGE, &his).await.expect(409);
    let page = page.shows(&["is no longer kept, so nothing can be combined", "not known any more"]);
    let merge = format!("{PAGE}/merge");
    otto.post(&merge, &page.form(&merge).with("d.amount", "mine")).await.expect(303);
    let stored = server.value("SELECT concat_ws('|', amount, memo) FROM invoices").await;
    assert_eq!(stored.as_deref(), Some("1250.00|hers"));
    otto.get(&format!("{PAGE}/history")).await.expect(200).shows(&["keeps no history"]);
}

#[tokio::test]
async fn a_restore_that_is_refused_keeps_the_changes() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let his = otto.open().await.with("f.amount", "-5").with("f.memo", "his");
    server.delete("/invoices/1", None).await.expect(204);
    let restore = format!("{PAGE}/restore");
    let form = otto.post(PAGE, &his).await.expect(410).form(&restore);
    let refused = otto.post(&restore, &form).await.expect(422);
    let again = refused.shows(&["Not restored", "invoices_amount_check"]).form(&restore);
    assert_eq!(again.get("y.memo"), Some("\"his\""));
    otto.post(&restore, &again.without("y.amount")).await.expect(303);
    let unknown = Form(vec![("version".into(), "77".into()), ("current".into(), "3".into())]);
    let lost = otto.post(&restore, &unknown).await.expect(404);
    lost.shows(&["Version 77 is no longer kept.", "Try again"]);
}

/// What no form shows and no body sets comes back too; what the database computes, it computes again.
#[tokio::test]
async fn a_deleted_row_comes_back_whole() {
    let sql = "
        CREATE TABLE notes (id integer PRIMARY KEY, body text, made_at timestamptz NOT NULL DEFAULT now(),
            secret text NOT NULL DEFAULT 'new', twice text GENERATED ALWAYS AS (body || body) STORED, made_by jsonb);
        INSERT INTO notes VALUES (1, 'b', '2020-02-02 02:02:02.020202+00', 'kept', DEFAULT, '{\"n\": 1.50}');";
    let config = "[resource.notes]\nread_only = [\"made_at\", \"made_by\"]\nhidden = [\"secret\"]";
    let server = Server::configured(sql, &["notes"], config).await;
    let otto = Visitor::new(&server, "otto");
    let (page, restore) = ("/console/notes/1", "/console/notes/1/restore");
    let typed = otto.get(page).await.expect(200).form(page).with("f.body", "his");
    let row = "SELECT concat_ws('|', body, made_at AT TIME ZONE 'UTC', secret, twice, made_by, version) FROM notes";
    for (body, version) in [("b", 3), ("his", 5)] {
        server.delete("/notes/1", None).await.expect(204);
        let gone = if body == "b" { otto.get(page).await } else { otto.post(page, &typed).await };
        let gone = gone.expect(410).hides(&["kept"]);
        otto.post(restore, &gone.form(restore)).await.expect(303);
        let wanted = format!(
            "{body}|2020-02-02 02:02:02.020202|kept|{body}{body}|{{\"n\": 1.50}}|{version}"
        );
        assert_eq!(server.value(row).await, Some(wanted));
    }
    // A new record under the old id begins with the defaults.
    server.delete("/notes/1", None).await.expect(204);
    let put = server.request(Method::PUT, "/notes/1").header("if-none-match", "*");
    let put = put.header("content-type", "application/json").body(r#"{"body": "c"}"#);
    assert_eq!(put.send().await.unwrap().status(), 201);
    assert_eq!(server.value("SELECT secret FROM notes").await.as_deref(), Some("new"));
}

#[tokio::test]
async fn what_was_deleted_is_listed_with_the_way_back() {
    let sql = "
        CREATE TABLE people (id uuid PRIMARY KEY, name text NOT NULL);
        CREATE TABLE pairs (a text, b text, PRIMARY KEY (a, b));
        CREATE TABLE tallies (id integer PRIMARY KEY);
        INSERT INTO people SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'name ' || n || '<b>' FROM generate_series(1, 120) n;
        INSERT INTO pairs VALUES ('x,y', '<i>');
        INSERT INTO tallies VALUES (1), (2);";
    let server = Server::start(sql, &["people", "pairs"]).await;
    server.sql("SELECT counterfoil.adopt('tallies', history => false)").await;
    support::wait_until("the table is served", async || {
        server.get("/tallies/1").await.status == 200
    })
    .await;
    let otto = Visitor::new(&server, "otto");
    let list = "/console/people/-/deleted";
    otto.get("/console/people").await.expect(200).shows(&[list]);
    otto.get(list).await.expect(200).shows(&["Nothing was deleted."]);
    let delete = server.request(Method::DELETE, "/people/00000000-0000-0000-0000-000000000001");
    assert_eq!(delete.header("x-actor", "mina").send().await.unwrap().status(), 204);
    server.sql("DELETE FROM people; INSERT INTO people SELECT '00000000-0000-0000-0000-000000000005', 'reborn'").await;
    server.delete("/pairs/x%2Cy,%3Ci%3E", None).await.expect(204);
    server.sql("DELETE FROM tallies; INSERT INTO tallies VALUES (1)").await;

    // All of them, none twice, newest first, and not the one that is there again.
    let (mut path, mut found) = (list.to_owned(), Vec::new());
    loop {
        let page = otto.get(&path).await.expect(200).hides(&["<b>", "reborn"]);
        let links = page.html.split("<th role=\"rowheader\" scope=\"row\"><a href=\"").skip(1);
        found.extend(links.map(|rest| rest.split('"').next().unwrap().to_owned()));
        let Some((before, _)) = page.html.split_once("\" rel=\"next\"") else { break };
        path = before.rsplit('"').next().unwrap().to_owned();
    }
    assert_eq!(found.len(), 119);
    assert!(found.last().unwrap().ends_with("000000000001"), "{found:?}");
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 119);
    otto.get(&path).await.expect(200).shows(&["mina", "name 1&#60;b&#62;", "Newest deletions"]);

    let (restore, list) = ("/console/pairs/x%2Cy,%3Ci%3E/restore", "/console/pairs/-/deleted");
    let page = otto.get(list).await.expect(200).shows(&["x,y, &#60;i&#62;"]);
    otto.post(restore, &page.form(restore)).await.expect(303);
    assert_eq!(server.value("SELECT version FROM pairs").await.as_deref(), Some("3"));
    otto.get(list).await.expect(200).shows(&["Nothing was deleted."]);
    // Without history the log does not tell that a row is there again, but the table does.
    let page = otto.get("/console/tallies/-/deleted").await.expect(200);
    page.shows(&["/console/tallies/2/restore"]).hides(&["/console/tallies/1/restore"]);
    for broken in ["x", "1", "1.x", "-1.2", "99999999999999999999.1"] {
        otto.get(&format!("{list}?before={broken}")).await.expect(400);
    }
}

#[tokio::test]
async fn composite_keys_and_references_lead_on() {
    let sql = "
        CREATE TABLE bookings (id uuid PRIMARY KEY, name text NOT NULL);
        CREATE TABLE offers (booking uuid REFERENCES bookings, who text, price integer, PRIMARY KEY (booking, who));
        INSERT INTO bookings VALUES ('01a11e90-0000-7000-8000-000000000001', 'Quay 4');
        INSERT INTO offers VALUES ('01a11e90-0000-7000-8000-000000000001', 'a,b/c', 5);";
    let server = Server::start(sql, &["bookings", "offers"]).await;
    let otto = Visitor::new(&server, "otto");
    let address = "/console/offers/01a11e90-0000-7000-8000-000000000001,a%2Cb%2Fc";
    otto.get("/console/offers").await.expect(200).shows(&[&format!("href=\"{address}\"")]);
    let page = otto.get(address).await.expect(200);
    let page = page.shows(&[
        "href=\"/console/bookings/01a11e90-0000-7000-8000-000000000001\">Open in Bookings",
    ]);
    otto.post(address, &page.form(address).with("f.price", "6")).await.expect(303);
    assert_eq!(server.value("SELECT price FROM offers").await.as_deref(), Some("6"));
    otto.get("/console/bookings/01a11e90-0000-7000-8000-000000000001")
        .await
        .expect(200)
        .shows(&["<h1>Quay 4</h1>"]);
}

#[tokio::test]
async fn a_group_is_decided_as_one() {
    let config = "[resource.invoices]\ntable = \"public.invoices\"\nmerge.groups = [[\"amount\", \"currency\"]]";
    let server = Server::configured(TABLE, &["invoices"], config).await;
    let otto = Visitor::new(&server, "otto");
    let his = otto.open().await.with("f.amount", "1250");
    server.patch("/invoices/1", None, r#"{"currency": "USD"}"#).await.expect(200);
    let page =
        otto.post(PAGE, &his).await.expect(409).shows(&["<legend>Amount and Currency</legend>"]);
    let merge = format!("{PAGE}/merge");
    otto.post(&merge, &page.form(&merge).with("d.amount", "mine")).await.expect(303);
    let stored = server.value("SELECT concat_ws('|', amount, currency) FROM invoices").await;
    assert_eq!(stored.as_deref(), Some("1250.00|EUR"));
}

#[tokio::test]
async fn the_same_change_twice_is_no_conflict() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let his = otto.open().await.with("f.amount", "1250");
    server.patch("/invoices/1", None, r#"{"amount": 1250}"#).await.expect(200);
    let already = otto.post(PAGE, &his).await.expect(303);
    assert!(already.header("set-cookie").contains("already~2~"));
    let cookie = already.header("set-cookie").split(';').next().unwrap().to_owned();
    let page = Page::of(otto.request(Method::GET, PAGE).header("cookie", cookie)).await;
    page.shows(&["role=\"status\"", "Already saved"]);
}

#[tokio::test]
async fn a_deletion_under_an_editor_offers_both_ways() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let his = otto.open().await.with("f.amount", "1250").with("f.memo", "still wanted");
    server.delete("/invoices/1", None).await.expect(204);
    let page = otto.post(PAGE, &his).await.expect(410);
    let page = page.shows(&["Restore with my changes", "Accept the deletion", "still wanted"]);
    let restore = format!("{PAGE}/restore");
    let form = page.form(&restore);
    otto.post(&restore, &form).await.expect(303);
    let stored = server.value("SELECT concat_ws('|', amount, memo, due_on, version) FROM invoices");
    assert_eq!(stored.await.as_deref(), Some("1250.00|still wanted|2026-10-28|3"));
    // Sent again, it meets the row that is there and loses nothing.
    server.patch("/invoices/1", None, r#"{"memo": "other"}"#).await.expect(200);
    otto.post(&restore, &form).await.expect(409).shows(&["still wanted", "other"]);
    server.delete("/invoices/1", None).await.expect(204);
    let gone =
        otto.get(PAGE).await.expect(410).shows(&["was deleted", "anonymous", "Restore this row"]);
    let done = otto.post(&restore, &gone.form(&restore)).await.expect(303);
    assert!(done.header("set-cookie").contains("restored~6~"));
}

#[tokio::test]
async fn deleting_is_asked_and_conditional() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let delete = format!("{PAGE}/delete");
    let asked = otto.get(&delete).await.expect(200).shows(&["Delete 1?", "1000.00"]).form(&delete);
    server.patch("/invoices/1", None, r#"{"amount": 1100}"#).await.expect(200);
    let page = otto.post(&delete, &asked).await.expect(409);
    let page = page.shows(&[
        "changed before you deleted it",
        "</span>1100.00</ins>",
        "Delete version 2 all the same",
    ]);
    let gone = otto.post(&delete, &page.form(&delete)).await.expect(303);
    assert_eq!(gone.header("location"), "/console/invoices");
    assert_eq!(server.value("SELECT count(*) FROM invoices").await.as_deref(), Some("0"));
    otto.post(&delete, &asked).await.expect(410);
}

#[tokio::test]
async fn an_older_version_comes_back_conditionally() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    for body in [r#"{"amount": 2000, "memo": "second"}"#, r#"{"memo": "third, and more"}"#] {
        server.patch("/invoices/1", None, body).await.expect(200);
    }
    let history = format!("{PAGE}/history");
    let page = otto.get(&format!("{history}?from=1&to=3")).await.expect(200);
    let page = page.shows(&[
        "Version 1 compared with version 3",
        "</span>1000.00</del>",
        "</span>2000.00</ins>",
        "there",
    ]);
    let restore = format!("{PAGE}/restore");
    let form = page.form(&restore).with("version", "1");
    assert_eq!(form.get("current"), Some("3"));
    otto.post(&restore, &form).await.expect(303);
    let stored = server.value("SELECT concat_ws('|', amount, memo, version) FROM invoices");
    assert_eq!(stored.await.as_deref(), Some("1000.00|first|4"));
    // The page showed version 3; by now there is a fourth that differs.
    server.patch("/invoices/1", None, r#"{"amount": 5}"#).await.expect(200);
    otto.post(&restore, &form).await.expect(409).shows(&["Needs your decision", "5.00"]);
    otto.post(&restore, &form.with("version", "99")).await.expect(404);
}

#[tokio::test]
async fn rows_are_filtered_and_ordered_in_the_grammar_of_the_api() {
    let server = Server::start(TABLE, &["invoices"]).await;
    server.sql("INSERT INTO invoices (id, amount, memo) SELECT g, g, 'row 100% ' || g FROM generate_series(2, 120) g").await;
    let otto = Visitor::new(&server, "otto");
    let added = "?add.column=memo&add.operator=contains&add.value=100%25+7&order=amount.desc";
    let led = otto.get(&format!("/console/invoices{added}")).await.expect(303);
    assert_eq!(
        led.header("location"),
        "/console/invoices?order=amount.desc&memo=ilike.%2A100%5C%25%207%2A"
    );
    let page = otto.get(led.header("location")).await.expect(200);
    let page = page.shows(&["Memo contains 100% 7", "row 100% 79", "aria-sort=\"descending\""]);
    page.hides(&["row 100% 80"]);
    let first = otto.get("/console/invoices?order=id.asc").await.expect(200);
    let first = first.shows(&["50 rows on this page", "rel=\"next\""]);
    let at = first.html.find("rel=\"next\"").unwrap();
    let link = &first.html[..at];
    let next = unescape(link.rsplit("href=\"").next().unwrap().trim_end_matches("\" "));
    otto.get(&next)
        .await
        .expect(200)
        .shows(&["href=\"/console/invoices/51\""])
        .hides(&["href=\"/console/invoices/50\""]);
    let wrong = otto.get("/console/invoices?amount=eq.x&nonsense=eq.1").await.expect(400);
    wrong.shows(&["role=\"alert\"", "has no field"]);
    otto.get("/console/invoices?id=eq.x")
        .await
        .expect(400)
        .shows(&["id must be a whole number", "Id is x"]);
}

#[tokio::test]
async fn a_row_is_created_and_a_refused_one_keeps_what_was_typed() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let blank = otto.get("/console/invoices/-/new").await.expect(200);
    let blank = blank.shows(&["text, default EUR", "required"]).form("/console/invoices");
    let page =
        otto.post("/console/invoices", &blank.clone().with("f.memo", "typed")).await.expect(422);
    let again = page.shows(&["id is required"]).form("/console/invoices");
    assert_eq!(again.get("f.memo"), Some("typed"));
    let form = again.with("f.id", "1").with("f.amount", "5");
    let taken = otto.post("/console/invoices", &form).await.expect(409);
    let form = taken.shows(&["Another record of invoices has this id"]).form("/console/invoices");
    let made = otto.post("/console/invoices", &form.with("f.id", "7")).await.expect(303);
    assert_eq!(made.header("location"), "/console/invoices/7");
    let stored = server
        .value("SELECT concat_ws('|', currency, memo, tags, version) FROM invoices WHERE id = 7");
    assert_eq!(stored.await.as_deref(), Some("EUR|typed|{}|1"));
}

#[tokio::test]
async fn hostile_names_and_values_stay_text() {
    let sql = r#"
        CREATE TABLE traps (
            "a.b/c=d&e" text PRIMARY KEY,
            "</textarea><script>alert(1)</script>" text,
            "quote ""x"" 'y'" text NOT NULL DEFAULT '',
            "line
break" text
        );
        COMMENT ON TABLE traps IS '<b>bold</b>';
        INSERT INTO traps VALUES ('k/%?#"<i>&', '</textarea><script>alert(2)</script>', '" onfocus="alert(3)', E'\nfirst');"#;
    let server = Server::start(sql, &["traps"]).await;
    let otto = Visitor::new(&server, "otto");
    let hostile = ["<script>alert", "<b>bold", "\" onfocus=", "<i>&"];
    otto.get("/console").await.expect(200).hides(&hostile);
    let list = otto.get("/console/traps").await.expect(200).hides(&hostile);
    let at = list.html.find("href=\"/console/traps/k").expect("a link to the row");
    let address = list.html[at + 6..].split('"').next().unwrap().to_owned();
    let page = otto.get(&address).await.expect(200).hides(&hostile);
    let form = page.form(&address);
    let otherwise = otto.post(&address, &form).await.expect(303);
    assert!(
        otherwise.header("set-cookie").contains("unchanged"),
        "a form as it came changes nothing"
    );
    let name = "f.%3C%2Ftextarea%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E";
    assert_eq!(form.get(name), Some("</textarea><script>alert(2)</script>"));
    assert_eq!(form.get("f.line%0Abreak"), Some("\r\nfirst"));
    server.sql(r#"UPDATE traps SET "</textarea><script>alert(1)</script>" = '<script>alert(4)</script>'"#).await;
    let clash =
        otto.post(&address, &form.with(name, "<script>alert(5)</script>")).await.expect(409);
    let clash = clash.hides(&hostile);
    let merge = format!("{address}/merge");
    let form = clash.form(&merge).with(&name.replace("f.", "d."), "mine");
    otto.post(&merge, &form).await.expect(303);
    otto.get(&format!("{address}/history?from=1&to=3")).await.expect(200).hides(&hostile);
    otto.get("/console/traps/%3Cscript%3Ealert(1)").await.expect(404).hides(&hostile);
    otto.get("/console/%3Cscript%3Ealert(1)").await.expect(404).hides(&hostile);
    let named = Page::of(
        otto.request(Method::GET, "/console")
            .header("cookie", "counterfoil_you=%3Cscript%3Ealert(6)"),
    )
    .await;
    named.hides(&["<script>alert"]);
}

#[tokio::test]
async fn forms_of_other_sites_are_refused() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let form = otto.open().await.with("f.amount", "1");
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://elsewhere.example"),
        ("origin", "null"),
    ] {
        for path in [PAGE, &format!("{PAGE}/delete"), &format!("{PAGE}/merge"), "/console/-/you"] {
            let request = otto.request(Method::POST, path).header(name, value);
            Page::of(request.form(&form.0)).await.expect(403).shows(&["sent from another site"]);
        }
    }
    assert_eq!(server.value("SELECT version FROM invoices").await.as_deref(), Some("1"));
    let own = otto.request(Method::POST, PAGE).header("sec-fetch-site", "same-origin");
    Page::of(own.form(&form.0)).await.expect(303);
    let plain = otto.request(Method::POST, PAGE).header("content-type", "text/plain");
    Page::of(plain.body("base=1&f.amount=2")).await.expect(415);
}

#[tokio::test]
async fn a_name_is_kept_and_leads_nowhere_else() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    otto.get("/console").await.shows(&["<strong>otto</strong>"]);
    let form = Form(vec![("name".into(), " Ötto; x\n".into()), ("back".into(), PAGE.into())]);
    let named = otto.post("/console/-/you", &form).await.expect(303);
    assert_eq!(named.header("location"), PAGE);
    let cookies: Vec<_> =
        named.headers.get_all("set-cookie").iter().map(|c| c.to_str().unwrap()).collect();
    let cookie = cookies.iter().find(|c| c.starts_with("counterfoil_you=")).unwrap();
    assert!(
        cookie.contains("HttpOnly; SameSite=Lax") && cookie.contains("=%C3%96tto%3B%20x;"),
        "{cookie}"
    );
    for back in [
        "https://elsewhere.example",
        "//elsewhere.example",
        "/console/\\elsewhere",
        "/console\r\nx: y",
    ] {
        let led = otto.post("/console/-/you", &form.clone().with("back", back)).await.expect(303);
        assert_eq!(led.header("location"), "/console");
    }
}

#[tokio::test]
async fn whoever_has_the_row_open_hears_of_a_save() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let request = otto.request(Method::GET, &format!("{PAGE}/events?version=1"));
    let mut events = request.send().await.unwrap();
    assert_eq!(events.headers()["content-type"], "text/event-stream");
    let mina = Visitor::new(&server, "mina");
    mina.post(PAGE, &mina.open().await.with("f.amount", "3")).await.expect(303);
    let heard = next(&mut events).await;
    assert!(
        heard.contains("event: saved") && heard.contains(r#"{"by":"mina","version":2}"#),
        "{heard}"
    );
    server.delete("/invoices/1", None).await.expect(204);
    let heard = next(&mut events).await;
    assert!(heard.contains("event: deleted"), "{heard}");
    let end = tokio::time::timeout(Duration::from_secs(5), events.chunk()).await;
    assert!(end.unwrap().unwrap().is_none(), "nothing follows a deletion");
}

#[tokio::test]
async fn a_page_that_is_left_open_does_not_hold_up_the_end_of_the_server() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let request =
        Visitor::new(&server, "otto").request(Method::GET, &format!("{PAGE}/events?version=1"));
    let mut events = request.send().await.unwrap();
    drop(server);
    let end = tokio::time::timeout(Duration::from_secs(3), events.chunk()).await;
    assert!(end.expect("the stream ends with the server").unwrap().is_none());
}

async fn next(events: &mut reqwest::Response) -> String {
    let chunk = tokio::time::timeout(Duration::from_secs(10), events.chunk()).await;
    String::from_utf8(chunk.unwrap().unwrap().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn what_was_typed_into_a_field_that_is_gone_is_shown_and_nothing_is_saved() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let mina = Visitor::new(&server, "mina");
    let form = mina.open().await.with("o.nowhere", "=old").with("f.nowhere", "precious edit");
    let page = mina.post(PAGE, &form).await.expect(422);
    page.shows(&["precious edit", "can no longer be written"]);
    let unchanged = form.with("f.nowhere", "old");
    mina.post(PAGE, &unchanged).await.expect(303);
    assert_eq!(server.value("SELECT max(version) FROM invoices").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_blocked_operation_is_seen_and_decided_about() {
    let server = Server::start(TABLE, &["invoices"]).await;
    let otto = Visitor::new(&server, "otto");
    let send = async |key: &str, amount: i32| {
        let request = server.request(Method::PATCH, "/invoices/1").header("idempotency-key", key);
        let request = request.header("content-type", "application/json");
        request.body(format!("{{\"amount\": {amount}}}")).send().await.unwrap().status().as_u16()
    };
    for (key, amount) in [("<b>", 1), ("rejected", 2), ("done", 3), ("fine", 4)] {
        assert_eq!(send(key, amount).await, 200);
    }
    let evidence = r#"{"failures": [{"at": "2026-11-30T09:12:44.1+00:00", "code": "INTERNAL", "request_id": "r-1"}]}"#;
    server
        .sql(&format!(
            "UPDATE counterfoil.operation SET status = 'blocked', evidence = '{evidence}' WHERE key <> 'fine'"
        ))
        .await;
    otto.get("/console").await.expect(200).shows(&["3 blocked", "/console/-/operations"]);
    let list = "/console/-/operations";
    otto.get(list).await.expect(200).shows(&["fine", "&#60;b&#62;"]).hides(&["<b>"]);
    let blocked = format!("{list}?status=blocked");
    otto.get(&blocked).await.expect(200).shows(&["rejected", "done"]).hides(&[">fine<"]);
    otto.get(&format!("{list}?status=odd")).await.expect(400);
    otto.get(&format!("{list}/7")).await.expect(400);
    let address = async |key: &str| {
        let id = format!("SELECT id FROM counterfoil.operation WHERE key = '{key}'");
        format!("{list}/{}", server.value(&id).await.unwrap())
    };
    for (key, amount, decision, then) in
        [("<b>", 1, "retry", 200), ("rejected", 2, "rejected", 409), ("done", 3, "completed", 200)]
    {
        let page = address(key).await;
        let seen =
            otto.get(&page).await.expect(200).shows(&["blocked", "INTERNAL", "r-1", "09:12"]);
        let form = seen.form(&page).with("note", "a <i>note</i>").with("decision", decision);
        let foreign = otto.request(Method::POST, &page).header("sec-fetch-site", "cross-site");
        Page::of(foreign.form(&form.0)).await.expect(403);
        let odd = form.clone().with("decision", "odd");
        otto.post(&page, &odd)
            .await
            .expect(422)
            .shows(&["Nothing was decided", "a &#60;i&#62;note"]);
        assert_eq!(send(key, amount).await, 409, "still blocked");
        assert_eq!(otto.post(&page, &form).await.expect(303).header("location"), page);
        // Said twice, it is said no second time.
        otto.post(&page, &form).await.expect(409).shows(&["The operation is not blocked"]);
        otto.get(&page).await.expect(200).shows(&["otto"]).hides(&["<i>", "name=\"decision\""]);
        assert_eq!(send(key, amount).await, then, "{decision}");
    }
    otto.get(&blocked).await.expect(200).shows(&["No operation is blocked"]);
    otto.get("/console").await.expect(200).hides(&["status=blocked"]);
}
