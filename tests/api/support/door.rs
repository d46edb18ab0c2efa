//! A client of a server that runs anywhere, as tasks of their own need it.

use reqwest::{Client, Method, RequestBuilder};

/// Where to send requests; its copies share connections.
#[derive(Clone)]
pub struct Door {
    client: Client,
    url: String,
}

impl Door {
    pub fn to(url: &str) -> Self {
        Self { client: Client::builder().no_proxy().build().unwrap(), url: url.to_owned() }
    }

    /// A request to `/api/v1{path}`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/api/v1{path}", self.url))
    }
}
