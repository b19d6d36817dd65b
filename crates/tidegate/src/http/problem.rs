//! The body of a denial: `application/problem+json` of RFC 9457.
//!
//! Nothing but the names and the time differs from one denial to the next, so nothing else is worked out for each: who
//! sends many requests too many should not cost more than who sends few.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Serializer;

use crate::enforce::{Outcome, Ruling, Rulings};

/// The status of an outcome that is not an admission.
pub(super) fn status(outcome: &Outcome) -> StatusCode {
    match outcome {
        Outcome::Allowed(_) => StatusCode::OK,
        Outcome::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
        Outcome::Denied(_) => StatusCode::FORBIDDEN,
        Outcome::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        Outcome::Invalid(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The body of an outcome that is not an admission.
pub(super) fn body(outcome: &Outcome) -> Bytes {
    match outcome {
        Outcome::Limited(rulings) => limited(rulings).into(),
        Outcome::Denied(_) => Bytes::from_static(DENIED),
        Outcome::Unavailable(_) => Bytes::from_static(UNAVAILABLE),
        Outcome::Allowed(_) | Outcome::Invalid(_) => Bytes::from_static(BROKEN),
    }
}

fn limited(rulings: &Rulings) -> Vec<u8> {
    let wait = rulings.retry_after().map(millis);
    let mut text = Vec::with_capacity(384);
    text.extend_from_slice(if wait.is_some() { LATER } else { NEVER });
    let names = rulings.violated().map(Ruling::policy);
    serde_json::Serializer::new(&mut text).collect_seq(names).expect("memory takes everything");
    text.extend_from_slice(br#","retry_after_ms":"#);
    match wait {
        Some(wait) => {
            text.extend_from_slice(itoa::Buffer::new().format(wait).as_bytes());
            text.extend_from_slice(br#","retryable":true}"#);
        }
        None => text.extend_from_slice(br#"null,"retryable":false}"#),
    }
    text
}

/// Rounded up: who comes back that late is admitted.
fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

const LATER: &[u8] = br#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Too many requests: try again after the time that is given.","violated-policies":"#;
const NEVER: &[u8] = br#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"The request costs more than the whole quota: it cannot be retried as it is.","violated-policies":"#;
const DENIED: &[u8] = br#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"This client is not admitted.","retry_after_ms":null,"retryable":false}"#;
const UNAVAILABLE: &[u8] = br#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":"Whether this request is within its quota cannot be told at the moment: try again later.","retry_after_ms":null,"retryable":true}"#;
const BROKEN: &[u8] = br#"{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"The server could not apply a limit to this request. Its log says why.","retry_after_ms":null,"retryable":false}"#;
