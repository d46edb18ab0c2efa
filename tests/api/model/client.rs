//! A client: what it keeps through a crash, and the loop of its life.

use std::collections::HashMap;

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::RECORDS;
use super::random::Random;
use crate::support::{Door, Reply, json as with_json};

/// A row's fields, without its id and version.
pub(super) type Row = Map<String, Value>;

/// A record as a client knows it: the highest version that it was told of, and the row; `None` where that
/// version is its deletion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) version: i64,
    pub(super) row: Option<Row>,
}

/// What a user did.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) id: i64,
    pub(super) record: u64,
    pub(super) op: &'static str,
    /// The row that the user saw, and the one that he wanted.
    pub(super) saw: Option<Row>,
    pub(super) wanted: Option<Row>,
    mutation: Value,
    /// The line that answered it.
    pub(super) line: Value,
}

/// All of this is kept through a crash; whatever else a client holds is lost.
pub(super) struct Client {
    pub(super) id: String,
    door: Door,
    random: Random,
    queue: Vec<Edit>,
    pub(super) decided: Vec<Edit>,
    pub(super) known: HashMap<u64, Known>,
    /// Where its first copy goes on, until it is complete.
    after: Option<String>,
    cursor: Option<String>,
    /// Requests that were sent before and may be sent again, late.
    late: Vec<String>,
    pub(super) crashes: usize,
    pub(super) replays: usize,
}

/// The client is gone before its next step, and begins again with what it kept.
struct Crash;

type Step<T = ()> = Result<T, Crash>;

impl Client {
    pub(super) fn new(door: Door, number: u64) -> Self {
        Self {
            id: format!("0193aaaa-0000-7000-8000-{number:012x}"),
            door,
            random: Random::new(number),
            queue: Vec::new(),
            decided: Vec::new(),
            known: HashMap::new(),
            after: None,
            cursor: None,
            late: Vec::new(),
            crashes: 0,
            replays: 0,
        }
    }

    /// Lives through so many rounds, and then comes online for good.
    pub(super) async fn live(mut self, rounds: usize) -> Self {
        for _ in 0..rounds {
            if self.round().await.is_err() {
                self.crashes += 1;
            }
        }
        while !self.queue.is_empty() {
            if self.push().await.is_err() {
                self.crashes += 1;
            }
        }
        self
    }

    async fn round(&mut self) -> Step {
        if self.random.one_in(3) {
            // Offline for a while: others go on.
            let pause = std::time::Duration::from_millis(self.random.below(40));
            tokio::time::sleep(pause).await;
        } else {
            self.push().await?;
            self.may_crash()?;
            self.pull().await?;
        }
        // Mostly, a user waits until he sees something; who does not makes what is there already.
        let edits = if self.cursor.is_some() { 5 } else { 2 };
        for _ in 0..self.random.below(edits) {
            self.edit();
            self.may_crash()?;
        }
        Ok(())
    }

    fn may_crash(&mut self) -> Step {
        if self.random.one_in(12) { Err(Crash) } else { Ok(()) }
    }

    /// The user does something; it is in the queue before he does the next thing.
    fn edit(&mut self) {
        // Mostly, what was there at first; users work on a thing for a while.
        let last = self.queue.last().map(|edit| edit.record);
        let record = match last {
            Some(last) if self.random.one_in(3) => last,
            _ if self.random.one_in(6) => self.random.below(2 * RECORDS) + 1,
            _ => self.random.below(RECORDS) + 1,
        };
        let before = self.queue.iter().rfind(|edit| edit.record == record);
        let base = match (before, self.known.get(&record)) {
            (Some(edit), _) => json!({ "base_mutation": edit.id }),
            (None, Some(known)) => json!({ "base_version": known.version }),
            (None, None) => json!({}),
        };
        let saw = match before {
            Some(edit) => edit.wanted.clone(),
            None => self.known.get(&record).and_then(|known| known.row.clone()),
        };
        let id = 1 + i64::try_from(self.queue.len() + self.decided.len()).unwrap();
        let mark = json!(format!("{}-{id}", &self.id[24..]));
        let (op, wanted, data) = match &saw {
            None => {
                let mut row = Row::new();
                row.insert("a".to_owned(), mark);
                let data = json!(row);
                row.extend(["b", "c"].map(|field| (field.to_owned(), Value::Null)));
                ("create", Some(row), data)
            }
            Some(_) if self.random.one_in(15) => ("delete", None, Value::Null),
            Some(saw) => {
                let field = self.random.pick(&["a", "b", "c"]);
                let mut row = saw.clone();
                row.insert(field.to_owned(), mark.clone());
                if self.random.one_in(4) {
                    ("put", Some(row.clone()), json!(row))
                } else {
                    ("patch", Some(row), json!({ field: mark }))
                }
            }
        };
        let mut mutation = json!({"id": id, "op": op, "resource": "cards", "record_id": record});
        if op != "delete" {
            mutation["data"] = data;
        }
        // What is to be created is based on nothing but what this client did before.
        if op != "create" || before.is_some() {
            mutation.as_object_mut().unwrap().extend(base.as_object().unwrap().clone());
        }
        if self.random.one_in(2) {
            mutation["on_conflict"] = json!("merge");
        }
        self.queue.push(Edit { id, record, op, saw, wanted, mutation, line: Value::Null });
    }

    async fn push(&mut self) -> Step {
        let length = self.queue.len().min(1 + usize::try_from(self.random.below(12)).unwrap());
        if length == 0 {
            return Ok(());
        }
        let mutations: Vec<_> = self.queue[..length].iter().map(|edit| &edit.mutation).collect();
        let mut body = json!({ "client_id": self.id, "mutations": mutations });
        if self.random.one_in(3) {
            body["ack_through"] = json!(self.decided.len());
        }
        let body = body.to_string();
        self.may_crash()?;
        if self.random.one_in(6) {
            // What the network held back comes in now, or just when this one does.
            let late = self.late.pop().unwrap_or_else(|| body.clone());
            let (door, own) = (self.door.clone(), self.random.one_in(2));
            let late = tokio::spawn(async move { send(&door, &late).await });
            if own && let Some(late) = late.await.unwrap() {
                judge_late(&late);
            }
        }
        self.late.push(body.clone());
        if self.random.one_in(8) {
            // It goes out, and nobody is there for the answer.
            let door = self.door.clone();
            tokio::spawn(async move { send(&door, &body).await });
            return Err(Crash);
        }
        let reply = send(&self.door, &body).await.ok_or(Crash)?;
        self.may_crash()?;
        if reply.status != 200 {
            assert!(matches!(reply.status, 409 | 503), "{}", reply.text);
            assert!(
                reply.status == 503 || reply.code() == "OPERATION_IN_PROGRESS",
                "{}",
                reply.text
            );
            return Ok(());
        }
        for line in reply.data()["results"].as_array().unwrap() {
            if line["status"] == "retry" {
                break;
            }
            self.take(line);
            self.may_crash()?;
        }
        Ok(())
    }

    /// Takes an edit out of the queue together with its result.
    fn take(&mut self, line: &Value) {
        let mut edit = self.queue.remove(0);
        assert_eq!(line["id"], edit.id, "{line}");
        self.replays += usize::from(line["replayed"] == true);
        edit.line = line.clone();
        let details = &line["error"]["details"];
        match line["status"].as_str().unwrap() {
            "applied" | "merged" | "noop" => {
                self.learn(edit.record, line["version"].as_i64().unwrap(), &line["data"]);
            }
            "conflict" => {
                let row =
                    if details["kind"] == "update_delete" { &Value::Null } else { &line["data"] };
                self.learn(edit.record, details["current_version"].as_i64().unwrap(), row);
            }
            "blocked" => {}
            other => panic!("{other}: {line}"),
        }
        self.decided.push(edit);
    }

    /// The rule of every client: the highest version is the record.
    fn learn(&mut self, record: u64, version: i64, row: &Value) {
        if self.known.get(&record).is_none_or(|known| known.version < version) {
            let row = row.as_object().map(|row| {
                let mut row = row.clone();
                row.retain(|name, _| name != "id" && name != "version");
                row
            });
            self.known.insert(record, Known { version, row });
        }
    }

    /// Reads what others did, one page.
    async fn pull(&mut self) -> Step<bool> {
        let limit = 1 + self.random.below(200);
        let path = match (&self.cursor, &self.after) {
            (Some(cursor), _) => {
                format!("/sync/pull?resources=cards&limit={limit}&cursor={cursor}")
            }
            (None, Some(after)) => format!("/sync/snapshot?resources=cards&after={after}"),
            (None, None) => {
                // What was kept of a copy that came to nothing may be deleted by now, and the new one's
                // cursor comes after that.
                self.known.clear();
                "/sync/snapshot?resources=cards".to_owned()
            }
        };
        let page =
            Reply::attempt(self.door.request(Method::GET, &path)).await.map_err(|_| Crash)?;
        self.may_crash()?;
        if page.status == 503 {
            return Ok(true);
        }
        assert_eq!(page.status, 200, "{}", page.text);
        for change in page.data()["changes"].as_array().unwrap() {
            let record = change["id"].as_str().unwrap().parse().unwrap();
            let row = if change["op"] == "upsert" { &change["data"] } else { &Value::Null };
            self.learn(record, change["version"].as_i64().unwrap(), row);
            if self.random.one_in(1000) {
                return Err(Crash);
            }
        }
        self.may_crash()?;
        let told = |name: &str| page.data()[name].as_str().map(str::to_owned);
        let copying = self.cursor.is_none();
        (self.after, self.cursor) = (told("after"), told("cursor"));
        Ok(copying || page.data()["has_more"] == true)
    }

    /// Pulls until there is nothing more.
    pub(super) async fn catch_up(mut self) -> Self {
        loop {
            match self.pull().await {
                Ok(true) => {}
                Ok(false) => return self,
                Err(Crash) => self.crashes += 1,
            }
        }
    }
}

/// `None` where the network loses it, or its answer.
async fn send(door: &Door, body: &str) -> Option<Reply> {
    Reply::attempt(with_json(door.request(Method::POST, "/sync/push"), body)).await.ok()
}

/// What comes in late was decided before, or is the next.
fn judge_late(reply: &Reply) {
    let told = ["OPERATION_IN_PROGRESS", "MUTATION_EXPIRED"].contains(&reply.code());
    assert!(reply.status == 200 || reply.status == 503 || told, "{}", reply.text);
}
