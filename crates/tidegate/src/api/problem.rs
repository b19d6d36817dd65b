//! What is answered when something is wrong: `application/problem+json`.

use http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};

use crate::Error;

/// What is wrong with a request, or with the server.
#[derive(Debug, Serialize)]
pub struct Problem {
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
    /// What is answered with this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Problem { kind: "about:blank", title, status: status.as_u16(), detail: detail.into(), retryable: false }
    }

    /// What is asked is malformed.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// There is nothing of that name.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    /// Whoever asks may not.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    /// Whoever asks has to show the token.
    pub fn unauthorized() -> Self {
        Problem::new(StatusCode::UNAUTHORIZED, "expected the server's token as `Authorization: Bearer TOKEN`")
    }

    /// The path is asked with another method.
    pub fn method_not_allowed() -> Self {
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path is asked with another method")
    }

    /// The server is at fault.
    pub fn internal(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    /// More was sent than the server takes.
    pub fn too_large(most: usize) -> Self {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("expected a body of at most {most} bytes"))
    }

    /// What is asked did not arrive in time.
    pub fn too_slow() -> Self {
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
        }
        problem.retryable = error.is_retryable();
        problem
    }
}

/// What is read of one.
#[derive(Deserialize)]
struct Told {
    status: u16,
    detail: String,
}

impl Problem {
    /// What a problem says is wrong that was answered with this status; none when the body is not one of ours, because
    /// somebody else has answered, such as a proxy in between, or a limit in front, whose problems have no prose.
    pub fn detail_in(status: StatusCode, body: &[u8]) -> Option<String> {
        let told: Told = serde_json::from_slice(body).ok()?;
        (told.status == status.as_u16()).then_some(told.detail)
    }

    /// The status it is answered with.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).expect("it was one")
    }

    /// The answer.
    pub fn to_response(&self) -> Response<String> {
        let body = serde_json::to_string(self).expect("text and numbers are JSON");
        let mut response = Response::new(body);
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.to_response().map(axum::body::Body::from)
    }
}
