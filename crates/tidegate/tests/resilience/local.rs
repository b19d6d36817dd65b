//! The failure policy `local`: decisions in process while the store is broken.

use tidegate::resilience::FallbackStore;
use tidegate::store::Op;
use tidegate::{Algorithm, Cost, ManualClock, OnStoreError, Quota, Reason, Store, StoreErrorKind, millis, minutes};
use tidegate_testkit::{Faults, block_on};

use crate::support::{Faulty, TestRequest, clock, error, faulty};

/// A store that is broken, with what can be done about it.
fn broken() -> (FallbackStore<Faulty>, Faults, ManualClock) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    faults.fail(error(StoreErrorKind::Unavailable));
    (FallbackStore::new(store).clock(clock.clone()), faults, clock)
}

fn local(rate: u64) -> TestRequest {
    TestRequest::new(rate).policy(OnStoreError::Local)
}

#[test]
fn local_share_is_the_rate_divided_by_the_replicas() {
    for (rate, replicas, share) in [(10, 1, 10), (10, 2, 5), (10, 3, 3), (10, 10, 1), (10, 0, 10)] {
        let (store, ..) = broken();
        let store = store.expected_replicas(replicas);
        let target = local(rate);
        assert_eq!(target.take(&store).limit(), share);
        assert_eq!(target.admitted(&store) as u64, share - 1, "{rate} over {replicas}");
    }
}

#[test]
fn all_replicas_together_admit_no_more_than_the_rate() {
    for algorithm in Algorithm::RATES {
        for (rate, replicas) in [(10, 3), (10, 7), (4, 10), (1, 3)] {
            let (_, _, clock) = broken();
            let fleet: Vec<_> = (0..replicas)
                .map(|_| {
                    let (store, faults) = faulty(&clock);
                    faults.fail(error(StoreErrorKind::Unavailable));
                    FallbackStore::new(store).clock(clock.clone()).expected_replicas(replicas)
                })
                .collect();
            let target = TestRequest { quota: Quota::new(algorithm, rate, minutes(1)).unwrap(), ..local(1) };
            let mut admitted = 0;
            // So long that what a replica may admit at once does not matter any more.
            for _ in 0..60 {
                admitted += fleet.iter().map(|store| target.admitted(store) as u64).sum::<u64>();
                clock.advance(minutes(1));
            }
            let at_once = u64::from(replicas).max(rate);
            assert!(admitted <= 60 * rate + at_once, "{algorithm}: {admitted} in an hour, {rate} over {replicas}");
            // Rounding down, and an estimate that is looked at only once a minute, cost something.
            assert!(admitted >= 60 * rate / 3, "{algorithm}: {admitted} in an hour, {rate} over {replicas}");
        }
    }
}

#[test]
fn local_supports_every_operation() {
    let (store, ..) = broken();
    let target = local(5);
    let apply = |op| block_on(store.apply(&target.op(op))).unwrap();
    let three = Cost::new(3).unwrap();
    let steps = [
        (Op::Limit(three), true, 2),
        (Op::Check(three), false, 2),
        (Op::Limit(three), false, 2),
        (Op::Reserve(three), true, 0),
        (Op::Refund(three), true, 2),
        (Op::Reset, true, 5),
    ];
    for (op, allowed, remaining) in steps {
        let decision = apply(op);
        assert_eq!((decision.allowed(), decision.remaining()), (allowed, remaining), "{op:?}");
        // The store has not heard of it.
        assert_eq!(decision.reason() == Some(Reason::Store), op == Op::Reset, "{op:?}");
    }
}

#[test]
fn local_quota_is_replenished_on_the_given_clock() {
    let (store, _, clock) = broken();
    let target = local(5);
    assert_eq!(target.admitted(&store), 5);
    let wait = target.take(&store).retry_after().unwrap();
    clock.advance(wait - millis(1));
    assert_eq!(target.admitted(&store), 0);
    clock.advance(millis(1));
    assert_eq!(target.admitted(&store), 5);
}

#[test]
fn cost_above_the_share_is_denied_with_the_reason_store() {
    let (store, ..) = broken();
    let store = store.expected_replicas(5);
    let target = local(10);
    for (units, reason) in
        [(2, None), (3, Some(Reason::Store)), (10, Some(Reason::Store)), (11, Some(Reason::CostExceedsCapacity))]
    {
        let cost = Cost::new(units).unwrap();
        for op in [Op::Check(cost), Op::Reserve(cost)] {
            let decision = block_on(store.apply(&target.key(units).op(op))).unwrap();
            assert_eq!((decision.allowed(), decision.reason()), (reason.is_none(), reason), "{op:?}");
        }
        let all = block_on(store.apply_all(&[target.key(units + 100).op(Op::Limit(cost))])).unwrap();
        assert_eq!((all.allowed(), all.decisions()[0].reason()), (reason.is_none(), reason), "{units}");
    }
}

#[test]
fn local_keys_are_bounded() {
    let (store, ..) = broken();
    let store = store.max_keys(300);
    for key in 0..20_000_u64 {
        let _ = local(5).key(key).take(&store);
    }
    let stats = store.local().unwrap();
    assert!(stats.keys <= 450, "{stats:?}");
    assert!(stats.bytes < 64 * 1024, "{stats:?}");
}

#[test]
fn working_store_creates_no_local_store() {
    let (store, faults, _) = broken();
    faults.pass();
    assert!(local(5).take(&store).allowed());
    assert_eq!(store.local(), None);
    faults.fail(error(StoreErrorKind::Unavailable));
    let _ = TestRequest::new(5).take(&store);
    assert_eq!(store.local(), None);
    let _ = local(5).take(&store);
    assert_eq!(store.local().map(|stats| stats.keys), Some(1));
}

#[test]
fn local_state_is_dropped_when_the_store_is_back() {
    type CallFn = fn(&FallbackStore<Faulty>, &TestRequest);
    let ways: [CallFn; 4] = [
        |store, target| assert!(store.try_apply(&target.limit()).unwrap().is_ok()),
        |store, target| assert!(block_on(store.apply(&target.limit())).is_ok()),
        |store, target| assert!(block_on(store.apply_all(&[target.limit()])).is_ok()),
        |store, target| assert!(block_on(store.apply_each(&[target.limit()]))[0].is_ok()),
    ];
    for ask in ways {
        let (store, faults, clock) = broken();
        let target = local(5);
        assert_eq!(target.admitted(&store), 5);
        faults.pass();
        // Not before the local state is replenished, or a new outage would give a new quota.
        clock.advance(minutes(1) - millis(1));
        ask(&store, &target.key("another"));
        assert!(store.local().is_some());
        clock.advance(millis(1));
        ask(&store, &target);
        assert_eq!(store.local(), None);
        // The store does not know of local admissions.
        assert_eq!(target.left(store.inner()), 4);
        faults.fail(error(StoreErrorKind::Unavailable));
        assert_eq!(target.admitted(&store), 5);
    }
}

#[test]
fn unsupported_request_does_not_end_an_outage() {
    let (store, faults, clock) = broken();
    let _ = local(5).take(&store);
    clock.advance(minutes(1));
    faults.fail(error(StoreErrorKind::Unsupported));
    assert!(block_on(store.apply(&local(5).limit())).is_err());
    assert!(store.local().is_some());
}

#[test]
fn store_that_fails_now_and_then_renews_no_local_quota() {
    for between in [999, 1_000, 1_100, 7_000] {
        let (store, faults, clock) = broken();
        let (target, other) = (local(5), local(1_000).key("other"));
        let mut admitted = 0;
        for _ in 0..59_999 / between {
            faults.pass();
            assert!(other.take(&store).allowed());
            clock.advance(millis(between));
            assert!(other.take(&store).allowed());
            faults.fail(error(StoreErrorKind::Corrupt));
            admitted += u64::from(target.take(&store).allowed());
        }
        assert_eq!(admitted, 5, "failures {between} ms apart");
    }
}

#[test]
fn local_debt_is_kept_until_it_is_paid() {
    let (store, faults, clock) = broken();
    let target = local(5);
    for _ in 0..3 {
        let debt = block_on(store.apply(&target.op(Op::Reserve(Cost::new(5).unwrap())))).unwrap();
        assert!(debt.allowed());
    }
    for minute in 1..3 {
        faults.pass();
        clock.advance(minutes(1));
        let _ = target.take(&store);
        faults.fail(error(StoreErrorKind::Unavailable));
        assert!(!target.take(&store).allowed(), "in minute {minute}");
    }
    faults.pass();
    clock.advance(minutes(1));
    let _ = target.take(&store);
    assert_eq!(store.local(), None);
}

#[test]
fn local_store_is_not_recreated_for_every_failure() {
    let (store, faults, clock) = broken();
    let target = local(5);
    // A look takes nothing, so there is nothing to keep it for.
    assert_eq!(target.left(&store), 5);
    faults.pass();
    clock.advance(millis(999));
    let _ = target.take(&store);
    assert!(store.local().is_some());
    clock.advance(millis(1));
    let _ = target.take(&store);
    assert_eq!(store.local(), None);
}
