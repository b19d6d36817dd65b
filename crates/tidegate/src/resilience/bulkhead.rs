//! `BulkheadStore`: a bound on the calls in a store, and a fair queue before it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{
    Capabilities, Decision, JointDecision, Key, Op, Request, Scope, Store, StoreError, StoreErrorKind,
};

use super::timeout::no_timer;
use crate::clock::Sleeper;
use crate::concurrency::{FairConcurrency, Permit};

/// The most calls in a store that does not state how many it works on at once.
/// No bound in a Worker: there a request cannot wake another one.
const DEFAULT_MAX_IN_FLIGHT: u32 = if cfg!(target_arch = "wasm32") { u32::MAX } else { 256 };

/// How many calls of one limit may wait.
const QUEUE_PER_LIMIT: usize = 1_024;

/// How many calls of all limits may wait.
const TOTAL_QUEUE: usize = 8_192;

/// How long a limit keeps its part of the store after its last call.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// A store with a bounded number of calls at once, and a fair, bounded queue for further calls.
///
/// Without it, more calls than the store can serve wait in the store until they time out, and an overloaded store looks
/// like a broken one: the circuit breaker opens, and the failure policy of every limit applies.
///
/// - **Limits share the store.** Each limit with calls in the last second has an equal part of the calls at once. It can
///   borrow what absent limits leave. So a flood of one limit delays the calls of that limit, and no others.
/// - **A call waits for its turn** for as long as [`BulkheadStore::new`] says. Then, and at once when its queue is full, it
///   fails with [`StoreErrorKind::Overloaded`]. The store was not called.
/// - **`renew` and `release` never wait**: a lease that cannot be renewed would be lost.
/// - A joint call or a batch is one call, of the limit of its first request.
///
/// Timeouts, breakers and latencies belong inside, so that they measure the store and not the queue.
pub struct BulkheadStore<S> {
    store: S,
    slots: FairConcurrency,
    max_wait: Duration,
    sleeper: Arc<dyn Sleeper>,
}

impl<S: Store> BulkheadStore<S> {
    /// Wraps `store`. A call waits for its turn for up to `max_wait`, measured on `sleeper`. As many calls are in the store at
    /// once as its [capabilities](Capabilities::max_in_flight) state; 256 when they state no number.
    pub fn new(store: S, max_wait: Duration, sleeper: impl Sleeper + 'static) -> Self {
        let sleeper: Arc<dyn Sleeper> = Arc::new(sleeper);
        let max_in_flight = store.capabilities().max_in_flight.map_or(DEFAULT_MAX_IN_FLIGHT, u32::from);
        let slots = FairConcurrency::builder(max_in_flight)
            .queue(QUEUE_PER_LIMIT)
            .total_queue(TOTAL_QUEUE)
            .idle_after(IDLE_AFTER)
            .sleeper(Arc::clone(&sleeper))
            .build();
        BulkheadStore { store, slots, max_wait, sleeper }
    }
}

impl<S> BulkheadStore<S> {
    /// Sets how many calls are in the store at once; 0 counts as 1.
    #[must_use]
    pub fn max_in_flight(self, calls: u32) -> Self {
        self.slots.set_limit(calls);
        self
    }

    /// Returns how many calls are in the store.
    pub fn in_flight(&self) -> u32 {
        self.slots.in_flight()
    }

    /// Returns how many calls wait for their turn.
    pub fn waiting(&self) -> usize {
        self.slots.waiting()
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Waits for the turn of a call. Returns no permit for a call that needs none.
    async fn enter(&self, requests: &[Request<'_>]) -> Result<Option<Permit>, StoreError> {
        let Some(first) = requests.iter().find(|request| !matches!(request.op, Op::Renew(_) | Op::Release(_))) else {
            return Ok(None);
        };
        if !self.sleeper.can_sleep() {
            return Err(no_timer());
        }
        let permit = self.slots.acquire(first.scope.limit(), self.max_wait).await;
        permit.map(Some).map_err(|rejected| StoreError::new(StoreErrorKind::Overloaded, rejected.to_string()))
    }

    async fn call<T>(
        &self,
        requests: &[Request<'_>],
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let _permit = self.enter(requests).await?;
        call.await
    }
}

impl<S: fmt::Debug> fmt::Debug for BulkheadStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadStore")
            .field("store", &self.store)
            .field("slots", &self.slots)
            .field("max_wait", &self.max_wait)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Store for BulkheadStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn is_immediate(&self) -> bool {
        false
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.store.prefetch(scope, key);
    }

    /// Passes it on: an immediate answer occupies no place.
    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.store.try_apply(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.call(std::slice::from_ref(request), self.store.apply(request)).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.call(requests, self.store.apply_all(requests)).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        match self.enter(requests).await {
            Ok(_permit) => self.store.apply_each(requests).await,
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

/// Bypasses the queue: a test's requests are not a load.
#[cfg(feature = "testing")]
impl<S: tidegate_core::TestableStore> tidegate_core::TestableStore for BulkheadStore<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        self.store.apply_at(request, at).await
    }

    async fn apply_all_at(
        &self,
        requests: &[Request<'_>],
        at: tidegate_core::Timestamp,
    ) -> Result<JointDecision, StoreError> {
        self.store.apply_all_at(requests, at).await
    }

    async fn sweep_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        self.store.sweep_at(at).await
    }
}
