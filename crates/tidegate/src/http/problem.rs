//! The body of a denial: `application/problem+json` of RFC 9457.
//!
//! Nothing but the names and the time differs from one denial to the next, so nothing else is worked out for each: who
//! sends many requests too many should not cost more than who sends few.

use std::borrow::Cow;

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
    let mut digits = itoa::Buffer::new();
    let (lead, wait, end) = match rulings.retry_after().map(ceil_millis) {
        Some(wait) => (LATER, digits.format(wait), RETRYABLE),
        None => (NEVER, "null", r#","retryable":false}"#),
    };
    joined([lead, &names(rulings), r#""],"retry_after_ms":"#, wait, end])
}

fn overloaded(refused: &Refused) -> String {
    let why = match refused.why() {
        Why::Busy => "The server works on as many requests as it can",
        Why::QueueFull => "The server works on as many requests as it can, and as many wait as may",
        Why::TooLong => "The server works on as many requests as it can, and the turn of this one did not come in time",
    };
    let mut digits = itoa::Buffer::new();
    let wait = digits.format(ceil_millis(refused.retry_after()));
    let detail = r#": try again after about the time that is given.","retry_after_ms":"#;
    joined([OVERLOADED, why, detail, wait, RETRYABLE])
}

/// The pieces in a text as long as they are: one with room to spare costs an allocation more where it becomes a body.
fn joined(pieces: [&str; 5]) -> String {
    let mut text = String::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
    pieces.into_iter().for_each(|piece| text.push_str(piece));
    text
}

/// What stands between the quotes around the names of those that denied it.
fn names(rulings: &Rulings) -> Cow<'_, str> {
    let mut names = rulings.violated().map(|ruling| escaped(ruling.policy()));
    let first = names.next().unwrap_or_default();
    names.fold(first, |all, name| all + r#"",""# + name)
}

/// A name as a JSON string has it between its quotes.
fn escaped(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|byte| PLAIN[usize::from(byte)]) {
        return Cow::Borrowed(name);
    }
    let quoted = serde_json::to_string(name).expect("text is JSON");
    Cow::Owned(quoted[1..quoted.len() - 1].to_owned())
}

/// Which bytes a JSON string has as they are, written down: names are short, and working it out for several bytes at a time
/// takes longer to begin with than to look each of them up.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = byte != b'"' && byte != b'\\';
        byte += 1;
    }
    plain
};

const LATER: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Too many requests: try again after the time that is given.","violated-policies":[""#;
const NEVER: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"The request costs more than the whole quota: it cannot be retried as it is.","violated-policies":[""#;
const RETRYABLE: &str = r#","retryable":true}"#;
const DENIED: &str = r#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"This client is not admitted.","retry_after_ms":null,"retryable":false}"#;
const UNAVAILABLE: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":"Whether this request is within its quota cannot be told at the moment: try again later.","retry_after_ms":null,"retryable":true}"#;
const OVERLOADED: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":""#;
const BROKEN: &str = r#"{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"The server could not apply a limit to this request.","retry_after_ms":null,"retryable":false}"#;
