//! Stores, keys and clocks for the tests of the two-tier store.

use std::future::Future;

use tidegate::store::{Op, Request, Scope};
use tidegate::{
    Cost, Decision, Key, ManualClock, MemoryStore, OnStoreError, Quota, Store, StoreError, Timestamp, TwoTierStore,
    TwoTierStoreBuilder, hours,
};
use tidegate_testkit::{Faults, FaultyStore};
use tokio::task::yield_now;

pub(crate) type Faulty = FaultyStore<MemoryStore>;

/// The rate of [`TestKey::window`], in an hour: nothing is replenished while a test runs.
pub(crate) const RATE: u64 = 16_000;

/// Returns a clock at the beginning of an hour, far from the epoch.
pub(crate) fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

/// Returns a store on `clock`, and the handle that makes it fail.
pub(crate) fn faulty(clock: &ManualClock) -> (Faulty, Faults) {
    let store = FaultyStore::new(MemoryStore::builder().max_keys(4_096).clock(clock.clone()).build());
    let faults = store.faults();
    (store, faults)
}

pub(crate) fn builder(clock: &ManualClock) -> TwoTierStoreBuilder {
    TwoTierStore::builder().expected_replicas(16).sleeper(clock.clone())
}

pub(crate) fn two_tier(clock: &ManualClock) -> (TwoTierStore<Faulty>, Faults) {
    let (store, faults) = faulty(clock);
    (builder(clock).build(store), faults)
}

/// Lets background tasks run until they wait.
pub(crate) async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

/// One key of one limit.
#[derive(Clone)]
pub(crate) struct TestKey {
    scope: Scope,
    key: Key<'static>,
    quota: Quota,
    policy: OnStoreError,
}

impl TestKey {
    /// A key of which a process may have a balance of 1,000.
    pub(crate) fn window() -> Self {
        TestKey::new(Quota::fixed_window(RATE, hours(1)).unwrap())
    }

    pub(crate) fn new(quota: Quota) -> Self {
        TestKey { scope: Scope::new("", "api"), key: Key::from("u"), quota, policy: OnStoreError::Closed }
    }

    /// The key of a request.
    pub(crate) fn from_request(request: &Request<'_>) -> Self {
        let Request { scope, key, quota, on_store_error, .. } = *request;
        TestKey { scope: scope.clone(), key: key.borrow().into_owned(), quota: *quota, policy: on_store_error }
    }

    pub(crate) fn policy(self, policy: OnStoreError) -> Self {
        TestKey { policy, ..self }
    }

    pub(crate) fn key(self, key: impl Into<Key<'static>>) -> Self {
        TestKey { key: key.into(), ..self }
    }

    pub(crate) fn op(&self, op: Op) -> Request<'_> {
        Request { scope: &self.scope, key: &self.key, quota: &self.quota, op, on_store_error: self.policy }
    }

    /// Takes one.
    pub(crate) fn take<S: Store>(&self, store: &S) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.take_units(store, 1)
    }

    pub(crate) async fn take_units<S: Store>(&self, store: &S, units: u64) -> Result<Decision, StoreError> {
        store.apply(&self.op(Op::Limit(Cost::new(units).unwrap()))).await
    }

    /// Takes one without waiting.
    pub(crate) fn take_now<S: Store>(&self, store: &S) -> Option<Decision> {
        store.try_apply(&self.op(Op::Limit(Cost::ONE))).map(Result::unwrap)
    }

    /// Takes so many, one by one, all of which must be allowed.
    pub(crate) async fn warm<S: Store>(&self, store: &S, count: u64) {
        for _ in 0..count {
            assert!(self.take(store).await.unwrap().allowed());
        }
        settle().await;
    }

    /// Returns what the shared store has left.
    pub(crate) async fn left(&self, store: &TwoTierStore<Faulty>) -> u64 {
        let request = self.op(Op::Check(Cost::ONE));
        store.inner().inner().apply(&request).await.unwrap().remaining()
    }

    /// Spends the balance: what can be taken without waiting. Returns how much it was.
    pub(crate) fn spend(&self, store: &impl Store) -> u64 {
        (0..).take_while(|_| self.take_now(store).is_some_and(|decision| decision.allowed())).count() as u64
    }
}
