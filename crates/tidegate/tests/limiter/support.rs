//! What the tests of every theme use.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{
    Call, Decision, Error, JointDecision, Key, Limiter, LimiterBuilder, ManualClock, MemoryStore, Quota, Timestamp,
};
use tidegate_testkit::block_on;

/// A clock that stands at the beginning of a minute, far from the epoch.
pub(crate) fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

pub(crate) fn memory(clock: &ManualClock) -> MemoryStore {
    MemoryStore::builder().max_keys(4_096).clock(clock.clone()).build()
}

/// A builder whose store and sleeper follow `clock`.
pub(crate) fn builder(clock: &ManualClock) -> LimiterBuilder {
    Limiter::builder().store(memory(clock)).sleeper(clock.clone())
}

/// `rate` in a minute, refilled continuously.
pub(crate) fn bucket(rate: u64) -> Quota {
    Quota::token_bucket(rate, Duration::from_secs(60)).unwrap()
}

/// `rate` in every minute.
pub(crate) fn window(rate: u64) -> Quota {
    Quota::fixed_window(rate, Duration::from_secs(60)).unwrap()
}

/// The answer to a call, which has to be a decision.
pub(crate) fn ask(call: Call<'_>) -> Decision {
    block_on(call.into_future()).unwrap()
}

/// The error a call has to end with; the same with and without waiting.
pub(crate) fn refused(call: Call<'_>) -> Error {
    call.try_now().expect_err("an answer without waiting");
    block_on(call.into_future()).expect_err("an answer")
}

pub(crate) fn all<'a>(limiter: &Limiter, calls: impl IntoIterator<Item = Call<'a>>) -> JointDecision {
    block_on(limiter.limit_all(calls)).unwrap()
}

/// What a key has left.
pub(crate) fn left<'a>(limiter: &'a Limiter, name: &'a str, key: impl Into<Key<'a>>) -> u64 {
    ask(limiter.check(name, key)).remaining()
}

/// Whether each of the decisions is a yes.
pub(crate) fn answers(all: &JointDecision) -> Vec<bool> {
    all.decisions().iter().map(Decision::allowed).collect()
}

/// Polls once, and lets nobody know when it should be polled again.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Calls that wait at the same time.
pub(crate) type Crowd<'a> = crate::common_crowd::Crowd<'a, Result<Decision, Error>>;

impl<'a> Crowd<'a> {
    /// Adds a caller, lets it come as far as it can, and says its number.
    pub(crate) fn join(&mut self, call: Call<'a>) -> usize {
        self.add(call.into_future())
    }

    /// Who was answered since the last time, in order, and whether with a yes.
    pub(crate) fn answered(&mut self) -> Vec<(usize, bool)> {
        self.answers().into_iter().map(|(number, answer)| (number, answer.unwrap().allowed())).collect()
    }
}
