//! An outcome in words, for transports with neither statuses nor headers.

use tidegate_core::ceil_millis;

use super::Outcome;
use crate::Error;

/// An [`Outcome`] in words, for error objects of transports with neither statuses nor headers. See [`Outcome::summary`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutcomeSummary {
    /// The name of a gRPC code: `OK` for an admission, else for instance `RESOURCE_EXHAUSTED`.
    pub code: &'static str,
    /// One sentence for the client. Empty for an admission.
    pub message: &'static str,
    /// When another try may be worth it, in milliseconds, rounded up. None if that is unknown, or never.
    pub retry_after_ms: Option<u64>,
    /// Whether the same request may be admitted later.
    pub retryable: bool,
    /// The names of the limits that denied the request.
    pub violated_policies: Vec<String>,
}

impl Outcome {
    /// Describes the outcome in words, for an error object.
    pub fn summary(&self) -> OutcomeSummary {
        let (code, message) = match self {
            Outcome::Allowed(_) => ("OK", ""),
            Outcome::Limited(limit_decisions) if limit_decisions.never_pass() => {
                ("FAILED_PRECONDITION", "It costs more than its whole quota")
            }
            Outcome::Limited(_) => ("RESOURCE_EXHAUSTED", "Rate limit exceeded"),
            Outcome::Overloaded(_) => ("UNAVAILABLE", "As much is worked on as can be"),
            Outcome::Denied(_) => ("PERMISSION_DENIED", "This client is not admitted"),
            Outcome::Unavailable(_) => ("UNAVAILABLE", "Its limit cannot be asked at the moment"),
            Outcome::Invalid(Error::InvalidCost(_)) => ("INVALID_ARGUMENT", "Its cost is none"),
            Outcome::Invalid(_) => ("INTERNAL", "A limit could not be applied"),
        };
        let retryable = match self {
            Outcome::Limited(limit_decisions) => !limit_decisions.never_pass(),
            Outcome::Unavailable(_) => true,
            _ => self.retry_after().is_some(),
        };
        let violated = self.limit_decisions().iter().filter(|limit| !limit.decision().allowed());
        OutcomeSummary {
            code,
            message,
            retry_after_ms: self.retry_after().map(ceil_millis),
            retryable,
            violated_policies: violated.map(|limit| limit.policy().to_owned()).collect(),
        }
    }
}
