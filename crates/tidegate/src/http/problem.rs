//! The body of a denial: `application/problem+json` of RFC 9457.
//!
//! Nothing but the names and the time differs from one denial to the next, so nothing else is worked out for each: who
//! sends many requests too many should not cost more than who sends few.

use http::StatusCode;
use tidegate_core::ceil_millis;

use crate::concurrency::{Refused, Why};
use crate::enforce::{Outcome, Rulings};

/// The status of an outcome that is not an admission.
pub(super) fn status(outcome: &Outcome) -> StatusCode {
    match outcome {
        Outcome::Allowed(_) => StatusCode::OK,
        Outcome::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
        Outcome::Denied(_) => StatusCode::FORBIDDEN,
        Outcome::Overloaded(_) | Outcome::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        Outcome::Invalid(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The body of an outcome that is not an admission.
pub(super) fn body(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Limited(rulings) => limited(rulings),
        Outcome::Overloaded(refused) => overloaded(refused),
        Outcome::Denied(_) => DENIED.to_owned(),
        Outcome::Unavailable(_) => UNAVAILABLE.to_owned(),
        Outcome::Allowed(_) | Outcome::Invalid(_) => BROKEN.to_owned(),
    }
}

fn limited(rulings: &Rulings) -> String {
    let wait = rulings.retry_after().map(ceil_millis);
    let mut text = String::with_capacity(384);
    text.push_str(if wait.is_some() { LATER } else { NEVER });
    for (index, ruling) in rulings.violated().enumerate() {
        text.push_str(if index == 0 { "[" } else { "," });
        push_quoted(&mut text, ruling.policy());
    }
    text.push_str(r#"],"retry_after_ms":"#);
    match wait {
        Some(wait) => {
            text.push_str(itoa::Buffer::new().format(wait));
            text.push_str(r#","retryable":true}"#);
        }
        None => text.push_str(r#"null,"retryable":false}"#),
    }
    text
}

fn overloaded(refused: &Refused) -> String {
    let mut text = String::with_capacity(384);
    text.push_str(OVERLOADED);
    text.push_str(match refused.why() {
        Why::Busy => "The server works on as many requests as it can",
        Why::QueueFull => "The server works on as many requests as it can, and as many wait as may",
        Why::TooLong => "The server works on as many requests as it can, and the turn of this one did not come in time",
    });
    text.push_str(r#": try again after about the time that is given.","retry_after_ms":"#);
    text.push_str(itoa::Buffer::new().format(ceil_millis(refused.retry_after())));
    text.push_str(r#","retryable":true}"#);
    text
}

fn push_quoted(text: &mut String, name: &str) {
    if name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\') {
        text.extend(["\"", name, "\""]);
    } else {
        text.push_str(&serde_json::to_string(name).expect("text is JSON"));
    }
}

const LATER: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Too many requests: try again after the time that is given.","violated-policies":"#;
const NEVER: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"The request costs more than the whole quota: it cannot be retried as it is.","violated-policies":"#;
const DENIED: &str = r#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"This client is not admitted.","retry_after_ms":null,"retryable":false}"#;
const UNAVAILABLE: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":"Whether this request is within its quota cannot be told at the moment: try again later.","retry_after_ms":null,"retryable":true}"#;
const OVERLOADED: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":""#;
const BROKEN: &str = r#"{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"The server could not apply a limit to this request.","retry_after_ms":null,"retryable":false}"#;
