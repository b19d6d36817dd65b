//! A store that is broken.

use std::sync::Arc;

use tidegate::resilience::Resilience;
use tidegate::store::Op;
use tidegate::{Cost, OnStoreError, Quota, Reason, Store, StoreError, StoreErrorKind, hours, seconds};
use tokio::task::JoinSet;

use crate::support::{TestKey, builder, clock, faulty, settle, two_tier};

fn broken() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "unplugged")
}

#[tokio::test]
async fn balance_is_spent_before_an_error_is_returned() {
    let (store, faults) = two_tier(&clock());
    let key = TestKey::window();
    key.warm(&store, 100).await;
    faults.fail(broken());
    let balance = key.spend(&store);
    assert!(balance > 10, "{balance}");
    assert_eq!(key.take(&store).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    faults.pass();
    assert!(key.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn every_waiting_request_gets_the_error() {
    let (store, faults) = two_tier(&clock());
    let store = Arc::new(store);
    faults.fail(broken());
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let store = Arc::clone(&store);
        callers.spawn(async move { TestKey::window().take(&store).await.is_err() });
    }
    assert!(callers.join_all().await.into_iter().all(|failed| failed));
}

#[tokio::test]
async fn failure_policy_works_outside_and_inside() {
    let clock = clock();
    let resilience = || Resilience::new(clock.clone()).expected_replicas(16);
    // A small share, so that `local` is told apart.
    for quota in [Quota::fixed_window(160, hours(1)), Quota::token_bucket(160, hours(1))].map(Result::unwrap) {
        let (store, faults) = faulty(&clock);
        let outside = resilience().build(builder(&clock).build(store));
        check(&outside, quota, &faults).await;
        let (store, faults) = faulty(&clock);
        let within = builder(&clock).build(resilience().build(store));
        check(&within, quota, &faults).await;
    }
}

async fn check(store: &impl Store, quota: Quota, faults: &tidegate_testkit::Faults) {
    faults.fail(broken());
    let key = |policy, key| TestKey::new(quota).policy(policy).key(key);
    let open = key(OnStoreError::Open, "open").take(store).await.unwrap();
    assert_eq!((open.allowed(), open.reason()), (true, Some(Reason::Store)));
    assert!(key(OnStoreError::Closed, "closed").take(store).await.is_err());
    let local = key(OnStoreError::Local, "local");
    let mut admitted = 0;
    while local.take(store).await.unwrap().allowed() {
        admitted += 1;
    }
    assert_eq!(admitted, 10, "a share");
    settle().await;
    faults.pass();
}

#[tokio::test]
async fn units_granted_without_the_store_are_not_returned_to_it() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let shared = Arc::new(store);
    let within = builder(&clock).build(Resilience::new(clock.clone()).expected_replicas(16).build(Arc::clone(&shared)));
    let key = TestKey::new(Quota::fixed_window(160, hours(1)).unwrap()).policy(OnStoreError::Local);
    key.warm(&within, 5).await;
    faults.fail(broken());
    let spent = 5 + key.spend(&within);
    for _ in 0..4 {
        assert!(key.take(&within).await.unwrap().allowed());
    }
    settle().await;
    faults.pass();
    // So that the breaker lets it through.
    clock.advance(seconds(2));
    within.close().await;
    let left = shared.inner().apply(&key.op(Op::Check(Cost::ONE))).await.unwrap().remaining();
    assert_eq!(left, 160 - spent);
}
