//! Each limit's failure policy.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use tidegate_core::{
    All, Capabilities, Decision, Key, OnStoreError, Op, Reason, Request, Scope, State, Store, StoreError,
    StoreErrorKind, Timestamp, step,
};

use super::local::Local;
use super::telemetry;
use crate::clock::{Clock, SystemClock};
use crate::store::memory::MemoryStats;

/// A store that answers what the one inside could not, as each request's limit says with [`OnStoreError`]:
///
/// - `Open` admits it, with the reason [`Store`](tidegate_core::Reason::Store).
/// - `Closed` passes the error on.
/// - `Local` decides in process, in a store of its own with room for [`Fallback::max_keys`], under the share of one
///   of [`Fallback::expected_replicas`]: see [`Quota::share`](tidegate_core::Quota::share). That store is made for the
///   first request that needs it. It is dropped when the store inside answers, no request has needed it for a second, and
///   every key in it is as good as new.
///
/// A lease that was admitted without the store is none: nobody holds a place, and nobody has to release it. Under `Local`
/// leases are of this process alone: one that the store had given out takes a place of the share when it is renewed, and
/// the store has it back at the end of its time to live, released or not.
///
/// Of several requests at once the strictest policy decides about all: `Closed` over `Local` over `Open`.
///
/// [`StoreErrorKind::Unsupported`] is a mistake in the program, and passed on whatever the policy.
///
/// What the store inside does not know of, it does not count when it is back: after an outage keys have what they had
/// before it, and what time has brought since.
pub struct Fallback<S> {
    store: S,
    local: Local,
    label: fn(&Scope) -> &str,
}

impl<S> Fallback<S> {
    /// A store around `store` with the defaults.
    pub fn new(store: S) -> Self {
        telemetry::describe();
        let local = Local::new(NonZeroU32::MIN, 100_000, Arc::new(SystemClock));
        Fallback { store, local, label: Scope::limit }
    }

    /// Among how many processes the quota of a `Local` limit is divided: 1 unless said otherwise. 0 counts as 1.
    #[must_use]
    pub fn expected_replicas(mut self, replicas: u32) -> Self {
        self.local.replicas = NonZeroU32::new(replicas).unwrap_or(NonZeroU32::MIN);
        self
    }

    /// For how many keys of `Local` limits there is room: 100,000 unless said otherwise.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.local.max_keys = max_keys;
        self
    }

    /// What `Local` limits count by: the system's clock unless said otherwise.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.local.clock = Arc::new(clock);
        self
    }

    /// What a limit is called in metrics: its name unless said otherwise. Where clients make up names, they must not make up
    /// labels: each is kept for ever.
    #[must_use]
    pub fn label(mut self, label: fn(&Scope) -> &str) -> Self {
        self.label = label;
        self
    }

    /// What is held for `Local` limits; none while the store is fine, and everything taken without it has come back.
    pub fn local(&self) -> Option<MemoryStats> {
        self.local.stats()
    }

    /// The store around which this one is.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// The answer of the store, or what the policy makes of its failure.
    fn answer(&self, request: &Request<'_>, result: Result<Decision, StoreError>) -> Result<Decision, StoreError> {
        let error = match result {
            Err(error) if is_failure(&error) => error,
            result => return self.pass_on(result),
        };
        telemetry::fell_back((self.label)(request.scope), request.on_store_error);
        match request.on_store_error {
            OnStoreError::Closed => Err(error),
            OnStoreError::Local => self.local.decide(request),
            OnStoreError::Open => Ok(admitted(request)),
        }
    }

    async fn answer_all(&self, requests: &[Request<'_>], result: Result<All, StoreError>) -> Result<All, StoreError> {
        let error = match result {
            Err(error) if is_failure(&error) => error,
            result => return self.pass_on(result),
        };
        if requests.iter().any(|request| !matches!(request.op, Op::Limit(_)) || !request.quota.takes(request.op)) {
            // The store did not come to say so.
            return Err(StoreError::new(StoreErrorKind::Unsupported, "all-or-nothing is for `limit` only"));
        }
        let wanted = |policy: &OnStoreError| requests.iter().any(|request| request.on_store_error == *policy);
        let policy = OnStoreError::ALL.into_iter().find(wanted).unwrap_or_default();
        requests.iter().for_each(|request| telemetry::fell_back((self.label)(request.scope), policy));
        match policy {
            OnStoreError::Closed => Err(error),
            OnStoreError::Local => self.local.decide_all(requests).await,
            OnStoreError::Open => Ok(All::new(requests.iter().map(admitted).collect())),
        }
    }

    fn pass_on<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_ok() {
            self.local.answered();
        }
        result
    }
}

/// Whether the failure policy answers this: everything that is not a mistake of the caller.
fn is_failure(error: &StoreError) -> bool {
    error.kind() != StoreErrorKind::Unsupported
}

/// What can be said without knowing the key: it is admitted, unless nobody ever would be.
fn admitted(request: &Request<'_>) -> Decision {
    let fresh = step(request.quota, &mut State::New, request.op, Timestamp::EPOCH).decision;
    let never = fresh.reason() == Some(Reason::CostExceedsCapacity);
    if never { fresh } else { Decision::admitted_without_store(request.quota.parts().capacity) }
}

impl<S: fmt::Debug> fmt::Debug for Fallback<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback").field("store", &self.store).field("local", &self.local()).finish_non_exhaustive()
    }
}

impl<S: Store> Store for Fallback<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn answers_at_once(&self) -> bool {
        self.store.answers_at_once()
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.store.prefetch(scope, key);
    }

    fn apply_now(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.store.apply_now(request).map(|result| self.answer(request, result))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.answer(request, self.store.apply(request).await)
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.answer_all(requests, self.store.apply_all(requests).await).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let results = self.store.apply_each(requests).await;
        requests.iter().zip(results).map(|(request, result)| self.answer(request, result)).collect()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(feature = "testing")]
impl<S: tidegate_core::Testing> tidegate_core::Testing for Fallback<S> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.answer(request, self.store.apply_at(request, at).await)
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<All, StoreError> {
        self.answer_all(requests, self.store.apply_all_at(requests, at).await).await
    }

    async fn held_at(&self, at: Timestamp) -> Option<usize> {
        self.store.held_at(at).await
    }
}
