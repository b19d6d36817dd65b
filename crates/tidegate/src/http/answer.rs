//! The response to a request that is turned away.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::{LimitHeaders, problem};
use crate::enforce::Outcome;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Status, headers and body of an outcome that is not an admission.
pub(super) fn response(outcome: &Outcome, headers: &LimitHeaders) -> Response<String> {
    let status = problem::status(outcome);
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        log(outcome);
    }
    let mut response = Response::new(problem::body(outcome));
    *response.status_mut() = status;
    // Room for all of them at once.
    response.headers_mut().reserve(5);
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
    headers.write(outcome, response.headers_mut());
    response
}

/// The same, where nobody has settled anything.
#[cfg(feature = "macros")]
pub(crate) fn response_with_defaults(outcome: &Outcome) -> Response<String> {
    response(outcome, &LimitHeaders::default())
}

/// A mistake in the program is told to whoever runs it, and not to the client.
fn log(outcome: &Outcome) {
    #[cfg(feature = "tracing")]
    if let Some(error) = outcome.error() {
        tracing::error!(%error, "a limit could not be applied");
    }
    #[cfg(not(feature = "tracing"))]
    let _ = outcome;
}
