//! What a page takes from its request: the resource, the record, the query, the form.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};

use crate::catalog::key::Key;
use crate::catalog::{Catalog, Resource};
use crate::console::form::Submitted;
use crate::console::reply::{Crumb, Failure, Shell};
use crate::console::visitor::Visitor;
use crate::console::words;
use crate::error::{Code, Error};
use crate::http::App;
use crate::http::request;
use crate::record::draft;

/// A form holds every value twice, and escaped; this many times the limit on a body is taken.
const FORM_TO_BODY: usize = 8;

/// The resource that the path names, in the catalogue of the moment, and who asks.
#[derive(Debug)]
pub(super) struct Here {
    /// The resource.
    pub(super) resource: Arc<Resource>,
    /// The catalogue, for what the resource refers to.
    pub(super) catalog: Arc<Catalog>,
    /// Who asks.
    pub(super) visitor: Visitor,
    /// The query string's parameters, decoded, in order.
    pub(super) parameters: Vec<(String, String)>,
    segment: String,
}

impl FromRequestParts<App> for Here {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        Ok(Self::find(app.catalog.load_full(), &parts.uri, &parts.headers)?)
    }
}

impl Here {
    fn find(catalog: Arc<Catalog>, uri: &Uri, headers: &HeaderMap) -> Result<Self, Error> {
        let mut segments = uri.path().split('/').skip(2);
        let name = segments.next().unwrap_or_default();
        let resource = catalog
            .resource(name)
            .cloned()
            .ok_or_else(|| Error::new(Code::NotFound, format!("There is no resource “{name}”.")))?;
        let parameters = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| Error::new(Code::InvalidQuery, "The address cannot be read."))?
            .0;
        Ok(Self {
            resource,
            catalog,
            visitor: Visitor::of(headers),
            parameters,
            segment: segments.next().unwrap_or_default().to_owned(),
        })
    }

    /// The key in the path.
    ///
    /// # Errors
    /// `INVALID_ID`.
    pub(super) fn key(&self) -> Result<Key, Error> {
        Key::from_segment(&self.segment, &self.resource)
    }

    /// A parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A version in the query.
    pub(super) fn version(&self, name: &str) -> Option<crate::version::Version> {
        let number = self.parameter(name)?.parse().ok()?;
        Some(crate::version::Version(number))
    }

    /// The surroundings of a page of the resource: of its rows, of this record of it, or of something of theirs.
    pub(super) fn shell(
        &self,
        title: impl Into<String>,
        record: Option<(&Key, &str)>,
        last: Option<&str>,
    ) -> Shell {
        Shell::new(title, &self.visitor, self.crumbs(record, last))
    }

    /// The way to the resource's rows, then to its record, then on.
    fn crumbs(&self, record: Option<(&Key, &str)>, last: Option<&str>) -> Vec<Crumb> {
        let resource = &self.resource;
        let mut crumbs = vec![Crumb::to(words::label(&resource.name), list(resource))];
        if let Some((key, title)) = record {
            crumbs.push(Crumb::to(title, address(resource, key)));
        }
        crumbs.extend(last.map(Crumb::here));
        if let Some(crumb) = crumbs.last_mut() {
            crumb.address = String::new();
        }
        crumbs
    }
}

/// A form that was sent to a page of a record.
pub(super) struct Sent {
    /// Where to.
    pub(super) here: Here,
    /// The record.
    pub(super) key: Key,
    /// What was sent.
    pub(super) form: Submitted,
}

impl FromRequest<App> for Sent {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let here = Here::find(app.catalog.load_full(), request.uri(), request.headers())?;
        let key = here.key()?;
        Ok(Self { key, form: form(app, request).await?, here })
    }
}

/// The address of a resource's rows.
pub(super) fn list(resource: &Resource) -> String {
    format!("/console/{}", resource.name)
}

/// The address of a record's page.
pub(super) fn address(resource: &Resource, key: &Key) -> String {
    format!("/console/{}/{}", resource.name, key.segment())
}

/// Reads a submitted form.
///
/// # Errors
/// `UNSUPPORTED_MEDIA_TYPE`, `BODY_TOO_LARGE`, or `INVALID_VALUE` where it is no form.
pub(super) async fn form(app: &App, request: Request) -> Result<Submitted, Error> {
    let (parts, body) = request.into_parts();
    let given = request::media_type(&parts.headers);
    if given != "application/x-www-form-urlencoded" {
        return Err(draft::unsupported(&given, "application/x-www-form-urlencoded"));
    }
    let whole = Request::from_parts(parts.clone(), body);
    let bytes = request::body(whole, app.limits.body.saturating_mul(FORM_TO_BODY)).await?;
    let mut read = Request::from_parts(parts, bytes.into());
    // The limit was kept above.
    DefaultBodyLimit::disable().apply(&mut read);
    let inputs = axum::Form::<Vec<(String, String)>>::from_request(read, &());
    match inputs.await {
        Ok(axum::Form(inputs)) => Ok(Submitted::new(inputs)),
        Err(_) => Err(Error::new(Code::InvalidValue, "The form cannot be read.")),
    }
}
