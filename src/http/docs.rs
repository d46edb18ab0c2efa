//! `/docs`: Swagger UI over `/openapi.json`. Every file of it is in the program; it asks nothing of
//! any other host, and the policy sent along holds it to that.

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use utoipa_swagger_ui::{Config, SwaggerFile};

use crate::error::{Code, Error};

/// Scripts, styles and requests of this origin only, nothing inline; no frame may hold the page.
/// Swagger UI has its icons as data.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// Addresses are relative, so that the page works behind a path of a proxy.
static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    let config = Config::new(["../openapi.json"])
        .doc_expansion("none")
        .default_models_expand_depth(0)
        .display_request_duration(true)
        .display_operation_id(true)
        .filter(true)
        .use_base_layout()
        .validator_url("none");
    Arc::new(config)
});

/// `GET /docs`
pub async fn redirect() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    // Relative to /docs, for a proxy that serves it below another path.
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("docs/"));
    response
}

/// `GET /docs/`
pub async fn index() -> Result<Response, Error> {
    file("")
}

/// `GET /docs/{file}`
pub async fn asset(Path(name): Path<String>) -> Result<Response, Error> {
    file(&name)
}

fn file(name: &str) -> Result<Response, Error> {
    match utoipa_swagger_ui::serve(name, CONFIG.clone()) {
        Ok(Some(file)) => Ok(answer(name, file)),
        Ok(None) => Err(Error::new(Code::NotFound, "There is nothing at this address")),
        Err(error) => {
            tracing::error!(%error, "the documentation cannot be shown");
            Err(Error::new(Code::Internal, "The documentation cannot be shown"))
        }
    }
}

fn answer(name: &str, file: SwaggerFile<'static>) -> Response {
    // The page and its settings are ours and small; the rest changes only with Swagger UI.
    let ours = matches!(name, "" | "index.html" | "swagger-initializer.js");
    let cache = if ours { "no-cache" } else { "max-age=3600" };
    let mut response = Response::new(Body::from(file.bytes.into_owned()));
    let headers = response.headers_mut();
    if let Ok(media_type) = HeaderValue::from_str(&file.content_type) {
        headers.insert(CONTENT_TYPE, media_type);
    }
    let fixed: [(HeaderName, &str); 4] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, cache),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
