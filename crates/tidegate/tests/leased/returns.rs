//! Giving back: what is idle, and everything at the end.

use std::sync::Arc;

use tidegate::{Cost, Leased, Limiter, MemoryStore, Op, Quota, Store, days, hours, millis, seconds};
use tokio::task::JoinHandle;

use crate::support::{Asked, Faulty, RATE, builder, clock, faulty, leased, settle};

/// Closes it, beside all else.
fn closing(store: &Arc<Leased<Faulty>>) -> JoinHandle<()> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.close().await })
}

#[tokio::test]
async fn what_is_idle_is_given_back() {
    let clock = clock();
    let (store, _) = leased(&clock);
    let asked = Asked::window();
    asked.warm(&store, 100).await;
    assert!(asked.left(&store).await < RATE - 100, "something is in hand");
    // Looked for every half of the second after which it is idle.
    clock.advance(millis(500));
    settle().await;
    assert!(asked.left(&store).await < RATE - 100, "it is not idle yet");
    clock.advance(millis(500));
    settle().await;
    assert_eq!(asked.left(&store).await, RATE - 100);
    assert_eq!(store.keys(), 0);
    // Nobody is left to look, and somebody is again when there is something.
    assert_eq!(clock.sleepers(), 0);
    asked.warm(&store, 100).await;
    assert_eq!(clock.sleepers(), 1);
}

#[tokio::test]
async fn what_is_used_is_kept() {
    let clock = clock();
    let (store, _) = leased(&clock);
    let asked = Asked::window();
    asked.warm(&store, 100).await;
    for _ in 0..10 {
        clock.advance(millis(500));
        assert!(asked.take_now(&store).is_some());
        settle().await;
    }
    assert_eq!(store.keys(), 1);
}

#[tokio::test]
async fn closing_gives_everything_back_and_what_is_on_its_way_too() {
    let (store, faults) = leased(&clock());
    let store = Arc::new(store);
    let asked = Asked::window();
    asked.warm(&store, 100).await;
    // Taken, and the answer does not come.
    faults.answer_late();
    let late = tokio::spawn({
        let store = Arc::clone(&store);
        async move { Asked::window().key("late").take_units(&store, 100).await }
    });
    settle().await;
    faults.pass();
    let closing = closing(&store);
    settle().await;
    assert!(!closing.is_finished(), "it waits for the answer");
    faults.release();
    closing.await.unwrap();
    assert_eq!(asked.left(&store).await, RATE - 100);
    let spent = if late.await.unwrap().unwrap().allowed() { 100 } else { 0 };
    assert_eq!(Asked::window().key("late").left(&store).await, RATE - spent);
    assert_eq!(faults.calls().close, 1);
    // From now on the store is asked.
    assert!(asked.take(&store).await.unwrap().allowed());
    assert_eq!(asked.left(&store).await, RATE - 101);
}

#[tokio::test]
async fn a_limiter_that_is_closed_has_given_everything_back() {
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
    assert!(leasing.limit("api", "u").now().unwrap().unwrap().allowed(), "without waiting");
    leasing.close().await;
    let strict = limiter(shared);
    assert_eq!(strict.check("api", "u").await.unwrap().remaining(), RATE - 101);
}

#[tokio::test]
async fn what_was_taken_in_a_window_is_not_given_to_the_next() {
    let clock = clock();
    let (store, faults) = leased(&clock);
    let asked = Asked::new(Quota::fixed_window(RATE, seconds(60)).unwrap());
    asked.warm(&store, 100).await;
    let calls = faults.calls();
    clock.advance(seconds(60));
    settle().await;
    assert_eq!(faults.calls(), calls, "nothing was given back");
    assert!(asked.take_now(&store).is_none(), "nothing is in hand");
    assert!(asked.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn keys_for_which_there_is_no_room_are_asked_of_the_store() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let store = builder(&clock).max_keys(64).build(store);
    for number in 0..2_000_u64 {
        assert!(Asked::window().key(number).take(&store).await.unwrap().allowed());
        assert!(store.keys() <= 64);
    }
    assert_eq!(faults.calls().decisions(), 2_000);
    // Those that nobody asks about make room.
    for _ in 0..3 {
        clock.advance(millis(500));
        settle().await;
    }
    assert_eq!(store.keys(), 0);
}

#[tokio::test]
async fn a_reset_forgets_what_is_in_hand() {
    let (store, _) = leased(&clock());
    let asked = Asked::window();
    asked.warm(&store, 100).await;
    assert_eq!(store.apply(&asked.op(Op::Reset)).await.unwrap().remaining(), RATE);
    assert!(asked.take_now(&store).is_none());
    assert_eq!(store.apply(&asked.op(Op::Check(Cost::ONE))).await.unwrap().remaining(), RATE);
}

#[tokio::test]
async fn a_reset_that_has_to_be_waited_for_has_forgotten_nothing() {
    let (store, faults) = leased(&clock());
    let asked = Asked::window();
    asked.warm(&store, 100).await;
    faults.hang();
    assert!(store.apply_now(&asked.op(Op::Reset)).is_none());
    assert!(asked.spend(&store) > 0);
}

#[tokio::test]
async fn what_was_in_hand_of_another_quota_is_not_given_back_by_it() {
    // One that is leased, and one that is too small for it.
    for rate in [100, 10] {
        let clock = clock();
        let (store, _) = leased(&clock);
        let before = Asked::new(Quota::token_bucket(16_000, seconds(1)).unwrap());
        before.warm(&store, 20).await;
        assert!(before.take_now(&store).is_some(), "something is in hand");
        // The store is full again.
        clock.advance(millis(10));
        let after = Asked::new(Quota::token_bucket(rate, hours(1)).unwrap());
        // Who only looks changes nothing.
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
async fn closing_waits_for_what_is_being_given_back() {
    let clock = clock();
    let (store, faults) = leased(&clock);
    let store = Arc::new(store);
    let asked = Asked::window();
    asked.warm(&store, 100).await;
    faults.hang();
    for _ in 0..2 {
        clock.advance(millis(500));
        settle().await;
    }
    assert_eq!(faults.held_calls(), 1, "what is idle is on its way back");
    faults.pass();
    let closing = closing(&store);
    settle().await;
    assert!(!closing.is_finished());
    faults.release();
    closing.await.unwrap();
    assert_eq!(asked.left(&store).await, RATE - 100);
}

#[tokio::test]
async fn what_had_to_wait_for_its_turn_is_not_given_to_the_next_window() {
    let clock = clock();
    let (store, faults) = leased(&clock);
    let quota = Quota::fixed_window(RATE, seconds(60)).unwrap();
    // More than go back with one call.
    let keys = 300_u64;
    for number in 0..keys {
        Asked::new(quota).key(number).warm(&store, 2).await;
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
async fn nothing_is_lost_among_threads() {
    let store = Arc::new(Leased::new(MemoryStore::new()));
    let asked = Asked::new(Quota::fixed_window(1_000_000, days(300)).unwrap());
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (store, asked) = (Arc::clone(&store), asked.clone());
            tokio::spawn(async move {
                for _ in 0..20_000 {
                    assert!(asked.take(&*store).await.unwrap().allowed());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    store.close().await;
    let left = store.inner().apply(&asked.op(Op::Check(Cost::ONE))).await.unwrap().remaining();
    assert_eq!(left, 1_000_000 - 80_000);
}
