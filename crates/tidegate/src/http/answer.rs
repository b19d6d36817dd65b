//! The response to a request that is turned away.

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::problem::{self, Beginning};
use super::{LimitHeaders, headers};
use crate::enforce::Outcome;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Status, headers and body of an outcome that is not an admission.
pub(super) fn response(
    outcome: &Outcome,
    limit_headers: &LimitHeaders,
    beginning: Option<&Beginning>,
) -> Response<String> {
    let (status, body) = problem::of(outcome, beginning);
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    // The first makes room for all of the usual ones. Headers that were kept and cloned would have none left for a
    // server's own.
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, PROBLEM_JSON);
    limit_headers.write(outcome, headers);
    headers::write_retry_after(outcome, headers);
    // Last: what was written a moment ago is slow to move.
    *response.body_mut() = body;
    response
}

/// The same, where nobody has settled anything.
#[cfg(feature = "macros")]
pub(crate) fn response_with_defaults(outcome: &Outcome) -> Response<String> {
    response(outcome, &LimitHeaders::default(), None)
}
