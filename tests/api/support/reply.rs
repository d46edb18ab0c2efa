//! An answer, read whole.

use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::Value;

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
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Self { status, headers, text, json }
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
