//! What the tests of every theme use.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate::{
    All, Call, CallFuture, Decision, Error, Key, Limiter, LimiterBuilder, ManualClock, MemoryStore, Quota, Timestamp,
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
    if let Some(answer) = call.now() {
        answer.expect_err("an answer without waiting");
    }
    block_on(call.into_future()).expect_err("an answer")
}

pub(crate) fn all<'a>(limiter: &Limiter, calls: impl IntoIterator<Item = Call<'a>>) -> All {
    block_on(limiter.all(calls)).unwrap()
}

/// What a key has left.
pub(crate) fn left<'a>(limiter: &'a Limiter, name: &'a str, key: impl Into<Key<'a>>) -> u64 {
    ask(limiter.check(name, key)).remaining()
}

/// Whether each of the decisions is a yes.
pub(crate) fn answers(all: &All) -> Vec<bool> {
    all.decisions().iter().map(Decision::allowed).collect()
}

/// Polls once, and lets nobody know when it should be polled again.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Calls that wait at the same time, polled on this thread and only when they were woken: a wake-up that is lost
/// leaves its caller where it is.
#[derive(Default)]
pub(crate) struct Crowd<'a> {
    waiting: Vec<Option<(CallFuture<'a>, Arc<Woken>)>>,
    answers: Vec<(usize, Result<Decision, Error>)>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<'a> Crowd<'a> {
    /// Adds a caller, lets it come as far as it can, and says its number.
    pub(crate) fn join(&mut self, call: Call<'a>) -> usize {
        self.waiting.push(Some((call.into_future(), Arc::new(Woken(AtomicBool::new(true))))));
        self.run();
        self.waiting.len() - 1
    }

    /// Polls whoever was woken until nobody is.
    pub(crate) fn run(&mut self) {
        let mut progress = true;
        while std::mem::take(&mut progress) {
            for (number, place) in self.waiting.iter_mut().enumerate() {
                let Some((call, woken)) = place else { continue };
                if !woken.0.swap(false, Ordering::SeqCst) {
                    continue;
                }
                progress = true;
                let waker = Waker::from(Arc::clone(woken));
                if let Poll::Ready(answer) = Pin::new(call).poll(&mut Context::from_waker(&waker)) {
                    self.answers.push((number, answer));
                    *place = None;
                }
            }
        }
    }

    /// Moves the clock on and lets everybody who was woken by that run.
    pub(crate) fn advance(&mut self, clock: &ManualClock, span: Duration) {
        clock.advance(span);
        self.run();
    }

    /// One caller walks away.
    pub(crate) fn leave(&mut self, number: usize) {
        assert!(self.waiting[number].take().is_some(), "caller {number} is not waiting");
    }

    /// Who was answered since the last time, in order, and whether with a yes.
    pub(crate) fn answered(&mut self) -> Vec<(usize, bool)> {
        self.answers().into_iter().map(|(number, answer)| (number, answer.unwrap().allowed())).collect()
    }

    /// The answers since the last time, in order.
    pub(crate) fn answers(&mut self) -> Vec<(usize, Result<Decision, Error>)> {
        std::mem::take(&mut self.answers)
    }
}
