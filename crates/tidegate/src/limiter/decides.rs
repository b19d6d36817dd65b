//! Whom a call is asked of.

use tidegate_core::{All, Decision, DynStore, Request, Store, StoreError};

/// Whom a call is asked of: the limiter's store, or a transaction of the caller's. A transaction is no store, because
/// nobody else sees it, and it may belong to one thread.
pub(crate) trait Decides {
    /// [`Store::apply`].
    async fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError>;

    /// [`Store::apply_all`].
    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError>;

    /// [`Store::apply_each`].
    async fn decide_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>>;
}

impl Decides for dyn DynStore + '_ {
    async fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.apply(request).await
    }

    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.apply_all(requests).await
    }

    async fn decide_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.apply_each(requests).await
    }
}
