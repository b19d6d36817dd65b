//! The denial cache: no call about a denied key before a retry can succeed.

use std::pin::pin;
use std::time::Duration;

use tidegate::resilience::{DenialCacheStore, Resilience};
use tidegate::store::{Op, Request};
use tidegate::{
    Cost, Decision, Key, ManualClock, MemoryStore, Quota, Reason, Store, StoreErrorKind, millis, minutes, seconds,
};
use tidegate_testkit::{Faults, block_on};

use crate::support::{Faulty, TestRequest, clock, error, faulty, kind, poll};

fn denials() -> (DenialCacheStore<Faulty>, Faults, ManualClock) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    (DenialCacheStore::new(store).clock(clock.clone()), faults, clock)
}

fn cost(cost: u64) -> Cost {
    Cost::new(cost).unwrap()
}

fn ask(store: &impl Store, target: &TestRequest, op: Op) -> Decision {
    block_on(store.apply(&target.op(op))).unwrap()
}

fn quotas() -> [Quota; 4] {
    [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window, Quota::sliding_log]
        .map(|quota| quota(10, minutes(1)).unwrap())
}

/// A key that has used everything, and was denied once.
fn exhausted(store: &impl Store, quota: Quota, denied: u64) -> (TestRequest, Decision) {
    let target = TestRequest { quota, ..TestRequest::new(1) };
    assert!(ask(store, &target, Op::Limit(cost(10))).allowed());
    let decision = ask(store, &target, Op::Limit(cost(denied)));
    assert!(!decision.allowed());
    (target, decision)
}

#[test]
fn denial_is_answered_from_the_cache_until_it_expires() {
    for quota in quotas() {
        let (store, faults, clock) = denials();
        let (target, denied) = exhausted(&store, quota, 1);
        let retry = denied.retry_after().unwrap();
        faults.fail(error(StoreErrorKind::Unavailable));
        clock.advance(retry / 2);
        let again = ask(&store, &target, Op::Limit(Cost::ONE));
        assert_eq!((again.allowed(), again.reason(), again.remaining()), (false, Some(Reason::Rate), 0), "{quota:?}");
        assert_eq!(again.retry_after(), Some(retry - retry / 2));
        assert_eq!(again.next_after(), Some(retry - retry / 2));
        assert_eq!(again.reset_after(), denied.reset_after() - retry / 2);
        assert_eq!(store.try_apply(&target.limit()).unwrap().unwrap(), again);
        assert_eq!(block_on(store.apply_each(&[target.limit()]))[0].as_ref().unwrap(), &again);
        // A microsecond before its time, and at it.
        clock.advance(retry - retry / 2 - Duration::from_micros(1));
        assert_eq!(ask(&store, &target, Op::Limit(Cost::ONE)).retry_after(), Some(Duration::from_micros(1)));
        clock.advance(Duration::from_micros(1));
        assert_eq!(
            kind(block_on(store.apply(&target.limit()))),
            Some(StoreErrorKind::Unavailable),
            "the store is called"
        );
        faults.pass();
        assert!(ask(&store, &target, Op::Limit(Cost::ONE)).allowed(), "{quota:?}: at the told time it is admitted");
    }
}

#[test]
fn larger_cost_is_denied_with_a_time_at_which_it_is_admitted() {
    for quota in quotas() {
        for more in [3, 7, 10] {
            let (store, faults, clock) = denials();
            let (target, denied) = exhausted(&store, quota, 2);
            clock.advance(denied.retry_after().unwrap() / 3);
            faults.fail(error(StoreErrorKind::Unavailable));
            let told = ask(&store, &target, Op::Limit(cost(more)));
            assert!(!told.allowed() && told.retry_after() >= denied.retry_after().map(|retry| retry - retry / 3));
            assert!(told.retry_after().unwrap() <= told.reset_after(), "{quota:?}");
            faults.pass();
            clock.advance(told.retry_after().unwrap());
            assert!(ask(&store, &target, Op::Limit(cost(more))).allowed(), "{quota:?}: {more}, told {told:?}");
        }
    }
    // A bucket's and a window's own numbers say when, and not only when all of it is back.
    let (store, _, _) = denials();
    let (target, denied) = exhausted(&store, quotas()[0], 2);
    let told = ask(&store, &target, Op::Limit(cost(3)));
    assert_eq!(told.retry_after(), denied.retry_after().map(|retry| retry + seconds(6)));
}

#[test]
fn smaller_and_impossible_costs_go_to_the_store() {
    let (store, _, clock) = denials();
    let (target, _) = exhausted(&store, quotas()[0], 5);
    clock.advance(seconds(6));
    assert!(ask(&store, &target, Op::Limit(Cost::ONE)).allowed(), "one has come back");
    let never = ask(&store, &target, Op::Limit(cost(11)));
    assert_eq!((never.reason(), never.retry_after()), (Some(Reason::CostExceedsCapacity), None));
}

#[test]
fn denial_of_a_larger_cost_does_not_replace_a_smaller_one() {
    let (store, faults, _) = denials();
    let (target, _) = exhausted(&store, quotas()[0], 5);
    assert!(!ask(&store, &target, Op::Limit(Cost::ONE)).allowed());
    faults.fail(error(StoreErrorKind::Unavailable));
    for costs in [1, 5, 2] {
        assert!(!ask(&store, &target, Op::Limit(cost(costs))).allowed());
    }
}

#[test]
fn other_operations_quotas_and_keys_go_to_the_store() {
    let (store, faults, _) = denials();
    let (target, _) = exhausted(&store, quotas()[0], 1);
    faults.fail(error(StoreErrorKind::Unavailable));
    let other = TestRequest { quota: quotas()[0].capacity(11).unwrap(), ..target.clone() };
    let (key, limit) =
        (target.key("another"), TestRequest { scope: tidegate::store::Scope::new("", "send"), ..target.clone() });
    let requests =
        [target.op(Op::Check(Cost::ONE)), target.op(Op::Reserve(Cost::ONE)), other.limit(), key.limit(), limit.limit()];
    for request in &requests {
        assert_eq!(kind(block_on(store.apply(request))), Some(StoreErrorKind::Unavailable), "{request:?}");
    }
    assert!(block_on(store.apply_all(&[key.limit(), limit.limit()])).is_err());
    assert!(!block_on(store.apply_all(&[key.limit(), target.limit()])).unwrap().allowed(), "the cache knows a denial");
    let each = block_on(store.apply_each(&[target.limit(), key.limit(), target.limit()]));
    assert_eq!(each.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
}

/// The usage of a key counts under the quota of its last admission.
#[test]
fn admission_under_another_quota_removes_a_cached_denial() {
    type CallFn = fn(&DenialCacheStore<Faulty>, &TestRequest) -> bool;
    let ways: [CallFn; 4] = [
        |store, faster| ask(store, faster, Op::Limit(Cost::ONE)).allowed(),
        |store, faster| ask(store, faster, Op::Reserve(Cost::ONE)).allowed(),
        |store, faster| block_on(store.apply_all(&[faster.limit()])).unwrap().allowed(),
        |store, faster| {
            let other = faster.key("another");
            block_on(store.apply_each(&[other.op(Op::Reset), faster.limit()]))[1].as_ref().unwrap().allowed()
        },
    ];
    for (number, admit) in ways.into_iter().enumerate() {
        let (store, _, clock) = denials();
        let (target, denied) = exhausted(&store, quotas()[0], 1);
        let faster = TestRequest { quota: Quota::token_bucket(100, seconds(1)).unwrap(), ..target.clone() };
        clock.advance(seconds(1));
        assert!(admit(&store, &faster), "{number}");
        clock.advance(seconds(1));
        assert!(denied.retry_after() > Some(seconds(2)), "it would still be remembered");
        assert!(ask(&store, &target, Op::Limit(Cost::ONE)).allowed(), "{number}");
    }
}

#[test]
fn refund_through_the_cache_is_seen_at_once() {
    for back in [Op::Refund(Cost::ONE), Op::Reset] {
        let (store, _, _) = denials();
        let (target, _) = exhausted(&store, quotas()[1], 1);
        let _ = ask(&store, &target, back);
        assert!(ask(&store, &target, Op::Limit(Cost::ONE)).allowed(), "{back:?}");

        let (store, _, _) = denials();
        let (target, _) = exhausted(&store, quotas()[1], 1);
        let each = block_on(store.apply_each(&[target.op(back), target.limit()]));
        assert!(each[1].as_ref().unwrap().allowed(), "{back:?}");

        // Elsewhere it is seen when the denial is over.
        let (store, _, _) = denials();
        let (target, _) = exhausted(&store, quotas()[1], 1);
        let _ = ask(store.inner(), &target, back);
        assert!(!ask(&store, &target, Op::Limit(Cost::ONE)).allowed(), "{back:?}");
    }
}

#[test]
fn refund_during_a_pending_denial_is_seen() {
    let (store, faults, _) = denials();
    let target = TestRequest { quota: quotas()[1], ..TestRequest::new(1) };
    assert!(ask(&store, &target, Op::Limit(cost(10))).allowed());
    faults.delay_responses();
    let request = target.limit();
    let mut denied = pin!(store.apply(&request));
    assert!(poll(denied.as_mut()).is_pending(), "it is decided, and not known yet");
    faults.pass();
    let _ = ask(&store, &target, Op::Refund(Cost::ONE));
    faults.release();
    assert!(!block_on(denied).unwrap().allowed());
    assert!(ask(&store, &target, Op::Limit(Cost::ONE)).allowed());
}

#[test]
fn slow_denial_expires_from_its_request_and_counts_from_its_answer() {
    let (store, faults, clock) = denials();
    let target = TestRequest { quota: quotas()[0], ..TestRequest::new(1) };
    assert!(ask(&store, &target, Op::Limit(cost(10))).allowed());
    faults.delay_responses();
    let request = target.limit();
    let mut denied = pin!(store.apply(&request));
    assert!(poll(denied.as_mut()).is_pending());
    clock.advance(seconds(2));
    faults.pass();
    faults.release();
    assert_eq!(block_on(denied).unwrap().retry_after(), Some(seconds(6)), "as of when it was decided");
    assert_eq!(ask(&store, &target, Op::Limit(Cost::ONE)).retry_after(), Some(seconds(6)), "late rather than early");
    clock.advance(seconds(4));
    assert!(ask(&store, &target, Op::Limit(Cost::ONE)).allowed(), "six seconds after it was called, the store decides");
}

#[test]
fn errors_and_times_before_a_denial_are_not_answered_from_the_cache() {
    let (store, faults, clock) = denials();
    let (target, _) = exhausted(&store, quotas()[0], 1);
    faults.fail(error(StoreErrorKind::Unavailable));
    let at = tidegate::Clock::now(&clock);
    clock.set(tidegate::Timestamp::from_micros(at.as_micros() - 1));
    assert!(block_on(store.apply(&target.limit())).is_err());
    clock.set(at);
    assert!(block_on(store.apply(&target.key("another").limit())).is_err());
    faults.pass();
    assert!(ask(&store, &target.key("another"), Op::Limit(Cost::ONE)).allowed());
}

#[test]
fn flood_of_keys_neither_grows_the_cache_nor_admits_a_denied_key() {
    let clock = clock();
    let memory = MemoryStore::builder().max_keys(100_000).clock(clock.clone()).build();
    let store = DenialCacheStore::new(memory).max_keys(100).clock(clock.clone());
    let target = TestRequest::new(1);
    for _ in 0..3 {
        for number in 0..5_000_u64 {
            let key = target.key(Key::from(number));
            let first = ask(&store, &key, Op::Limit(Cost::ONE)).allowed();
            assert!(!ask(&store, &key, Op::Limit(Cost::ONE)).allowed(), "{first}");
        }
        assert!(store.cached() <= 100, "{}", store.cached());
        clock.advance(millis(10));
    }
    // The denial that lasts longer stays, even when the set is full.
    let store =
        DenialCacheStore::new(MemoryStore::builder().clock(clock.clone()).build()).max_keys(4).clock(clock.clone());
    let quota = Quota::fixed_window(1, minutes(600)).unwrap();
    let long = [0_u64, 1, 2, 3].map(|number| TestRequest { quota, ..target.key(Key::from(("long", number))) });
    for key in &long {
        assert_eq!(key.admitted(&store), 1);
    }
    for number in 0..1_000_u64 {
        assert_eq!(target.key(Key::from(number)).admitted(&store), 1);
    }
    for key in &long {
        let _ = ask(store.inner(), key, Op::Reset);
        assert!(!ask(&store, key, Op::Limit(Cost::ONE)).allowed(), "it is remembered");
    }
    let off = DenialCacheStore::new(MemoryStore::new()).max_keys(0);
    assert_eq!((target.admitted(&off), off.cached()), (1, 0));
}

#[test]
fn resilience_caches_no_denials_by_default() {
    let clock = clock();
    for keys in [0, 100] {
        let (store, faults) = faulty(&clock);
        let store = Resilience::new(clock.clone()).cache_denials(keys).build(store);
        let target = TestRequest::new(1).policy(tidegate::OnStoreError::Closed);
        assert!(target.take(&store).allowed());
        assert!(!target.take(&store).allowed());
        faults.fail(error(StoreErrorKind::Unavailable));
        let answers: Vec<_> = (0..20).map(|_| block_on(store.apply(&target.limit())).is_ok()).collect();
        assert_eq!(answers, [keys > 0; 20]);
        let look: Request<'_> = target.op(Op::Check(Cost::ONE));
        assert!(block_on(store.apply(&look)).is_err());
    }
}
