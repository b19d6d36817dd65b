//! A store that fails on command.

mod control;
mod gate;

use tidegate_core::{
    Capabilities, Decision, JointDecision, Key, Request, Scope, Store, StoreError, TestableStore, Timestamp,
};

pub use control::{CallCounts, Faults};
use control::{Fault, Method};

/// A store that passes calls to an inner store, fails, hangs or delays responses, as its [`Faults`] are set.
///
/// It has no timers: a call hangs until it is released or dropped.
///
/// ```
/// use tidegate_core::{Key, OnStoreError, Op, Cost, Quota, Request, Scope, Store, StoreError, StoreErrorKind, seconds};
/// use tidegate_testkit::{FaultyStore, MapStore, block_on};
///
/// let store = FaultyStore::new(MapStore::new());
/// let faults = store.faults();
/// let (scope, quota) = (Scope::new("", "login"), Quota::fixed_window(5, seconds(60))?);
/// let request = Request {
///     scope: &scope,
///     key: &Key::from("u1"),
///     quota: &quota,
///     op: Op::Limit(Cost::ONE),
///     on_store_error: OnStoreError::Closed,
/// };
///
/// faults.fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
/// assert!(block_on(store.apply(&request)).is_err());
/// faults.pass();
/// assert!(block_on(store.apply(&request))?.allowed());
/// assert_eq!(faults.calls().apply, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FaultyStore<S> {
    store: S,
    faults: Faults,
}

impl<S> FaultyStore<S> {
    /// Creates a store around `store`. At first it passes every call on.
    pub fn new(store: S) -> Self {
        FaultyStore { store, faults: Faults::new() }
    }

    /// Returns the handle that controls this store. Clones control the same store.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// Returns the inner store.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Makes one call of the inner store under the current fault.
    async fn call<T>(&self, method: Method, call: impl Future<Output = T>) -> Result<T, StoreError> {
        self.faults.count(method);
        match self.faults.fault() {
            Fault::Pass => Ok(call.await),
            Fault::Fail(error) => Err(error),
            Fault::Hang => {
                self.faults.wait_for_release().await;
                Ok(call.await)
            }
            Fault::Delay => {
                let response = call.await;
                self.faults.wait_for_release().await;
                Ok(response)
            }
        }
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    /// Returns false: the store may hang.
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
        self.faults.count(Method::TryApply);
        match self.faults.fault() {
            Fault::Pass => self.store.try_apply(request),
            Fault::Fail(error) => Some(Err(error)),
            // An immediate answer would bypass the wait.
            Fault::Hang | Fault::Delay => None,
        }
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.call(Method::Apply, self.store.apply(request)).await?
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.call(Method::ApplyAll, self.store.apply_all(requests)).await?
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        match self.call(Method::ApplyEach, self.store.apply_each(requests)).await {
            Ok(decisions) => decisions,
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Passes on under every fault: a store that cannot answer can still be closed.
    async fn close(&self) {
        self.faults.count(Method::Close);
        self.store.close().await;
    }
}

impl<S: TestableStore> TestableStore for FaultyStore<S> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.call(Method::Apply, self.store.apply_at(request, at)).await?
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.call(Method::ApplyAll, self.store.apply_all_at(requests, at)).await?
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        self.store.sweep_at(at).await
    }
}
