//! Callers that wait at the same time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate::concurrency::{Fair, FairBuilder, Permit, Refused};
use tidegate::{ManualClock, Timestamp};

/// A clock that stands far from the epoch.
pub(crate) fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

/// Slots that follow `clock`.
pub(crate) fn fair(limit: u32, clock: &ManualClock) -> FairBuilder {
    Fair::builder(limit).sleeper(clock.clone())
}

/// As many permits as a tenant can get without waiting.
pub(crate) fn all_of(fair: &Fair, tenant: &str) -> Vec<Permit> {
    std::iter::from_fn(|| fair.try_acquire(tenant).ok()).collect()
}

/// Somebody who asks, and waits if it has to.
pub(crate) type Acquire = Pin<Box<dyn Future<Output = Result<Permit, Refused>> + Send>>;

/// Callers polled on this thread and only when they were woken: a wake-up that is lost leaves its caller where it is.
#[derive(Default)]
pub(crate) struct Crowd {
    waiting: Vec<Option<(Acquire, Arc<Woken>)>>,
    answers: Vec<(usize, Result<Permit, Refused>)>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Crowd {
    /// Adds a caller, lets it come as far as it can, and says its number.
    pub(crate) fn join(&mut self, fair: &Fair, tenant: &str, within: Duration) -> usize {
        let (fair, tenant) = (fair.clone(), tenant.to_owned());
        let acquire = Box::pin(async move { fair.acquire(tenant.as_str(), within).await });
        self.waiting.push(Some((acquire, Arc::new(Woken(AtomicBool::new(true))))));
        self.run();
        self.waiting.len() - 1
    }

    /// Polls whoever was woken until nobody is.
    pub(crate) fn run(&mut self) {
        let mut progress = true;
        while std::mem::take(&mut progress) {
            for (number, place) in self.waiting.iter_mut().enumerate() {
                let Some((acquire, woken)) = place else { continue };
                if !woken.0.swap(false, Ordering::SeqCst) {
                    continue;
                }
                progress = true;
                let waker = Waker::from(Arc::clone(woken));
                if let Poll::Ready(answer) = acquire.as_mut().poll(&mut Context::from_waker(&waker)) {
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

    /// The answers since the last time, in order.
    pub(crate) fn answers(&mut self) -> Vec<(usize, Result<Permit, Refused>)> {
        std::mem::take(&mut self.answers)
    }

    /// The permits since the last time and whose they are. There must be no refusals.
    pub(crate) fn permits(&mut self) -> Vec<(usize, Permit)> {
        self.answers().into_iter().map(|(number, answer)| (number, answer.unwrap())).collect()
    }
}
