//! The wrappers in their usual order.

use std::sync::Arc;
use std::time::Duration;

use super::{Breaker, BreakerState, Counted, Denials, Fallback, Observed, Timeout};
use crate::clock::{Clock, Sleeper};

/// A store with everything around it; see [`Resilience::build`].
pub type Resilient<S> = Counted<Fallback<Denials<Breaker<Observed<Timeout<S>>>>>>;

/// How a store gets all wrappers around it, in their usual order.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use tidegate::resilience::Resilience;
/// use tidegate::{Limit, Limiter, MemoryStore, OnStoreError, Quota, millis, minutes, seconds};
///
/// let store = Resilience::default() // on tokio's timer
///     .name("redis")
///     .timeout(millis(20))
///     .breaker(5, seconds(1))
///     .expected_replicas(4)
///     .build(MemoryStore::new()); // or one that can break
///
/// let login = Limit::new(Quota::fixed_window(5, minutes(1))?).on_store_error(OnStoreError::Closed);
/// let limiter = Limiter::builder().limit("login", login).store(store).build()?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a store exists once `build` is called"]
pub struct Resilience {
    sleeper: Arc<dyn Sleeper>,
    name: String,
    timeout: Duration,
    failures: u32,
    pause: Duration,
    replicas: u32,
    denials: usize,
    /// What denials are remembered and latencies measured by.
    steady: Arc<dyn Clock>,
}

impl Resilience {
    /// The defaults, with all time measured on `sleeper`.
    pub fn new(sleeper: impl Sleeper + 'static) -> Self {
        let sleeper = Arc::new(sleeper);
        Resilience {
            steady: Arc::new(Arc::clone(&sleeper)),
            sleeper,
            name: "store".to_owned(),
            timeout: Duration::from_millis(50),
            failures: 5,
            pause: Duration::from_secs(1),
            replicas: 1,
            denials: 0,
        }
    }

    /// What metrics and spans call the store: `store` unless said otherwise.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How long a request may take: 50 milliseconds unless said otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// After how many failures in a row the store is left alone, and for how long: 5 and 1 second unless said
    /// otherwise.
    pub fn breaker(mut self, failures: u32, pause: Duration) -> Self {
        (self.failures, self.pause) = (failures, pause);
        self
    }

    /// Among how many processes the quota of a limit with the policy `local` is divided: 1 unless said otherwise.
    pub fn expected_replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// For how many keys a denial is remembered, so that they are not asked for again before that can help: none unless
    /// said otherwise. See [`Denials`] for what is seen late then.
    pub fn remember_denials(mut self, keys: usize) -> Self {
        self.denials = keys;
        self
    }

    /// The wrappers around `store`, from the inside out:
    ///
    /// 1. [`Timeout`], so that nothing further out ever waits for longer.
    /// 2. [`Observed`], which sees timeouts as what they are, and only calls that were made.
    /// 3. [`Breaker`], for which a timeout is a failure.
    /// 4. [`Denials`], which tells the breaker nothing about a store that was not asked, and remembers only what the store
    ///    has denied.
    /// 5. [`Fallback`], which answers for a timeout as for an open circuit.
    /// 6. [`Counted`], which sees the decisions that callers get, whoever made them.
    pub fn build<S>(self, store: S) -> Resilient<S> {
        let timeout = Timeout::new(store, self.timeout, Arc::clone(&self.sleeper));
        let observed = Observed::new(timeout, &self.name).clock(Arc::clone(&self.steady));
        let breaker = Breaker::new(observed, &self.name).failures(self.failures).pause(self.pause);
        let denials = Denials::new(breaker.clock(Arc::clone(&self.sleeper))).max_keys(self.denials).clock(self.steady);
        let fallback = Fallback::new(denials);
        Counted::new(fallback.expected_replicas(self.replicas).clock(self.sleeper))
    }
}

/// The defaults, on tokio's timer.
#[cfg(feature = "tokio")]
impl Default for Resilience {
    fn default() -> Self {
        let steady = Arc::new(crate::clock::SteadyClock);
        Resilience { steady, ..Resilience::new(crate::clock::TokioSleeper) }
    }
}

impl<S> Resilient<S> {
    /// Whether calls pass the breaker.
    pub fn breaker(&self) -> BreakerState {
        self.inner().inner().inner().state()
    }
}
