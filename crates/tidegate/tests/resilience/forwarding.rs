//! Prefetches and capabilities, which wrappers must forward.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::resilience::{
    BreakerStore, DenialCacheStore, FallbackStore, InstrumentedStore, Resilience, TimeoutStore,
};
use tidegate::store::{Capabilities, Request, Scope, TestableStore};
use tidegate::{
    Decision, JointDecision, Key, Limiter, MemoryStore, Quota, Store, StoreError, Timestamp, TwoTierStore, minutes,
};

use tidegate_testkit::block_on;

use crate::support::clock;

/// The scopes and keys of recorded calls.
type KeyLog = Arc<Mutex<Vec<(String, String)>>>;

/// A store that records the keys of its calls.
struct RecordingStore {
    memory: MemoryStore,
    prefetched: KeyLog,
    applied: KeyLog,
}

impl RecordingStore {
    fn new() -> (Self, [KeyLog; 2]) {
        let (prefetched, applied) = (KeyLog::default(), KeyLog::default());
        let log = [Arc::clone(&prefetched), Arc::clone(&applied)];
        (RecordingStore { memory: MemoryStore::builder().max_keys(64).build(), prefetched, applied }, log)
    }
}

fn record(log: &KeyLog, scope: &Scope, key: &Key<'_>) {
    log.lock().unwrap().push((scope.as_str().to_owned(), key.to_text().into_owned()));
}

impl Store for RecordingStore {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        record(&self.prefetched, scope, key);
        self.memory.prefetch(scope, key);
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        record(&self.applied, request.scope, request.key);
        self.memory.try_apply(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.memory.apply(request).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.memory.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.memory.apply_each(requests).await
    }

    async fn close(&self) {}
}

#[test]
fn every_wrapper_forwards_prefetch_and_decides_nothing() {
    let (store, [prefetched, applied]) = RecordingStore::new();
    let store = Resilience::new(clock()).cache_denials(10).build(store);
    let quota = Quota::token_bucket(3, minutes(1)).unwrap();
    let limiter = Limiter::builder().store(store).limit("api", quota).build().unwrap();
    for left in [2, 1] {
        let call = limiter.limit("api", ("ann", 7_u64));
        call.prefetch();
        assert!(applied.lock().unwrap().is_empty());
        assert_eq!(call.try_now().unwrap().remaining(), left);
        assert_eq!(prefetched.lock().unwrap().len(), 1);
        assert_eq!(*prefetched.lock().unwrap(), *applied.lock().unwrap());
        prefetched.lock().unwrap().clear();
        applied.lock().unwrap().clear();
        // Also after the limits have changed.
        limiter.set_quota("api", quota).unwrap();
    }
    limiter.limit("nobody", "ann").prefetch();
    assert!(prefetched.lock().unwrap().is_empty());
}

#[test]
fn only_wrappers_that_never_wait_answer_at_once() {
    let memory = || MemoryStore::builder().max_keys(64).build();
    let within = Duration::from_millis(50);
    assert!(memory().is_immediate() && Arc::new(memory()).is_immediate());
    assert!(InstrumentedStore::new(memory(), "memory").is_immediate());
    assert!(FallbackStore::new(BreakerStore::new(DenialCacheStore::new(memory()), "memory")).is_immediate());
    assert!(!TimeoutStore::new(memory(), within, clock()).is_immediate());
    assert!(!InstrumentedStore::new(TimeoutStore::new(memory(), within, clock()), "memory").is_immediate());
}

/// The conformance suite skips capabilities that a store does not claim.
#[test]
fn every_wrapper_forwards_capabilities() {
    fn assert_forwards<S: TestableStore>(store: S) {
        assert!(store.capabilities().atomic_all);
        assert_eq!(block_on(store.sweep_at(Timestamp::from_micros(1))), Some(0));
    }
    let memory = || MemoryStore::builder().max_keys(64).build();
    assert_forwards(TimeoutStore::new(memory(), Duration::from_millis(50), clock()));
    assert_forwards(BreakerStore::new(memory(), "memory"));
    assert_forwards(FallbackStore::new(memory()));
    assert_forwards(DenialCacheStore::new(memory()));
    assert_forwards(InstrumentedStore::new(memory(), "memory"));
    assert_forwards(Resilience::new(clock()).build(memory()));
    assert_forwards(TwoTierStore::new(memory()));
}
