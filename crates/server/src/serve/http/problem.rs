//! What is answered when something is wrong: `application/problem+json`.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use serde::Serialize;
use tidegate::Error;

/// What is wrong with a request, or with the server.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// Whether trying again can help.
    retryable: bool,
}

const CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Problem { kind: "about:blank", title, status: status.as_u16(), detail: detail.into(), retryable: false }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    pub(super) fn unauthorized() -> Self {
        Problem::new(StatusCode::UNAUTHORIZED, "expected the server's token as `Authorization: Bearer TOKEN`")
    }

    pub(super) fn method_not_allowed() -> Self {
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path is asked with another method")
    }

    pub(super) fn internal(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    pub(super) fn too_large(most: usize) -> Self {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("expected a body of at most {most} bytes"))
    }

    pub(super) fn too_slow() -> Self {
        Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let status = match error {
            Error::UnknownLimit(_) => StatusCode::NOT_FOUND,
            error if error.is_misuse() => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut problem = Problem::new(status, error.to_string());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            problem.kind = CAPACITY;
            problem.retryable = true;
        }
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&self).expect("text and numbers are JSON");
        let status = StatusCode::from_u16(self.status).expect("it was one");
        let json = (CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let mut response = (status, [json], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
