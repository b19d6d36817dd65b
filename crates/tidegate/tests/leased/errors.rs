//! A store that is broken.

use std::sync::Arc;

use tidegate::resilience::Resilience;
use tidegate::{Cost, OnStoreError, Op, Quota, Reason, Store, StoreError, StoreErrorKind, hours, seconds};
use tokio::task::JoinSet;

use crate::support::{Asked, builder, clock, faulty, leased, settle};

fn broken() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "unplugged")
}

#[tokio::test]
async fn what_is_in_hand_is_spent_and_then_the_error_goes_out() {
    let (store, faults) = leased(&clock());
    let asked = Asked::window();
    asked.warm(&store, 100).await;
    faults.fail(broken());
    let in_hand = asked.spend(&store);
    assert!(in_hand > 10, "{in_hand}");
    assert_eq!(asked.take(&store).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    faults.pass();
    assert!(asked.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn everybody_who_waits_gets_the_error() {
    let (store, faults) = leased(&clock());
    let store = Arc::new(store);
    faults.fail(broken());
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let store = Arc::clone(&store);
        callers.spawn(async move { Asked::window().take(&store).await.is_err() });
    }
    assert!(callers.join_all().await.into_iter().all(|failed| failed));
}

#[tokio::test]
async fn the_failure_policy_answers_around_it_and_within_it() {
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
    let asked = |policy, key| Asked::new(quota).policy(policy).key(key);
    let open = asked(OnStoreError::Open, "open").take(store).await.unwrap();
    assert_eq!((open.allowed(), open.reason()), (true, Some(Reason::Store)));
    assert!(asked(OnStoreError::Closed, "closed").take(store).await.is_err());
    let local = asked(OnStoreError::Local, "local");
    let mut admitted = 0;
    while local.take(store).await.unwrap().allowed() {
        admitted += 1;
    }
    assert_eq!(admitted, 10, "a share");
    settle().await;
    faults.pass();
}

#[tokio::test]
async fn what_was_decided_without_the_store_is_not_given_back_to_it() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let shared = Arc::new(store);
    let within = builder(&clock).build(Resilience::new(clock.clone()).expected_replicas(16).build(Arc::clone(&shared)));
    let asked = Asked::new(Quota::fixed_window(160, hours(1)).unwrap()).policy(OnStoreError::Local);
    asked.warm(&within, 5).await;
    faults.fail(broken());
    let spent = 5 + asked.spend(&within);
    for _ in 0..4 {
        assert!(asked.take(&within).await.unwrap().allowed());
    }
    settle().await;
    faults.pass();
    // So that the breaker lets it through.
    clock.advance(seconds(2));
    within.close().await;
    let left = shared.inner().apply(&asked.op(Op::Check(Cost::ONE))).await.unwrap().remaining();
    assert_eq!(left, 160 - spent);
}
