//! Callers that wait at the same time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate::ManualClock;

/// Calls that wait at the same time, polled on this thread and only when they were woken. A lost wake-up
/// leaves its call pending.
pub(crate) struct Crowd<'a, T> {
    waiting: Vec<Option<(WaitingCall<'a, T>, Arc<WakeFlag>)>>,
    answers: Vec<(usize, T)>,
}

/// A call that waits.
pub(crate) type WaitingCall<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<T> Default for Crowd<'_, T> {
    fn default() -> Self {
        Crowd { waiting: Vec::new(), answers: Vec::new() }
    }
}

impl<'a, T> Crowd<'a, T> {
    /// Adds a call, polls it as far as it can go, and returns its number.
    pub(crate) fn add(&mut self, call: impl Future<Output = T> + Send + 'a) -> usize {
        self.waiting.push(Some((Box::pin(call), Arc::new(WakeFlag(AtomicBool::new(true))))));
        self.run();
        self.waiting.len() - 1
    }

    /// Polls woken calls until none is left.
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
                if let Poll::Ready(answer) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
                    self.answers.push((number, answer));
                    *place = None;
                }
            }
        }
    }

    /// Advances the clock, and polls the calls that this wakes.
    pub(crate) fn advance(&mut self, clock: &ManualClock, span: Duration) {
        clock.advance(span);
        self.run();
    }

    /// Cancels a call.
    pub(crate) fn leave(&mut self, number: usize) {
        assert!(self.waiting[number].take().is_some(), "caller {number} is not waiting");
    }

    /// Returns the answers since the last time, in order.
    pub(crate) fn answers(&mut self) -> Vec<(usize, T)> {
        std::mem::take(&mut self.answers)
    }
}
