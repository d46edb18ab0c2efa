//! Serves the document, written once per catalogue.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;

use crate::catalog::Catalog;
use crate::error::{Code, Error};
use crate::http::App;
use crate::precondition;

/// The document of the catalogue that was last asked about.
#[derive(Clone, Debug, Default)]
pub struct Cache(Arc<ArcSwapOption<Rendered>>);

#[derive(Debug)]
struct Rendered {
    fingerprint: String,
    body: Bytes,
    /// What stands between the quotes of its entity tag.
    opaque: String,
    tag: HeaderValue,
}

impl Cache {
    fn of(&self, catalog: &Catalog) -> Result<Arc<Rendered>, Error> {
        if let Some(kept) = self.0.load_full()
            && kept.fingerprint == catalog.fingerprint
        {
            return Ok(kept);
        }
        let rendered = Arc::new(Rendered::new(catalog)?);
        self.0.store(Some(rendered.clone()));
        Ok(rendered)
    }
}

impl Rendered {
    fn new(catalog: &Catalog) -> Result<Self, Error> {
        let body = super::document(catalog).to_string();
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let opaque = format!("{:016x}", hasher.finish());
        let tag = HeaderValue::from_str(&format!("\"{opaque}\""))
            .map_err(|_| Error::new(Code::Internal, "The description has no tag"))?;
        let fingerprint = catalog.fingerprint.clone();
        Ok(Self { fingerprint, body: body.into(), opaque, tag })
    }
}

/// `GET /openapi.json`
pub async fn openapi(State(app): State<App>, headers: HeaderMap) -> Result<Response, Error> {
    let rendered = app.openapi.of(&app.catalog.load())?;
    let lines = headers.get_all(IF_NONE_MATCH).iter().map(HeaderValue::as_bytes);
    let known = precondition::if_none_match_names(lines, &rendered.opaque)?;
    let mut response = Response::new(Body::empty());
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Body::from(rendered.body.clone());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let headers = response.headers_mut();
    headers.insert(ETAG, rendered.tag.clone());
    // It changes with the tables, so it may be kept but must be asked about.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}
