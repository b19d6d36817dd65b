//! The body of a denial: `application/problem+json` of RFC 9457.

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;

use crate::enforce::{Outcome, Ruling, Rulings};

/// What is wrong with a request, for programs.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated_policies: Vec<&'a str>,
    retry_after_ms: Option<u64>,
    retryable: bool,
}

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
    let (kind, title, detail) = match outcome {
        Outcome::Limited(rulings) if rulings.retry_after().is_none() => (QUOTA_EXCEEDED, QUOTA_EXCEEDED_TITLE, NEVER),
        Outcome::Limited(_) => (QUOTA_EXCEEDED, QUOTA_EXCEEDED_TITLE, LATER),
        Outcome::Denied(_) => (BLANK, "Forbidden", "This client is not admitted."),
        Outcome::Unavailable(_) => (REDUCED_CAPACITY, REDUCED_CAPACITY_TITLE, UNKNOWN),
        Outcome::Allowed(_) | Outcome::Invalid(_) => (BLANK, "Internal Server Error", BROKEN),
    };
    let rulings = match outcome {
        Outcome::Limited(rulings) => Some(rulings),
        _ => None,
    };
    let wait = rulings.and_then(Rulings::retry_after);
    let problem = Problem {
        r#type: kind,
        title,
        status: status(outcome).as_u16(),
        detail,
        violated_policies: rulings.into_iter().flat_map(Rulings::violated).map(Ruling::policy).collect(),
        // Rounded up: who comes back that late is admitted.
        retry_after_ms: wait.map(|wait| u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)),
        retryable: wait.is_some() || matches!(outcome, Outcome::Unavailable(_)),
    };
    serde_json::to_vec(&problem).expect("nothing but text and numbers").into()
}

const BLANK: &str = "about:blank";
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const QUOTA_EXCEEDED_TITLE: &str = "Request cannot be satisfied as assigned quota has been exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
const REDUCED_CAPACITY_TITLE: &str = "Request cannot be satisfied due to temporary server capacity constraints";

const LATER: &str = "Too many requests: try again after the time that is given.";
const NEVER: &str = "The request costs more than the whole quota: it cannot be retried as it is.";
const UNKNOWN: &str = "Whether this request is within its quota cannot be told at the moment: try again later.";
const BROKEN: &str = "The server could not apply a limit to this request. Its log says why.";
