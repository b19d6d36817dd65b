//! `WaitingStore`: a store that never answers immediately, like stores that do I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::store::{Capabilities, Request};
use tidegate::{Decision, JointDecision, Store, StoreError};
use tokio::task::yield_now;

/// A store that never answers at once, as stores that do I/O.
pub(crate) struct WaitingStore<S> {
    store: S,
    /// The number of rejected immediate calls.
    pub(crate) attempts: Arc<AtomicUsize>,
}

impl<S> WaitingStore<S> {
    pub(crate) fn new(store: S) -> Self {
        WaitingStore { store, attempts: Arc::default() }
    }
}

impl<S: Store> Store for WaitingStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        yield_now().await;
        self.store.apply(request).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        yield_now().await;
        self.store.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        yield_now().await;
        self.store.apply_each(requests).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
