//! An answer, read whole, and what holds for every answer.

use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// What a database says and a client is not told.
const FOREIGN_WORDS: [&str; 12] = [
    "relation ",
    "sql",
    "column \\\"",
    "duplicate key",
    "violates",
    "syntax error",
    "\\\" does not exist",
    "constraint \\\"",
    "invalid input",
    "out of range",
    "null value",
    "plpgsql",
];

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body as it came.
    pub text: String,
    /// The body as JSON, `Null` where it is none.
    pub json: Value,
}

impl Reply {
    pub async fn of(request: RequestBuilder) -> Self {
        Self::attempt(request).await.unwrap()
    }

    /// The answer, where the network brings it.
    pub async fn attempt(request: RequestBuilder) -> reqwest::Result<Self> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let json = parse(&text);
        let reply = Self { status, headers, text, json };
        reply.assert_sound();
        Ok(reply)
    }

    /// No answer is a defect of ours, lacks a part of the envelope, or repeats the database's words.
    fn assert_sound(&self) {
        assert_ne!(self.status, 500, "{}", self.text);
        assert!(!self.header("x-request-id").is_empty(), "{self:?}");
        if self.status < 400 || self.text.is_empty() {
            return;
        }
        let problem = self.header("content-type") == "application/problem+json";
        let error = if problem { &self.json } else { &self.json["error"] };
        for part in ["code", if problem { "detail" } else { "message" }, "request_id"] {
            assert!(
                error[part].as_str().is_some_and(|text| !text.is_empty()),
                "{part}: {}",
                self.text
            );
        }
        assert!(error["details"].is_object(), "{}", self.text);
        assert!(self.json.get("data").is_some(), "{}", self.text);
        if self.status == 503 {
            assert!(!self.header("retry-after").is_empty(), "{self:?}");
        }
        let mut said = error.clone();
        said.as_object_mut().unwrap().remove("data");
        let said = said.to_string().to_lowercase();
        for word in FOREIGN_WORDS {
            assert!(!said.contains(word), "\"{word}\" in {}", self.text);
        }
    }

    /// The content of `data` as it came.
    pub fn raw_data(&self) -> &str {
        self.text.strip_prefix("{\"data\":").and_then(|t| t.strip_suffix('}')).unwrap_or_default()
    }

    /// Asserts the status and the code of a failure.
    #[track_caller]
    pub fn expect_error(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code()), (status, code), "{}", self.text);
        self
    }

    /// Asserts that a failure names this field.
    #[track_caller]
    pub fn expect_field(self, field: &str) -> Self {
        assert_eq!(self.details()["field"], field, "{}", self.text);
        self
    }

    /// A header's value, empty where it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The error's code, empty on success.
    pub fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }

    pub fn data(&self) -> &Value {
        &self.json["data"]
    }

    pub fn details(&self) -> &Value {
        &self.json["error"]["details"]
    }

    /// Asserts the status, showing the body where it differs.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

/// The body as JSON; without its `data` where that is nested more deeply than the parser goes.
fn parse(text: &str) -> Value {
    let whole = serde_json::from_str(text).ok();
    let head = || {
        let (head, _) = text.split_once(",\"data\":")?;
        serde_json::from_str(&format!("{head},\"data\":null}}")).ok()
    };
    whole.or_else(head).unwrap_or(Value::Null)
}
