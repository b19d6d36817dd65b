//! What became of a request.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Decision, Reason};

use crate::Error;
#[cfg(feature = "tokio")]
use crate::concurrency::AcquireError;
use crate::concurrency::Rejected;

/// What became of a request, with everything a transport needs to answer it.
#[derive(Debug, Clone)]
#[must_use = "a denial is an answer, not an error: nothing is limited unless somebody looks at it"]
pub enum Outcome {
    /// It may go on.
    Allowed(LimitDecisions),
    /// A limit has not enough left, or too much of the caller's own is in flight.
    Limited(LimitDecisions),
    /// Too much is in flight, of everybody together: it is nothing that the caller has done.
    Overloaded(Rejected),
    /// It is on a deny list, and waiting does not help.
    Denied(LimitDecisions),
    /// The store could not decide, and the limit refuses then.
    Unavailable(Error),
    /// A mistake in the program, or a cost that is none: see [`Error::is_misuse`].
    Invalid(Error),
}

impl Outcome {
    pub(super) fn of(limit_decisions: LimitDecisions) -> Self {
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

    /// Whether the request may go on.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Outcome::Allowed(_))
    }

    /// What each limit said; nothing when none could be asked.
    pub fn limit_decisions(&self) -> &[LimitDecision] {
        match self {
            Outcome::Allowed(limit_decisions)
            | Outcome::Limited(limit_decisions)
            | Outcome::Denied(limit_decisions) => limit_decisions,
            Outcome::Overloaded(_) | Outcome::Unavailable(_) | Outcome::Invalid(_) => &[],
        }
    }

    /// The outcome of a request that got no permit.
    pub(crate) fn refused(refused: Rejected) -> Self {
        if refused.is_shared() {
            return Outcome::Overloaded(refused);
        }
        Outcome::Limited(LimitDecisions::from(LimitDecision::of_concurrency(refused.decision())))
    }

    /// Makes an outcome of a mistake in the program, and logs the error with the feature `tracing`: clients do not see it.
    pub fn invalid(error: Error) -> Self {
        #[cfg(feature = "tracing")]
        tracing::error!(%error, "a limit could not be applied");
        Outcome::Invalid(error)
    }

    /// The outcome of a request that got no lease.
    #[cfg(feature = "tokio")]
    pub(crate) fn without_permit(why: AcquireError) -> Self {
        match why {
            AcquireError::Rejected(refused) => Outcome::refused(refused),
            AcquireError::Denied(decision) => {
                Outcome::Denied(LimitDecisions::from(LimitDecision::of_concurrency(decision)))
            }
            AcquireError::Failed(error) if error.is_misuse() => Outcome::invalid(error),
            AcquireError::Failed(error) => Outcome::Unavailable(error),
        }
    }

    /// What there was too much of, when that is why the request may not go on.
    pub fn kind(&self) -> Option<LimitKind> {
        match self {
            Outcome::Limited(limit_decisions) => limit_decisions.violated().map(|limit| limit.kind).min(),
            Outcome::Overloaded(_) => Some(LimitKind::Concurrency),
            _ => None,
        }
    }

    /// When a request that may not go on may be worth another try; none when nobody knows, and when it never is.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Outcome::Limited(limit_decisions) => limit_decisions.retry_after(),
            Outcome::Overloaded(refused) => Some(refused.retry_after()),
            _ => None,
        }
    }

    /// What went wrong, if something did.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Outcome::Unavailable(error) | Outcome::Invalid(error) => Some(error),
            _ => None,
        }
    }

    /// Whether every limit has simply said yes: none was in shadow mode and would have denied it, and no store was broken.
    /// Only then it is sure that everything was taken.
    pub fn is_unconditional(&self) -> bool {
        self.is_allowed() && self.limit_decisions().iter().all(|limit| limit.decision.is_unconditional())
    }

    /// Whether it was admitted only because a limit is in shadow mode.
    pub fn is_shadowed(&self) -> bool {
        let shadowed = |limit: &LimitDecision| !matches!(limit.decision.reason(), None | Some(Reason::Store));
        self.is_allowed() && self.limit_decisions().iter().any(shadowed)
    }

    /// Whether the store was broken and the request admitted all the same.
    pub fn is_without_store(&self) -> bool {
        self.is_allowed() && self.limit_decisions().iter().any(|limit| limit.decision.reason() == Some(Reason::Store))
    }
}

/// What one limit said about a request.
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

    /// What a guard said, which has no name of its own.
    fn of_concurrency(decision: Decision) -> Self {
        // Made once: whoever is turned away often should not cost more for it.
        static POLICY: LazyLock<Arc<str>> = LazyLock::new(|| "concurrency".into());
        LimitDecision::new(Arc::clone(&POLICY), None, decision, LimitKind::Concurrency)
    }

    /// The limit's name towards clients.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// In what time the quota it was decided by is full when it is empty. None when that is no whole number of
    /// microseconds.
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// What the limit counts.
    pub fn kind(&self) -> LimitKind {
        self.kind
    }

    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }
}

/// The decisions of an enforcer's limits, in order. The usual single one is kept in place.
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
    /// Those of which that is so.
    #[cfg(feature = "http")]
    pub(crate) fn only(&self, wanted: impl Fn(&LimitDecision) -> bool) -> Self {
        self.iter().filter(|limit| wanted(limit)).cloned().collect()
    }

    /// The one that binds: denied first, then the least remaining. None without any limits.
    pub fn binding(&self) -> Option<&LimitDecision> {
        self.iter().min_by_key(|limit| (limit.decision.allowed(), limit.decision.remaining()))
    }

    /// When all of them would pass; none when they do, and when one of them never can.
    pub fn retry_after(&self) -> Option<Duration> {
        let mut waits = self.violated().map(|limit| limit.decision.retry_after());
        let first = waits.next()??;
        waits.try_fold(first, |longest, wait| Some(longest.max(wait?)))
    }

    /// Whether they never would pass, however long anybody waits: the request costs more than the whole quota of one of them.
    /// Without a time to [wait for](Self::retry_after) it may still be that a store has to come back.
    pub fn never_pass(&self) -> bool {
        self.violated().any(|limit| limit.decision.reason() == Some(Reason::CostExceedsCapacity))
    }

    /// Those that denied it.
    pub fn violated(&self) -> impl Iterator<Item = &LimitDecision> {
        self.iter().filter(|limit| !limit.decision.allowed())
    }

    /// The same, as if no limit had denied it.
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

/// The kinds of limits, in the order in which an [`Admission`](super::Admission) asks them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LimitKind {
    /// How many requests are in flight at once.
    Concurrency,
    /// How many requests there are in a period.
    Rate,
    /// How much requests cost in a period.
    Cost,
}

impl LimitKind {
    /// The name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            LimitKind::Concurrency => "concurrency",
            LimitKind::Rate => "rate",
            LimitKind::Cost => "cost",
        }
    }
}
