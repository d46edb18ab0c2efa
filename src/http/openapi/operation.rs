//! One operation of a resource, put together from its parts.

use serde_json::{Map, Value, json};

use crate::http::openapi::{component, failure, shared};

/// An operation while it is written.
pub(super) struct Operation {
    value: Value,
    responses: Map<String, Value>,
}

impl Operation {
    pub(super) fn new(id: &str, tag: &str, summary: &str) -> Self {
        let value =
            json!({ "operationId": id, "tags": [tag], "summary": summary, "parameters": [] });
        Self { value, responses: Map::new() }
    }

    pub(super) fn about(mut self, description: &str) -> Self {
        self.value["description"] = json!(description);
        self
    }

    pub(super) fn parameters(mut self, parameters: impl IntoIterator<Item = Value>) -> Self {
        if let Some(list) = self.value["parameters"].as_array_mut() {
            list.extend(parameters);
        }
        self
    }

    /// Parameters that stand among the components.
    pub(super) fn common(self, names: &[&str]) -> Self {
        let names = names.iter().map(|name| component("parameters", name));
        self.parameters(names.collect::<Vec<_>>())
    }

    /// A body in any of these media types, each with its schema.
    pub(super) fn body<'a>(mut self, content: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let content: Map<_, _> = content
            .into_iter()
            .map(|(media_type, schema)| (media_type.to_owned(), json!({ "schema": schema })))
            .collect();
        self.value["requestBody"] = json!({ "required": true, "content": content });
        self
    }

    /// A success; without a schema it has no body.
    pub(super) fn success(
        mut self,
        status: u16,
        about: &str,
        headers: &[&str],
        schema: Option<Value>,
    ) -> Self {
        let mut response =
            json!({ "description": about, "headers": shared::header_references(headers) });
        if let Some(schema) = schema {
            response["content"] = json!({ "application/json": { "schema": schema } });
        }
        self.responses.insert(status.to_string(), response);
        self
    }

    /// Where the answer of a status leads: operations and what they take from it.
    pub(super) fn links(mut self, status: u16, links: Map<String, Value>) -> Self {
        if let Some(response) = self.responses.get_mut(&status.to_string())
            && !links.is_empty()
        {
            response["links"] = Value::Object(links);
        }
        self
    }

    /// Failures that look the same for every resource.
    pub(super) fn failures(mut self, statuses: &[u16]) -> Self {
        for &status in statuses {
            self.responses.insert(status.to_string(), failure::reference(status));
        }
        self
    }

    /// Failures without a body, as HEAD answers them.
    pub(super) fn bare_failures(mut self, statuses: &[u16]) -> Self {
        for &status in statuses {
            self.responses.insert(status.to_string(), failure::bare(status));
        }
        self
    }

    /// A failure that is this resource's own.
    pub(super) fn failure(mut self, status: u16, name: &str) -> Self {
        self.responses.insert(status.to_string(), component("responses", name));
        self
    }

    /// A failure that is this operation's own.
    pub(super) fn own_failure(mut self, status: u16, response: Value) -> Self {
        self.responses.insert(status.to_string(), response);
        self
    }

    /// The whole, where what succeeds is a stream of events; `failures` are those of its neighbours.
    pub(super) fn events(self, failures: &[u16]) -> Value {
        let mut whole = self
            .common(&["RequestId"])
            .success(200, "The events", &[], None)
            .failures(failures)
            .failures(&[410])
            .finish();
        whole["responses"]["200"]["content"] =
            json!({ "text/event-stream": { "schema": { "type": "string" } } });
        whole
    }

    pub(super) fn finish(mut self) -> Value {
        self.value["responses"] = Value::Object(self.responses);
        self.value
    }
}

/// `{"data": …}`
pub(super) fn data(schema: &Value) -> Value {
    json!({ "type": "object", "required": ["data"], "properties": { "data": schema } })
}
