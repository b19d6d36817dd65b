//! Requests that bypass the batches and go to the store unchanged.

use tidegate::store::Op;
use tidegate::{Cost, MemoryStore, Quota, Reason, Store, TwoTierStore, hours, seconds};
use tidegate_testkit::{Subject, conformance_tests};

use crate::support::{RATE, TestKey, clock, two_tier};

// With so many processes, the share of each is less than a batch.
conformance_tests!(
    unbatched,
    Subject::new(
        TwoTierStore::builder().expected_replicas(u32::MAX).build(MemoryStore::builder().max_keys(10_000).build())
    )
);

#[tokio::test]
async fn small_quotas_and_logs_are_exact() {
    for quota in [Quota::fixed_window(31, hours(1)), Quota::sliding_log(1_000, hours(1))] {
        let (store, faults) = two_tier(&clock());
        let key = TestKey::new(quota.unwrap());
        for call in 1..=20 {
            let decision = key.take(&store).await.unwrap();
            assert_eq!(decision.remaining(), decision.limit() - call);
            assert_eq!(faults.calls().decisions(), call);
        }
        assert_eq!(store.keys(), 0);
    }
}

#[tokio::test]
async fn large_costs_and_reservations_go_to_the_store() {
    let (store, faults) = two_tier(&clock());
    let key = TestKey::window();
    assert_eq!(key.take_units(&store, 1_001).await.unwrap().remaining(), RATE - 1_001);
    let reserved = store.apply(&key.op(Op::Reserve(Cost::ONE))).await.unwrap();
    assert_eq!(reserved.remaining(), RATE - 1_002);
    let never = key.take_units(&store, RATE + 1).await.unwrap();
    assert_eq!(never.reason(), Some(Reason::CostExceedsCapacity));
    assert_eq!((faults.calls().apply, store.keys()), (3, 0));
}

#[tokio::test]
async fn all_or_nothing_goes_to_the_store_and_independent_requests_spend_balances() {
    let (store, faults) = two_tier(&clock());
    let (hot, cold) = (TestKey::window(), TestKey::window().key("cold"));
    hot.warm(&store, 100).await;
    let [hot, cold] = [&hot, &cold].map(|key| key.op(Op::Limit(Cost::ONE)));
    assert!(store.apply_all(&[hot, cold]).await.unwrap().allowed());
    assert_eq!(faults.calls().apply_all, 1);
    let answers = store.apply_each(&[cold, hot, cold, hot]).await;
    let remaining: Vec<u64> = answers.into_iter().map(|answer| answer.unwrap().remaining()).collect();
    assert_eq!((remaining[0], remaining[2]), (RATE - 2, RATE - 3), "in order");
    assert_eq!(remaining[1], remaining[3] + 1);
    assert_eq!(faults.calls().apply_each, 1);
}

#[tokio::test]
async fn check_takes_and_fetches_nothing() {
    let (store, faults) = two_tier(&clock());
    let key = TestKey::new(Quota::sliding_window(RATE, seconds(60)).unwrap());
    let check = key.op(Op::Check(Cost::ONE));
    assert_eq!(store.apply(&check).await.unwrap().remaining(), RATE);
    assert_eq!(store.keys(), 0);
    key.warm(&store, 100).await;
    let calls = faults.calls();
    for _ in 0..1_000 {
        assert_eq!(store.try_apply(&check).unwrap().unwrap().remaining(), RATE - 100);
    }
    assert_eq!(faults.calls(), calls, "in process");
}
