//! What a limit answers.

use std::fmt;
use std::time::Duration;

use crate::algorithm::bucket_details;
use crate::few::Few;

/// Why a request was denied, or why an allowed one is not an ordinary yes.
///
/// An allowed decision has a reason in two cases: a limit in shadow mode would have denied it, or the store was
/// broken and the limit's failure policy admitted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The quota does not admit it now.
    Rate,
    /// The key is on a deny list.
    Deny,
    /// The cost is more than the capacity: it can never succeed.
    CostExceedsCapacity,
    /// Too many at once.
    Concurrency,
    /// The store was broken.
    Store,
}

impl Reason {
    /// Every reason, in the order of their definition.
    const ALL: [Reason; 5] =
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

/// The answer of one limit to one operation. A denial is an answer too, not an error.
#[derive(Clone, Copy)]
#[must_use = "a denial is an answer, not an error: nothing is limited unless somebody looks at it"]
pub struct Decision {
    // Whole words, because a decision is copied more often than it is read, and a processor that has to put a word
    // together from smaller writes stops for it. Spans are in microseconds; NEVER stands for none.
    retry_after: u64,
    /// The lowest bit: allowed. The next: whether the details are worked out. Above, in the low half: the reason,
    /// counted from 1. The high half: the limit.
    verdict: u64,
    details: Details,
}

/// What most callers of [`Decision::allowed`] never ask for, and what takes longest to work out: how much is left, when
/// there is more, and when all of it is there; or, as long as nobody has asked, the bucket that tells.
pub(crate) type Details = [u64; 3];

pub(crate) const NEVER: u64 = u64::MAX;

const ALLOWED: u64 = 1;
const WORKED_OUT: u64 = 2;
const REASON: u32 = 2;

/// The fields of a [`Decision`], for stores that get them from elsewhere. Spans are in microseconds; one
/// longer than [`DecisionParts::LONGEST`] is reported as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionParts {
    /// Whether the request may go on.
    pub allowed: bool,
    /// The capacity.
    pub limit: u32,
    /// Whole units left.
    pub remaining: u32,
    /// Until a retry succeeds, or until a reservation's debt has cleared.
    pub retry_after: Option<u64>,
    /// Until `remaining` grows; none when it is the whole capacity.
    pub next_after: Option<u64>,
    /// Until the key is as good as new.
    pub reset_after: u64,
    /// Why it was denied.
    pub reason: Option<Reason>,
}

impl DecisionParts {
    /// The longest span: longer than any [`Timestamp`](crate::Timestamp) can express, 584,000 years.
    pub const LONGEST: u64 = NEVER - 1;
}

impl From<DecisionParts> for Decision {
    #[inline]
    fn from(parts: DecisionParts) -> Self {
        let within = |span: u64| span.min(DecisionParts::LONGEST);
        let next_after = parts.next_after.map_or(NEVER, within);
        let details = [parts.remaining.into(), next_after, within(parts.reset_after)];
        let decision = Decision::new(parts.limit, parts.retry_after.map(within), parts.reason, true, details);
        Decision { verdict: decision.verdict & !ALLOWED | u64::from(parts.allowed), ..decision }
    }
}

fn optional(micros: u64) -> Option<Duration> {
    (micros != NEVER).then(|| Duration::from_micros(micros))
}

impl Decision {
    /// A decision that is a denial when there is a reason, with its details worked out or as a bucket.
    #[inline(always)]
    pub(crate) fn new(
        limit: u32,
        retry_after: Option<u64>,
        reason: Option<Reason>,
        worked_out: bool,
        details: Details,
    ) -> Self {
        let verdict = match reason {
            None => ALLOWED,
            Some(reason) => (reason as u64 + 1) << REASON,
        };
        let verdict = verdict | u64::from(limit) << 32 | if worked_out { WORKED_OUT } else { 0 };
        Decision { retry_after: retry_after.unwrap_or(NEVER), verdict, details }
    }

    /// A denial by a deny list: nothing was asked of the store, and waiting does not help.
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

    /// A yes that no store gave: it was broken, and the limit is to admit then. Nobody knows what is left, so nothing
    /// is promised: `remaining` is 0 and there is no time to wait for.
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

    /// Whether the request may go on.
    pub const fn allowed(&self) -> bool {
        self.verdict & ALLOWED != 0
    }

    /// The capacity: the most that can be had at once.
    pub const fn limit(&self) -> u64 {
        self.verdict >> 32
    }

    /// Whole units left after this operation.
    pub fn remaining(&self) -> u64 {
        self.worked_out()[0]
    }

    /// How long to wait before a retry, honestly: if nobody else takes anything, a retry that late is allowed and
    /// one a microsecond earlier is not. After a reservation: when its debt has cleared and the work may start.
    ///
    /// For leases it is a hint: it is when so many will have expired that a place is free, if nobody releases or renews.
    ///
    /// None when the request was allowed without debt, and when waiting cannot help (see [`Decision::reason`]).
    pub fn retry_after(&self) -> Option<Duration> {
        optional(self.retry_after)
    }

    /// How long until [`Decision::remaining`] grows; none when it is the whole capacity.
    pub fn next_after(&self) -> Option<Duration> {
        optional(self.worked_out()[1])
    }

    /// How long until the key is as good as new.
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.worked_out()[2])
    }

    /// Why it was denied; for an allowed decision, why it is not an ordinary yes.
    pub const fn reason(&self) -> Option<Reason> {
        match (self.verdict & 0xffff_ffff) >> REASON {
            0 => None,
            code => Some(Reason::ALL[code as usize - 1]),
        }
    }

    /// Whether it is a yes without a [reason](Self::reason): neither shadow mode nor a broken store has made it one.
    #[inline]
    pub const fn is_ordinary(&self) -> bool {
        self.verdict as u32 & !(WORKED_OUT as u32) == ALLOWED as u32
    }

    /// This decision as an error when it is a denial, for those who like `?`.
    pub fn into_result(self) -> Result<Decision, Denied> {
        if self.allowed() { Ok(self) } else { Err(Denied(self)) }
    }

    /// The fields, for writing the decision down.
    pub fn into_parts(self) -> DecisionParts {
        let optional = |micros: u64| (micros != NEVER).then_some(micros);
        let [remaining, next_after, reset_after] = self.worked_out();
        DecisionParts {
            allowed: self.allowed(),
            limit: self.limit() as u32,
            remaining: remaining as u32,
            retry_after: optional(self.retry_after),
            next_after: optional(next_after),
            reset_after,
            reason: self.reason(),
        }
    }

    /// What is left and when there is more: each of these has to be worked out, and together they take no longer than one
    /// of them.
    pub fn outlook(&self) -> Outlook {
        let [remaining, next_after, reset_after] = self.worked_out();
        Outlook { remaining, next_after: optional(next_after), reset_after: Duration::from_micros(reset_after) }
    }

    /// What is left, when there is more, and when all of it is there.
    fn worked_out(&self) -> Details {
        if self.verdict & WORKED_OUT != 0 { self.details } else { bucket_details(self.limit(), self.details) }
    }

    /// The decision of a limit in shadow mode: a denial becomes a yes that keeps its reason.
    pub fn shadowed(mut self) -> Self {
        if !self.allowed() {
            self.verdict |= ALLOWED;
            self.retry_after = NEVER;
        }
        self
    }
}

/// What is left, and when there is more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlook {
    /// [`Decision::remaining`].
    pub remaining: u64,
    /// [`Decision::next_after`].
    pub next_after: Option<Duration>,
    /// [`Decision::reset_after`].
    pub reset_after: Duration,
}

impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        // What they say, not how they came to know it.
        self.into_parts() == other.into_parts()
    }
}

impl Eq for Decision {}

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
    /// The decision that denied.
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
            // Nobody knows when that is, but then it may pass.
            None if self.0.reason() == Some(Reason::Store) => f.write_str(", retry when the store is back"),
            None => f.write_str(", a retry cannot succeed"),
        }
    }
}

impl std::error::Error for Denied {}

/// The answer to several limits asked at once, all or nothing: one decision for each request, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a denial is an answer, not an error: nothing is limited unless somebody looks at it"]
pub struct All {
    decisions: Few<Decision>,
}

impl All {
    /// The answer made of these decisions.
    pub fn new(decisions: Vec<Decision>) -> Self {
        All { decisions: decisions.into() }
    }

    /// Whether every limit allowed it, and so whether anything was taken.
    pub fn allowed(&self) -> bool {
        self.decisions.iter().all(Decision::allowed)
    }

    /// One decision for each request, in order. When the whole was denied, a limit that would have allowed it
    /// reports what it has.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// When all of them would pass; none when they all did, and when one of them never can.
    pub fn retry_after(&self) -> Option<Duration> {
        let denied = self.decisions.iter().filter(|decision| !decision.allowed());
        denied.map(|decision| decision.retry_after).max().and_then(optional)
    }

    /// The decisions themselves.
    pub fn into_decisions(self) -> Vec<Decision> {
        self.decisions.into_vec()
    }
}

impl FromIterator<Decision> for All {
    fn from_iter<I: IntoIterator<Item = Decision>>(decisions: I) -> Self {
        All { decisions: decisions.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_being_packed() {
        let reasons = Reason::ALL.map(Some);
        for reason in reasons.into_iter().chain([None]) {
            for (allowed, limit, remaining) in [(true, u32::MAX, 0), (false, 1, u32::MAX), (true, 5, 4)] {
                let parts = DecisionParts {
                    allowed,
                    limit,
                    remaining,
                    retry_after: (!allowed).then_some(7),
                    next_after: Some(DecisionParts::LONGEST),
                    reset_after: 9,
                    reason,
                };
                let decision = Decision::from(parts);
                assert_eq!(decision.into_parts(), parts);
                assert_eq!(decision.is_ordinary(), allowed && reason.is_none());
            }
        }
    }

    #[test]
    fn a_denial_as_an_error_says_whether_a_retry_can_succeed() {
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
