//! `Resilience`: all store wrappers in the recommended order.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Store;

use super::{
    BreakerState, BreakerStore, BulkheadStore, DenialCacheStore, FallbackStore, InstrumentedStore, TimeoutStore,
};
use crate::clock::{Clock, Sleeper};
#[cfg(feature = "tokio")]
use crate::clock::{SteadyClock, SteadySleeper, TokioSleeper};
use crate::store::EXPECTED_REPLICAS;

/// A store with every wrapper around it; see [`Resilience::build`].
pub type Resilient<S> =
    FallbackStore<DenialCacheStore<BulkheadStore<BreakerStore<InstrumentedStore<TimeoutStore<S>>>>>>;

/// A builder that puts every wrapper around a store, in the recommended order.
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
///     .build(MemoryStore::new()); // or a store that can fail
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
    max_in_flight: Option<NonZeroU32>,
    /// For how many keys the cache answers while the store works; none if it answers only when the store fails.
    max_denials: Option<usize>,
    /// Times the denial cache and measures latency.
    steady_clock: Arc<dyn Clock>,
    /// Times the queue.
    steady_sleeper: Arc<dyn Sleeper>,
}

impl Resilience {
    /// Creates a builder with the defaults that measures all time on `sleeper`.
    pub fn new(sleeper: impl Sleeper + 'static) -> Self {
        let sleeper: Arc<dyn Sleeper> = Arc::new(sleeper);
        Resilience {
            steady_clock: Arc::new(Arc::clone(&sleeper)),
            steady_sleeper: Arc::clone(&sleeper),
            sleeper,
            name: "store".to_owned(),
            timeout: Duration::from_millis(50),
            failures: 5,
            pause: Duration::from_secs(1),
            replicas: EXPECTED_REPLICAS.get(),
            max_in_flight: None,
            max_denials: None,
        }
    }

    /// Sets the name of the store in metrics and spans. Defaults to `store`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how long the store may take for a request, and how long a request may wait for its turn before. Defaults to 50
    /// milliseconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many failures in a row open the circuit breaker, and for how long. Defaults to 5 failures and 1 second.
    pub fn breaker(mut self, failures: u32, pause: Duration) -> Self {
        (self.failures, self.pause) = (failures, pause);
        self
    }

    /// Sets how many processes divide the quota of a limit with the policy `local`. Defaults to 1, as every setting of
    /// this name does; 0 counts as 1.
    pub fn expected_replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets how many calls are in the store at once; further calls [queue](BulkheadStore). Defaults to the number that the
    /// store [states](tidegate_core::Capabilities::max_in_flight), and to 256 for a store that states none.
    pub fn max_in_flight(mut self, calls: u32) -> Self {
        self.max_in_flight = NonZeroU32::new(calls);
        self
    }

    /// Sets for how many keys a denial is cached, so that a retry which cannot succeed yet is answered without the store.
    /// By default, the denials of 10,000 keys are cached for requests that the store fails, and for nothing else. 0 turns
    /// that off, too. See [`DenialCacheStore`] for the changes that a cached denial hides.
    pub fn cache_denials(mut self, keys: usize) -> Self {
        self.max_denials = Some(keys);
        self
    }

    /// Puts the wrappers around `store`. From the inside out:
    ///
    /// 1. [`TimeoutStore`], so that no outer wrapper ever waits longer.
    /// 2. [`InstrumentedStore`], which records timeouts as such, and only calls that were made.
    /// 3. [`BreakerStore`], for which a timeout is a failure.
    /// 4. [`BulkheadStore`], so that the time in its queue is no latency of the store, and a full queue no failure.
    /// 5. [`DenialCacheStore`], so that a cached denial does not count as a success of the store, and only the store's own
    ///    denials are cached.
    /// 6. [`FallbackStore`], which treats a timeout like an open circuit.
    pub fn build<S: Store>(self, store: S) -> Resilient<S> {
        let timeout = TimeoutStore::new(store, self.timeout, Arc::clone(&self.sleeper));
        let instrumented = InstrumentedStore::new(timeout, &self.name).clock(Arc::clone(&self.steady_clock));
        let breaker = BreakerStore::new(instrumented, &self.name).failures(self.failures).pause(self.pause);
        let breaker = breaker.clock(Arc::clone(&self.sleeper));
        let mut bulkhead = BulkheadStore::new(breaker, &self.name, self.timeout, self.steady_sleeper);
        if let Some(calls) = self.max_in_flight {
            bulkhead = bulkhead.max_in_flight(calls.get());
        }
        let mut denial_cache = DenialCacheStore::new(bulkhead).only_on_failure(self.max_denials.is_none());
        if let Some(keys) = self.max_denials {
            denial_cache = denial_cache.max_keys(keys);
        }
        let denial_cache = denial_cache.clock(self.steady_clock);
        FallbackStore::new(denial_cache).expected_replicas(self.replicas).clock(self.sleeper)
    }
}

/// The defaults, on tokio's timer.
#[cfg(feature = "tokio")]
impl Default for Resilience {
    fn default() -> Self {
        let (steady_clock, steady_sleeper) = (Arc::new(SteadyClock), Arc::new(SteadySleeper));
        Resilience { steady_clock, steady_sleeper, ..Resilience::new(TokioSleeper) }
    }
}

impl<S> Resilient<S> {
    /// Returns the state of the circuit breaker.
    pub fn breaker(&self) -> BreakerState {
        self.inner().inner().inner().state()
    }
}
