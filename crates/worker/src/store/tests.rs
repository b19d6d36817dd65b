//! Tests of the store over objects in memory: the conformance suite, the oracle, and calls over several objects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate::store::{Op, Scope, TestableStore};
use tidegate::{Clock, Cost, Key, OnStoreError, Quota, SystemClock, days};
use tidegate_testkit::{Random, Subject, block_on, conformance_tests, oracle};

use super::*;
use crate::object::memory::MemoryRows;
use crate::object::message::ObjectMessage;
use crate::object::table::{DecisionTime, ShardTable};

/// A client of objects in memory. It records messages and makes some of them fail.
struct MemoryObjects {
    tables: Vec<Mutex<Option<ShardTable<MemoryRows>>>>,
    /// Restarts every object after each message, as the platform may.
    restarts: bool,
    sent: Mutex<Vec<(u16, &'static str)>>,
    /// The index, counted from now, of the message that fails and is not applied.
    fail_at: AtomicUsize,
    /// The index, counted from now, of the message that is applied and whose response is lost.
    lose_response_at: AtomicUsize,
    /// A concurrent message to an object, just before the message with this index.
    concurrent_message: Mutex<Option<(usize, u16, Vec<u8>)>>,
}

impl MemoryObjects {
    fn new(restarts: bool) -> Self {
        let tables = (0..128).map(|_| Mutex::new(Some(ShardTable::new(MemoryRows::default())))).collect();
        let never = || AtomicUsize::new(usize::MAX);
        MemoryObjects {
            tables,
            restarts,
            sent: Mutex::default(),
            fail_at: never(),
            lose_response_at: never(),
            concurrent_message: Mutex::default(),
        }
    }

    fn with_table<T>(&self, shard: u16, f: impl FnOnce(&ShardTable<MemoryRows>) -> T) -> T {
        let mut slot = self.tables[usize::from(shard)].lock().unwrap();
        let table = slot.take().unwrap();
        let result = f(&table);
        *slot = Some(if self.restarts { ShardTable::new(table.into_rows()) } else { table });
        result
    }
}

impl ObjectClient for Arc<MemoryObjects> {
    async fn send(&self, address: ObjectAddress, path: &'static str, body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let number = self.sent.lock().unwrap().len();
        self.sent.lock().unwrap().push((address.shard, path));
        let respond = |shard, path: &str, body: &[u8]| {
            let message = ObjectMessage::parse(path, body).expect("an object parses the store's messages");
            self.with_table(shard, |table| message.respond(table, SystemClock.now()).expect("the shard count is set"))
        };
        let mut concurrent = self.concurrent_message.lock().unwrap();
        if let Some((_, shard, body)) = concurrent.take_if(|(index, ..)| *index == number) {
            respond(shard, "apply", &body);
        }
        let unavailable = || StoreError::new(StoreErrorKind::Unavailable, "an object that is gone");
        if self.fail_at.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err(unavailable());
        }
        let response = respond(address.shard, path, &body);
        if self.lose_response_at.fetch_sub(1, Ordering::SeqCst) == 0 { Err(unavailable()) } else { Ok(response) }
    }
}

impl TestableStore for ShardedStore<Arc<MemoryObjects>> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.decide(request, Some(at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, Some(at)).await
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        let held = (0..128).map(|shard| {
            self.objects.with_table(shard, |table| {
                let next = table.sweep("", DecisionTime { at, is_test: true }).expect("swept");
                assert_eq!(next, None, "no case has as many keys");
                table.rows().rows.borrow().len()
            })
        });
        Some(held.sum())
    }
}

fn store(restarts: bool) -> ShardedStore<Arc<MemoryObjects>> {
    ShardedStore { cross_shard: CrossShard::Refund, ..ShardedStore::new(Arc::new(MemoryObjects::new(restarts))) }
}

conformance_tests!(on_objects, Subject::new(store(false)));
conformance_tests!(on_objects_restarted_after_every_call, Subject::new(store(true)));

#[test]
fn random_traces_agree_on_objects() {
    for seed in 0..60 {
        if let Err(mismatch) = block_on(oracle::run(&Subject::new(store(seed % 2 == 0)), seed, 60)) {
            panic!("{mismatch}");
        }
    }
}

/// Two keys that live in different objects.
struct KeyPair {
    store: ShardedStore<Arc<MemoryObjects>>,
    scope: Scope,
    quota: Quota,
}

impl KeyPair {
    fn new(cross_shard: CrossShard) -> Self {
        let store = ShardedStore { cross_shard, ..store(false) };
        KeyPair { store, scope: Scope::new("", "api"), quota: Quota::fixed_window(10, days(300)).unwrap() }
    }

    fn request<'a>(&'a self, key: &'a Key<'a>, op: Op) -> Request<'a> {
        Request { scope: &self.scope, key, quota: &self.quota, op, on_store_error: OnStoreError::Closed }
    }

    fn limit_all(&self, costs: [u64; 2]) -> Result<JointDecision, StoreError> {
        let keys = self.keys();
        let requests = [0, 1].map(|n| self.request(&keys[n], Op::Limit(Cost::new(costs[n]).unwrap())));
        block_on(self.store.apply_all(&requests))
    }

    fn remaining(&self) -> [u64; 2] {
        self.keys()
            .each_ref()
            .map(|key| block_on(self.store.apply(&self.request(key, Op::Check(Cost::ONE)))).unwrap().remaining())
    }

    fn keys(&self) -> [Key<'static>; 2] {
        let keys = [Key::from("one"), Key::from("two")];
        assert_ne!(Shards::default().index_of(&keys[0]), Shards::default().index_of(&keys[1]));
        keys
    }
}

#[test]
fn all_or_nothing_over_objects_needs_cross_shard_refund() {
    let pair = KeyPair::new(CrossShard::Refuse);
    let error = pair.limit_all([1, 1]).unwrap_err();
    assert!(error.kind() == StoreErrorKind::Unsupported && error.to_string().contains("different objects"), "{error}");
    assert!(pair.store.objects.sent.lock().unwrap().is_empty());
    assert_eq!(pair.remaining(), [10, 10]);
    // Limits on one key live together.
    let (key, other) = (Key::from("one"), Scope::new("", "other"));
    let request = pair.request(&key, Op::Limit(Cost::ONE));
    let all = block_on(pair.store.apply_all(&[request, Request { scope: &other, ..request }])).unwrap();
    assert!(all.allowed());
}

#[test]
fn denied_call_over_objects_takes_nothing_even_briefly() {
    let pair = KeyPair::new(CrossShard::Refund);
    assert!(pair.limit_all([4, 9]).unwrap().allowed());
    pair.store.objects.sent.lock().unwrap().clear();
    let denied = pair.limit_all([4, 2]).unwrap();
    assert_eq!((denied.allowed(), denied.decisions()[0].remaining()), (false, 6));
    let sent: Vec<_> = pair.store.objects.sent.lock().unwrap().iter().map(|(_, path)| *path).collect();
    assert_eq!((sent, pair.remaining()), (vec!["look", "look"], [6, 1]));
}

#[test]
fn units_are_refunded_when_a_later_object_fails() {
    // The messages 0 and 1 are checks, then each object is taken from.
    for (fail_at, remaining) in [(0, [10, 10]), (1, [10, 10]), (2, [10, 10]), (3, [10, 10])] {
        let pair = KeyPair::new(CrossShard::Refund);
        pair.store.objects.fail_at.store(fail_at, Ordering::SeqCst);
        assert!(pair.limit_all([4, 4]).unwrap_err().is_retryable());
        pair.store.objects.fail_at.store(usize::MAX, Ordering::SeqCst);
        assert_eq!(pair.remaining(), remaining, "message {fail_at} fails");
    }
}

/// Two keys, of which a concurrent call exhausts the second between its check and its charge.
fn pair_with_concurrent_call() -> KeyPair {
    let pair = KeyPair::new(CrossShard::Refund);
    let key = &pair.keys()[1];
    let body =
        ApplyRequest::new(ApplyMode::Each, &[pair.request(key, Op::Limit(Cost::new(10).unwrap()))], None).to_json();
    *pair.store.objects.concurrent_message.lock().unwrap() = Some((3, Shards::default().index_of(key), body));
    pair
}

#[test]
fn units_are_refunded_when_a_later_object_denies_after_all() {
    let pair = pair_with_concurrent_call();
    let denied = pair.limit_all([4, 4]).unwrap();
    let remaining: Vec<_> = denied.decisions().iter().map(Decision::remaining).collect();
    assert_eq!((denied.allowed(), remaining), (false, vec![10, 0]));
    assert_eq!(pair.remaining(), [10, 0]);
}

#[test]
fn denial_stays_a_denial_when_the_refund_fails() {
    let pair = pair_with_concurrent_call();
    // Two checks, two charges, and then the refund.
    pair.store.objects.fail_at.store(4, Ordering::SeqCst);
    assert!(!pair.limit_all([4, 4]).unwrap().allowed());
    assert_eq!(pair.remaining(), [6, 0], "it stays taken");
}

#[test]
fn units_stay_taken_when_the_response_is_lost() {
    let pair = KeyPair::new(CrossShard::Refund);
    pair.store.objects.lose_response_at.store(3, Ordering::SeqCst);
    assert!(pair.limit_all([4, 4]).unwrap_err().is_retryable());
    assert_eq!(pair.remaining(), [10, 6]);
}

#[test]
fn oversized_key_does_not_fail_the_other_requests() {
    let pair = KeyPair::new(CrossShard::Refuse);
    let keys = ["one".to_owned(), "x".repeat(20_000), "two".to_owned()].map(Key::from);
    let requests: Vec<_> = keys.iter().map(|key| pair.request(key, Op::Limit(Cost::ONE))).collect();
    let kinds: Vec<_> = block_on(pair.store.apply_each(&requests))
        .into_iter()
        .map(|result| result.map(|decision| decision.remaining()).map_err(|error| error.kind()))
        .collect();
    assert_eq!(kinds, [Ok(9), Err(StoreErrorKind::Unsupported), Ok(9)]);
}

#[test]
fn batch_sends_one_message_per_object_and_keeps_its_order() {
    let pair = KeyPair::new(CrossShard::Refuse);
    let keys: Vec<_> = (0..400_u64).map(|n| Key::from(n % 200)).collect();
    let requests: Vec<_> = keys.iter().map(|key| pair.request(key, Op::Limit(Cost::ONE))).collect();
    let results = block_on(pair.store.apply_each(&requests));
    for (n, result) in results.into_iter().enumerate() {
        assert_eq!(result.unwrap().remaining(), if n < 200 { 9 } else { 8 }, "request {n}");
    }
    let mut shards: Vec<_> = pair.store.objects.sent.lock().unwrap().iter().map(|(shard, _)| *shard).collect();
    let messages = shards.len();
    shards.sort_unstable();
    shards.dedup();
    assert_eq!(shards.len(), messages, "no object gets two messages");
}

#[test]
fn every_key_lives_in_one_object() {
    let mut random = Random::new(1);
    for _ in 0..1_000 {
        let key = Key::from(random.below(u64::MAX).to_string());
        assert!(Shards::default().index_of(&key) < 128);
        assert_eq!(Shards::new(1).unwrap().index_of(&key), 0);
    }
}
