//! The OpenAPI 3.1 description of the live resources. It is made from the catalogue, like the
//! answers themselves, so that the two cannot part.

mod failure;
mod feed;
mod filter;
mod fixed;
mod names;
mod operation;
mod past;
mod push;
mod resource;
mod rxdb;
mod schema;
pub mod serve;
mod several;
mod shared;
mod types;
mod yaml;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::catalog::Catalog;

pub use yaml::to_yaml;

const ABOUT: &str = "PostgreSQL tables as REST resources in which a lost update cannot happen \
    unseen.\n\nEvery row carries a version that the database raises with every write. A read \
    answers it as `ETag`; a write that sends it back as `If-Match` happens only if nobody moved \
    the row meanwhile, and is else told what stands there now.";

/// Describes every resource of a catalogue.
pub fn document(catalog: &Catalog) -> Value {
    let mut paths = fixed::paths();
    paths.extend(several::paths());
    paths.extend(feed::paths());
    paths.extend(push::paths());
    let mut schemas = failure::schemas();
    let mut responses = failure::responses();
    let mut tags = vec![fixed::tag(), several::tag(), feed::tag()];
    for (name, resource) in names::assign(catalog) {
        let described = resource::Described { resource, name: &name };
        paths.extend(described.paths());
        paths.extend(described.rxdb());
        schemas.extend(described.schemas());
        responses.extend(described.responses());
        tags.push(described.tag());
    }
    schemas.extend(shared::schemas());
    schemas.extend(past::schemas());
    schemas.extend(filter::schemas());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Counterfoil",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "servers": [{ "url": "/", "description": "The server that this description came from" }],
        "security": [],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": responses,
            "parameters": shared::parameters(),
            "headers": shared::headers(),
        },
    });
    keep_what_is_used(&mut document);
    document
}

/// Drops the components that nothing refers to: a part that no resource needs is noise.
fn keep_what_is_used(document: &mut Value) {
    let mut used = BTreeSet::new();
    let mut found = references(&document["paths"]);
    while let Some(reference) = found.pop() {
        if let Some(target) = reference.strip_prefix('#').and_then(|p| document.pointer(p)) {
            let within = references(target);
            if used.insert(reference) {
                found.extend(within);
            }
        }
    }
    let Some(kinds) = document["components"].as_object_mut() else {
        return;
    };
    for (kind, components) in kinds.iter_mut() {
        if let Some(components) = components.as_object_mut() {
            components.retain(|name, _| used.contains(&format!("#/components/{kind}/{name}")));
        }
    }
    kinds.retain(|_, components| components.as_object().is_none_or(|c| !c.is_empty()));
}

/// Every `$ref` within a part of the document.
fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(elements) => elements.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// A reference to a component.
fn component(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// Members of an object, from their names and values.
fn members<N: Into<String>>(members: impl IntoIterator<Item = (N, Value)>) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_catalogue_leaves_no_component_unused() {
        let document = document(&Catalog::default());
        let paths: Vec<_> = document["paths"].as_object().unwrap().keys().collect();
        let several: Vec<_> = several::paths().keys().cloned().collect();
        let fixed = ["/healthz", "/metrics", "/openapi.json", "/readyz"].map(str::to_owned);
        let sync = feed::paths().into_iter().chain(push::paths()).map(|(path, _)| path);
        let mut expected: Vec<_> = several.into_iter().chain(sync).chain(fixed).collect();
        expected.sort();
        assert_eq!(paths, expected.iter().collect::<Vec<_>>());
        let schemas: Vec<_> =
            document["components"]["schemas"].as_object().unwrap().keys().collect();
        assert_eq!(schemas, ["Failure", "FieldVerdict", "Problem"]);
    }
}
