//! `AdaptiveThrottle`: holds a client back from a service that rejects its requests.

mod probability;
mod window;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::minutes;

use crate::clock::{Clock, SteadyClock};
use crate::random::Random;
use probability::{ThrottleFactor, should_reject};
use window::{RequestCounts, RequestWindow};

/// A client-side throttle. It holds requests back from a service that rejects them, so that the service does not have
/// to. Cheap to clone; clones are one throttle.
///
/// It is the adaptive throttling of Google's book on site reliability. Over the last two minutes, a request is held back,
/// unsent, with probability `max(0, (requests - K * accepts) / (requests + 1))`. `requests` are all that the client made,
/// those held back included; `accepts` are those that the service accepted. K is 2: the service gets about twice as many
/// requests as it accepts. So it still rejects some, which is how the client notices when it accepts more again.
///
/// It needs no coordination with the service or with other clients. Use one for each service.
///
/// ```
/// use tidegate::concurrency::AdaptiveThrottle;
///
/// let throttle = AdaptiveThrottle::new();
/// # let call = || Some("an answer");
/// match throttle.try_pass() {
///     Ok(attempt) => match call() {
///         Some(_) => attempt.accepted(),
///         None => attempt.rejected(), // overloaded, or timed out
///     },
///     Err(throttled) => println!("{throttled}"),
/// }
/// ```
#[derive(Clone)]
pub struct AdaptiveThrottle {
    inner: Arc<Inner>,
}

struct Inner {
    window: Mutex<RequestWindow>,
    k: ThrottleFactor,
    random: Random,
    clock: Arc<dyn Clock>,
}

/// A request that may be sent. Report its outcome. If it is dropped, it does not count, which is right when the client
/// gave up before the service could answer.
#[must_use = "report whether the service accepted it"]
#[derive(Debug)]
pub struct Attempt {
    throttle: AdaptiveThrottle,
}

/// The error of a request that was held back: the service rejects too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttled;

impl AdaptiveThrottle {
    /// Creates a throttle with a window of two minutes and a K of 2.
    pub fn new() -> Self {
        AdaptiveThrottle::builder().build()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> AdaptiveThrottleBuilder {
        AdaptiveThrottleBuilder {
            k: ThrottleFactor::new(2, 1),
            window: minutes(2),
            seed: None,
            clock: Arc::new(SteadyClock),
        }
    }

    /// Returns whether a request may be sent.
    pub fn try_pass(&self) -> Result<Attempt, Throttled> {
        let Inner { k, random, clock, .. } = &*self.inner;
        let now = clock.now();
        let mut window = self.window();
        let RequestCounts { requests, accepts } = window.counts(now);
        if should_reject(requests, accepts, *k, random.next()) {
            // It counts as a request: the rule compares the demand with what the service accepts.
            window.count(false, now);
            return Err(Throttled);
        }
        drop(window);
        Ok(Attempt { throttle: self.clone() })
    }

    fn window(&self) -> MutexGuard<'_, RequestWindow> {
        self.inner.window.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Attempt {
    /// Reports that the service accepted the request, whatever the answer: "not found" is accepted, too.
    pub fn accepted(self) {
        self.end(true);
    }

    /// Reports that the service was overloaded: it answered so (503, 429, `RESOURCE_EXHAUSTED`, `UNAVAILABLE`), or not in
    /// time.
    pub fn rejected(self) {
        self.end(false);
    }

    fn end(self, accepted: bool) {
        let now = self.throttle.inner.clock.now();
        self.throttle.window().count(accepted, now);
    }
}

impl Default for AdaptiveThrottle {
    fn default() -> Self {
        AdaptiveThrottle::new()
    }
}

impl fmt::Debug for AdaptiveThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveThrottle").field("k", &self.inner.k).finish_non_exhaustive()
    }
}

impl fmt::Display for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the service rejects too many requests: this one was not sent")
    }
}

impl std::error::Error for Throttled {}

/// The settings of an [`AdaptiveThrottle`], from [`AdaptiveThrottle::builder`].
#[must_use = "a throttle exists once `build` is called"]
pub struct AdaptiveThrottleBuilder {
    k: ThrottleFactor,
    window: Duration,
    seed: Option<u64>,
    clock: Arc<dyn Clock>,
}

impl AdaptiveThrottleBuilder {
    /// Sets K as a fraction: the service gets `requests` for every `accepts`. Defaults to `k(2, 1)`.
    ///
    /// A smaller K, such as `k(11, 10)`, suits a service for which a rejection costs nearly as much as an answer. But then the
    /// client notices a recovery more slowly, and a few stray errors hold requests back. Less than 1 counts as 1.
    pub fn k(mut self, requests: u16, accepts: u16) -> Self {
        self.k = ThrottleFactor::new(requests, accepts);
        self
    }

    /// Sets how long requests are remembered. Defaults to two minutes. A shorter window reacts and recovers sooner, and
    /// oscillates more.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets the seed of the random numbers, for runs that can be repeated. Defaults to a random seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the clock, for tests and simulations. Defaults to one that cannot be set.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Creates the throttle.
    pub fn build(self) -> AdaptiveThrottle {
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(()));
        let window = Mutex::new(RequestWindow::new(self.window));
        let inner = Inner { window, k: self.k, random: Random::new(seed), clock: self.clock };
        AdaptiveThrottle { inner: Arc::new(inner) }
    }
}
