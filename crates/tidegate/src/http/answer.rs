//! The response to a request that is turned away.

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::{LimitHeaders, headers, problem};
use crate::enforce::Outcome;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Status, headers and body of an outcome that is not an admission.
pub(super) fn response(outcome: &Outcome, limit_headers: &LimitHeaders) -> Response<String> {
    let status = problem::status(outcome);
    let mut response = Response::new(problem::body(outcome));
    *response.status_mut() = status;
    // Room for all of them at once.
    response.headers_mut().reserve(5);
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
    limit_headers.write(outcome, response.headers_mut());
    headers::write_retry_after(outcome, response.headers_mut());
    response
}

/// The same, where nobody has settled anything.
#[cfg(feature = "macros")]
pub(crate) fn response_with_defaults(outcome: &Outcome) -> Response<String> {
    response(outcome, &LimitHeaders::default())
}
