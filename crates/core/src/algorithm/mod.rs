//! The step function of all algorithms: `(quota, state, op, now) -> (state', decision)`.
//!
//! Each algorithm is a [`KeyView`] of one key at one time. The view knows how much is left, how long to wait for more,
//! and how to record and refund units. The meaning of each operation is implemented here, once for all algorithms.
//! Leases are not units and have operations of their own, in `leases.rs`.

mod arithmetic;
mod fixed_window;
mod joint;
mod leases;
mod rebase;
mod sliding_log;
mod sliding_window;
mod token_bucket;

use fixed_window::FixedWindow;
pub use joint::{JointEntry, check_all, step_all};
pub use leases::{InFlightCount, Leases};
pub use sliding_log::RequestLog;
use sliding_log::SlidingLog;
pub use sliding_window::BucketCounts;
use sliding_window::{ManyBuckets, SlidingWindow};
use token_bucket::TokenBucket;

use crate::{Algorithm, Cost, Decision, DecisionParts, Lease, Quota, Reason, Timestamp};

/// An operation on one key under one quota. [`Quota::supports`] returns whether a quota has an operation: `concurrency`
/// has those on leases, the others have those on units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Takes units if the quota admits them.
    Limit(Cost),
    /// Decides as [`Op::Limit`] would, and takes nothing.
    Check(Cost),
    /// Takes units even into debt, up to the quota's `max_debt`.
    Reserve(Cost),
    /// Gives units back, never beyond the capacity.
    Refund(Cost),
    /// Forgets the key.
    Reset,
    /// Takes a place under this lease, if one is free. A lease that has a place is renewed.
    Admit(Lease),
    /// Renews the lease: it expires as if it had been admitted now. Denied when the lease is gone.
    Renew(Lease),
    /// Releases the place. Denied when the lease is gone, because another lease may have the place by now.
    Release(Lease),
}

/// The stored use of a key. [`State::New`] is equivalent to no stored state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum State {
    /// Unused: the whole capacity is left.
    #[default]
    New,
    /// The state of a `token_bucket`.
    TokenBucket {
        /// The missing part of the capacity, in sub-units of the quota that wrote the state.
        deficit: u128,
        /// The time of the write.
        last: Timestamp,
    },
    /// The state of a `fixed_window`.
    FixedWindow {
        /// The missing part of the capacity, in units.
        deficit: u64,
        /// The time of the write.
        last: Timestamp,
    },
    /// The state of a `sliding_window`.
    SlidingWindow {
        /// The units counted in each bucket.
        counts: BucketCounts,
        /// The time of the write.
        last: Timestamp,
    },
    /// The state of a `sliding_log`.
    SlidingLog(RequestLog),
    /// The state of a `concurrency` limit.
    Leases(Leases),
}

/// The result of a [`step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepResult {
    /// The decision.
    pub decision: Decision,
    /// Whether the state has changed and must be written back.
    pub changed: bool,
}

/// Applies `op` at the time `now` to a key with this `state`, which `quota` wrote. [`State::rebase`] converts the state
/// of another quota first.
///
/// Time never goes backwards for a key. When `now` is earlier than the state, the decision is made at the time of the
/// state. The spans in the decision still count from `now`.
///
/// An operation that the quota does not [support](Quota::supports) is denied without a retry time, and changes nothing.
pub fn step(quota: &Quota, state: &mut State, op: Op, now: Timestamp) -> StepResult {
    let last = state.last().unwrap_or(now);
    let time = StepTime::new(last, now);
    let was_new = matches!(state, State::New);
    let mut outcome = match quota.algorithm() {
        Algorithm::TokenBucket => {
            let deficit = match *state {
                State::TokenBucket { deficit, .. } => deficit,
                _ => 0,
            };
            match u64::try_from(deficit).ok().and_then(|deficit| NarrowBucket { deficit, last }.step(quota, op, now)) {
                Some(step) => {
                    if let Some(NarrowBucket { deficit, last }) = step.changed() {
                        *state = token_bucket::bucket_state(deficit.into(), last);
                    }
                    StepResult { decision: step.decision(), changed: step.verdict.changed }
                }
                None => apply(quota, TokenBucket::<u128>::new(quota, deficit, time), state, op),
            }
        }
        Algorithm::Concurrency => leases::step(quota, state, op, time),
        _ => step_windows(quota, state, op, time),
    };
    // Refunding or resetting a new key needs no write.
    outcome.changed &= !(was_new && matches!(state, State::New));
    outcome
}

/// The state of a token bucket whose numbers fit in 64 bits, as nearly all do. It equals [`State::TokenBucket`], for
/// stores that keep it in two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NarrowBucket {
    /// The missing part of the capacity, in sub-units of the quota that wrote the state.
    pub deficit: u64,
    /// The time of the write.
    pub last: Timestamp,
}

impl NarrowBucket {
    /// Begins a [`step`] on this state. Returns `None` when the numbers do not fit in 64 bits, when the quota is not a
    /// token bucket, or when time went backwards.
    #[inline(always)] // record 0032 has the measurement
    pub fn step(self, quota: &Quota, op: Op, now: Timestamp) -> Option<NarrowStep<'_>> {
        if !TokenBucket::is_narrow(quota, self.deficit, op) || now < self.last {
            return None;
        }
        let mut view = TokenBucket::<u64>::new(quota, self.deficit, StepTime::new(self.last, now));
        let verdict = act(quota, &mut view, op);
        Some(NarrowStep { quota, view, verdict })
    }
}

/// A [`step`] of a [`NarrowBucket`]. The new state is known before the decision, so a store can write it without
/// waiting for the decision's numbers.
pub struct NarrowStep<'a> {
    quota: &'a Quota,
    view: TokenBucket<u64>,
    verdict: Verdict,
}

impl NarrowStep<'_> {
    /// Returns the state to write, or `None` when it has not changed.
    #[inline]
    pub fn changed(&self) -> Option<NarrowBucket> {
        self.verdict.changed.then(|| self.view.narrow())
    }

    /// Returns the decision.
    #[inline(always)] // record 0032 has the measurement
    pub fn decision(&self) -> Decision {
        decide(self.quota, &self.view, self.verdict)
    }
}

/// The time of a step.
#[derive(Clone, Copy)]
struct StepTime {
    /// The time at which the state was written.
    last: Timestamp,
    /// The time of the decision: the caller's, but not before `last`.
    at: Timestamp,
    /// The distance from the caller's time to `at`. Spans count from the caller's time.
    lag: u64,
}

impl StepTime {
    #[inline]
    fn new(last: Timestamp, now: Timestamp) -> Self {
        StepTime { last, at: now.max(last), lag: last.as_micros().saturating_sub(now.as_micros()) }
    }
}

fn step_windows(quota: &Quota, state: &mut State, op: Op, time: StepTime) -> StepResult {
    match (quota.algorithm(), &*state) {
        (Algorithm::FixedWindow, State::FixedWindow { deficit, .. }) => {
            apply(quota, FixedWindow::new(quota, *deficit, time), state, op)
        }
        (Algorithm::FixedWindow, _) => apply(quota, FixedWindow::new(quota, 0, time), state, op),
        (Algorithm::SlidingWindow, window) => {
            let counts = match window {
                State::SlidingWindow { counts, .. } => Some(counts),
                _ => None,
            };
            if quota.parts().buckets == 1 {
                apply(quota, SlidingWindow::<[u64; 2]>::new(quota, counts, time), state, op)
            } else {
                apply(quota, SlidingWindow::<ManyBuckets>::new(quota, counts, time), state, op)
            }
        }
        (_, _) => {
            let log = match std::mem::take(state) {
                State::SlidingLog(log) => log,
                _ => RequestLog::default(),
            };
            apply(quota, SlidingLog::new(quota, log, time), state, op)
        }
    }
}

impl State {
    /// Returns the time of the write, or `None` for a new key.
    #[inline]
    pub fn last(&self) -> Option<Timestamp> {
        match self {
            State::New => None,
            State::TokenBucket { last, .. } | State::FixedWindow { last, .. } | State::SlidingWindow { last, .. } => {
                Some(*last)
            }
            State::SlidingLog(log) => Some(log.last()),
            State::Leases(leases) => Some(leases.last()),
        }
    }

    /// Returns whether the key is as good as new at `now`. A store may then forget the state.
    pub fn is_new(&self, quota: &Quota, now: Timestamp) -> bool {
        self.new_at(quota) <= now
    }

    /// Returns the time at which the key is as good as new if no further operation changes it. Later times are reported
    /// as the largest timestamp.
    pub fn new_at(&self, quota: &Quota) -> Timestamp {
        let Some(last) = self.last() else { return Timestamp::EPOCH };
        let time = StepTime::new(last, last);
        let capacity = u64::from(quota.capacity_u32());
        let wait = match self {
            State::New => 0,
            State::TokenBucket { deficit, .. } => TokenBucket::<u128>::new(quota, *deficit, time).wait(capacity, 0),
            State::FixedWindow { deficit, .. } => FixedWindow::new(quota, *deficit, time).wait(capacity, 0),
            State::SlidingWindow { counts, .. } => {
                SlidingWindow::<ManyBuckets>::new(quota, Some(counts), time).wait(capacity, 0)
            }
            State::SlidingLog(log) => log.until_new(quota),
            State::Leases(leases) => leases.until_new(),
        };
        Timestamp::from_micros(last.as_micros().saturating_add(wait))
    }

    /// The highest eviction rank, which only an exhausted key has.
    pub const EXHAUSTED_RANK: u16 = 1_023;

    /// Returns how much is lost when the state is forgotten at `now`, from 0 to [`State::EXHAUSTED_RANK`]. A full store
    /// evicts the lowest rank.
    ///
    /// The rank is the used share of the capacity. Leases in flight count as at least half of it, because their work
    /// goes on and would no longer be counted.
    pub fn eviction_rank(&self, quota: &Quota, now: Timestamp) -> u16 {
        let Some(last) = self.last() else { return 0 };
        let time = StepTime::new(last, now);
        let remaining = match self {
            State::New => return 0,
            State::TokenBucket { deficit, .. } => TokenBucket::<u128>::new(quota, *deficit, time).remaining(),
            State::FixedWindow { deficit, .. } => FixedWindow::new(quota, *deficit, time).remaining(),
            State::SlidingWindow { counts, .. } => {
                SlidingWindow::<ManyBuckets>::new(quota, Some(counts), time).remaining()
            }
            State::SlidingLog(log) => log.remaining(quota, time),
            State::Leases(leases) => leases.remaining(quota, time),
        };
        if remaining == 0 {
            return Self::EXHAUSTED_RANK;
        }
        let capacity = u64::from(quota.capacity_u32());
        let highest = u64::from(Self::EXHAUSTED_RANK) - 1;
        // Rounded up, so that only an unused key is at 0.
        let used = ((capacity - u64::from(remaining)) * highest).div_ceil(capacity);
        let rank = match self {
            State::Leases(_) if used > 0 => highest - (highest - used) / 2,
            _ => used,
        };
        rank as u16
    }

    /// Returns whether the state has more used units than the quota admits. Debt causes that, and so does a quota that
    /// became smaller.
    pub fn exceeds_quota(&self, quota: &Quota) -> bool {
        matches!(self, State::SlidingLog(log) if log.units() > quota.rate_u64())
    }

    /// Returns the size of this state on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            State::SlidingWindow { counts, .. } => counts.heap_bytes(),
            State::SlidingLog(log) => log.heap_bytes(),
            State::Leases(leases) => leases.heap_bytes(),
            _ => 0,
        }
    }
}

/// The state of one key at one time, under one quota.
///
/// Two numbers describe every question: `need`, the units to take, and `slack`, the permitted debt. The one rule is
/// `used + need <= capacity + slack`.
trait KeyView: Sized {
    /// Returns the time of the view.
    fn time(&self) -> StepTime;

    /// Returns the whole units left, never negative.
    fn remaining(&self) -> u32;

    /// Returns the time until `used + need <= capacity + slack` if nothing else is taken. It is in microseconds from
    /// the view's own time, or [`u64::MAX`] when it is longer. `need` is at most capacity + slack.
    fn wait(&self, need: u64, slack: u64) -> u64;

    /// Returns whether `used + need <= capacity + slack` now.
    fn admits(&self, need: u64, slack: u64) -> bool;

    /// Takes `cost`.
    fn record(&mut self, cost: u64);

    /// Refunds `cost`, the latest units first, and never more than was taken.
    fn refund(&mut self, cost: u64);

    /// Writes the view as the new state.
    fn write(self, state: &mut State);

    /// Restores the state that was moved into the view, when nothing was recorded or refunded.
    fn restore(self, _state: &mut State) {}
}

/// Applies `op` to a view, and writes the view back if that changed it.
fn apply(quota: &Quota, mut view: impl KeyView, state: &mut State, op: Op) -> StepResult {
    let verdict = act(quota, &mut view, op);
    let decision = decide(quota, &view, verdict);
    if verdict.changed {
        view.write(state);
    } else {
        view.restore(state);
    }
    StepResult { decision, changed: verdict.changed }
}

/// The outcome of an operation, before the numbers of its decision are computed.
#[derive(Clone, Copy)]
struct Verdict {
    /// The reason of a denial.
    reason: Option<Reason>,
    /// The time until a retry succeeds, or until a reservation's debt has cleared.
    retry: Option<u64>,
    /// Whether the view has changed.
    changed: bool,
}

impl Verdict {
    const CHANGED: Verdict = Verdict { reason: None, retry: None, changed: true };

    fn denied(reason: Reason, retry: Option<u64>) -> Self {
        Verdict { reason: Some(reason), retry, changed: false }
    }
}

/// Applies an operation to a view: the meaning of each operation, for every algorithm.
#[inline(always)] // record 0032 has the measurement
fn act(quota: &Quota, view: &mut impl KeyView, op: Op) -> Verdict {
    match op {
        Op::Limit(cost) => take(quota, view, cost.get(), 0, true),
        Op::Check(cost) => take(quota, view, cost.get(), 0, false),
        Op::Reserve(cost) => take(quota, view, cost.get(), quota.slack(), true),
        Op::Refund(cost) => {
            view.refund(cost.get());
            Verdict::CHANGED
        }
        Op::Reset => {
            view.refund(u64::MAX);
            Verdict::CHANGED
        }
        Op::Admit(_) | Op::Renew(_) | Op::Release(_) => Verdict::denied(Reason::CostExceedsCapacity, None),
    }
}

/// Takes `cost`, or only checks it, if `used + cost` is at most the capacity plus `slack`.
#[inline(always)] // record 0032 has the measurement
fn take(quota: &Quota, view: &mut impl KeyView, cost: u64, slack: u64, take: bool) -> Verdict {
    if cost > u64::from(quota.capacity_u32()) {
        return Verdict::denied(Reason::CostExceedsCapacity, None);
    }
    if !view.admits(cost, slack) {
        return Verdict::denied(Reason::Rate, Some(view.wait(cost, slack)));
    }
    if take {
        view.record(cost);
    }
    // A reservation may have gone into debt. The work may start when the debt has cleared.
    let cleared = (slack > 0 && !view.admits(0, 0)).then(|| view.wait(0, 0));
    Verdict { reason: None, retry: cleared, changed: take }
}

/// Returns the decision with the view's current numbers.
#[inline(always)] // record 0032 has the measurement
fn decide(quota: &Quota, view: &impl KeyView, verdict: Verdict) -> Decision {
    let (capacity, remaining, lag) = (quota.capacity_u32(), view.remaining(), view.time().lag);
    let next_after = (remaining < capacity).then(|| span_from_caller(view.wait(u64::from(remaining) + 1, 0), lag));
    Decision::from(DecisionParts {
        allowed: verdict.reason.is_none(),
        limit: capacity,
        remaining,
        retry_after: verdict.retry.map(|wait| span_from_caller(wait, lag)),
        next_after,
        reset_after: span_from_caller(view.wait(capacity.into(), 0), lag),
        reason: verdict.reason,
    })
}

/// Returns a span counted from the caller's time, which may be earlier than the view's.
#[inline]
fn span_from_caller(wait: u64, lag: u64) -> u64 {
    if wait == 0 { 0 } else { wait.saturating_add(lag) }
}

#[cfg(test)]
mod tests;
