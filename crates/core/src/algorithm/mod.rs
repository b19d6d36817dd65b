//! The step: `(quota, state, op, now) -> (state', decision)`.
//!
//! Each algorithm is a [`View`] of one key at one time: how much is left, when how much could be had, and how to
//! record or take back. What the operations mean is written once, here, on top of that.

mod all;
mod arithmetic;
mod fixed_window;
mod rebase;
mod sliding_log;
mod sliding_window;
mod token_bucket;

pub use all::{Entry, step_all};
use fixed_window::FixedWindow;
pub use sliding_log::Log;
use sliding_log::SlidingLog;
pub use sliding_window::Counts;
use sliding_window::{ManyBuckets, SlidingWindow};
use token_bucket::TokenBucket;

use crate::{Algorithm, Cost, Decision, DecisionParts, Quota, Reason, Timestamp};

/// What is done to one key under one quota.
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
        counts: Counts,
        /// When it was written.
        last: Timestamp,
    },
    /// Of a `sliding_log`.
    SlidingLog(Log),
}

/// What came of a [`step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The answer.
    pub decision: Decision,
    /// Whether the state is another one now and has to be written back.
    pub changed: bool,
}

/// Applies `op` at the time `now` to a key whose state is `state` and was written under `quota`; see
/// [`State::rebase`] for a state that was written under another one.
///
/// Time never goes backwards for a key: when `now` is earlier than the state, the state is taken as it was
/// written, and the spans in the decision still count from `now`.
pub fn step(quota: &Quota, state: &mut State, op: Op, now: Timestamp) -> Outcome {
    let last = state.last().unwrap_or(now);
    let at = now.max(last);
    let was_new = *state == State::New;
    let mut outcome = match quota.algorithm() {
        Algorithm::TokenBucket => {
            let deficit = match *state {
                State::TokenBucket { deficit, .. } => deficit,
                _ => 0,
            };
            apply(quota, TokenBucket::new(quota, deficit, last, at), state, op, now)
        }
        Algorithm::FixedWindow => {
            let deficit = match *state {
                State::FixedWindow { deficit, .. } => deficit,
                _ => 0,
            };
            apply(quota, FixedWindow::new(quota, deficit, last, at), state, op, now)
        }
        Algorithm::SlidingWindow => {
            let counts = match state {
                State::SlidingWindow { counts, .. } => Some(&*counts),
                _ => None,
            };
            if quota.parts().buckets == 1 {
                apply(quota, SlidingWindow::<[u64; 2]>::new(quota, counts, last, at), state, op, now)
            } else {
                apply(quota, SlidingWindow::<ManyBuckets>::new(quota, counts, last, at), state, op, now)
            }
        }
        Algorithm::SlidingLog => {
            let log = match std::mem::take(state) {
                State::SlidingLog(log) => log,
                _ => Log::default(),
            };
            apply(quota, SlidingLog::new(quota, log, at), state, op, now)
        }
    };
    // A key that had nothing to give back still has nothing to be written.
    outcome.changed &= !(was_new && *state == State::New);
    outcome
}

impl State {
    /// When the state was written; none when it is as good as new.
    pub fn last(&self) -> Option<Timestamp> {
        match self {
            State::New => None,
            State::TokenBucket { last, .. } | State::FixedWindow { last, .. } | State::SlidingWindow { last, .. } => {
                Some(*last)
            }
            State::SlidingLog(log) => Some(log.last()),
        }
    }

    /// Whether the key is as good as new at `now`, so that forgetting the state changes nothing.
    pub fn is_new(&self, quota: &Quota, now: Timestamp) -> bool {
        self.new_at(quota) <= u128::from(now.as_micros())
    }

    /// When the key will be as good as new, in microseconds since the epoch, if nothing more happens to it. It can
    /// be later than any [`Timestamp`].
    pub fn new_at(&self, quota: &Quota) -> u128 {
        let capacity = u64::from(quota.capacity_u32());
        match self {
            State::New => 0,
            State::TokenBucket { deficit, last } => TokenBucket::new(quota, *deficit, *last, *last).when(capacity, 0),
            State::FixedWindow { deficit, last } => FixedWindow::new(quota, *deficit, *last, *last).when(capacity, 0),
            State::SlidingWindow { counts, last } => {
                SlidingWindow::<ManyBuckets>::new(quota, Some(counts), *last, *last).when(capacity, 0)
            }
            State::SlidingLog(log) => log.new_at(quota),
        }
    }

    /// Bytes this state holds on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            State::SlidingWindow { counts, .. } => counts.heap_bytes(),
            State::SlidingLog(log) => log.heap_bytes(),
            _ => 0,
        }
    }
}

/// One key at one time, under one quota.
///
/// Everything is said with two numbers: `need`, what somebody wants to take, and `slack`, how far beyond the
/// capacity it may go. `used + need <= capacity + slack` is the one rule.
trait View: Sized {
    /// Whole units left, never negative.
    fn remaining(&self) -> u32;

    /// The first time, not before the view's own, at which `used + need <= capacity + slack`, in microseconds
    /// since the epoch. `need` is at most capacity + slack.
    fn when(&self, need: u64, slack: u64) -> u128;

    /// Whether `used + need <= capacity + slack` now.
    fn admits(&self, need: u64, slack: u64) -> bool;

    /// Takes `cost`.
    fn record(&mut self, cost: u64);

    /// Gives `cost` back, what was taken last first, and never more than was taken.
    fn refund(&mut self, cost: u64);

    /// Writes the view down as the new state.
    fn write(self, state: &mut State);

    /// Puts back what was moved out of the state, when nothing was recorded or refunded.
    fn put_back(self, _state: &mut State) {}
}

/// What each operation means, for every algorithm.
#[inline]
fn apply(quota: &Quota, mut view: impl View, state: &mut State, op: Op, now: Timestamp) -> Outcome {
    let (decision, changed) = match op {
        Op::Limit(cost) => take(quota, &mut view, cost.get(), 0, true, now),
        Op::Check(cost) => take(quota, &mut view, cost.get(), 0, false, now),
        Op::Reserve(cost) => take(quota, &mut view, cost.get(), quota.slack(), true, now),
        Op::Refund(cost) => {
            view.refund(cost.get());
            (decide(quota, &view, now, None, None), true)
        }
        Op::Reset => {
            view.refund(u64::MAX);
            (decide(quota, &view, now, None, None), true)
        }
    };
    if changed {
        view.write(state);
    } else {
        view.put_back(state);
    }
    Outcome { decision, changed }
}

/// Takes `cost`, or only looks, when `used + cost` is at most the capacity and `slack`. Says whether it took.
#[inline]
fn take(quota: &Quota, view: &mut impl View, cost: u64, slack: u64, take: bool, now: Timestamp) -> (Decision, bool) {
    if cost > u64::from(quota.capacity_u32()) {
        return (decide(quota, view, now, None, Some(Reason::CostExceedsCapacity)), false);
    }
    if !view.admits(cost, slack) {
        let retry = view.when(cost, slack);
        return (decide(quota, view, now, Some(retry), Some(Reason::Rate)), false);
    }
    if take {
        view.record(cost);
    }
    // A reservation may have gone into debt: the work may start when that has cleared.
    let cleared = (slack > 0 && !view.admits(0, 0)).then(|| view.when(0, 0));
    (decide(quota, view, now, cleared, None), take)
}

/// The decision about a view as it is: a denial when there is a reason.
#[inline]
fn decide(quota: &Quota, view: &impl View, now: Timestamp, retry: Option<u128>, reason: Option<Reason>) -> Decision {
    let now = u128::from(now.as_micros());
    let capacity = quota.capacity_u32();
    let remaining = view.remaining();
    let grows = remaining < capacity;
    DecisionParts {
        allowed: reason.is_none(),
        limit: capacity,
        remaining,
        retry_after: retry.map(|at| at.saturating_sub(now)),
        next_after: grows.then(|| view.when(u64::from(remaining) + 1, 0).saturating_sub(now)),
        reset_after: view.when(u64::from(capacity), 0).saturating_sub(now),
        reason,
    }
    .into()
}

#[cfg(test)]
mod tests;
