//! Fetching a batch: once for everybody, before the last is spent, and whatever becomes of who wanted it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use tidegate::{Quota, Store, hours, seconds};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::support::{Asked, RATE, builder, clock, faulty, leased, settle};

#[tokio::test]
async fn a_hot_key_costs_few_calls() {
    let (store, faults) = leased(&clock());
    Asked::window().warm(&store, 10_000).await;
    // 1, 2, 4 and so on, up to 1,000, and then 1,000 at a time, fetched at a fourth.
    let calls = faults.calls().decisions();
    assert!((15..=30).contains(&calls), "{calls}");
}

#[tokio::test]
async fn one_refill_is_on_its_way_for_a_key() {
    let (store, faults) = leased(&clock());
    let store = Arc::new(store);
    faults.hang();
    let mut callers = JoinSet::new();
    for _ in 0..50 {
        let store = Arc::clone(&store);
        callers.spawn(async move { Asked::window().take(&store).await.unwrap().allowed() });
    }
    callers.spawn({
        let store = Arc::clone(&store);
        async move { Asked::window().key("other").take(&store).await.unwrap().allowed() }
    });
    settle().await;
    assert_eq!(faults.held_calls(), 2, "one for each key");
    faults.pass();
    faults.release();
    assert!(callers.join_all().await.into_iter().all(|allowed| allowed));
}

/// However many come at once for a key that nobody has in hand: each answer that is waited for is a round trip, and whoever
/// is around this store has a time for all of them together.
#[tokio::test]
async fn everybody_who_waits_is_served_by_the_second_refill() {
    let (store, faults) = leased(&clock());
    let store = Arc::new(store);
    faults.hang();
    let mut callers = JoinSet::new();
    for cost in (0..50).map(|caller| 1 + caller % 3) {
        let store = Arc::clone(&store);
        callers.spawn(async move { Asked::window().take_units(&*store, cost).await.unwrap().allowed() });
    }
    for round in 1..=2 {
        settle().await;
        assert_eq!((faults.held_calls(), faults.calls().apply), (1, round));
        faults.release();
    }
    assert!(callers.join_all().await.into_iter().all(|allowed| allowed));
    assert_eq!(faults.calls().apply, 2, "nobody had to ask for itself");
    // And no more was fetched than they wanted.
    assert_eq!(Asked::window().spend(&store), 0);
}

#[tokio::test]
async fn the_next_batch_is_fetched_before_this_one_is_spent() {
    let (store, faults) = leased(&clock());
    let asked = Asked::window();
    asked.warm(&store, 100).await;
    faults.hang();
    let before = faults.calls().apply;
    while faults.calls().apply == before {
        assert!(asked.take_now(&store).is_some(), "it is fetched while something is in hand");
        settle().await;
    }
    // And while it is on its way, what is in hand is spent.
    assert!(asked.take_now(&store).unwrap().allowed());
    assert_eq!((faults.held_calls(), faults.calls().apply), (1, before + 1));
    let rest = asked.spend(&store);
    assert!(asked.take_now(&store).is_none());
    faults.pass();
    faults.release();
    settle().await;
    assert!(asked.spend(&store) > rest);
}

#[tokio::test]
async fn a_caller_that_has_gone_leaves_what_it_asked_for() {
    let (store, faults) = leased(&clock());
    let asked = Asked::window();
    faults.hang();
    {
        let mut call = pin!(asked.take_units(&store, 5));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        settle().await;
    }
    faults.release();
    settle().await;
    assert_eq!((asked.spend(&store), asked.left(&store).await), (5, RATE - 5));
    assert_eq!(faults.calls().apply, 1);
}

#[test]
fn a_refill_that_ended_with_its_runtime_holds_nobody_up() {
    let (clock, asked) = (clock(), Asked::window());
    let (store, faults) = faulty(&clock);
    let store = Arc::new(builder(&clock).build(store));
    let runtime = || Builder::new_current_thread().build().unwrap();
    faults.hang();
    let first = runtime();
    first.spawn({
        let (store, asked) = (Arc::clone(&store), asked.clone());
        async move { asked.take(&store).await }
    });
    first.block_on(settle());
    assert_eq!(faults.held_calls(), 1);
    drop(first);
    faults.pass();
    runtime().block_on(async {
        asked.warm(&store, 100).await;
        store.close().await;
    });
    assert!(faults.calls().apply < 20, "it is leased again: {:?}", faults.calls());
}

#[test]
fn nobody_waits_for_a_runtime_that_has_nothing_to_do() {
    let asked = Asked::window();
    let [home, other] = [(); 2].map(|()| Builder::new_current_thread().enable_time().build().unwrap());
    let (store, _) = home.block_on(async { leased(&clock()) });
    home.block_on(asked.warm(&store, 100));
    // The next batch is ordered from elsewhere, and nobody goes on there afterwards.
    assert!(other.block_on(async { asked.spend(&store) }) > 0);
    home.block_on(async {
        let ended = tokio::time::timeout(seconds(10), async {
            assert!(asked.take(&store).await.unwrap().allowed());
            store.close().await;
        });
        ended.await.expect("nobody is waited for");
    });
    drop(other);
}

#[tokio::test]
async fn what_a_hand_has_asked_for_is_not_put_into_another() {
    let (store, faults) = leased(&clock());
    let [asked, other] = [RATE, 2 * RATE].map(|rate| Asked::new(Quota::token_bucket(rate, hours(1)).unwrap()));
    let most = RATE / 16;
    let poll_once = |asked: &Asked| {
        let mut call = pin!(asked.take_units(&store, most));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    };
    faults.hang();
    // From one quota to another, and back.
    for asked in [&asked, &other, &asked] {
        poll_once(asked);
        settle().await;
    }
    faults.pass();
    faults.release();
    settle().await;
    assert_eq!(asked.spend(&store), most);
}

#[test]
fn outside_of_a_runtime_the_store_is_asked() {
    let (store, faults) = leased(&clock());
    let asked = Asked::window();
    for call in 1..=10 {
        assert!(tidegate_testkit::block_on(asked.take(&store)).unwrap().allowed());
        assert_eq!(faults.calls().apply, call);
    }
}
