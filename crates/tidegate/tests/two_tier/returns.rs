//! Returns: of idle balances, and of every balance on close.

use std::sync::Arc;

use tidegate::store::Op;
use tidegate::{Cost, Limiter, MemoryStore, Quota, Store, TwoTierStore, days, hours, millis, seconds};
use tokio::task::JoinHandle;

use crate::support::{Faulty, RATE, TestKey, builder, clock, faulty, settle, two_tier};

/// Closes it, beside all else.
fn closing(store: &Arc<TwoTierStore<Faulty>>) -> JoinHandle<()> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.close().await })
}

#[tokio::test]
async fn idle_balance_is_returned() {
    let clock = clock();
    let (store, _) = two_tier(&clock);
    let key = TestKey::window();
    key.warm(&store, 100).await;
    assert!(key.left(&store).await < RATE - 100, "there is a balance");
    // Idle balances are returned every half second.
    clock.advance(millis(500));
    settle().await;
    assert!(key.left(&store).await < RATE - 100, "it is not idle yet");
    clock.advance(millis(500));
    settle().await;
    assert_eq!(key.left(&store).await, RATE - 100);
    clock.advance(millis(500));
    settle().await;
    assert_eq!(store.keys(), 0);
    // The task that returns idle balances has ended, and starts again with the next balance.
    assert_eq!(clock.sleepers(), 0);
    key.warm(&store, 100).await;
    assert_eq!(clock.sleepers(), 1);
}

#[tokio::test]
async fn used_balance_is_kept() {
    let clock = clock();
    let (store, _) = two_tier(&clock);
    let key = TestKey::window();
    key.warm(&store, 100).await;
    for _ in 0..10 {
        clock.advance(millis(500));
        assert!(key.take_now(&store).is_some());
        settle().await;
    }
    assert_eq!(store.keys(), 1);
}

#[tokio::test]
async fn close_returns_balances_and_pending_refills() {
    let (store, faults) = two_tier(&clock());
    let store = Arc::new(store);
    let key = TestKey::window();
    key.warm(&store, 100).await;
    // Taken, and the answer is held up.
    faults.delay_responses();
    let late = tokio::spawn({
        let store = Arc::clone(&store);
        async move { TestKey::window().key("late").take_units(&store, 100).await }
    });
    settle().await;
    faults.pass();
    let closing = closing(&store);
    settle().await;
    assert!(!closing.is_finished(), "it waits for the answer");
    faults.release();
    closing.await.unwrap();
    assert_eq!(key.left(&store).await, RATE - 100);
    let spent = if late.await.unwrap().unwrap().allowed() { 100 } else { 0 };
    assert_eq!(TestKey::window().key("late").left(&store).await, RATE - spent);
    assert_eq!(faults.calls().close, 1);
    // From now on the store is key.
    assert!(key.take(&store).await.unwrap().allowed());
    assert_eq!(key.left(&store).await, RATE - 101);
}

#[tokio::test]
async fn closing_the_limiter_returns_balances() {
    let clock = clock();
    let (store, _) = faulty(&clock);
    let shared = Arc::new(store);
    let quota = Quota::token_bucket(RATE, hours(1)).unwrap();
    let limiter = |store: Arc<_>| Limiter::builder().limit("api", quota).store(store).build().unwrap();
    let limits = Limiter::builder().limit("api", quota).store(builder(&clock).build(Arc::clone(&shared)));
    let leasing = limits.build().unwrap();
    for _ in 0..100 {
        assert!(leasing.limit("api", "u").await.unwrap().allowed());
    }
    settle().await;
    assert!(leasing.limit("api", "u").try_now().unwrap().allowed(), "without waiting");
    leasing.close().await;
    let strict = limiter(shared);
    assert_eq!(strict.check("api", "u").await.unwrap().remaining(), RATE - 101);
}

#[tokio::test]
async fn units_of_a_window_are_not_returned_to_the_next() {
    let clock = clock();
    let (store, faults) = two_tier(&clock);
    let key = TestKey::new(Quota::fixed_window(RATE, seconds(60)).unwrap());
    key.warm(&store, 100).await;
    let calls = faults.calls();
    clock.advance(seconds(60));
    settle().await;
    assert_eq!(faults.calls(), calls, "nothing was returned");
    assert!(key.take_now(&store).is_none(), "there is no balance");
    assert!(key.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn keys_beyond_the_maximum_go_to_the_store() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let store = builder(&clock).max_keys(64).build(store);
    for number in 0..2_000_u64 {
        assert!(TestKey::window().key(number).take(&store).await.unwrap().allowed());
        assert!(store.keys() <= 64);
    }
    assert_eq!(faults.calls().decisions(), 2_000);
    // Idle keys make room.
    for _ in 0..3 {
        clock.advance(millis(500));
        settle().await;
    }
    assert_eq!(store.keys(), 0);
}

#[tokio::test]
async fn reset_clears_the_balance() {
    let (store, _) = two_tier(&clock());
    let key = TestKey::window();
    key.warm(&store, 100).await;
    assert_eq!(store.apply(&key.op(Op::Reset)).await.unwrap().remaining(), RATE);
    assert!(key.take_now(&store).is_none());
    assert_eq!(store.apply(&key.op(Op::Check(Cost::ONE))).await.unwrap().remaining(), RATE);
}

#[tokio::test]
async fn reset_that_must_wait_changes_nothing_yet() {
    let (store, faults) = two_tier(&clock());
    let key = TestKey::window();
    key.warm(&store, 100).await;
    faults.hang();
    assert!(store.try_apply(&key.op(Op::Reset)).is_none());
    assert!(key.spend(&store) > 0);
}

#[tokio::test]
async fn balance_of_another_quota_is_not_returned() {
    // A quota that is batched, and one that is too small for it.
    for rate in [100, 10] {
        let clock = clock();
        let (store, _) = two_tier(&clock);
        let before = TestKey::new(Quota::token_bucket(16_000, seconds(1)).unwrap());
        before.warm(&store, 20).await;
        assert!(before.take_now(&store).is_some(), "there is a balance");
        // The store is full again.
        clock.advance(millis(10));
        let after = TestKey::new(Quota::token_bucket(rate, hours(1)).unwrap());
        // A check changes nothing.
        let _ = store.apply(&after.op(Op::Check(Cost::ONE))).await.unwrap();
        assert!(before.take_now(&store).is_some());
        assert!(after.take(&store).await.unwrap().allowed());
        while after.take(&store).await.unwrap().allowed() {}
        clock.advance(millis(1_500));
        settle().await;
        assert!(!after.take(&store).await.unwrap().allowed(), "the old quota has filled the new one");
    }
}

#[tokio::test]
async fn close_waits_for_pending_returns() {
    let clock = clock();
    let (store, faults) = two_tier(&clock);
    let store = Arc::new(store);
    let key = TestKey::window();
    key.warm(&store, 100).await;
    faults.hang();
    for _ in 0..2 {
        clock.advance(millis(500));
        settle().await;
    }
    assert_eq!(faults.held_calls(), 1, "the idle balance is being returned");
    faults.pass();
    let closing = closing(&store);
    settle().await;
    assert!(!closing.is_finished());
    faults.release();
    closing.await.unwrap();
    assert_eq!(key.left(&store).await, RATE - 100);
}

#[tokio::test]
async fn delayed_returns_of_a_window_are_dropped() {
    let clock = clock();
    let (store, faults) = two_tier(&clock);
    let quota = Quota::fixed_window(RATE, seconds(60)).unwrap();
    // More than go back with one call.
    let keys = 300_u64;
    for number in 0..keys {
        TestKey::new(quota).key(number).warm(&store, 2).await;
    }
    faults.hang();
    for _ in 0..2 {
        clock.advance(millis(500));
        settle().await;
    }
    assert_eq!(faults.held_calls(), 1);
    // The first call takes until the end of the window.
    clock.advance(seconds(57));
    faults.pass();
    faults.release();
    settle().await;
    assert_eq!(faults.calls().apply_each, 1, "the others are too late");
}

/// The system's clock, and threads that are stopped anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_lose_no_units() {
    let store = Arc::new(TwoTierStore::new(MemoryStore::new()));
    let key = TestKey::new(Quota::fixed_window(1_000_000, days(300)).unwrap());
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (store, key) = (Arc::clone(&store), key.clone());
            tokio::spawn(async move {
                for _ in 0..20_000 {
                    assert!(key.take(&*store).await.unwrap().allowed());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    store.close().await;
    let left = store.inner().apply(&key.op(Op::Check(Cost::ONE))).await.unwrap().remaining();
    assert_eq!(left, 1_000_000 - 80_000);
}
