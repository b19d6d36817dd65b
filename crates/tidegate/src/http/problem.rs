//! The body of a denial: `application/problem+json` of RFC 9457.
//!
//! Nothing but the names and the time differs from one denial to the next, and of one limit nothing but the time, so nothing
//! else is worked out for each: who sends many requests too many should not cost more than who sends few.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use tidegate_core::ceil_millis;

use super::joined::joined;
use crate::concurrency::{Refused, Why};
use crate::enforce::{Axis, Outcome, Rulings};

/// What the bodies of a limit's denials begin with, made for the first limit that denies.
#[derive(Debug, Clone, Default)]
pub(super) struct Beginning(OnceLock<(Arc<str>, String)>);

impl Beginning {
    /// That of the denials of the limit with this name, if it was the first.
    #[inline]
    pub(super) fn of(&self, policy: &Arc<str>) -> Option<&str> {
        let make = || (Arc::clone(policy), joined([LIMITED, &escaped(policy), WAIT]));
        let (first, text) = self.0.get_or_init(make);
        Arc::ptr_eq(first, policy).then_some(text)
    }
}

/// The body of a denial that begins like that.
pub(super) fn later(beginning: &str, wait: Duration) -> String {
    joined([beginning, itoa::Buffer::new().format(ceil_millis(wait)), RETRYABLE])
}

/// The status and the body of an outcome that is not an admission.
pub(super) fn of(outcome: &Outcome, beginning: Option<&Beginning>) -> (StatusCode, String) {
    match outcome {
        Outcome::Limited(rulings) => (StatusCode::TOO_MANY_REQUESTS, limited(rulings, beginning)),
        Outcome::Overloaded(refused) => (StatusCode::SERVICE_UNAVAILABLE, overloaded(refused)),
        Outcome::Denied(_) => (StatusCode::FORBIDDEN, DENIED.to_owned()),
        Outcome::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE.to_owned()),
        Outcome::Allowed(_) => (StatusCode::OK, BROKEN.to_owned()),
        Outcome::Invalid(_) => (StatusCode::INTERNAL_SERVER_ERROR, BROKEN.to_owned()),
    }
}

fn limited(rulings: &Rulings, beginning: Option<&Beginning>) -> String {
    let Some(wait) = rulings.retry_after() else {
        return joined([LIMITED, &names(rulings), WAIT, "null", if rulings.never_pass() { NEVER } else { AWAY }]);
    };
    let beginning = match &**rulings {
        // A guard's name is no limit's.
        [only] if only.axis() != Axis::Concurrency => beginning.and_then(|kept| kept.of(only.shared_policy())),
        _ => None,
    };
    match beginning {
        Some(beginning) => later(beginning, wait),
        None => joined([LIMITED, &names(rulings), WAIT, itoa::Buffer::new().format(ceil_millis(wait)), RETRYABLE]),
    }
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

/// No more than has to be said: who is turned away for asking too often is told so the more often, and every byte of it is
/// sent. The kind of problem says in words what it is.
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

#[cfg(test)]
mod tests {
    use tidegate_core::{Quota, seconds};

    use super::*;
    use crate::enforce::{Caller, Enforcer, Step};

    #[test]
    fn a_beginning_is_that_of_no_other_limit() {
        let beginning = Beginning::default();
        let enforcer = Enforcer::of(Quota::token_bucket(1, seconds(60)).unwrap());
        let ask = |enforcer: &Enforcer| enforcer.ask_now(&Caller::new("alice"), 1, Step::Take).unwrap();
        let _ = ask(&enforcer);
        // Of the same limit again, and of the same name that is another's.
        let [first, again] = ["\"first\"", "\"first\""].map(|policy| enforcer.clone().policy(policy));
        let second = enforcer.policy("second");
        for (enforcer, policy) in
            [(&first, "\"first\""), (&second, "second"), (&first, "\"first\""), (&again, "\"first\"")]
        {
            let denial = ask(enforcer);
            let (_, body) = of(&denial, Some(&beginning));
            assert_eq!(body, of(&denial, None).1);
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body["violated-policies"], serde_json::json!([policy]));
        }
    }
}
