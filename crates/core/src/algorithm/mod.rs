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
#[inline]
pub fn step(quota: &Quota, state: &mut State, op: Op, now: Timestamp) -> Outcome {
    let last = state.last().unwrap_or(now);
    let at = now.max(last);
    let behind = at.as_micros() - now.as_micros();
    let was_new = *state == State::New;
    let mut outcome = match quota.algorithm() {
        Algorithm::TokenBucket => {
            let deficit = match *state {
                State::TokenBucket { deficit, .. } => deficit,
                _ => 0,
            };
            match TokenBucket::narrow(quota, deficit, op) {
                Some(deficit) => apply(quota, TokenBucket::<u64>::new(quota, deficit, last, at), state, op, behind),
                None => apply(quota, TokenBucket::<u128>::new(quota, deficit, last, at), state, op, behind),
            }
        }
        Algorithm::FixedWindow => {
            let deficit = match *state {
                State::FixedWindow { deficit, .. } => deficit,
                _ => 0,
            };
            apply(quota, FixedWindow::new(quota, deficit, last, at), state, op, behind)
        }
        Algorithm::SlidingWindow => {
            let counts = match state {
                State::SlidingWindow { counts, .. } => Some(&*counts),
                _ => None,
            };
            if quota.parts().buckets == 1 {
                apply(quota, SlidingWindow::<[u64; 2]>::new(quota, counts, last, at), state, op, behind)
            } else {
                apply(quota, SlidingWindow::<ManyBuckets>::new(quota, counts, last, at), state, op, behind)
            }
        }
        Algorithm::SlidingLog => {
            let log = match std::mem::take(state) {
                State::SlidingLog(log) => log,
                _ => Log::default(),
            };
            apply(quota, SlidingLog::new(quota, log, at), state, op, behind)
        }
    };
    // A key that had nothing to give back still has nothing to be written.
    outcome.changed &= !(was_new && *state == State::New);
    outcome
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
        }
    }

    /// Whether the key is as good as new at `now`, so that forgetting the state changes nothing.
    pub fn is_new(&self, quota: &Quota, now: Timestamp) -> bool {
        self.new_at(quota) <= now
    }

    /// When the key will be as good as new, if nothing more happens to it; the end of time when it is later than that.
    pub fn new_at(&self, quota: &Quota) -> Timestamp {
        let Some(last) = self.last() else { return Timestamp::EPOCH };
        let capacity = u64::from(quota.capacity_u32());
        let wait = match self {
            State::New => 0,
            State::TokenBucket { deficit, .. } => {
                TokenBucket::<u128>::new(quota, *deficit, last, last).wait(capacity, 0)
            }
            State::FixedWindow { deficit, .. } => FixedWindow::new(quota, *deficit, last, last).wait(capacity, 0),
            State::SlidingWindow { counts, .. } => {
                SlidingWindow::<ManyBuckets>::new(quota, Some(counts), last, last).wait(capacity, 0)
            }
            State::SlidingLog(log) => log.until_new(quota),
        };
        Timestamp::from_micros(last.as_micros().saturating_add(wait))
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

    /// Puts back what was moved out of the state, when nothing was recorded or refunded.
    fn put_back(self, _state: &mut State) {}
}

/// What each operation means, for every algorithm.
#[inline(always)] // one straight line of code for each algorithm
fn apply(quota: &Quota, mut view: impl View, state: &mut State, op: Op, behind: u64) -> Outcome {
    let (decision, changed) = match op {
        Op::Limit(cost) => take(quota, &mut view, cost.get(), 0, true, behind),
        Op::Check(cost) => take(quota, &mut view, cost.get(), 0, false, behind),
        Op::Reserve(cost) => take(quota, &mut view, cost.get(), quota.slack(), true, behind),
        Op::Refund(cost) => {
            view.refund(cost.get());
            (decide(quota, &view, behind, None, None), true)
        }
        Op::Reset => {
            view.refund(u64::MAX);
            (decide(quota, &view, behind, None, None), true)
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
#[inline(always)]
fn take(quota: &Quota, view: &mut impl View, cost: u64, slack: u64, take: bool, behind: u64) -> (Decision, bool) {
    if cost > u64::from(quota.capacity_u32()) {
        return (decide(quota, view, behind, None, Some(Reason::CostExceedsCapacity)), false);
    }
    if !view.admits(cost, slack) {
        let retry = view.wait(cost, slack);
        return (decide(quota, view, behind, Some(retry), Some(Reason::Rate)), false);
    }
    if take {
        view.record(cost);
    }
    // A reservation may have gone into debt: the work may start when that has cleared.
    let cleared = (slack > 0 && !view.admits(0, 0)).then(|| view.wait(0, 0));
    (decide(quota, view, behind, cleared, None), take)
}

/// The decision about a view as it is: a denial when there is a reason. The view may be later than the caller's time,
/// by `behind`, and spans count from the caller's.
#[inline(always)]
fn decide(quota: &Quota, view: &impl View, behind: u64, retry: Option<u64>, reason: Option<Reason>) -> Decision {
    let capacity = quota.capacity_u32();
    let remaining = view.remaining();
    let grows = remaining < capacity;
    let from_caller = |wait: u64| if wait == 0 { 0 } else { wait.saturating_add(behind) };
    DecisionParts {
        allowed: reason.is_none(),
        limit: capacity,
        remaining,
        retry_after: retry.map(from_caller),
        next_after: grows.then(|| from_caller(view.wait(u64::from(remaining) + 1, 0))),
        reset_after: from_caller(view.wait(u64::from(capacity), 0)),
        reason,
    }
    .into()
}

#[cfg(test)]
mod tests;
