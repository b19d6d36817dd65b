//! Store errors for calls that got no decision.

use std::error::Error;

use http::StatusCode;
use hyper_util::client::legacy;
use tidegate_core::{StoreError, StoreErrorKind};

use crate::api::Problem;

/// The error of a call that did not reach the server or got no response.
pub(super) fn request_error(error: legacy::Error) -> StoreError {
    let what = if error.is_connect() { "cannot be connected to" } else { "did not answer" };
    StoreError::caused_by(StoreErrorKind::Unavailable, format!("the server {what}: {}", error_chain(&error)), error)
}

/// The error of a response whose body cannot be read.
pub(super) fn body_error(error: Box<dyn Error + Send + Sync>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("the server's answer cannot be read: {error}"))
}

/// The error of a response that is not the server's. Another program has answered, such as a proxy, so a retry may
/// help.
pub(super) fn foreign_response(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("the answer is not the server's: {why}"))
}

/// The error of a response with a status other than success.
pub(super) fn status_error(status: StatusCode, body: &[u8]) -> StoreError {
    let detail = Problem::detail_in(status, body);
    let kind = match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => StoreErrorKind::Timeout,
        // The request is wrong, so a retry fails too. Without a problem detail the status comes from a proxy without a
        // server behind it, which is an outage.
        StatusCode::BAD_REQUEST
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::CONFLICT
        | StatusCode::PAYLOAD_TOO_LARGE
            if detail.is_some() =>
        {
            StoreErrorKind::Unsupported
        }
        // A rejected token is an outage like any other: the failure policy of the limit decides.
        _ => StoreErrorKind::Unavailable,
    };
    let detail = detail.as_deref().unwrap_or("it does not say why");
    StoreError::new(kind, format!("the server answered {status}: {detail}"))
}

/// Joins an error and its causes, because the client's own message says little.
fn error_chain(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_decides_whether_an_error_is_retryable() {
        for (status, retryable) in [(400, false), (404, false), (405, false), (409, false), (413, false)]
            .into_iter()
            .chain([401, 403, 408, 429, 500, 502, 503, 504, 301].map(|status| (status, true)))
        {
            let status = StatusCode::from_u16(status).unwrap();
            let problem = Problem::new(status, "why").to_response().into_body();
            assert_eq!(status_error(status, problem.as_bytes()).is_retryable(), retryable, "{status}");
            // The response of another program, such as a proxy without a server behind it.
            for foreign in ["", "<html>404 page not found</html>", r#"{"status":599,"detail":"moon"}"#] {
                assert!(status_error(status, foreign.as_bytes()).is_retryable(), "{status}: {foreign}");
            }
        }
        let error = status_error(StatusCode::BAD_REQUEST, br#"{"status":400,"detail":"at_us: no"}"#).to_string();
        assert!(error.contains("400 Bad Request: at_us: no"), "{error}");
    }
}
