//! `TimeoutStore`: a time limit for each request to a store.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Capabilities, Decision, JointDecision, Key, Request, Scope, Store, StoreError, StoreErrorKind};

use crate::clock::{Sleeper, complete_before};

/// How many requests of one [`Store::apply_each`] share one timeout. A larger batch is sent in parts of this size, one after
/// the other: the total time of a large batch says nothing about the health of the store.
pub(crate) const REQUESTS_PER_TIMEOUT: usize = 32;

/// A store that fails each request with [`StoreErrorKind::Timeout`] once it has taken too long.
///
/// A request that times out is dropped. As after any error, it may or may not have been applied. A batch of
/// [`Store::apply_each`] is sent in parts of up to 32 requests, each with a timeout of its own; after the first timeout the
/// rest of the batch fails without being sent. [`Store::try_apply`] never waits and [`Store::close`] is not a request:
/// neither has a timeout.
pub struct TimeoutStore<S> {
    store: S,
    timeout: Duration,
    sleeper: Arc<dyn Sleeper>,
}

impl<S> TimeoutStore<S> {
    /// Wraps `store`. Each request may take up to `timeout`, measured on `sleeper`.
    pub fn new(store: S, timeout: Duration, sleeper: impl Sleeper + 'static) -> Self {
        TimeoutStore { store, timeout, sleeper: Arc::new(sleeper) }
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.store
    }

    async fn with_timeout<T>(&self, call: impl Future<Output = T>) -> Result<T, StoreError> {
        if !self.sleeper.can_sleep() {
            return Err(no_timer());
        }
        complete_before(self.sleeper.sleep(self.timeout), call)
            .await
            .ok_or_else(|| StoreError::new(StoreErrorKind::Timeout, format!("no answer within {:?}", self.timeout)))
    }
}

/// The error of a call outside of the runtime whose timer it would need.
pub(super) fn no_timer() -> StoreError {
    let advice = "there is no tokio runtime here to time the store: call the limiter in one, set `LimiterBuilder::sleeper`, or take \
                  the store as it is with `bare_store`";
    StoreError::new(StoreErrorKind::Unsupported, advice)
}

impl<S: fmt::Debug> fmt::Debug for TimeoutStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TimeoutStore { store, timeout, .. } = self;
        f.debug_struct("TimeoutStore").field("store", store).field("timeout", timeout).finish_non_exhaustive()
    }
}

impl<S: Store> Store for TimeoutStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    /// Returns false: each call starts a timer, which needs a runtime to drive it.
    fn is_immediate(&self) -> bool {
        false
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.store.prefetch(scope, key);
    }

    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        self.store.partition(scope, key)
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.store.try_apply(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.with_timeout(self.store.apply(request)).await?
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.with_timeout(self.store.apply_all(requests)).await?
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let mut results = Vec::with_capacity(requests.len());
        for part in requests.chunks(REQUESTS_PER_TIMEOUT) {
            match self.with_timeout(self.store.apply_each(part)).await {
                Ok(answers) => results.extend(answers),
                Err(error) => {
                    results.resize(requests.len(), Err(error));
                    break;
                }
            }
        }
        results
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(feature = "testing")]
impl<S: tidegate_core::TestableStore> tidegate_core::TestableStore for TimeoutStore<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        self.with_timeout(self.store.apply_at(request, at)).await?
    }

    async fn apply_all_at(
        &self,
        requests: &[Request<'_>],
        at: tidegate_core::Timestamp,
    ) -> Result<JointDecision, StoreError> {
        self.with_timeout(self.store.apply_all_at(requests, at)).await?
    }

    async fn sweep_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        self.store.sweep_at(at).await
    }
}
