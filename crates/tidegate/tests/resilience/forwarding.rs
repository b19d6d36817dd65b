//! What a store is told, and what it says of itself, through whatever is around it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::resilience::{
    BreakerStore, DenialCacheStore, FallbackStore, InstrumentedStore, MeteredStore, Resilience, TimeoutStore,
};
use tidegate::store::{Capabilities, Request, Scope, Testing};
use tidegate::{
    Decision, JointDecision, Key, Limiter, MemoryStore, Quota, Store, StoreError, Timestamp, TwoTierStore, minutes,
};

use tidegate_testkit::block_on;

use crate::support::clock;

/// What a store was told of, and what it was asked about: scopes and keys.
type Places = Arc<Mutex<Vec<(String, String)>>>;

/// A store that remembers that.
struct Listening {
    memory: MemoryStore,
    told: Places,
    asked: Places,
}

impl Listening {
    fn new() -> (Self, [Places; 2]) {
        let (told, asked) = (Places::default(), Places::default());
        let places = [Arc::clone(&told), Arc::clone(&asked)];
        (Listening { memory: MemoryStore::builder().max_keys(64).build(), told, asked }, places)
    }
}

fn note(places: &Places, scope: &Scope, key: &Key<'_>) {
    places.lock().unwrap().push((scope.as_str().to_owned(), key.to_text().into_owned()));
}

impl Store for Listening {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        note(&self.told, scope, key);
        self.memory.prefetch(scope, key);
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        note(&self.asked, request.scope, request.key);
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
    let (store, [told, asked]) = Listening::new();
    let store = Resilience::new(clock()).remember_denials(10).build(store);
    let quota = Quota::token_bucket(3, minutes(1)).unwrap();
    let limiter = Limiter::builder().store(store).limit("api", quota).build().unwrap();
    for left in [2, 1] {
        let call = limiter.limit("api", ("ann", 7_u64));
        call.prefetch();
        assert!(asked.lock().unwrap().is_empty());
        assert_eq!(call.try_now().unwrap().remaining(), left);
        assert_eq!(told.lock().unwrap().len(), 1);
        assert_eq!(*told.lock().unwrap(), *asked.lock().unwrap());
        told.lock().unwrap().clear();
        asked.lock().unwrap().clear();
        // The same when the limits are others than at first.
        limiter.set_quota("api", quota).unwrap();
    }
    limiter.limit("nobody", "ann").prefetch();
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn only_wrappers_that_never_wait_answer_at_once() {
    let memory = || MemoryStore::builder().max_keys(64).build();
    let within = Duration::from_millis(50);
    assert!(memory().is_immediate() && Arc::new(memory()).is_immediate());
    assert!(InstrumentedStore::new(MeteredStore::new(memory()), "memory").is_immediate());
    assert!(FallbackStore::new(BreakerStore::new(DenialCacheStore::new(memory()), "memory")).is_immediate());
    assert!(!TimeoutStore::new(memory(), within, clock()).is_immediate());
    assert!(!InstrumentedStore::new(TimeoutStore::new(memory(), within, clock()), "memory").is_immediate());
}

/// The conformance suite leaves out what a store does not say it can do, and what it cannot tell.
#[test]
fn every_wrapper_forwards_capabilities() {
    fn says<S: Testing>(store: S) {
        assert!(store.capabilities().atomic_all);
        assert_eq!(block_on(store.held_at(Timestamp::from_micros(1))), Some(0));
    }
    let memory = || MemoryStore::builder().max_keys(64).build();
    says(TimeoutStore::new(memory(), Duration::from_millis(50), clock()));
    says(BreakerStore::new(memory(), "memory"));
    says(FallbackStore::new(memory()));
    says(DenialCacheStore::new(memory()));
    says(InstrumentedStore::new(memory(), "memory"));
    says(MeteredStore::new(memory()));
    says(Resilience::new(clock()).build(memory()));
    says(TwoTierStore::new(memory()));
}
