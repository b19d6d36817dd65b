//! The response to a denied request: its status, headers, and a body of `application/problem+json` (RFC 9457).
//!
//! The bodies are put together from constant pieces: a client that sends too many requests should not cost more than one
//! that sends few.

use std::borrow::Cow;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use tidegate_core::ceil_millis;

use super::{LimitHeaders, headers};
use crate::concurrency::{RejectReason, Rejected};
use crate::enforce::{LimitDecisions, Outcome};

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The response to a request with an outcome that is not an admission.
pub(crate) fn response(outcome: &Outcome, limit_headers: &LimitHeaders) -> Response<String> {
    let (status, body) = status_and_body(outcome);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, PROBLEM_JSON);
    limit_headers.write(outcome, headers);
    if let Some(wait) = outcome.retry_after() {
        headers::write_retry_after(wait, headers);
    }
    response
}

fn status_and_body(outcome: &Outcome) -> (StatusCode, String) {
    match outcome {
        Outcome::Limited(limit_decisions) => (StatusCode::TOO_MANY_REQUESTS, limited(limit_decisions)),
        Outcome::Overloaded(refused) => (StatusCode::SERVICE_UNAVAILABLE, overloaded(refused)),
        Outcome::Denied(_) => (StatusCode::FORBIDDEN, DENIED.to_owned()),
        Outcome::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE.to_owned()),
        Outcome::Allowed(_) => (StatusCode::OK, BROKEN.to_owned()),
        Outcome::Invalid(_) => (StatusCode::INTERNAL_SERVER_ERROR, BROKEN.to_owned()),
    }
}

fn limited(limit_decisions: &LimitDecisions) -> String {
    let names = violated_names(limit_decisions);
    match limit_decisions.retry_after() {
        Some(wait) => [LIMITED, &names, WAIT, &ceil_millis(wait).to_string(), RETRYABLE].concat(),
        None => [LIMITED, &names, WAIT, "null", if limit_decisions.never_pass() { NEVER } else { AWAY }].concat(),
    }
}

fn overloaded(refused: &Rejected) -> String {
    let why = match refused.reason() {
        RejectReason::Busy => "The server works on as many requests as it can",
        RejectReason::QueueFull => "The server works on as many requests as it can, and as many wait as may",
        RejectReason::TooLong => {
            "The server works on as many requests as it can, and the turn of this one did not come in time"
        }
    };
    let detail = r#": try again after about the time that is given.","retry_after_ms":"#;
    [OVERLOADED, why, detail, &ceil_millis(refused.retry_after()).to_string(), RETRYABLE].concat()
}

/// The names of the limits that denied it, escaped and joined by quotes.
fn violated_names(limit_decisions: &LimitDecisions) -> Cow<'_, str> {
    let mut names = limit_decisions.violated().map(|limit| escaped(limit.policy()));
    let first = names.next().unwrap_or_default();
    names.fold(first, |all, name| all + r#"",""# + name)
}

/// A name as a JSON string has it between its quotes.
fn escaped(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\') {
        return Cow::Borrowed(name);
    }
    let quoted = serde_json::to_string(name).expect("text is JSON");
    Cow::Owned(quoted[1..quoted.len() - 1].to_owned())
}

/// No `title` or `detail`: a client that floods is sent this often, and the problem type explains it.
const LIMITED: &str =
    r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","status":429,"violated-policies":[""#;
const WAIT: &str = r#""],"retry_after_ms":"#;
const RETRYABLE: &str = r#","retryable":true}"#;
const NEVER: &str =
    r#","retryable":false,"detail":"The request costs more than the whole quota: it cannot be retried as it is."}"#;
const AWAY: &str = r#","retryable":true,"detail":"The request costs more than is admitted while the limit's store is away: try again later."}"#;
const DENIED: &str = r#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"This client is not admitted.","retry_after_ms":null,"retryable":false}"#;
const UNAVAILABLE: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":"Whether this request is within its quota cannot be told at the moment: try again later.","retry_after_ms":null,"retryable":true}"#;
const OVERLOADED: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":""#;
const BROKEN: &str = r#"{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"The server could not apply a limit to this request.","retry_after_ms":null,"retryable":false}"#;
