//! What an answer that is no answer means to a caller.

use std::error::Error;

use http::StatusCode;
use hyper_util::client::legacy;
use tidegate_core::{StoreError, StoreErrorKind};

use crate::api::Problem;

/// The server could not be asked, or has not answered.
pub(super) fn unreachable(error: legacy::Error) -> StoreError {
    let what = if error.is_connect() { "cannot be connected to" } else { "did not answer" };
    StoreError::caused_by(StoreErrorKind::Unavailable, format!("the server {what}: {}", whole(&error)), error)
}

/// The answer broke off.
pub(super) fn broken(error: Box<dyn Error + Send + Sync>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("the server's answer cannot be read: {error}"))
}

/// Somebody else has answered, such as a proxy in front, which may be different next time.
pub(super) fn not_ours(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("the answer is not the server's: {why}"))
}

/// The server has said that it will not decide.
pub(super) fn refused(status: StatusCode, body: &[u8]) -> StoreError {
    let detail = Problem::detail_in(status, body);
    let kind = match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => StoreErrorKind::Timeout,
        // What was asked is wrong, whenever it is asked again. Not when a proxy says so that finds no server behind it:
        // that is an outage.
        StatusCode::BAD_REQUEST
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::CONFLICT
        | StatusCode::PAYLOAD_TOO_LARGE
            if detail.is_some() =>
        {
            StoreErrorKind::Unsupported
        }
        // A token that is not taken is an outage like any other: the policy of the limit decides.
        _ => StoreErrorKind::Unavailable,
    };
    let detail = detail.as_deref().unwrap_or("it does not say why");
    StoreError::new(kind, format!("the server answered {status}: {detail}"))
}

/// An error with what caused it, which says more than the client's own words.
fn whole(error: &dyn Error) -> String {
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
    fn an_error_says_whether_a_retry_helps() {
        for (status, retryable) in [(400, false), (404, false), (405, false), (409, false), (413, false)]
            .into_iter()
            .chain([401, 403, 408, 429, 500, 502, 503, 504, 301].map(|status| (status, true)))
        {
            let status = StatusCode::from_u16(status).unwrap();
            let ours = Problem::new(status, "why").to_response().into_body();
            assert_eq!(refused(status, ours.as_bytes()).is_retryable(), retryable, "{status}");
            // Somebody else, such as a proxy without a server behind it.
            for foreign in ["", "<html>404 page not found</html>", r#"{"status":599,"detail":"moon"}"#] {
                assert!(refused(status, foreign.as_bytes()).is_retryable(), "{status}: {foreign}");
            }
        }
        let error = refused(StatusCode::BAD_REQUEST, br#"{"status":400,"detail":"at_us: no"}"#).to_string();
        assert!(error.contains("400 Bad Request: at_us: no"), "{error}");
    }
}
