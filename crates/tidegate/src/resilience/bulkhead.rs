//! `BulkheadStore`: a bound on the calls in a store, and a fair queue before it.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::{
    Capabilities, Decision, JointDecision, Key, Op, Request, Scope, Store, StoreError, StoreErrorKind,
};

use super::caller::current_caller;
use super::timeout::{REQUESTS_PER_TIMEOUT, no_timer};
use crate::clock::Sleeper;
use crate::concurrency::{Aimd, Controller, FairConcurrency, Permit, Sample};
use crate::telemetry;

/// The most calls in a store that does not state how many it works on at once.
const DEFAULT_MAX_IN_FLIGHT: u32 = 256;

/// The bound on the calls in a store before its latency is known.
const INITIAL_IN_FLIGHT: u32 = 64;

/// The least bound on the calls in a store, however slow it is.
const MIN_IN_FLIGHT: u32 = 8;

/// How many calls that give back pass the queue at once. Further ones queue, because a client can send any number of them.
const MAX_GIVING_BACK: u32 = 256;

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
/// - **The bound follows the store.** Calls that take half of the timeout in the mean, or time out, lower it, down to 8. Quick
///   calls raise it, up to what the store [states](Capabilities::max_in_flight), or to 256. So a store whose usual latency is near
///   the timeout serves few calls at once: let the timeout be four times its latency.
/// - **Limits share the store.** Each limit with calls in the last second has an equal part of the calls at once. It can
///   borrow what absent limits leave. So a flood of one limit delays the calls of that limit, and no others.
/// - **The [callers](super::with_caller) of a limit take turns**, if there are any. The first call of each is queued even when the queue is
///   full.
/// - **A call waits for its turn** for as long as [`BulkheadStore::new`] says. Then, and at once when its queue is full, it
///   fails with [`StoreErrorKind::Overloaded`]. The store was not called.
/// - **`renew`, `release` and `refund` pass the queue**, up to 256 calls at once: a lease that cannot be renewed would be lost, and what
///   cannot be given back stays taken.
/// - A joint call is one call, of the limit of its first request. A batch is one call for each 32 requests, one after the other.
///
/// In a Worker there is no bound: a request there cannot wake another one.
///
/// Timeouts, breakers and latencies belong inside, so that they measure the store and not the queue.
pub struct BulkheadStore<S> {
    store: S,
    name: Box<str>,
    slots: FairConcurrency,
    controller: Mutex<Aimd>,
    /// The calls that pass the queue.
    giving_back: AtomicU32,
    timeout: Duration,
    sleeper: Arc<dyn Sleeper>,
}

impl<S: Store> BulkheadStore<S> {
    /// Wraps `store`, which metrics call `name`, and whose calls may take up to `timeout`. A call waits for its turn for as long,
    /// measured on `sleeper`, whose clock should not jump.
    pub fn new(store: S, name: &str, timeout: Duration, sleeper: impl Sleeper + 'static) -> Self {
        telemetry::describe_metrics();
        let sleeper: Arc<dyn Sleeper> = Arc::new(sleeper);
        let slots = FairConcurrency::builder(INITIAL_IN_FLIGHT)
            .queue(QUEUE_PER_LIMIT)
            .total_queue(TOTAL_QUEUE)
            .idle_after(IDLE_AFTER)
            .sleeper(Arc::clone(&sleeper))
            .build();
        let max_in_flight = store.capabilities().max_in_flight.map_or(DEFAULT_MAX_IN_FLIGHT, u32::from);
        let controller = Mutex::new(Aimd::default());
        let (name, giving_back) = (name.into(), AtomicU32::new(0));
        BulkheadStore { store, name, slots, controller, giving_back, timeout, sleeper }.max_in_flight(max_in_flight)
    }
}

impl<S> BulkheadStore<S> {
    /// Sets the most calls in the store at once; 0 counts as 1.
    #[must_use]
    pub fn max_in_flight(mut self, calls: u32) -> Self {
        let controller = Aimd::default().min(MIN_IN_FLIGHT.min(calls)).max(calls).initial(INITIAL_IN_FLIGHT);
        let controller = controller.target(self.timeout / 2).back_off(0.5);
        self.slots.set_limit(controller.limit());
        self.controller = Mutex::new(controller);
        self
    }

    /// Returns how many calls may be in the store.
    pub fn limit(&self) -> u32 {
        self.slots.limit()
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

    /// Waits for the turn of a call.
    async fn enter(&self, requests: &[Request<'_>]) -> Result<Turn<'_>, StoreError> {
        // A request cannot wake another one there.
        if cfg!(target_arch = "wasm32") {
            return Ok(Turn::Passing(None));
        }
        let waits = |request: &Request<'_>| !matches!(request.op, Op::Renew(_) | Op::Release(_) | Op::Refund(_));
        if !requests.iter().any(waits)
            && let Some(turn) = self.give_back()
        {
            return Ok(turn);
        }
        if !self.sleeper.can_sleep() {
            return Err(no_timer());
        }
        let Some(first) = requests.first() else { return Ok(Turn::Passing(None)) };
        let limit = Key::from(first.scope.limit());
        let permit = self.slots.acquire_for(current_caller(), &limit, self.timeout).await;
        permit.map(Turn::Own).map_err(|rejected| {
            let error = StoreError::new(StoreErrorKind::Overloaded, rejected.to_string());
            telemetry::record_store_error(&self.name, &error);
            error
        })
    }

    /// Returns a turn that passes the queue, if there are not too many.
    fn give_back(&self) -> Option<Turn<'_>> {
        let next = |calls| (calls < MAX_GIVING_BACK).then_some(calls + 1);
        self.giving_back.try_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(Turn::Passing(Some(GiveBackGuard(&self.giving_back))))
    }

    async fn call<T>(
        &self,
        requests: &[Request<'_>],
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let turn = self.enter(requests).await?;
        self.observe(turn, call, |result| result.as_ref().err()).await
    }

    /// Makes a call and adapts the bound to its latency.
    async fn observe<T>(
        &self,
        turn: Turn<'_>,
        call: impl Future<Output = T>,
        error: impl Fn(&T) -> Option<&StoreError>,
    ) -> T {
        if let Turn::Passing(_) = turn {
            return call.await;
        }
        let (started, in_flight) = (self.sleeper.now(), self.slots.in_flight());
        let result = call.await;
        let dropped = error(&result).is_some_and(is_late);
        if error(&result).is_some_and(|error| error.kind() == StoreErrorKind::Unavailable) {
            // It tells nothing about the latency of the store.
            return result;
        }
        let (before, after) = {
            let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
            let before = controller.limit();
            controller.observe(&Sample { started, ended: self.sleeper.now(), in_flight, dropped });
            (before, controller.limit())
        };
        // Wakes calls, and so not under the lock.
        if after != before {
            self.slots.set_limit(after);
        }
        result
    }
}

/// The turn of a call, which ends when this is dropped.
enum Turn<'a> {
    /// A place among the calls in the store.
    Own(#[expect(dead_code, reason = "held for its drop")] Permit),
    /// No place: the call passes the queue.
    Passing(#[expect(dead_code, reason = "held for its drop")] Option<GiveBackGuard<'a>>),
}

/// Counts a call that passes the queue until it is dropped.
struct GiveBackGuard<'a>(&'a AtomicU32);

impl Drop for GiveBackGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether a call was not answered in time.
fn is_late(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Timeout | StoreErrorKind::Overloaded)
}

/// Returns the error of a batch of which nothing was answered in time.
fn late_batch(results: &[Result<Decision, StoreError>]) -> Option<&StoreError> {
    let is_late = |result: &Result<Decision, StoreError>| result.as_ref().is_err_and(is_late);
    results.iter().all(is_late).then(|| results.last()?.as_ref().err()).flatten()
}

impl<S: fmt::Debug> fmt::Debug for BulkheadStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadStore")
            .field("store", &self.store)
            .field("slots", &self.slots)
            .field("timeout", &self.timeout)
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

    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        self.store.partition(scope, key)
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
        let mut results = Vec::with_capacity(requests.len());
        for part in requests.chunks(REQUESTS_PER_TIMEOUT) {
            let answers = match self.enter(part).await {
                Ok(turn) => self.observe(turn, self.store.apply_each(part), |answers| late_batch(answers)).await,
                Err(error) => vec![Err(error); part.len()],
            };
            let late = late_batch(&answers).cloned();
            results.extend(answers);
            // After a part that came too late, the rest would, too.
            if let Some(error) = late {
                results.resize(requests.len(), Err(error));
                break;
            }
        }
        results
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
