//! Answers in the API's own forms: objects as JSON, and refusals as `Status`.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

/// A refusal as the API says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Refused {
    pub(super) fn unauthorized() -> Self {
        Refused::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(super) fn exists(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::CONFLICT, "AlreadyExists", message)
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(super) fn too_large() -> Self {
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", "the body is too large")
    }

    pub(super) fn method() -> Self {
        Refused::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "this cannot be done here")
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Refused { code, reason, message: message.into() }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        object(self.code, &status)
    }
}

/// An object of the API.
pub(super) fn object(code: StatusCode, object: &impl Serialize) -> Response {
    json_response(code, Body::from(serde_json::to_vec(object).expect("objects of the API are plain data")))
}

/// JSON, whole or line by line.
pub(super) fn json_response(code: StatusCode, body: Body) -> Response {
    (code, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
