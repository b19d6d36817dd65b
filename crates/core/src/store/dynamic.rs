//! `DynStore`: the store contract as a trait object.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use super::{Capabilities, Request, Store, StoreError, StoreErrorKind};
use crate::{Decision, JointDecision, Key, Scope};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Store`] as a trait object: `Arc<dyn DynStore>` is a [`Store`] again. Implemented for every store, never by hand.
pub trait DynStore: Send + Sync {
    /// See [`Store::capabilities`].
    fn dyn_capabilities(&self) -> Capabilities;

    /// See [`Store::is_immediate`].
    fn dyn_is_immediate(&self) -> bool;

    /// See [`Store::prefetch`].
    fn dyn_prefetch(&self, scope: &Scope, key: &Key<'_>);

    /// See [`Store::partition`].
    fn dyn_partition(&self, scope: &Scope, key: &Key<'_>) -> u8;

    /// See [`Store::try_apply`].
    fn dyn_try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>>;

    /// See [`Store::apply`].
    fn dyn_apply<'a>(&'a self, request: &'a Request<'_>) -> BoxFuture<'a, Result<Decision, StoreError>>;

    /// [`Store::apply_all`] of an [immediate](Store::is_immediate) store.
    fn dyn_try_apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError>;

    /// See [`Store::apply_all`].
    fn dyn_apply_all<'a>(&'a self, requests: &'a [Request<'_>]) -> BoxFuture<'a, Result<JointDecision, StoreError>>;

    /// See [`Store::apply_each`].
    fn dyn_apply_each<'a>(&'a self, requests: &'a [Request<'_>]) -> BoxFuture<'a, Vec<Result<Decision, StoreError>>>;

    /// See [`Store::close`].
    fn dyn_close(&self) -> BoxFuture<'_, ()>;
}

impl<S: Store> DynStore for S {
    fn dyn_capabilities(&self) -> Capabilities {
        self.capabilities()
    }

    fn dyn_is_immediate(&self) -> bool {
        self.is_immediate()
    }

    fn dyn_prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.prefetch(scope, key);
    }

    fn dyn_partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        self.partition(scope, key)
    }

    fn dyn_try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.try_apply(request)
    }

    fn dyn_apply<'a>(&'a self, request: &'a Request<'_>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.apply(request))
    }

    fn dyn_try_apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        poll_once(self.apply_all(requests))
    }

    fn dyn_apply_all<'a>(&'a self, requests: &'a [Request<'_>]) -> BoxFuture<'a, Result<JointDecision, StoreError>> {
        Box::pin(self.apply_all(requests))
    }

    fn dyn_apply_each<'a>(&'a self, requests: &'a [Request<'_>]) -> BoxFuture<'a, Vec<Result<Decision, StoreError>>> {
        Box::pin(self.apply_each(requests))
    }

    fn dyn_close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}

impl Store for dyn DynStore + '_ {
    fn capabilities(&self) -> Capabilities {
        self.dyn_capabilities()
    }

    fn is_immediate(&self) -> bool {
        self.dyn_is_immediate()
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.dyn_prefetch(scope, key);
    }

    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        self.dyn_partition(scope, key)
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.dyn_try_apply(request)
    }

    // An immediate answer needs no future on the heap.

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        match self.dyn_is_immediate().then(|| self.dyn_try_apply(request)).flatten() {
            Some(answer) => answer,
            None => self.dyn_apply(request).await,
        }
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        if self.dyn_is_immediate() {
            return self.dyn_try_apply_all(requests);
        }
        self.dyn_apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.dyn_apply_each(requests).await
    }

    async fn close(&self) {
        self.dyn_close().await;
    }
}

/// Returns the answer of an [immediate](Store::is_immediate) store without waiting. A pending answer is an error.
pub fn poll_once<T, E: From<StoreError>>(answer: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(pending_error().into()),
    }
}

#[cold]
fn pending_error() -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, "a store that says it answers at once keeps its callers waiting")
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn pending_answer_of_an_immediate_store_is_an_error() {
        assert_eq!(poll_once::<_, StoreError>(ready(Ok(7))).unwrap(), 7);
        let error = poll_once::<(), StoreError>(pending()).unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (StoreErrorKind::Unsupported, false));
    }
}
