//! Errors of the API, as `application/problem+json`.

use http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};

use crate::Error;

/// An error of the API.
#[derive(Debug, Serialize)]
pub struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// Whether a retry may succeed.
    retryable: bool,
}

const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

impl Problem {
    /// Returns a problem with this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Problem { kind: "about:blank", title, status: status.as_u16(), detail: detail.into(), retryable: false }
    }

    /// Returns the problem of a malformed request.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Returns the problem of an unknown name.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    /// Returns the problem of a client that may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    /// Returns the problem of a client that must present the token.
    pub fn unauthorized() -> Self {
        Problem::new(StatusCode::UNAUTHORIZED, "expected the server's token as `Authorization: Bearer TOKEN`")
    }

    /// Returns the problem of a path that needs another method.
    pub fn method_not_allowed() -> Self {
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path is asked with another method")
    }

    /// Returns the problem of a server that failed.
    pub fn internal(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    /// Returns the problem of a body that is too large.
    pub fn too_large(most: usize) -> Self {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("expected a body of at most {most} bytes"))
    }

    /// Returns the problem of a body that did not arrive in time.
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
        let detail = match error {
            // The message of a broken store can name files and hosts. It belongs in the log.
            Error::Store(store) if status == StatusCode::SERVICE_UNAVAILABLE => store.kind().description().to_owned(),
            error => error.to_string(),
        };
        let mut problem = Problem::new(status, detail);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            problem.kind = REDUCED_CAPACITY;
        }
        problem.retryable = error.is_retryable();
        problem
    }
}

/// The fields read back from a problem.
#[derive(Deserialize)]
struct ProblemDetail {
    status: u16,
    detail: String,
}

impl Problem {
    /// Returns the detail of a problem with this status. `None` for a body of another origin, such as a proxy in
    /// between or a limit in front, whose problems have no prose.
    pub fn detail_in(status: StatusCode, body: &[u8]) -> Option<String> {
        let problem: ProblemDetail = serde_json::from_slice(body).ok()?;
        (problem.status == status.as_u16()).then_some(problem.detail)
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).expect("it was one")
    }

    /// Returns the response.
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

#[cfg(test)]
mod tests {
    use tidegate_core::{StoreError, StoreErrorKind};

    use super::*;

    #[test]
    fn problem_of_a_broken_store_hides_its_message() {
        let kinds =
            [StoreErrorKind::Unavailable, StoreErrorKind::Timeout, StoreErrorKind::Contended, StoreErrorKind::Corrupt];
        for kind in kinds {
            let error = Error::Store(StoreError::new(kind, "sqlite: /var/lib/limits.db: disk I/O error"));
            let problem = Problem::from(&error);
            assert_eq!((problem.status, problem.detail.as_str()), (503, kind.description()));
        }
        // The message about a request that cannot be served is for its client.
        let error = Error::Store(StoreError::new(StoreErrorKind::Unsupported, "at_us is for tests"));
        assert!(Problem::from(&error).detail.ends_with("at_us is for tests"));
    }
}
