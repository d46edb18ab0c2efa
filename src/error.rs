//! What went wrong, in the words of API.md section 13: one code, one status, one message for a
//! person. Nothing here holds driver or SQL text.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::version::Version;

macro_rules! codes {
    ($($variant:ident $text:literal $status:literal $doc:literal,)*) => {
        /// The stable code of a failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $doc] $variant,)* }

        impl Code {
            /// Every code, in the order of API.md.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The code as clients see it.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => $text,)* } }

            /// The HTTP status that goes with it.
            pub const fn status(self) -> u16 { match self { $(Self::$variant => $status,)* } }

            /// One line for a person who looks the code up.
            pub const fn title(self) -> &'static str { match self { $(Self::$variant => $doc,)* } }
        }
    };
}

codes! {
    InvalidJson "INVALID_JSON" 400 "The body is not a JSON object",
    DuplicateKey "DUPLICATE_KEY" 400 "An object in the body has one name twice",
    TooDeep "TOO_DEEP" 400 "The body is nested too deeply",
    InvalidIfMatch "INVALID_IF_MATCH" 400 "A precondition header cannot be read",
    InvalidQuery "INVALID_QUERY" 400 "The query string asks for something that does not exist",
    InvalidCursor "INVALID_CURSOR" 400 "The cursor is not one of this address",
    InvalidId "INVALID_ID" 400 "The id in the path cannot be one of this resource's",
    InvalidIdempotencyKey "INVALID_IDEMPOTENCY_KEY" 400 "Idempotency-Key cannot be read",
    Unauthenticated "UNAUTHENTICATED" 401 "The request says not who makes it",
    NotAllowed "NOT_ALLOWED" 403 "The caller may not do this",
    NotFound "NOT_FOUND" 404 "There is nothing at this address",
    MethodNotAllowed "METHOD_NOT_ALLOWED" 405 "The address does not take this method",
    MutationExpired "MUTATION_EXPIRED" 410 "The mutation was decided long ago and its result is not kept",
    RecordDeleted "RECORD_DELETED" 410 "The record was deleted",
    CursorExpired "CURSOR_EXPIRED" 410 "The cursor's place is no longer there: start again from a snapshot",
    WriteConflict "WRITE_CONFLICT" 409 "The record changed since the client read it",
    AlreadyExists "ALREADY_EXISTS" 409 "Another record has this id or unique value",
    TransitionConflict "TRANSITION_CONFLICT" 409 "What is there is not in a state that allows it",
    OperationInProgress "OPERATION_IN_PROGRESS" 409 "The first request under this Idempotency-Key is not decided",
    MutationOutOfOrder "MUTATION_OUT_OF_ORDER" 409 "The mutation is not the next one of its client",
    Referenced "REFERENCED" 409 "Other records refer to this one",
    PreconditionFailed "PRECONDITION_FAILED" 412 "If-None-Match names the current version",
    BodyTooLarge "BODY_TOO_LARGE" 413 "The body is larger than the limit",
    UnsupportedMediaType "UNSUPPORTED_MEDIA_TYPE" 415 "The body's media type is not taken here",
    UnknownField "UNKNOWN_FIELD" 422 "The body names a field that the resource has not",
    MissingField "MISSING_FIELD" 422 "A required field is missing",
    InvalidValue "INVALID_VALUE" 422 "A value cannot be stored in its field",
    CheckFailed "CHECK_FAILED" 422 "The record would break a rule of its table",
    ReferenceNotFound "REFERENCE_NOT_FOUND" 422 "A field refers to a record that is not there",
    IdempotencyKeyReused "IDEMPOTENCY_KEY_REUSED" 422 "The Idempotency-Key belongs to another request",
    MutationIdReused "MUTATION_ID_REUSED" 422 "The mutation's id belongs to another one",
    PreconditionRequired "PRECONDITION_REQUIRED" 428 "The resource takes no write without If-Match",
    Internal "INTERNAL" 500 "The service failed",
    Overloaded "OVERLOADED" 503 "The service has more to do than it can take on",
    DatabaseUnavailable "DATABASE_UNAVAILABLE" 503 "The database cannot be reached",
    LockTimeout "LOCK_TIMEOUT" 503 "Somebody else holds the record locked",
    OutcomeUnknown "OUTCOME_UNKNOWN" 503 "The connection was lost while the write was under way",
    StorageFull "STORAGE_FULL" 507 "The database has no space left",
}

/// A failure on its way to the client.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    status: u16,
    message: Cow<'static, str>,
    details: Map<String, Value>,
    data: Option<String>,
    version: Option<Version>,
    headers: Vec<(&'static str, String)>,
    /// What the log is told and the client is not.
    cause: Option<String>,
}

impl Error {
    /// A failure with its code and its message for a person.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let error = Self(Box::new(Inner {
            code,
            status: code.status(),
            message: message.into(),
            details: Map::new(),
            data: None,
            version: None,
            headers: Vec::new(),
            cause: None,
        }));
        if code.status() == 503 { error.header("retry-after", "1") } else { error }
    }

    /// A failure of one field.
    pub fn field(code: Code, field: &str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code, message).detail("field", field)
    }

    /// Adds one fact to `details`.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the current row, as JSON text, and its version, which becomes the answer's `ETag`.
    #[must_use]
    pub fn current(mut self, version: Option<Version>, row: Option<String>) -> Self {
        self.0.version = version;
        self.0.data = row;
        self
    }

    /// Adds the current row where the failure shows none yet.
    #[must_use]
    pub fn beside(self, row: Option<(Version, String)>) -> Self {
        match row {
            Some((version, row)) if self.0.data.is_none() => self.current(Some(version), Some(row)),
            _ => self,
        }
    }

    /// Adds a response header; `name` in lower case.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.headers.push((name, value.into()));
        self
    }

    /// Answers with another status than the code's own (`conflict_status`).
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = status;
        self
    }

    /// Adds what the log is to be told, and nobody else.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Tells the log what the client is not told, under the request's id.
    pub fn log(&self, request_id: &str) {
        if let Some(cause) = &self.0.cause {
            tracing::error!(request_id, cause, "the service failed");
        }
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The HTTP status of the answer.
    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// The message for a person.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The facts for a program.
    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }

    /// The current row as JSON text, where there is one that the caller may read.
    pub fn data(&self) -> Option<&str> {
        self.0.data.as_deref()
    }

    /// The version of the current row.
    pub fn version(&self) -> Option<Version> {
        self.0.version
    }

    /// The content of `error`, wherever it stands in an answer; the log gets what does not.
    pub fn envelope(&self, request_id: &str) -> Value {
        self.log(request_id);
        serde_json::json!({
            "code": self.0.code.as_str(),
            "message": self.0.message,
            "details": self.0.details,
            "request_id": request_id,
        })
    }

    /// Further headers of the answer.
    pub fn headers(&self) -> &[(&'static str, String)] {
        &self.0.headers
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0.code.as_str(), self.0.message)
    }
}

impl std::error::Error for Error {}
