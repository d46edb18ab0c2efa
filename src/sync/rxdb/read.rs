//! Reads what RxDB's push handler sends: a list of `{assumedMasterState, newDocumentState}`.

use std::sync::Arc;

use serde::Deserialize;

use crate::catalog::Resource;
use crate::catalog::key::Key;
use crate::error::{Code, Error};
use crate::json;
use crate::merge::Row as Fields;
use crate::sync::rxdb::document::Document;
use crate::sync::rxdb::{MOST, Pushed};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sent {
    #[serde(default)]
    assumed_master_state: Option<Fields>,
    new_document_state: Fields,
}

/// Reads the documents of a push.
///
/// # Errors
/// Where the body is no push, and where a document has no id.
pub(super) fn read(resource: &Arc<Resource>, bytes: &[u8]) -> Result<Vec<Pushed>, Error> {
    let text = json::check(bytes)?;
    let sent: Vec<Sent> = serde_json::from_str(text).map_err(|_| {
        let message = "A push is a list of objects with newDocumentState and, where the document was \
            known before, assumedMasterState";
        Error::new(Code::InvalidValue, message)
    })?;
    if sent.len() > MOST {
        let message = format!("One push holds at most {MOST} documents");
        return Err(Error::new(Code::InvalidValue, message).detail("max_documents", MOST));
    }
    sent.into_iter().enumerate().map(|(index, sent)| pushed(resource, index, &sent)).collect()
}

fn pushed(resource: &Resource, index: usize, sent: &Sent) -> Result<Pushed, Error> {
    let wanted = Document::new(&sent.new_document_state);
    let id = wanted.id(resource).ok_or_else(|| {
        let name = resource.key_columns().next().map_or("", |key| key.name.as_str());
        let message = format!("A document must have its key, \"{name}\", which is a text");
        Error::field(Code::MissingField, name, message).detail("index", index)
    })?;
    let key = Key::from_record_id(&id, resource);
    let assumed = sent.assumed_master_state.as_ref().map(Document::new);
    Ok(Pushed { id, key, assumed, wanted })
}
