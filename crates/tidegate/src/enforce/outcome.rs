//! The outcome of a request, its limit decisions, and its summary in words.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Decision, Reason, ceil_millis};

use crate::Error;
#[cfg(feature = "tokio")]
use crate::concurrency::AcquireError;
use crate::concurrency::Rejected;

/// The outcome of a request, with everything that a transport needs to answer it.
#[derive(Debug, Clone)]
#[must_use = "a denial is an answer, not an error: nothing is limited until the decision is read"]
pub enum Outcome {
    /// The request is allowed.
    Allowed(LimitDecisions),
    /// A limit has too little quota left, or the caller has too many requests in flight.
    Limited(LimitDecisions),
    /// Too many requests of all callers together are in flight. This caller is not the cause.
    Overloaded(Rejected),
    /// The caller is on a deny list, and waiting does not help.
    Denied(LimitDecisions),
    /// The store could not decide, and the limit fails closed.
    Unavailable(Error),
    /// The program made a mistake, or the cost is invalid: see [`Error::is_misuse`].
    Invalid(Error),
}

impl Outcome {
    pub(super) fn from_limit_decisions(limit_decisions: LimitDecisions) -> Self {
        let denied =
            |reason| move |limit: &LimitDecision| !limit.decision.allowed() && limit.decision.reason() == reason;
        if limit_decisions.iter().all(|limit| limit.decision.allowed()) {
            Outcome::Allowed(limit_decisions)
        } else if limit_decisions.iter().any(denied(Some(Reason::Deny))) {
            Outcome::Denied(limit_decisions)
        } else {
            Outcome::Limited(limit_decisions)
        }
    }

    /// Returns whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Outcome::Allowed(_))
    }

    /// Returns the decision of each limit, or none when no limit could decide.
    pub fn limit_decisions(&self) -> &[LimitDecision] {
        match self {
            Outcome::Allowed(limit_decisions)
            | Outcome::Limited(limit_decisions)
            | Outcome::Denied(limit_decisions) => limit_decisions,
            Outcome::Overloaded(_) | Outcome::Unavailable(_) | Outcome::Invalid(_) => &[],
        }
    }

    /// Returns the outcome of a request that got no permit.
    pub(crate) fn from_rejected(rejected: Rejected) -> Self {
        if rejected.is_shared() {
            return Outcome::Overloaded(rejected);
        }
        Outcome::Limited(LimitDecisions::from(LimitDecision::from_concurrency(rejected.decision())))
    }

    /// Creates the outcome of a mistake in the program. Logs the error with the feature `tracing`, because clients do
    /// not see it.
    pub fn invalid(error: Error) -> Self {
        #[cfg(feature = "tracing")]
        tracing::error!(%error, "a limit could not be applied");
        Outcome::Invalid(error)
    }

    /// Returns the outcome of a request that got no lease.
    #[cfg(feature = "tokio")]
    pub(crate) fn from_acquire_error(error: AcquireError) -> Self {
        match error {
            AcquireError::Rejected(rejected) => Outcome::from_rejected(rejected),
            AcquireError::Denied(decision) => {
                Outcome::Denied(LimitDecisions::from(LimitDecision::from_concurrency(decision)))
            }
            AcquireError::Failed(error) if error.is_misuse() => Outcome::invalid(error),
            AcquireError::Failed(error) => Outcome::Unavailable(error),
        }
    }

    /// Returns the kind of limit that rejected the request, if a limit did.
    pub fn kind(&self) -> Option<LimitKind> {
        match self {
            Outcome::Limited(limit_decisions) => limit_decisions.violated().map(|limit| limit.kind).min(),
            Outcome::Overloaded(_) => Some(LimitKind::Concurrency),
            _ => None,
        }
    }

    /// Returns the time until a retry of a rejected request may succeed. `None` when it is unknown, and when no retry
    /// can succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Outcome::Limited(limit_decisions) => limit_decisions.retry_after(),
            Outcome::Overloaded(rejected) => Some(rejected.retry_after()),
            _ => None,
        }
    }

    /// Returns the error, if there was one.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Outcome::Unavailable(error) | Outcome::Invalid(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether every limit allowed the request without a reason: no limit in shadow mode would have denied it,
    /// and no store was broken. Only then were all units certainly taken.
    pub fn is_unconditional(&self) -> bool {
        self.is_allowed() && self.limit_decisions().iter().all(|limit| limit.decision.is_unconditional())
    }

    /// Returns whether the request was allowed only because a limit is in shadow mode.
    pub fn is_shadowed(&self) -> bool {
        let shadowed = |limit: &LimitDecision| !matches!(limit.decision.reason(), None | Some(Reason::Store));
        self.is_allowed() && self.limit_decisions().iter().any(shadowed)
    }

    /// Returns whether the request was allowed although the store was broken.
    pub fn is_without_store(&self) -> bool {
        self.is_allowed() && self.limit_decisions().iter().any(|limit| limit.decision.reason() == Some(Reason::Store))
    }
}

/// The decision of one limit about a request.
#[derive(Debug, Clone)]
pub struct LimitDecision {
    pub(super) policy: Arc<str>,
    pub(super) window: Option<Duration>,
    pub(super) decision: Decision,
    kind: LimitKind,
}

impl LimitDecision {
    #[inline]
    pub(super) fn new(policy: Arc<str>, window: Option<Duration>, decision: Decision, kind: LimitKind) -> Self {
        LimitDecision { policy, window, decision, kind }
    }

    /// Returns the decision of a concurrency guard, which has no name of its own.
    fn from_concurrency(decision: Decision) -> Self {
        // Allocated once, so that a flood of rejections stays cheap.
        static POLICY: LazyLock<Arc<str>> = LazyLock::new(|| "concurrency".into());
        LimitDecision::new(Arc::clone(&POLICY), None, decision, LimitKind::Concurrency)
    }

    /// Returns the limit's name towards clients.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Returns the time in which the quota fills from empty. `None` when that is not a whole number of microseconds.
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// Returns the kind of the limit.
    pub fn kind(&self) -> LimitKind {
        self.kind
    }

    /// Returns the decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }
}

/// The decisions of an enforcer's limits, in order. A single one, the usual case, is stored inline.
#[derive(Debug, Clone, Default)]
pub struct LimitDecisions(pub(super) SmallVec<[LimitDecision; 1]>);

impl From<LimitDecision> for LimitDecisions {
    #[inline]
    fn from(limit: LimitDecision) -> Self {
        LimitDecisions(SmallVec::from_buf([limit]))
    }
}

impl FromIterator<LimitDecision> for LimitDecisions {
    fn from_iter<I: IntoIterator<Item = LimitDecision>>(limit_decisions: I) -> Self {
        LimitDecisions(limit_decisions.into_iter().collect())
    }
}

impl LimitDecisions {
    /// Returns the decisions for which `wanted` is true.
    #[cfg(feature = "http")]
    pub(crate) fn filter(&self, wanted: impl Fn(&LimitDecision) -> bool) -> Self {
        self.iter().filter(|limit| wanted(limit)).cloned().collect()
    }

    /// Returns the binding decision: a denial first, then the least remaining quota. `None` without limits.
    pub fn binding(&self) -> Option<&LimitDecision> {
        self.iter().min_by_key(|limit| (limit.decision.allowed(), limit.decision.remaining()))
    }

    /// Returns the time until a retry of all limits succeeds. `None` when all allow the request, and when one never
    /// can.
    pub fn retry_after(&self) -> Option<Duration> {
        let mut waits = self.violated().map(|limit| limit.decision.retry_after());
        let first = waits.next()??;
        waits.try_fold(first, |longest, wait| Some(longest.max(wait?)))
    }

    /// Returns whether the request can never pass: it costs more than the whole quota of a limit. Without a [retry
    /// time](Self::retry_after), a request may still pass once a store recovers.
    pub fn never_pass(&self) -> bool {
        self.violated().any(|limit| limit.decision.reason() == Some(Reason::CostExceedsCapacity))
    }

    /// Returns the decisions that denied the request.
    pub fn violated(&self) -> impl Iterator<Item = &LimitDecision> {
        self.iter().filter(|limit| !limit.decision.allowed())
    }

    /// Returns the decisions in shadow mode, in which no limit has denied the request.
    pub(super) fn shadowed(mut self) -> Self {
        self.0.iter_mut().for_each(|limit| limit.decision = limit.decision.shadowed());
        self
    }
}

impl Deref for LimitDecisions {
    type Target = [LimitDecision];

    fn deref(&self) -> &[LimitDecision] {
        &self.0
    }
}

/// The kinds of limits, in the order of an [`Admission`](super::Admission).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LimitKind {
    /// A limit on the requests in flight.
    Concurrency,
    /// A limit on the number of requests in a period.
    Rate,
    /// A limit on the cost of requests in a period.
    Cost,
}

impl LimitKind {
    /// Returns the name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            LimitKind::Concurrency => "concurrency",
            LimitKind::Rate => "rate",
            LimitKind::Cost => "cost",
        }
    }
}

/// An [`Outcome`] in words, for error objects of transports without statuses and headers. See [`Outcome::summary`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutcomeSummary {
    /// The name of a gRPC code: `OK` for an admission, otherwise for example `RESOURCE_EXHAUSTED`.
    pub code: &'static str,
    /// One sentence for the client. Empty for an admission.
    pub message: &'static str,
    /// The time until a retry may succeed, in milliseconds, rounded up. `None` if it is unknown or never.
    pub retry_after_ms: Option<u64>,
    /// Whether a retry of the request may be admitted later.
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
