//! Helpers for all tests of the limiter.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{
    Call, Decision, Error, JointDecision, Key, Limiter, LimiterBuilder, ManualClock, MemoryStore, Quota, Timestamp,
};
use tidegate_testkit::block_on;

/// Creates a clock at the beginning of a minute, far from the epoch.
pub(crate) fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

pub(crate) fn memory(clock: &ManualClock) -> MemoryStore {
    MemoryStore::builder().max_keys(4_096).clock(clock.clone()).build()
}

/// Creates a builder whose store and sleeper follow `clock`.
pub(crate) fn builder(clock: &ManualClock) -> LimiterBuilder {
    Limiter::builder().store(memory(clock)).sleeper(clock.clone())
}

/// Creates a quota of `rate` per minute, refilled continuously.
pub(crate) fn bucket(rate: u64) -> Quota {
    Quota::token_bucket(rate, Duration::from_secs(60)).unwrap()
}

/// Creates a quota of `rate` in every minute.
pub(crate) fn window(rate: u64) -> Quota {
    Quota::fixed_window(rate, Duration::from_secs(60)).unwrap()
}

/// Awaits a call that must return a decision.
pub(crate) fn decide(call: Call<'_>) -> Decision {
    block_on(call.into_future()).unwrap()
}

/// Awaits a call that must fail, with and without waiting.
pub(crate) fn expect_error(call: Call<'_>) -> Error {
    call.try_now().expect_err("an answer without waiting");
    block_on(call.into_future()).expect_err("an answer")
}

pub(crate) fn limit_all<'a>(limiter: &Limiter, calls: impl IntoIterator<Item = Call<'a>>) -> JointDecision {
    block_on(limiter.limit_all(calls)).unwrap()
}

/// Returns the remaining units of a key.
pub(crate) fn left<'a>(limiter: &'a Limiter, name: &'a str, key: impl Into<Key<'a>>) -> u64 {
    decide(limiter.check(name, key)).remaining()
}

/// Returns whether each decision is an admission.
pub(crate) fn allowed_each(joint: &JointDecision) -> Vec<bool> {
    joint.decisions().iter().map(Decision::allowed).collect()
}

/// Polls once, without a waker.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Calls that wait at the same time.
pub(crate) type Crowd<'a> = crate::common_crowd::Crowd<'a, Result<Decision, Error>>;

impl<'a> Crowd<'a> {
    /// Adds a caller, polls it as far as it can go, and returns its number.
    pub(crate) fn join(&mut self, call: Call<'a>) -> usize {
        self.add(call.into_future())
    }

    /// Returns the callers answered since the last time, in order, and whether each was admitted.
    pub(crate) fn answered(&mut self) -> Vec<(usize, bool)> {
        self.answers().into_iter().map(|(number, answer)| (number, answer.unwrap().allowed())).collect()
    }
}
