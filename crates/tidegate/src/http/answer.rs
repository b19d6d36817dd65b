//! The response to a request that is turned away.

#[cfg(feature = "tower")]
use std::mem;
#[cfg(feature = "tower")]
use std::time::Duration;

#[cfg(feature = "tower")]
use http::Method;
#[cfg(feature = "tower")]
use http::header::CONTENT_LENGTH;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

#[cfg(feature = "tower")]
use super::headers::Told;
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
    turned_away(status, body, |headers| {
        limit_headers.write(outcome, headers);
        if let Some(wait) = outcome.retry_after() {
            headers::write_retry_after(wait, headers);
        }
    })
}

/// The same to a request whose limit has said no: it is told so by headers, and to wait so long by a body that begins like that.
#[cfg(feature = "tower")]
#[inline]
pub(super) fn denial<B: From<String>>(wait: Duration, beginning: &str, told: Told) -> Response<B> {
    turned_away(StatusCode::TOO_MANY_REQUESTS, B::from(problem::later(beginning, wait)), |headers| {
        told.write(headers);
        headers::write_retry_after(wait, headers);
    })
}

#[inline(always)]
fn turned_away<B>(status: StatusCode, body: B, tell: impl FnOnce(&mut HeaderMap)) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    // The first makes room for all of the usual ones. Headers that were kept and cloned would have none left for a
    // server's own.
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, PROBLEM_JSON);
    tell(headers);
    response
}

/// The same, where nobody has settled anything.
#[cfg(feature = "macros")]
pub(crate) fn response_with_defaults(outcome: &Outcome) -> Response<String> {
    response(outcome, &LimitHeaders::default(), None)
}

/// An answer as a request of that method gets it. One to HEAD has the same headers, and no body: clients of HTTP/2 do not take
/// it, and hyper does not leave it out for them.
#[cfg(feature = "tower")]
pub(crate) fn to_method(method: &Method, mut answer: Response<String>) -> Response<String> {
    if method == Method::HEAD {
        let length = mem::take(answer.body_mut()).len();
        answer.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    answer
}
