//! Helpers for all tests of the resilience wrappers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate::store::{Op, Request, Scope};
use tidegate::{
    Cost, Decision, Key, ManualClock, MemoryStore, OnStoreError, Quota, Store, StoreError, StoreErrorKind, Timestamp,
    minutes,
};
use tidegate_testkit::{Faults, FaultyStore, block_on};

/// The errors a failure policy answers.
pub(crate) const FAILURES: [StoreErrorKind; 4] =
    [StoreErrorKind::Unavailable, StoreErrorKind::Timeout, StoreErrorKind::Contended, StoreErrorKind::Corrupt];

pub(crate) type Faulty = FaultyStore<MemoryStore>;

/// A clock that stands at the beginning of a minute, far from the epoch.
pub(crate) fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

/// A store on `clock` that fails when it is told to, and what tells it.
pub(crate) fn faulty(clock: &ManualClock) -> (Faulty, Faults) {
    let store = FaultyStore::new(MemoryStore::builder().max_keys(4_096).clock(clock.clone()).build());
    let faults = store.faults();
    (store, faults)
}

pub(crate) fn error(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "on command")
}

/// A request for one key of one limit.
#[derive(Clone)]
pub(crate) struct TestRequest {
    pub(crate) scope: Scope,
    pub(crate) key: Key<'static>,
    pub(crate) quota: Quota,
    pub(crate) policy: OnStoreError,
}

impl TestRequest {
    /// Creates a request for the key `u` of the limit `login`: `rate` a minute.
    pub(crate) fn new(rate: u64) -> Self {
        let quota = Quota::fixed_window(rate, minutes(1)).unwrap();
        TestRequest { scope: Scope::new("", "login"), key: Key::from("u"), quota, policy: OnStoreError::Open }
    }

    pub(crate) fn policy(&self, policy: OnStoreError) -> Self {
        TestRequest { policy, ..self.clone() }
    }

    pub(crate) fn key(&self, key: impl Into<Key<'static>>) -> Self {
        TestRequest { key: key.into(), ..self.clone() }
    }

    pub(crate) fn op(&self, op: Op) -> Request<'_> {
        Request { scope: &self.scope, key: &self.key, quota: &self.quota, op, on_store_error: self.policy }
    }

    pub(crate) fn limit(&self) -> Request<'_> {
        self.op(Op::Limit(Cost::ONE))
    }

    /// Takes one unit from `store`, which must answer.
    pub(crate) fn take(&self, store: &impl Store) -> Decision {
        block_on(store.apply(&self.limit())).unwrap()
    }

    /// Returns how many of 100 requests `store` admits.
    pub(crate) fn admitted(&self, store: &impl Store) -> usize {
        (0..100).filter(|_| self.take(store).allowed()).count()
    }

    /// Returns what is left in `store`.
    pub(crate) fn left(&self, store: &impl Store) -> u64 {
        block_on(store.apply(&self.op(Op::Check(Cost::ONE)))).unwrap().remaining()
    }
}

/// Applies a request in every way: by `try_apply` if it answers, `apply`, `apply_all` and `apply_each`.
pub(crate) fn apply_in_every_way<S: Store>(store: &S, target: &TestRequest) -> Vec<Result<Decision, StoreError>> {
    let request = target.limit();
    let mut results: Vec<_> = store.try_apply(&request).into_iter().collect();
    results.push(block_on(store.apply(&request)));
    results.push(block_on(store.apply_all(&[request, request])).map(|all| all.decisions()[1]));
    results.extend(block_on(store.apply_each(&[request, request])));
    results
}

pub(crate) fn kind<T>(result: Result<T, StoreError>) -> Option<StoreErrorKind> {
    result.err().map(|error| error.kind())
}

/// Polls once, without a waker.
pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
