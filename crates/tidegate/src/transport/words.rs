//! What is said of an outcome where there are neither statuses nor headers: the names of gRPC's codes, and when to retry.

use tidegate_core::ceil_millis;

use crate::Error;
use crate::enforce::Outcome;

/// What is said of an outcome that is not an admission.
pub(super) struct Words {
    pub(super) code: &'static str,
    pub(super) message: &'static str,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) retryable: bool,
    /// The names of the limits that have denied it.
    pub(super) violated: Vec<String>,
}

impl Words {
    pub(super) fn of(outcome: &Outcome) -> Self {
        let (code, message) = match outcome {
            Outcome::Allowed(_) => ("OK", ""),
            Outcome::Limited(rulings) if rulings.never_pass() => {
                ("FAILED_PRECONDITION", "It costs more than its whole quota")
            }
            Outcome::Limited(_) => ("RESOURCE_EXHAUSTED", "Rate limit exceeded"),
            Outcome::Overloaded(_) => ("UNAVAILABLE", "As much is worked on as can be"),
            Outcome::Denied(_) => ("PERMISSION_DENIED", "This client is not admitted"),
            Outcome::Unavailable(_) => ("UNAVAILABLE", "Its limit cannot be asked at the moment"),
            Outcome::Invalid(Error::InvalidCost(_)) => ("INVALID_ARGUMENT", "Its cost is none"),
            Outcome::Invalid(_) => ("INTERNAL", "A limit could not be applied"),
        };
        let retryable = match outcome {
            Outcome::Limited(rulings) => !rulings.never_pass(),
            Outcome::Unavailable(_) => true,
            _ => outcome.retry_after().is_some(),
        };
        let violated = outcome.rulings().iter().filter(|ruling| !ruling.decision().allowed());
        Words {
            code,
            message,
            retry_after_ms: outcome.retry_after().map(ceil_millis),
            retryable,
            violated: violated.map(|ruling| ruling.policy().to_owned()).collect(),
        }
    }
}
