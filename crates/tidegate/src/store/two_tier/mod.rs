//! `TwoTierStore`: spends quota in process, in batches taken from a shared store.

mod balance;
mod builder;
#[cfg(test)]
mod model;
mod refill;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{
    Capabilities, Decision, JointDecision, Key, Op, Request, Scope, Store, StoreError, StoreErrorKind, Timestamp,
};
use tokio::runtime::Handle;

use balance::{BatchRules, batched_cost};
pub use builder::TwoTierStoreBuilder;
use refill::SharedState;
use table::{KeyEntry, Refill, RefillResult, Waiter};

/// How often a request waits for a refill that other requests may spend first, before it goes to the store itself.
const MAX_WAITS: usize = 2;

/// A store that takes quota from a shared store in batches and spends it in process: for keys with more requests than a
/// server can answer.
///
/// ```
/// use tidegate::{Limiter, MemoryStore, Quota, TwoTierStore, seconds};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let shared = MemoryStore::new(); // or RedisStore::connect(..), in a `TimeoutStore`
/// let store = TwoTierStore::builder().expected_replicas(16).build(shared);
/// let limiter = Limiter::builder().limit("api", Quota::token_bucket(10_000, seconds(1))?).store(store).build()?;
/// // At the end, limiter.close().await returns unspent units.
/// # Ok(()) }
/// ```
///
/// # The bound
///
/// With `n` processes, and `batch` the largest balance of one of them, `capacity / expected_replicas` rounded down. The
/// balance is smaller where less is used in 20 milliseconds.
///
/// | algorithm | admitted, at most |
/// | --- | --- |
/// | `token_bucket` | capacity + rate * t + n * batch in any span t; with no more processes than expected, 2 * capacity + rate * t |
/// | `fixed_window` | in each window what the store admits: the limit itself |
/// | `sliding_window` | what the store admits, in each of its buckets: the bound of the algorithm |
///
/// The store counts the units of a token bucket when they are taken, and a process spends them later. So in the long run the
/// rate is never exceeded. Units that are being returned count towards the batch of their process. Units of a window, or of a bucket of a sliding window, are dropped before it ends. The store's
/// answers tell when that is: clocks may differ by any amount, as long as they run at the same speed, to 1 part in 256. A
/// clock that is set back between two requests can extend the life of a balance by as much.
///
/// Some requests go to the shared store one by one, and stay as exact as it is: `sliding_log` and `concurrency`, quotas of
/// less than 2 for each process, windows shorter than half a second (for `sliding_window`, its buckets), costs above a
/// batch, `reserve`, all-or-nothing requests, and keys beyond the maximum.
///
/// # Decisions
///
/// - `remaining` is the balance plus what the store had left at its last answer. Other processes may have taken that since.
/// - A denial is answered in process until its `retry_after`, except for one request a second. So a refund of another process
///   is seen late. `retry_after` is when the store would be called again and have enough, if no process takes anything: up to
///   15 milliseconds late, never too early. In a window, for a larger cost than the one that was denied, it is the time of
///   the whole capacity.
/// - `reset_after` and `next_after` are those of the store's last answer.
/// - `check` of more than the balance is answered by the store alone: it may deny what `limit` admits from the balance.
///
/// # Returns
///
/// A balance that was not used for a second is returned to the store, and every balance is on [`Store::close`], which
/// `Limiter::close` calls. Units of a window are returned only while 5 seconds of it are left, so that they do not arrive
/// after its end: a return that is delayed for longer counts for the next window. When the store is dropped, which cannot
/// wait, or the process dies, its balances are lost until the quota is replenished. `reset` clears the balance of this
/// process; other processes still spend theirs.
///
/// # Errors
///
/// A balance is spent whether the store works or not. When a refill fails, every request that waits for it gets the error.
/// A refill waits as long as the store does, so put the store in a [`TimeoutStore`](crate::resilience::TimeoutStore).
/// [`Resilience`](crate::resilience::Resilience) can wrap this store, with a timeout several times as long, or be inside.
/// Local decisions of a limit with the policy `local` are not taken in batches.
///
/// # Runtime
///
/// Refills and returns run on the tokio runtime in which the store was built, and continue when their caller is dropped. A
/// store that was built outside a runtime uses that of the caller: then a refill waits while that runtime is busy. Without
/// any runtime, balances are spent and all other requests go to the store.
pub struct TwoTierStore<S> {
    inner: Arc<SharedState<S>>,
}

impl TwoTierStore<std::convert::Infallible> {
    /// Returns a builder with the default settings.
    pub fn builder() -> TwoTierStoreBuilder {
        TwoTierStoreBuilder::default()
    }
}

/// The result of an attempt to spend from a balance.
enum SpendAttempt {
    Decided(Decision),
    Wait(Waiter),
    CallStore,
}

impl<S: Store + 'static> TwoTierStore<S> {
    /// Wraps `store`, with the default settings.
    pub fn new(store: S) -> Self {
        TwoTierStoreBuilder::default().build(store)
    }

    /// Returns the shared store.
    pub fn inner(&self) -> &S {
        &self.inner.store
    }

    /// Returns how many keys have a balance, or had one a moment ago.
    pub fn keys(&self) -> usize {
        self.inner.table.keys()
    }

    /// Decides from the balance. Returns `None`, and changes nothing, when the store must decide.
    #[inline]
    fn decide_in_process(&self, request: &Request<'_>) -> Option<Decision> {
        let cost = batched_cost(request)?;
        let mut shard = self.inner.table.lock(request);
        let entry = shard.entry(request)?;
        let now = self.inner.sleeper.now();
        if let Op::Check(_) = request.op {
            return entry.balance.check(&entry.account.rules, cost, now);
        }
        let decision = entry.balance.take(&entry.account.rules, cost, now)?;
        let low = entry.balance.is_low(now);
        let refill = if low { self.prefetch_batch(entry, request, now) } else { None };
        drop(shard);
        if let Some((refill, runtime)) = refill {
            self.inner.send(refill, &runtime);
        }
        Some(decision)
    }

    /// Begins the refill of a balance that is nearly spent.
    #[inline(never)]
    fn prefetch_batch(&self, entry: &mut KeyEntry, request: &Request<'_>, now: Timestamp) -> Option<(Refill, Handle)> {
        if self.inner.table.is_closed() {
            return None;
        }
        let runtime = self.inner.runtime()?;
        Some((entry.begin_refill(1, request.on_store_error, now)?, runtime))
    }

    /// Spends from the balance, or begins a refill or joins the pending one if the request still waits.
    fn attempt(&self, request: &Request<'_>, cost: u64, rules: BatchRules, waits: bool) -> SpendAttempt {
        let Some(runtime) = self.inner.runtime() else { return SpendAttempt::CallStore };
        let mut refill = None;
        let attempt = self.inner.table.with_or_insert(request, rules, &*self.inner.sleeper, |entry| {
            let now = self.inner.sleeper.now();
            if let Some(decision) = entry.balance.take(&rules, cost, now) {
                return SpendAttempt::Decided(decision);
            }
            if !waits {
                return SpendAttempt::CallStore;
            }
            refill = entry.begin_refill(cost, request.on_store_error, now);
            entry.wait(cost).map_or(SpendAttempt::CallStore, SpendAttempt::Wait)
        });
        if let Some(refill) = refill {
            self.inner.send(refill, &runtime);
        }
        attempt.unwrap_or(SpendAttempt::CallStore)
    }

    /// Spends from the balance, after a refill if needed. Returns `None` when the store must decide.
    async fn spend(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        let (Op::Limit(_), Some(cost)) = (request.op, batched_cost(request)) else { return None };
        let rules = BatchRules::new(request.quota, self.inner.replicas).filter(|rules| cost <= rules.max)?;
        for wait in 0..=MAX_WAITS {
            let waiter = match self.attempt(request, cost, rules, wait < MAX_WAITS) {
                SpendAttempt::Decided(decision) => return Some(Ok(decision)),
                SpendAttempt::Wait(waiter) => waiter,
                SpendAttempt::CallStore => return None,
            };
            match waiter.result().await {
                Some(RefillResult::Fallback(decision, policy)) => {
                    return (policy == request.on_store_error).then_some(Ok(decision));
                }
                Some(RefillResult::Failed(error, policy)) => {
                    return (policy == request.on_store_error).then_some(Err(error));
                }
                _ => {}
            }
        }
        None
    }

    async fn ask_store(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        // A call that is dropped before the answer may have been applied.
        let _updates = self.begin_store_call(std::slice::from_ref(request));
        self.inner.store.apply(request).await
    }

    /// Prepares a call to the store: balances of the same keys under other quotas are dropped.
    fn begin_store_call<'a>(&'a self, requests: &'a [Request<'a>]) -> BalanceUpdates<'a, S> {
        let taking = requests.iter().filter(|request| !matches!(request.op, Op::Check(_)));
        taking.for_each(|request| self.inner.table.remove_stale(request));
        BalanceUpdates { store: self, requests }
    }

    fn update_balance(&self, request: &Request<'_>) {
        match request.op {
            Op::Refund(_) => self.inner.table.with(request, |entry| entry.balance.record_refund()),
            Op::Reset => self.inner.table.with(request, |entry| entry.balance.reset()),
            _ => None,
        };
    }
}

/// Applies refunds and resets to the balances, however a call to the store ends.
struct BalanceUpdates<'a, S: Store + 'static> {
    store: &'a TwoTierStore<S>,
    requests: &'a [Request<'a>],
}

impl<S: Store + 'static> Drop for BalanceUpdates<'_, S> {
    fn drop(&mut self) {
        self.requests.iter().for_each(|request| self.store.update_balance(request));
    }
}

fn missing_answer() -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "the store returned fewer answers than there were requests")
}

impl<S: fmt::Debug> fmt::Debug for TwoTierStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.inner.table.keys();
        f.debug_struct("TwoTierStore").field("store", &self.inner.store).field("keys", &keys).finish_non_exhaustive()
    }
}

impl<S: Store + 'static> Store for TwoTierStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.store.capabilities()
    }

    /// Returns false: the first request for a key waits for a refill, whatever the store is.
    fn is_immediate(&self) -> bool {
        false
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.inner.store.prefetch(scope, key);
    }

    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        self.inner.store.partition(scope, key)
    }

    #[inline]
    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        if let Some(decision) = self.decide_in_process(request) {
            return Some(Ok(decision));
        }
        // A request that can be served by a refill waits for it, even if the store could answer at once.
        if let (Op::Limit(_), true) = (request.op, BatchRules::new(request.quota, self.inner.replicas).is_some()) {
            return None;
        }
        // Without an answer nothing was applied.
        let answer = self.inner.store.try_apply(request)?;
        drop(self.begin_store_call(std::slice::from_ref(request)));
        Some(answer)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        if let Some(decision) = self.decide_in_process(request) {
            return Ok(decision);
        }
        match self.spend(request).await {
            Some(answer) => answer,
            None => self.ask_store(request).await,
        }
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        let _updates = self.begin_store_call(requests);
        self.inner.store.apply_all(requests).await
    }

    /// Spends balances, and sends the other requests to the store in one call. If there is a refund or reset, all requests
    /// go to the store: those after it must see it.
    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        if requests.iter().any(|request| matches!(request.op, Op::Refund(_) | Op::Reset)) {
            let _updates = self.begin_store_call(requests);
            return self.inner.store.apply_each(requests).await;
        }
        let mut answers: Vec<_> = requests.iter().map(|request| self.decide_in_process(request).map(Ok)).collect();
        let undecided = requests.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
        let undecided: Vec<_> = undecided.map(|(request, _)| *request).collect();
        if undecided.is_empty() {
            return answers.into_iter().flatten().collect();
        }
        let _updates = self.begin_store_call(&undecided);
        let mut from_store = self.inner.store.apply_each(&undecided).await.into_iter();
        for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
            *answer = Some(from_store.next().unwrap_or_else(|| Err(missing_answer())));
        }
        answers.into_iter().flatten().collect()
    }

    async fn close(&self) {
        for mut refill in self.inner.table.close() {
            // An error means that the refill was dropped.
            let _ = refill.wait_for(Option::is_some).await;
        }
        self.inner.return_idle(Duration::ZERO).await;
        self.inner.store.close().await;
    }
}

/// Bypasses the balances: a balance has its own clock.
#[cfg(feature = "testing")]
impl<S: tidegate_core::TestableStore + 'static> tidegate_core::TestableStore for TwoTierStore<S> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.inner.store.apply_at(request, at).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.inner.store.apply_all_at(requests, at).await
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        self.inner.store.sweep_at(at).await
    }
}
