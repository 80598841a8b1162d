//! What a machine gets: JSON, and for a failure what did not come about, why, and what to do.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::{Failing, NameError, Refusal, ViewError};

/// A failed request.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    text: Text,
}

#[derive(Debug, Serialize)]
struct Text {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, text: Text { error: error.into(), because: None, next: None } }
    }

    pub(super) fn because(mut self, because: impl ToString) -> Self {
        self.text.because = Some(because.to_string());
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self.text)).into_response()
    }
}

impl From<NameError> for Problem {
    fn from(error: NameError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(StatusCode::FORBIDDEN, "this machine may not do that").because(refusal)
    }
}

impl From<ViewError> for Problem {
    fn from(ViewError { failing, error, because, next }: ViewError) -> Self {
        let status = match failing {
            Failing::Senseless => StatusCode::BAD_REQUEST,
            Failing::Missing => StatusCode::NOT_FOUND,
            Failing::Conflict => StatusCode::CONFLICT,
            Failing::Condition => StatusCode::PRECONDITION_FAILED,
            Failing::Later => StatusCode::SERVICE_UNAVAILABLE,
            Failing::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, text: Text { error, because, next } }
    }
}
