//! The remote store of a Worker for tests, whose objects can be swept at any time.

use std::sync::Arc;

use tidegate::remote::RemoteStore;
use tidegate::store::{Capabilities, Request, Testing};
use tidegate::{Decision, JointDecision, Store, StoreError, Timestamp};

use crate::edge::Edge;

/// The remote store of a Worker for tests, which can say what it holds.
pub(crate) struct Swept {
    store: RemoteStore,
    edge: Arc<Edge>,
}

impl Swept {
    pub(crate) fn new(edge: Arc<Edge>) -> Self {
        Swept { store: edge.store(), edge }
    }
}

impl Store for Swept {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.store.try_apply(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.store.apply(request).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.store.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.store.apply_each(requests).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

impl Testing for Swept {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.store.apply_at(request, at).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.store.apply_all_at(requests, at).await
    }

    async fn held_at(&self, at: Timestamp) -> Option<usize> {
        let edge = self.edge.clone();
        let held = tokio::task::spawn_blocking(move || edge.swept(at.as_micros())).await.unwrap();
        usize::try_from(held).ok()
    }
}
