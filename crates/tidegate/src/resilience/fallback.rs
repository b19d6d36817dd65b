//! `FallbackStore`: each limit's policy for requests that the store failed.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tidegate_core::{
    Capabilities, Decision, DecisionParts, JointDecision, Key, OnStoreError, Op, Quota, Reason, Request, Scope, State,
    Store, StoreError, StoreErrorKind, Timestamp, step,
};

use crate::clock::{Clock, SystemClock};
use crate::store::EXPECTED_REPLICAS;
use crate::store::memory::{MemoryStats, MemoryStore};
use crate::telemetry;

/// How long an outage must have had no requests before it is over. One success of the store is not enough: a store that
/// fails every other request would cause a new table for each of them.
const MIN_QUIET_SPAN: Duration = Duration::from_secs(1);

/// A store that answers for the one inside when that fails, by the [`OnStoreError`] policy of each request's limit.
///
/// | policy | a request that the store failed |
/// | --- | --- |
/// | `Open` | is admitted, with the reason [`Store`](tidegate_core::Reason::Store) |
/// | `Closed` | gets the error |
/// | `Local` | is decided in process, under this process's [share](tidegate_core::Quota::share) of the quota |
///
/// **Local decisions** use a memory store with room for [`FallbackStore::max_keys`] keys, and the share of one of
/// [`FallbackStore::expected_replicas`] processes. The first request that needs it creates it. It is dropped when the store
/// inside answers, no request has needed it for a second, and every key in it is back at its full quota.
///
/// **Leases** that were admitted without the store take no place and need no release. Under `Local`, leases belong to this
/// process: renewing one that the store gave out takes a place of the local share, with the reason
/// [`Store`](tidegate_core::Reason::Store), and the store frees its own place when the lease expires, released or not.
///
/// **Several requests at once** are decided by their strictest policy: `Closed` over `Local` over `Open`.
///
/// **An overloaded store is not a broken one.** A request that takes, and that [`StoreErrorKind::Overloaded`] refuses, is denied under
/// `Open` and `Local`, with the reason [`Store`](tidegate_core::Reason::Store). Its `retry_after` is a hint of one second. A flood
/// must neither open a limit nor give it a second quota.
///
/// [`StoreErrorKind::Unsupported`] is a programming error, and is returned under every policy.
///
/// The store inside never learns of local decisions: after an outage a key has the quota it had before, plus what has been
/// replenished since. So with no more processes than expected, a span across an outage admits at most 3 * capacity + rate * t
/// under `Local`, and any span 2 * (capacity + rate * t).
pub struct FallbackStore<S> {
    store: S,
    local: LocalFallback,
    label: fn(&Scope) -> &str,
}

impl<S> FallbackStore<S> {
    /// Wraps `store`, with the default settings.
    pub fn new(store: S) -> Self {
        telemetry::describe_metrics();
        let local = LocalFallback {
            replicas: EXPECTED_REPLICAS,
            max_keys: 100_000,
            clock: Arc::new(SystemClock),
            outage: ArcSwapOption::empty(),
        };
        FallbackStore { store, local, label: Scope::limit }
    }

    /// Sets how many processes divide the quota of a `Local` limit. Defaults to 1, as every setting of this name does; 0
    /// counts as 1.
    #[must_use]
    pub fn expected_replicas(mut self, replicas: u32) -> Self {
        self.local.replicas = NonZeroU32::new(replicas).unwrap_or(NonZeroU32::MIN);
        self
    }

    /// Sets for how many keys of `Local` limits there is room. Defaults to 100,000.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.local.max_keys = max_keys;
        self
    }

    /// Sets the clock of local decisions. Defaults to the system's clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.local.clock = Arc::new(clock);
        self
    }

    /// Sets the name of a limit in metrics. Defaults to the limit's name. Where clients choose the names of limits, map them
    /// to a fixed set: every label value is kept forever.
    #[must_use]
    pub fn label(mut self, label: fn(&Scope) -> &str) -> Self {
        self.label = label;
        self
    }

    /// Returns statistics of the local store, or `None` when there is none: the store works, and all that was spent
    /// without it has been replenished.
    pub fn local(&self) -> Option<MemoryStats> {
        self.local.outage.load().as_ref().map(|outage| outage.store.stats())
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Applies the policy to an error of the store.
    fn apply_policy(
        &self,
        request: &Request<'_>,
        result: Result<Decision, StoreError>,
    ) -> Result<Decision, StoreError> {
        let error = match result {
            Err(error) if is_failure(&error) => error,
            result => return self.pass_through(result),
        };
        telemetry::record_fallback((self.label)(request.scope), request.on_store_error);
        match request.on_store_error {
            OnStoreError::Closed => Err(error),
            _ if is_overload(&error) && takes(request.op) => Ok(deny_overloaded(request)),
            OnStoreError::Local => self.local.decide(request),
            OnStoreError::Open => Ok(decide_open(request)),
        }
    }

    async fn apply_joint_policy(
        &self,
        requests: &[Request<'_>],
        result: Result<JointDecision, StoreError>,
    ) -> Result<JointDecision, StoreError> {
        let error = match result {
            Err(error) if is_failure(&error) => error,
            result => return self.pass_through(result),
        };
        if requests.iter().any(|request| !matches!(request.op, Op::Limit(_)) || !request.quota.supports(request.op)) {
            // The store would have said so, had it answered.
            return Err(StoreError::new(StoreErrorKind::Unsupported, "all-or-nothing is for `limit` only"));
        }
        let is_set = |policy: &OnStoreError| requests.iter().any(|request| request.on_store_error == *policy);
        let policy = OnStoreError::ALL.into_iter().find(is_set).unwrap_or_default();
        requests.iter().for_each(|request| telemetry::record_fallback((self.label)(request.scope), policy));
        match policy {
            OnStoreError::Closed => Err(error),
            _ if is_overload(&error) => Ok(JointDecision::new(requests.iter().map(deny_overloaded).collect())),
            OnStoreError::Local => self.local.decide_all(requests).await,
            OnStoreError::Open => Ok(JointDecision::new(requests.iter().map(decide_open).collect())),
        }
    }

    fn pass_through<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_ok() {
            self.local.end_outage();
        }
        result
    }
}

/// Returns whether the policy applies to this error: to all but programming errors.
fn is_failure(error: &StoreError) -> bool {
    error.kind() != StoreErrorKind::Unsupported
}

/// The retry hint of a request that found the store overloaded, in microseconds.
const OVERLOAD_RETRY: u64 = 1_000_000;

fn is_overload(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Overloaded
}

/// Returns whether an operation asks for quota. The others give back or keep what was admitted before.
fn takes(op: Op) -> bool {
    matches!(op, Op::Limit(_) | Op::Check(_) | Op::Reserve(_) | Op::Admit(_))
}

/// Decides a request of an `Open` limit without knowing its key: admits it, unless its cost can never be admitted.
fn decide_open(request: &Request<'_>) -> Decision {
    let fresh = step(request.quota, &mut State::New, request.op, Timestamp::EPOCH).decision;
    match fresh.reason() {
        Some(Reason::CostExceedsCapacity) => fresh,
        _ => Decision::admitted_without_store(request.quota.parts().capacity),
    }
}

/// Denies a request for which an overloaded store has no time, with a hint when to retry.
fn deny_overloaded(request: &Request<'_>) -> Decision {
    let decision = decide_open(request);
    match decision.reason() {
        Some(Reason::CostExceedsCapacity) => decision,
        _ => DecisionParts { allowed: false, retry_after: Some(OVERLOAD_RETRY), ..decision.into_parts() }.into(),
    }
}

/// Decides in process while the store fails, under a share of each quota.
struct LocalFallback {
    replicas: NonZeroU32,
    max_keys: usize,
    clock: Arc<dyn Clock>,
    outage: ArcSwapOption<Outage>,
}

/// A period in which the store fails, with the state of the keys that were decided in it.
struct Outage {
    store: MemoryStore,
    /// When it was last used, in microseconds.
    used_at: AtomicU64,
    /// When every key is back at its full quota, in microseconds. Dropping the table earlier would give these keys a new
    /// quota with the next failure.
    full_at: AtomicU64,
}

impl Outage {
    fn is_over(&self, now: Timestamp) -> bool {
        let [used, full] = [&self.used_at, &self.full_at].map(|at| Timestamp::from_micros(at.load(Ordering::Relaxed)));
        now.since(used) >= MIN_QUIET_SPAN && now >= full
    }
}

impl LocalFallback {
    fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let quota = request.quota.share(self.replicas);
        let op = match request.op {
            // The store may have given the lease out, and cannot say: its holder counts as in flight here.
            Op::Renew(lease) => Op::Admit(lease),
            op => op,
        };
        let outage = self.outage();
        let decision = outage.store.try_apply(&Request { quota: &quota, op, ..*request });
        let decision = decision.expect("the memory store never waits")?;
        self.extend_outage(&outage, decision.reset_after());
        Ok(mark_provisional(decision, request))
    }

    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        let quotas: Vec<Quota> = requests.iter().map(|request| request.quota.share(self.replicas)).collect();
        let shares = requests.iter().zip(&quotas).map(|(request, quota)| Request { quota, ..*request });
        let outage = self.outage();
        let all = outage.store.apply_all(&shares.collect::<Vec<_>>()).await?;
        self.extend_outage(&outage, all.decisions().iter().map(Decision::reset_after).max().unwrap_or_default());
        let decisions = all.into_decisions().into_iter().zip(requests);
        Ok(JointDecision::new(decisions.map(|(decision, request)| mark_provisional(decision, request)).collect()))
    }

    /// Drops the local state after an answer of the store, if no key would gain by that.
    fn end_outage(&self) {
        let outage = self.outage.load();
        if outage.as_ref().is_some_and(|outage| outage.is_over(self.clock.now())) {
            self.outage.compare_and_swap(&outage, None);
        }
    }

    /// Returns the current outage. Begins one if there is none.
    fn outage(&self) -> Arc<Outage> {
        let now = self.clock.now().as_micros();
        let outage = self.outage.load_full().unwrap_or_else(|| self.begin_outage(now));
        outage.used_at.store(now, Ordering::Relaxed);
        outage
    }

    fn begin_outage(&self, now: u64) -> Arc<Outage> {
        let store = MemoryStore::builder().max_keys(self.max_keys).clock(Arc::clone(&self.clock)).build();
        let new = Arc::new(Outage { store, used_at: AtomicU64::new(now), full_at: AtomicU64::new(now) });
        // Of several threads, the first wins, and the others use its outage.
        let other = self.outage.compare_and_swap(&None::<Arc<Outage>>, Some(Arc::clone(&new)));
        other.as_ref().map_or(new, Arc::clone)
    }

    /// Keeps the state for at least this long from now.
    fn extend_outage(&self, outage: &Outage, span: Duration) {
        outage.full_at.fetch_max(self.clock.now().saturating_add(span).as_micros(), Ordering::Relaxed);
    }
}

/// Gives a decision the reason `Store` where the store would decide otherwise once it is back: a cost that exceeds only the
/// share is not denied forever, and a reset or a renewal here is none there.
fn mark_provisional(decision: Decision, request: &Request<'_>) -> Decision {
    let is_provisional = match request.op {
        Op::Limit(cost) | Op::Check(cost) | Op::Reserve(cost) => {
            let fits = cost.get() <= u64::from(request.quota.parts().capacity);
            fits && decision.reason() == Some(Reason::CostExceedsCapacity)
        }
        Op::Reset | Op::Renew(_) => true,
        _ => false,
    };
    if !is_provisional {
        return decision;
    }
    let mut parts = decision.into_parts();
    parts.reason = Some(Reason::Store);
    parts.into()
}

impl<S: fmt::Debug> fmt::Debug for FallbackStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackStore")
            .field("store", &self.store)
            .field("local", &self.local())
            .finish_non_exhaustive()
    }
}

impl<S: Store> Store for FallbackStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities().with_failure_policy(true)
    }

    fn is_immediate(&self) -> bool {
        self.store.is_immediate()
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.store.prefetch(scope, key);
    }

    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        self.store.partition(scope, key)
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.store.try_apply(request).map(|result| self.apply_policy(request, result))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.apply_policy(request, self.store.apply(request).await)
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.apply_joint_policy(requests, self.store.apply_all(requests).await).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let results = self.store.apply_each(requests).await;
        requests.iter().zip(results).map(|(request, result)| self.apply_policy(request, result)).collect()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(feature = "testing")]
impl<S: tidegate_core::TestableStore> tidegate_core::TestableStore for FallbackStore<S> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.apply_policy(request, self.store.apply_at(request, at).await)
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.apply_joint_policy(requests, self.store.apply_all_at(requests, at).await).await
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        self.store.sweep_at(at).await
    }
}
