//! Calls that share a transaction, decided as if each had its own.

use tidegate::sqlite::SqliteStore;
use tidegate::store::{DecisionParts, Op, Request, Scope};
use tidegate::{Cost, Key, ManualClock, MemoryStore, OnStoreError, Quota, Store, StoreErrorKind, Timestamp, seconds};
use tidegate_testkit::{Random, block_on};

use crate::support::{TempFolder, try_start_call};

fn quotas() -> [Quota; 6] {
    [
        Quota::token_bucket(10, seconds(10)).unwrap(),
        Quota::sliding_log(10, seconds(10)).unwrap(),
        Quota::token_bucket(3, seconds(7)).unwrap().capacity(20).unwrap().max_debt(5).unwrap(),
        Quota::fixed_window(8, seconds(5)).unwrap(),
        Quota::sliding_window(10, seconds(10)).unwrap(),
        Quota::sliding_window(12, seconds(12)).unwrap().buckets(4).unwrap(),
    ]
}

/// The kind of a store call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Single,
    Batch,
    Joint,
}

/// A call that both stores get.
struct StoreCall {
    kind: CallKind,
    operations: Vec<(Scope, Key<'static>, Quota, Op)>,
}

impl StoreCall {
    fn new(random: &mut Random) -> Self {
        let kind = random.pick(&[CallKind::Single, CallKind::Single, CallKind::Batch, CallKind::Joint]);
        let count = if kind == CallKind::Single { 1 } else { 1 + random.below(5) };
        let mut operations: Vec<_> = (0..count).map(|_| random_operation(random, kind)).collect();
        // The reading thread decides a call of checks only, so it is not in order with the others.
        if operations.iter().all(|(.., op)| matches!(op, Op::Check(_))) {
            operations[0].3 = Op::Limit(Cost::ONE);
        }
        StoreCall { kind, operations }
    }

    /// Returns the decisions of a store.
    async fn apply_to(&self, store: &impl Store) -> Vec<Result<DecisionParts, StoreErrorKind>> {
        let request = |(scope, key, quota, op)| Request { scope, key, quota, op, on_store_error: OnStoreError::Closed };
        let requests: Vec<_> =
            self.operations.iter().map(|(scope, key, quota, op)| request((scope, key, quota, *op))).collect();
        let decisions = match self.kind {
            CallKind::Single => vec![store.apply(&requests[0]).await],
            CallKind::Batch => store.apply_each(&requests).await,
            CallKind::Joint => match store.apply_all(&requests).await {
                Ok(all) => all.into_decisions().into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            },
        };
        let parts = decisions.into_iter().map(|decision| decision.map(|decision| decision.into_parts()));
        parts.map(|parts| parts.map_err(|error| error.kind())).collect()
    }
}

/// Returns an operation on one of a few keys, mostly under the quota of its limit and sometimes under another.
fn random_operation(random: &mut Random, kind: CallKind) -> (Scope, Key<'static>, Quota, Op) {
    let limit = random.below(2);
    let quota = if random.below(6) == 0 { random.below(6) } else { limit };
    let cost = Cost::new(1 + random.below(4)).unwrap();
    let op = match random.below(10) {
        0..=5 => Op::Limit(cost),
        _ if kind == CallKind::Joint => Op::Limit(cost),
        6 => Op::Check(cost),
        7 => Op::Reserve(cost),
        8 => Op::Refund(cost),
        _ => Op::Reset,
    };
    (Scope::new("batches", &format!("limit-{limit}")), Key::from(random.below(3)), quotas()[quota as usize], op)
}

#[test]
fn batched_calls_decide_like_sequential_calls() {
    for seed in 0..6 {
        let (folder, clock) = (TempFolder::new(), ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        let mut random = Random::new(seed);
        for round in 0..15 {
            // A new store knows only the content of the file.
            let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
            clock.advance(std::time::Duration::from_micros(random.below(4_000_000)));
            let calls: Vec<_> = (0..1 + random.below(60)).map(|_| StoreCall::new(&mut random)).collect();
            // The calls wait in this order, and share transactions once the lock is free.
            let lock = folder.lock();
            let started: Vec<_> = calls.iter().map(|call| try_start_call(call.apply_to(&store))).collect();
            drop(lock);
            for (index, (call, answer)) in calls.iter().zip(started).enumerate() {
                let (expected, got) = (block_on(call.apply_to(&memory)), answer.map_or_else(|early| early, block_on));
                assert_eq!(
                    got, expected,
                    "seed {seed}, round {round}, call {index}: {:?} {:?}",
                    call.kind, call.operations
                );
            }
        }
    }
}
