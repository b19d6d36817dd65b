//! Denials in process, and the accuracy of their retry hints.

use tidegate::store::Op;
use tidegate::{Cost, Quota, Store, millis, seconds};

use crate::support::{TestKey, clock, two_tier};

#[tokio::test]
async fn flood_of_denied_requests_costs_few_calls() {
    let clock = clock();
    let (store, faults) = two_tier(&clock);
    let key = TestKey::new(Quota::fixed_window(64, seconds(60)).unwrap());
    key.warm(&store, 64).await;
    let before = faults.calls().decisions();
    for _ in 0..10_000 {
        let denied = key.take(&store).await.unwrap();
        assert_eq!((denied.allowed(), denied.remaining(), denied.retry_after()), (false, 0, Some(seconds(60))));
    }
    assert!(faults.calls().decisions() - before <= 3, "{:?}", faults.calls());
    // Once a second a request goes to the store, because other processes may have returned units.
    let before = faults.calls().decisions();
    for _ in 0..10 {
        clock.advance(millis(1_000));
        assert!(!key.take(&store).await.unwrap().allowed());
        assert!(!key.take(&store).await.unwrap().allowed());
    }
    assert_eq!(faults.calls().decisions() - before, 10);
    clock.advance(seconds(50));
    assert!(key.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn retry_at_the_told_time_is_admitted() {
    let clock = clock();
    let (store, _) = two_tier(&clock);
    let key = TestKey::new(Quota::token_bucket(1_000, seconds(1)).unwrap());
    key.warm(&store, 1_000).await;
    for cost in [1, 7, 30, 62] {
        let denied = key.take_units(&store, cost).await.unwrap();
        assert!(!denied.allowed());
        clock.advance(denied.retry_after().unwrap());
        assert!(key.take_units(&store, cost).await.unwrap().allowed(), "{cost}: {denied:?}");
        // What came in addition.
        while key.take(&store).await.unwrap().allowed() {}
    }
}

#[tokio::test]
async fn refill_takes_what_is_left_where_a_batch_is_not() {
    let (store, _) = two_tier(&clock());
    let key = TestKey::new(Quota::fixed_window(1_000, seconds(60)).unwrap());
    // 62 at a time, and 8 at the end.
    key.warm(&store, 1_000).await;
    assert!(!key.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn refund_ends_a_denial() {
    let (store, _) = two_tier(&clock());
    let key = TestKey::new(Quota::fixed_window(64, seconds(60)).unwrap());
    key.warm(&store, 64).await;
    assert!(!key.take(&store).await.unwrap().allowed());
    let _ = store.apply(&key.op(Op::Refund(Cost::ONE))).await.unwrap();
    assert!(key.take(&store).await.unwrap().allowed());
    assert!(!key.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn requests_after_a_refund_in_one_call_see_it() {
    let (store, _) = two_tier(&clock());
    let key = TestKey::window();
    while key.take(&store).await.unwrap().allowed() {}
    for first in [Op::Refund(Cost::new(5).unwrap()), Op::Reset] {
        assert!(key.take_now(&store).is_some_and(|decision| !decision.allowed()), "denied in process");
        let batch = [key.op(first), key.op(Op::Limit(Cost::ONE))];
        let answers = store.apply_each(&batch).await;
        assert!(answers[1].as_ref().unwrap().allowed(), "{first:?}");
        while key.take(&store).await.unwrap().allowed() {}
    }
}
