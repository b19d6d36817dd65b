//! The step function of all algorithms: `(quota, state, op, now) -> (state', decision)`.
//!
//! Each algorithm is a [`KeyView`] of one key at one time: how much is left, when how much could be had, and how to
//! record or take back. What the operations mean is written once, here, on top of that. Leases are no units, and have
//! operations of their own: these are in `leases.rs`.

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

/// What is done to one key under one quota. Which operations a quota has is said by [`Quota::supports`]: leases are for
/// `concurrency`, and units for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Take, if the quota admits it.
    Limit(Cost),
    /// Answer as [`Op::Limit`] would, and take nothing.
    Check(Cost),
    /// Take even when it means debt, up to the quota's `max_debt`.
    Reserve(Cost),
    /// Give back, never beyond the capacity.
    Refund(Cost),
    /// Forget the key.
    Reset,
    /// Hold a place under this lease, if one is free; a lease that is held already is renewed.
    Admit(Lease),
    /// Hold on to the place: the lease expires as if it had been admitted now. Denied when it is gone.
    Renew(Lease),
    /// Give the place back. Denied when the lease is gone, whose place may be somebody else's by now.
    Release(Lease),
}

/// What a key has used. [`State::New`] is the same as no state at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum State {
    /// As good as new: the whole capacity is there.
    #[default]
    New,
    /// Of a `token_bucket`.
    TokenBucket {
        /// What is missing to the capacity, in sub-units of the quota it was written under.
        deficit: u128,
        /// When it was written.
        last: Timestamp,
    },
    /// Of a `fixed_window`.
    FixedWindow {
        /// What is missing to the capacity, in units.
        deficit: u64,
        /// When it was written.
        last: Timestamp,
    },
    /// Of a `sliding_window`.
    SlidingWindow {
        /// What each bucket has seen.
        counts: BucketCounts,
        /// When it was written.
        last: Timestamp,
    },
    /// Of a `sliding_log`.
    SlidingLog(RequestLog),
    /// Of a `concurrency`.
    Leases(Leases),
}

/// The result of a [`step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepResult {
    /// The answer.
    pub decision: Decision,
    /// Whether the state has changed and must be written back.
    pub changed: bool,
}

/// Applies `op` at the time `now` to a key whose state is `state` and was written under `quota`; see
/// [`State::rebase`] for a state that was written under another one.
///
/// Time never goes backwards for a key: when `now` is earlier than the state, the state is taken as it was
/// written, and the spans in the decision still count from `now`.
///
/// An operation that the quota does not [take](Quota::supports) is denied for good, and changes nothing.
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
    // A key that had nothing to give back still has nothing to be written.
    outcome.changed &= !(was_new && matches!(state, State::New));
    outcome
}

/// The state of a token bucket whose numbers fit in 64 bits, as nearly all do: the same as
/// [`State::TokenBucket`], for a store that keeps it in two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NarrowBucket {
    /// What is missing to the capacity, in sub-units of the quota it was written under.
    pub deficit: u64,
    /// When it was written.
    pub last: Timestamp,
}

impl NarrowBucket {
    /// Begins [`step`] for this state; none when the numbers of this step do not fit, when the quota is not a token
    /// bucket, or when the clock has gone back.
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

/// A [`step`] of a [`NarrowBucket`]. The state after it is there before the decision, so that a store can write the one
/// before the other is worked out.
pub struct NarrowStep<'a> {
    quota: &'a Quota,
    view: TokenBucket<u64>,
    verdict: Verdict,
}

impl NarrowStep<'_> {
    /// Returns the state to write; none when it has not changed.
    #[inline]
    pub fn changed(&self) -> Option<NarrowBucket> {
        self.verdict.changed.then(|| self.view.narrow())
    }

    /// Returns the answer.
    #[inline(always)] // record 0032 has the measurement
    pub fn decision(&self) -> Decision {
        decide(self.quota, &self.view, self.verdict)
    }
}

/// The time of a step.
#[derive(Clone, Copy)]
struct StepTime {
    /// When the state was written.
    last: Timestamp,
    /// The time that counts: that of the caller, but not before `last`.
    at: Timestamp,
    /// How far the caller's time, from which spans count, is before `at`.
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
    /// When the state was written; none when it is as good as new.
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

    /// Whether the key is as good as new at `now`, so that forgetting the state changes nothing.
    pub fn is_new(&self, quota: &Quota, now: Timestamp) -> bool {
        self.new_at(quota) <= now
    }

    /// When the key will be as good as new, if nothing more happens to it; the end of time when it is later than that.
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

    /// The highest eviction rank, which only a key with nothing left has.
    pub const EXHAUSTED_RANK: u16 = 1_023;

    /// Returns how much is lost when the state is forgotten at `now`, from 0 to [`State::EXHAUSTED_RANK`]. A store that has
    /// no room left evicts the lowest rank.
    ///
    /// It is the used share of the capacity. Leases in flight count as at least half of it: the work that holds them goes on
    /// and would not be counted any more.
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
        // Rounded up, so that only a key with everything left is at 0.
        let used = ((capacity - u64::from(remaining)) * highest).div_ceil(capacity);
        let rank = match self {
            State::Leases(_) if used > 0 => highest - (highest - used) / 2,
            _ => used,
        };
        rank as u16
    }

    /// Returns whether the state remembers more than the quota admits. Reservations on credit can cause that, and so can a
    /// quota that became smaller.
    pub fn exceeds_quota(&self, quota: &Quota) -> bool {
        matches!(self, State::SlidingLog(log) if log.units() > quota.rate_u64())
    }

    /// Bytes this state holds on the heap.
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
/// Two numbers describe every question: `need`, the units to take, and `slack`, how far beyond the
/// capacity the key may go. `used + need <= capacity + slack` is the one rule.
trait KeyView: Sized {
    /// Returns the time of the view.
    fn time(&self) -> StepTime;

    /// Whole units left, never negative.
    fn remaining(&self) -> u32;

    /// How long until `used + need <= capacity + slack`, if nobody takes anything, in microseconds from the view's
    /// own time; [`u64::MAX`] when it is longer than that. `need` is at most capacity + slack.
    fn wait(&self, need: u64, slack: u64) -> u64;

    /// Whether `used + need <= capacity + slack` now.
    fn admits(&self, need: u64, slack: u64) -> bool;

    /// Takes `cost`.
    fn record(&mut self, cost: u64);

    /// Gives `cost` back, what was taken last first, and never more than was taken.
    fn refund(&mut self, cost: u64);

    /// Writes the view down as the new state.
    fn write(self, state: &mut State);

    /// Restores the state that was moved out, when nothing was recorded or refunded.
    fn restore(self, _state: &mut State) {}
}

/// Does `op` to a view, and writes it back when that changed it.
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
    /// Until a retry succeeds, or until a reservation's debt has cleared.
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

/// Takes `cost`, or only looks, when `used + cost` is at most the capacity and `slack`.
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
    // A reservation may have gone into debt: the work may start when that has cleared.
    let cleared = (slack > 0 && !view.admits(0, 0)).then(|| view.wait(0, 0));
    Verdict { reason: None, retry: cleared, changed: take }
}

/// The decision about a view as it is.
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

/// Returns a span counted from the caller's time, which may be before the view's.
#[inline]
fn span_from_caller(wait: u64, lag: u64) -> u64 {
    if wait == 0 { 0 } else { wait.saturating_add(lag) }
}

#[cfg(test)]
mod tests;
