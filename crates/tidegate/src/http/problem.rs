//! The response to a denied request: its status, headers, and a body of `application/problem+json` (RFC 9457).
//!
//! The bodies are joined from constant pieces, so that a client with too many requests costs no more than others.

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
        Outcome::Limited(limit_decisions) => (StatusCode::TOO_MANY_REQUESTS, limited_body(limit_decisions)),
        Outcome::Overloaded(rejected) => (StatusCode::SERVICE_UNAVAILABLE, overloaded_body(rejected)),
        Outcome::Denied(_) => (StatusCode::FORBIDDEN, FORBIDDEN.to_owned()),
        Outcome::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE.to_owned()),
        Outcome::Allowed(_) => (StatusCode::OK, INTERNAL_ERROR.to_owned()),
        Outcome::Invalid(_) => (StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR.to_owned()),
    }
}

fn limited_body(limit_decisions: &LimitDecisions) -> String {
    let names = violated_names(limit_decisions);
    match limit_decisions.retry_after() {
        Some(wait) => {
            [QUOTA_EXCEEDED_START, &names, RETRY_AFTER_FIELD, &ceil_millis(wait).to_string(), RETRYABLE_END].concat()
        }
        None => [
            QUOTA_EXCEEDED_START,
            &names,
            RETRY_AFTER_FIELD,
            "null",
            if limit_decisions.never_pass() { COST_TOO_HIGH_END } else { STORE_UNAVAILABLE_END },
        ]
        .concat(),
    }
}

fn overloaded_body(rejected: &Rejected) -> String {
    let reason = match rejected.reason() {
        RejectReason::Busy => "The server works on as many requests as it can",
        RejectReason::QueueFull => "The server works on as many requests as it can, and as many wait as may",
        RejectReason::TooLong => {
            "The server works on as many requests as it can, and the turn of this one did not come in time"
        }
    };
    let detail = r#": try again after about the time that is given.","retry_after_ms":"#;
    [OVERLOADED_START, reason, detail, &ceil_millis(rejected.retry_after()).to_string(), RETRYABLE_END].concat()
}

/// Returns the names of the limits that denied the request, escaped and joined by quotes.
fn violated_names(limit_decisions: &LimitDecisions) -> Cow<'_, str> {
    let mut names = limit_decisions.violated().map(|limit| escape_json(limit.policy()));
    let first = names.next().unwrap_or_default();
    names.fold(first, |all, name| all + r#"",""# + name)
}

/// Escapes a name for a JSON string.
fn escape_json(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\') {
        return Cow::Borrowed(name);
    }
    let quoted = serde_json::to_string(name).expect("text is JSON");
    Cow::Owned(quoted[1..quoted.len() - 1].to_owned())
}

/// Without `title` and `detail`: a flooding client receives it often, and the problem type explains it.
const QUOTA_EXCEEDED_START: &str =
    r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","status":429,"violated-policies":[""#;
const RETRY_AFTER_FIELD: &str = r#""],"retry_after_ms":"#;
const RETRYABLE_END: &str = r#","retryable":true}"#;
const COST_TOO_HIGH_END: &str =
    r#","retryable":false,"detail":"The request costs more than the whole quota: it cannot be retried as it is."}"#;
const STORE_UNAVAILABLE_END: &str = r#","retryable":true,"detail":"The request costs more than is admitted while the limit's store is away: try again later."}"#;
const FORBIDDEN: &str = r#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"This client is not admitted.","retry_after_ms":null,"retryable":false}"#;
const UNAVAILABLE: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":"Whether this request is within its quota cannot be told at the moment: try again later.","retry_after_ms":null,"retryable":true}"#;
const OVERLOADED_START: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":""#;
const INTERNAL_ERROR: &str = r#"{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"The server could not apply a limit to this request.","retry_after_ms":null,"retryable":false}"#;
