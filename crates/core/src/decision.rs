//! Decisions: the answer of a limit to a request.

use std::fmt;
use std::time::Duration;

use smallvec::SmallVec;

/// A list that holds four elements before it allocates. A request seldom has more limits.
pub type InlineVec<T> = SmallVec<[T; 4]>;

/// The reason why a request was denied, or why it was allowed against the quota.
///
/// An allowed decision has a reason in two cases. A limit in shadow mode would have denied it, or the store was broken
/// and the limit's failure policy admitted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The quota does not admit the request now.
    Rate,
    /// The key is on a deny list.
    Deny,
    /// The cost exceeds the capacity, so the request can never succeed.
    CostExceedsCapacity,
    /// Too many leases are in flight.
    Concurrency,
    /// The store was broken.
    Store,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 5] =
        [Reason::Rate, Reason::Deny, Reason::CostExceedsCapacity, Reason::Concurrency, Reason::Store];

    /// The name used in JSON, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Rate => "rate",
            Reason::Deny => "deny",
            Reason::CostExceedsCapacity => "cost_exceeds_capacity",
            Reason::Concurrency => "concurrency",
            Reason::Store => "store",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer of one limit to one operation. A denial is an answer, not an error.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "a denial is an answer, not an error: nothing is limited until the decision is read"]
pub struct Decision {
    // `NO_SPAN` stands for `None`. A decision is copied through every layer, and an `Option` doubles the size of a
    // span.
    retry_after: u64,
    next_after: u64,
    reset_after: u64,
    limit: u32,
    remaining: u32,
    allowed: bool,
    reason: Option<Reason>,
}

/// One more than the longest span.
const NO_SPAN: u64 = u64::MAX;

/// The fields of a [`Decision`], for stores that receive decisions from a server. Spans are in microseconds. A longer
/// span than [`DecisionParts::MAX_SPAN`] is reported as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionParts {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The capacity.
    pub limit: u32,
    /// The whole units left.
    pub remaining: u32,
    /// The time until a retry succeeds, or until a reservation's debt has cleared.
    pub retry_after: Option<u64>,
    /// The time until `remaining` grows. `None` when it is the whole capacity.
    pub next_after: Option<u64>,
    /// The time until the key is as good as new.
    pub reset_after: u64,
    /// The reason of a denial, or of a permission that is not unconditional.
    pub reason: Option<Reason>,
}

impl DecisionParts {
    /// The longest span: 584,000 years, the range of a [`Timestamp`](crate::Timestamp).
    pub const MAX_SPAN: u64 = NO_SPAN - 1;
}

impl From<DecisionParts> for Decision {
    #[inline]
    fn from(parts: DecisionParts) -> Self {
        let bounded = |span: u64| span.min(DecisionParts::MAX_SPAN);
        Decision {
            retry_after: parts.retry_after.map_or(NO_SPAN, bounded),
            next_after: parts.next_after.map_or(NO_SPAN, bounded),
            reset_after: bounded(parts.reset_after),
            limit: parts.limit,
            remaining: parts.remaining,
            allowed: parts.allowed,
            reason: parts.reason,
        }
    }
}

/// Returns the span, or `None` for [`NO_SPAN`].
#[inline]
const fn optional_span(micros: u64) -> Option<u64> {
    if micros == NO_SPAN { None } else { Some(micros) }
}

impl Decision {
    /// Creates a denial by a deny list. The store was not called, and waiting does not help.
    pub fn denied_by_list(limit: u32) -> Self {
        DecisionParts {
            allowed: false,
            limit,
            remaining: 0,
            retry_after: None,
            next_after: None,
            reset_after: 0,
            reason: Some(Reason::Deny),
        }
        .into()
    }

    /// Creates the permission of a limit whose store is broken and whose policy is to admit. The quota is unknown, so
    /// the decision promises nothing: `remaining` is 0 and there is no time to wait for.
    pub fn admitted_without_store(limit: u32) -> Self {
        DecisionParts {
            allowed: true,
            limit,
            remaining: 0,
            retry_after: None,
            next_after: None,
            reset_after: 0,
            reason: Some(Reason::Store),
        }
        .into()
    }

    /// Returns whether the request is allowed.
    #[inline]
    pub const fn allowed(&self) -> bool {
        self.allowed
    }

    /// Returns the capacity: the most that can be taken at once.
    pub const fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// Returns the whole units left after this operation.
    pub const fn remaining(&self) -> u64 {
        self.remaining as u64
    }

    /// Returns the exact time to wait before a retry. If no other request takes anything, a retry after that time is
    /// allowed, and one a microsecond earlier is not. After a reservation, it is the time until the debt has cleared
    /// and the work may start.
    ///
    /// For leases it is a hint: the time until enough leases have expired to free a place, if none is released or
    /// renewed.
    ///
    /// `None` when the request was allowed without debt, and when waiting cannot help (see [`Decision::reason`]).
    pub fn retry_after(&self) -> Option<Duration> {
        optional_span(self.retry_after).map(Duration::from_micros)
    }

    /// Returns the time until [`Decision::remaining`] grows. `None` when it is the whole capacity.
    pub fn next_after(&self) -> Option<Duration> {
        optional_span(self.next_after).map(Duration::from_micros)
    }

    /// Returns the time until the key is as good as new.
    pub const fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after)
    }

    /// Returns the reason of a denial; for an allowed decision, the reason why the permission is not unconditional.
    pub const fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns whether the request is allowed without a [reason](Self::reason): neither shadow mode nor a broken store
    /// is the cause.
    #[inline]
    pub const fn is_unconditional(&self) -> bool {
        self.allowed && self.reason.is_none()
    }

    /// Converts a denial into an error, for use with `?`.
    pub fn into_result(self) -> Result<Decision, Denied> {
        if self.allowed() { Ok(self) } else { Err(Denied(self)) }
    }

    /// Returns the fields, for writing the decision down.
    pub const fn into_parts(self) -> DecisionParts {
        DecisionParts {
            allowed: self.allowed,
            limit: self.limit,
            remaining: self.remaining,
            retry_after: optional_span(self.retry_after),
            next_after: optional_span(self.next_after),
            reset_after: self.reset_after,
            reason: self.reason,
        }
    }

    /// Returns the decision of a limit in shadow mode: a denial becomes a permission that keeps its reason.
    pub const fn shadowed(mut self) -> Self {
        if !self.allowed {
            self.allowed = true;
            self.retry_after = NO_SPAN;
        }
        self
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.allowed())
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("next_after", &self.next_after())
            .field("reset_after", &self.reset_after())
            .field("reason", &self.reason())
            .finish()
    }
}

/// A denial as an error, from [`Decision::into_result`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denied(Decision);

impl Denied {
    /// Returns the denial.
    pub const fn decision(&self) -> &Decision {
        &self.0
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.reason() {
            Some(reason) => write!(f, "denied ({reason})")?,
            None => f.write_str("denied")?,
        }
        match self.0.retry_after() {
            Some(wait) => write!(f, ", retry after {wait:?}"),
            // The time of recovery is unknown, but a retry can succeed then.
            None if self.0.reason() == Some(Reason::Store) => f.write_str(", retry when the store is back"),
            None => f.write_str(", a retry cannot succeed"),
        }
    }
}

impl std::error::Error for Denied {}

/// The joint answer to several requests, all or nothing: one decision for each request, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a denial is an answer, not an error: nothing is limited until the decision is read"]
pub struct JointDecision {
    decisions: InlineVec<Decision>,
}

impl JointDecision {
    /// Creates the answer from its decisions.
    pub fn new(decisions: Vec<Decision>) -> Self {
        JointDecision { decisions: decisions.into() }
    }

    /// Returns whether every request is allowed. Units were taken only then.
    pub fn allowed(&self) -> bool {
        self.decisions.iter().all(Decision::allowed)
    }

    /// Returns one decision for each request, in order. When one request is denied, those that would have been allowed
    /// report their current quota.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the time until a retry of all requests succeeds. `None` when all are allowed, and when one of them never
    /// can be.
    pub fn retry_after(&self) -> Option<Duration> {
        let denied = self.decisions.iter().filter(|decision| !decision.allowed());
        let waits: Option<Vec<Duration>> = denied.map(Decision::retry_after).collect();
        waits?.into_iter().max()
    }

    /// Converts the answer into its decisions.
    pub fn into_decisions(self) -> Vec<Decision> {
        self.decisions.into_vec()
    }
}

impl FromIterator<Decision> for JointDecision {
    fn from_iter<I: IntoIterator<Item = Decision>>(decisions: I) -> Self {
        JointDecision { decisions: decisions.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_keeps_its_parts() {
        let reasons = [Reason::Rate, Reason::Deny, Reason::CostExceedsCapacity, Reason::Concurrency, Reason::Store];
        for reason in reasons.map(Some).into_iter().chain([None]) {
            for (allowed, limit, remaining) in [(true, u32::MAX, 0), (false, 1, u32::MAX), (true, 5, 4)] {
                let parts = DecisionParts {
                    allowed,
                    limit,
                    remaining,
                    retry_after: (!allowed).then_some(7),
                    next_after: Some(DecisionParts::MAX_SPAN),
                    reset_after: 9,
                    reason,
                };
                let decision = Decision::from(parts);
                assert_eq!(decision.into_parts(), parts);
                assert_eq!(decision.is_unconditional(), allowed && reason.is_none());
            }
        }
    }

    #[test]
    fn denial_error_tells_whether_a_retry_can_succeed() {
        let denied = |reason, retry_after| {
            let parts = DecisionParts {
                allowed: false,
                limit: 5,
                remaining: 0,
                retry_after,
                next_after: None,
                reset_after: 0,
                reason: Some(reason),
            };
            Decision::from(parts).into_result().unwrap_err().to_string()
        };
        assert_eq!(denied(Reason::Rate, Some(1_500_000)), "denied (rate), retry after 1.5s");
        assert_eq!(denied(Reason::Deny, None), "denied (deny), a retry cannot succeed");
        assert_eq!(denied(Reason::Store, None), "denied (store), retry when the store is back");
    }
}
