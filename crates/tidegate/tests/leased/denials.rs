//! Denials: in process, and honest.

use tidegate::{Cost, Op, Quota, Store, millis, seconds};

use crate::support::{Asked, clock, leased};

#[tokio::test]
async fn a_denied_flood_costs_few_calls() {
    let clock = clock();
    let (store, faults) = leased(&clock);
    let asked = Asked::new(Quota::fixed_window(64, seconds(60)).unwrap());
    asked.warm(&store, 64).await;
    let before = faults.calls().decisions();
    for _ in 0..10_000 {
        let denied = asked.take(&store).await.unwrap();
        assert_eq!((denied.allowed(), denied.remaining(), denied.retry_after()), (false, 0, Some(seconds(60))));
    }
    assert!(faults.calls().decisions() - before <= 3, "{:?}", faults.calls());
    // Once in a second somebody looks, because others may have given something back.
    let before = faults.calls().decisions();
    for _ in 0..10 {
        clock.advance(millis(1_000));
        assert!(!asked.take(&store).await.unwrap().allowed());
        assert!(!asked.take(&store).await.unwrap().allowed());
    }
    assert_eq!(faults.calls().decisions() - before, 10);
    clock.advance(seconds(50));
    assert!(asked.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn a_retry_as_late_as_it_says_is_allowed() {
    let clock = clock();
    let (store, _) = leased(&clock);
    let asked = Asked::new(Quota::token_bucket(1_000, seconds(1)).unwrap());
    asked.warm(&store, 1_000).await;
    for cost in [1, 7, 30, 62] {
        let denied = asked.take_units(&store, cost).await.unwrap();
        assert!(!denied.allowed());
        clock.advance(denied.retry_after().unwrap());
        assert!(asked.take_units(&store, cost).await.unwrap().allowed(), "{cost}: {denied:?}");
        // What came in addition.
        while asked.take(&store).await.unwrap().allowed() {}
    }
}

#[tokio::test]
async fn a_part_is_taken_where_there_is_no_batch() {
    let (store, _) = leased(&clock());
    let asked = Asked::new(Quota::fixed_window(1_000, seconds(60)).unwrap());
    // 62 at a time, and 8 at the end.
    asked.warm(&store, 1_000).await;
    assert!(!asked.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn a_refund_ends_a_denial() {
    let (store, _) = leased(&clock());
    let asked = Asked::new(Quota::fixed_window(64, seconds(60)).unwrap());
    asked.warm(&store, 64).await;
    assert!(!asked.take(&store).await.unwrap().allowed());
    let _ = store.apply(&asked.op(Op::Refund(Cost::ONE))).await.unwrap();
    assert!(asked.take(&store).await.unwrap().allowed());
    assert!(!asked.take(&store).await.unwrap().allowed());
}

#[tokio::test]
async fn a_batch_sees_what_it_has_given_back() {
    let (store, _) = leased(&clock());
    let asked = Asked::window();
    while asked.take(&store).await.unwrap().allowed() {}
    for first in [Op::Refund(Cost::new(5).unwrap()), Op::Reset] {
        assert!(asked.take_now(&store).is_some_and(|decision| !decision.allowed()), "denied in process");
        let batch = [asked.op(first), asked.op(Op::Limit(Cost::ONE))];
        let answers = store.apply_each(&batch).await;
        assert!(answers[1].as_ref().unwrap().allowed(), "{first:?}");
        while asked.take(&store).await.unwrap().allowed() {}
    }
}
