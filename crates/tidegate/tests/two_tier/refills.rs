//! Refills: one for all waiting requests, before the balance is spent, and independent of their caller.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use tidegate::{Quota, Store, hours, seconds};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::support::{RATE, TestKey, builder, clock, faulty, settle, two_tier};

#[tokio::test]
async fn hot_key_costs_few_calls() {
    let (store, faults) = two_tier(&clock());
    TestKey::window().warm(&store, 10_000).await;
    // 1, 2, 4 and so on, up to 1,000, and then 1,000 at a time, fetched at a fourth.
    let calls = faults.calls().decisions();
    assert!((15..=30).contains(&calls), "{calls}");
}

#[tokio::test]
async fn a_key_has_one_pending_refill() {
    let (store, faults) = two_tier(&clock());
    let store = Arc::new(store);
    faults.hang();
    let mut callers = JoinSet::new();
    for _ in 0..50 {
        let store = Arc::clone(&store);
        callers.spawn(async move { TestKey::window().take(&store).await.unwrap().allowed() });
    }
    callers.spawn({
        let store = Arc::clone(&store);
        async move { TestKey::window().key("other").take(&store).await.unwrap().allowed() }
    });
    settle().await;
    assert_eq!(faults.held_calls(), 2, "one for each key");
    faults.pass();
    faults.release();
    assert!(callers.join_all().await.into_iter().all(|allowed| allowed));
}

/// Any number of concurrent requests can wait for a key without a balance. Each answer that a request waits for is a round
/// trip, and a timeout around this store covers all of them.
#[tokio::test]
async fn second_refill_serves_all_waiting_requests() {
    let (store, faults) = two_tier(&clock());
    let store = Arc::new(store);
    faults.hang();
    let mut callers = JoinSet::new();
    for cost in (0..50).map(|caller| 1 + caller % 3) {
        let store = Arc::clone(&store);
        callers.spawn(async move { TestKey::window().take_units(&*store, cost).await.unwrap().allowed() });
    }
    for round in 1..=2 {
        settle().await;
        assert_eq!((faults.held_calls(), faults.calls().apply), (1, round));
        faults.release();
    }
    assert!(callers.join_all().await.into_iter().all(|allowed| allowed));
    assert_eq!(faults.calls().apply, 2, "no request had to go to the store itself");
    // And no more was fetched than they wanted.
    assert_eq!(TestKey::window().spend(&store), 0);
}

#[tokio::test]
async fn next_batch_is_fetched_before_the_balance_is_spent() {
    let (store, faults) = two_tier(&clock());
    let key = TestKey::window();
    key.warm(&store, 100).await;
    faults.hang();
    let before = faults.calls().apply;
    while faults.calls().apply == before {
        assert!(key.take_now(&store).is_some(), "it is fetched while there is a balance");
        settle().await;
    }
    // While it is pending, the balance is spent.
    assert!(key.take_now(&store).unwrap().allowed());
    assert_eq!((faults.held_calls(), faults.calls().apply), (1, before + 1));
    let rest = key.spend(&store);
    assert!(key.take_now(&store).is_none());
    faults.pass();
    faults.release();
    settle().await;
    assert!(key.spend(&store) > rest);
}

#[tokio::test]
async fn refill_of_a_dropped_caller_is_kept() {
    let (store, faults) = two_tier(&clock());
    let key = TestKey::window();
    faults.hang();
    {
        let mut call = pin!(key.take_units(&store, 5));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        settle().await;
    }
    faults.release();
    settle().await;
    assert_eq!((key.spend(&store), key.left(&store).await), (5, RATE - 5));
    assert_eq!(faults.calls().apply, 1);
}

#[test]
fn refill_dropped_with_its_runtime_blocks_no_request() {
    let (clock, key) = (clock(), TestKey::window());
    let (store, faults) = faulty(&clock);
    let store = Arc::new(builder(&clock).build(store));
    let runtime = || Builder::new_current_thread().build().unwrap();
    faults.hang();
    let first = runtime();
    first.spawn({
        let (store, key) = (Arc::clone(&store), key.clone());
        async move { key.take(&store).await }
    });
    first.block_on(settle());
    assert_eq!(faults.held_calls(), 1);
    drop(first);
    faults.pass();
    runtime().block_on(async {
        key.warm(&store, 100).await;
        store.close().await;
    });
    assert!(faults.calls().apply < 20, "batches are taken again: {:?}", faults.calls());
}

#[test]
fn refills_do_not_need_the_runtime_of_the_caller() {
    let key = TestKey::window();
    let [home, other] = [(); 2].map(|()| Builder::new_current_thread().enable_time().build().unwrap());
    let (store, _) = home.block_on(async { two_tier(&clock()) });
    home.block_on(key.warm(&store, 100));
    // The next batch is requested from another runtime, which does not run afterwards.
    assert!(other.block_on(async { key.spend(&store) }) > 0);
    home.block_on(async {
        let ended = tokio::time::timeout(seconds(10), async {
            assert!(key.take(&store).await.unwrap().allowed());
            store.close().await;
        });
        ended.await.expect("no runtime blocks it");
    });
    drop(other);
}

#[tokio::test]
async fn refill_of_another_quota_is_not_added() {
    let (store, faults) = two_tier(&clock());
    let [key, other] = [RATE, 2 * RATE].map(|rate| TestKey::new(Quota::token_bucket(rate, hours(1)).unwrap()));
    let most = RATE / 16;
    let poll_once = |key: &TestKey| {
        let mut call = pin!(key.take_units(&store, most));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    };
    faults.hang();
    // From one quota to another, and back.
    for key in [&key, &other, &key] {
        poll_once(key);
        settle().await;
    }
    faults.pass();
    faults.release();
    settle().await;
    assert_eq!(key.spend(&store), most);
}

#[test]
fn requests_outside_a_runtime_go_to_the_store() {
    let (store, faults) = two_tier(&clock());
    let key = TestKey::window();
    for call in 1..=10 {
        assert!(tidegate_testkit::block_on(key.take(&store)).unwrap().allowed());
        assert_eq!(faults.calls().apply, call);
    }
}
