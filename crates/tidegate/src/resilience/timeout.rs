//! No request waits longer than a span.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{All, Capabilities, Decision, Key, Request, Scope, Store, StoreError, StoreErrorKind};

use crate::clock::{Sleeper, before};

/// How many of the requests of one [`Store::apply_each`] share a span. More are asked one such part after the other, because
/// the time that a whole batch takes says nothing about whether the store is well.
pub(crate) const TOGETHER: usize = 32;

/// A store whose every request ends within a span: with the answer, or with [`StoreErrorKind::Timeout`].
///
/// A request that took too long is dropped. As after any error, it may have been applied or not. Of many in one
/// [`Store::apply_each`], up to 32 at a time have the span; once some had no answer in it, the rest is not asked.
/// [`Store::apply_now`] never waits, and [`Store::close`] is not a request: both are passed on as they are.
pub struct Timeout<S> {
    store: S,
    within: Duration,
    sleeper: Arc<dyn Sleeper>,
}

impl<S> Timeout<S> {
    /// A store around `store` that answers `within` that span, measured on `sleeper`.
    pub fn new(store: S, within: Duration, sleeper: impl Sleeper + 'static) -> Self {
        Timeout { store, within, sleeper: Arc::new(sleeper) }
    }

    /// The store around which this one is.
    pub fn inner(&self) -> &S {
        &self.store
    }

    async fn limited<T>(&self, call: impl Future<Output = T>) -> Result<T, StoreError> {
        before(self.sleeper.sleep(self.within), call)
            .await
            .ok_or_else(|| StoreError::new(StoreErrorKind::Timeout, format!("no answer within {:?}", self.within)))
    }
}

impl<S: fmt::Debug> fmt::Debug for Timeout<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("store", &self.store).field("within", &self.within).finish_non_exhaustive()
    }
}

impl<S: Store> Store for Timeout<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    /// No: each call has a timer, which somebody has to run.
    fn answers_at_once(&self) -> bool {
        false
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.store.prefetch(scope, key);
    }

    fn apply_now(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.store.apply_now(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.limited(self.store.apply(request)).await?
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.limited(self.store.apply_all(requests)).await?
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let mut results = Vec::with_capacity(requests.len());
        for part in requests.chunks(TOGETHER) {
            match self.limited(self.store.apply_each(part)).await {
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
impl<S: tidegate_core::Testing> tidegate_core::Testing for Timeout<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        self.limited(self.store.apply_at(request, at)).await?
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: tidegate_core::Timestamp) -> Result<All, StoreError> {
        self.limited(self.store.apply_all_at(requests, at)).await?
    }

    async fn held_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        self.store.held_at(at).await
    }
}
