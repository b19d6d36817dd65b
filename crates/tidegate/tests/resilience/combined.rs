//! All wrappers around one store, under a limiter.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate::resilience::{BreakerState, FallbackStore, Resilience, Resilient};
use tidegate::{
    Call, Decision, Error, Limit, Limiter, ManualClock, OnStoreError, Quota, Reason, Store, StoreErrorKind, millis,
    minutes, seconds,
};
use tidegate_testkit::{Faults, block_on};

use crate::support::{Faulty, TestRequest, clock, error, faulty, poll};

fn resilient() -> (Arc<Resilient<Faulty>>, Faults, ManualClock) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let settings = Resilience::new(clock.clone()).timeout(millis(20)).breaker(2, seconds(3)).expected_replicas(2);
    (Arc::new(settings.name("faulty").build(store)), faults, clock)
}

/// A limiter with a limit of each policy, each in three shapes. The cut ones have three shards of four.
fn limiter(store: &Arc<Resilient<Faulty>>, clock: &ManualClock) -> Limiter {
    let mut builder = Limiter::builder().store(Arc::clone(store)).sleeper(clock.clone());
    for policy in OnStoreError::ALL {
        let plain = Limit::new(Quota::fixed_window(12, minutes(1)).unwrap()).on_store_error(policy);
        let cut = plain.clone().shards(3).unwrap();
        builder = builder
            .limit(format!("{}-shadow", policy.as_str()), plain.clone().shadow(true))
            .limit(format!("{}-cut", policy.as_str()), cut)
            .limit(policy.as_str(), plain);
    }
    builder.build().unwrap()
}

fn ask(call: Call<'_>) -> Result<Decision, Error> {
    block_on(call.into_future())
}

#[test]
fn policy_answers_a_timeout() {
    let (store, faults, clock) = resilient();
    faults.hang();
    let target = TestRequest::new(5);
    let request = target.limit();
    let mut call = pin!(store.apply(&request));
    assert!(poll(call.as_mut()).is_pending());
    clock.advance(millis(20));
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(decision)) if decision.reason() == Some(Reason::Store)));
}

#[test]
fn timeouts_open_the_breaker_and_end_the_waiting() {
    let (store, faults, clock) = resilient();
    faults.hang();
    let target = TestRequest::new(5);
    for _ in 0..2 {
        let request = target.limit();
        let mut call = pin!(store.apply(&request));
        assert!(poll(call.as_mut()).is_pending());
        clock.advance(millis(20));
        assert!(poll(call.as_mut()).is_ready());
    }
    assert_eq!(store.breaker(), BreakerState::Open);
    let request = target.limit();
    assert!(matches!(poll(pin!(store.apply(&request))), Poll::Ready(Ok(_))));
    assert!(matches!(store.try_apply(&request), Some(Ok(decision)) if decision.reason() == Some(Reason::Store)));
    // And it comes back by itself.
    faults.pass();
    clock.advance(seconds(3));
    assert_eq!((target.take(&store).reason(), store.breaker()), (None, BreakerState::Closed));
}

#[test]
fn hanging_probe_does_not_keep_the_breaker_half_open() {
    let (store, faults, clock) = resilient();
    faults.fail(error(StoreErrorKind::Unavailable));
    let target = TestRequest::new(5);
    assert!(target.admitted(&store) == 100 && store.breaker() == BreakerState::Open);
    faults.hang();
    clock.advance(seconds(3));
    let request = target.limit();
    let mut call = pin!(store.apply(&request));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(store.breaker(), BreakerState::HalfOpen);
    clock.advance(millis(20));
    assert!(poll(call.as_mut()).is_ready());
    assert_eq!(store.breaker(), BreakerState::Open);
}

#[test]
fn limiter_answers_through_an_outage_by_each_limits_policy() {
    let (store, faults, clock) = resilient();
    let limiter = limiter(&store, &clock);
    faults.fail(error(StoreErrorKind::Unavailable));
    for (open, limit) in
        [("open", 12), ("open-cut", 4), ("open-shadow", 12), ("closed-shadow", 12), ("local-shadow", 12)]
    {
        // A shadow limit admits under every policy; what it cannot deny goes by its own.
        let mut calls = vec![limiter.limit(open, "u"), limiter.check(open, "u")];
        if !["closed-shadow", "local-shadow"].contains(&open) {
            calls.extend([limiter.refund(open, "u"), limiter.reset(open, "u")]);
        }
        for call in calls {
            let decision = ask(call).unwrap();
            assert!(decision.allowed());
            assert_eq!((decision.reason(), decision.limit()), (Some(Reason::Store), limit));
        }
        assert!(ask(limiter.acquire(open, "u", seconds(1))).unwrap().allowed());
    }
    for closed in ["closed", "closed-cut"] {
        for call in [limiter.limit(closed, "u"), limiter.check(closed, "u"), limiter.refund(closed, "u")] {
            let error = ask(call).unwrap_err();
            assert!(matches!(error, Error::Store(_)) && error.is_retryable() && !error.is_misuse());
        }
    }
    // Twelve over two replicas, or the four of the key's shard.
    for (local, share) in [("local", 6), ("local-cut", 2)] {
        let admitted = (0..100).filter(|_| ask(limiter.limit(local, "u")).unwrap().allowed()).count();
        assert_eq!(admitted, share, "{local}");
        assert_eq!(ask(limiter.check(local, "u")).unwrap().remaining(), 0);
        assert!(ask(limiter.reset(local, "u")).unwrap().allowed());
        assert_eq!(ask(limiter.check(local, "u")).unwrap().remaining(), share as u64);
    }
}

#[test]
fn limiter_answers_joint_decisions_through_an_outage() {
    let (store, faults, clock) = resilient();
    let limiter = limiter(&store, &clock);
    faults.fail(error(StoreErrorKind::Unavailable));
    let all = |names: &[&'static str]| block_on(limiter.limit_all(names.iter().map(|name| limiter.limit(name, "u"))));
    assert!(all(&["open", "open-cut", "open-shadow"]).unwrap().allowed());
    assert!(all(&["open", "local", "closed"]).is_err());
    let admitted = |names: &[&'static str]| (0..100).filter(|_| all(names).unwrap().allowed()).count();
    assert_eq!(admitted(&["local-cut", "open-cut"]), 2);
    assert_eq!(admitted(&["open", "local"]), 6);
    // A shadow limit never holds the others back, however its store fails.
    let shadow = all(&["open", "closed-shadow"]).unwrap();
    assert!(shadow.allowed());
    assert_eq!(shadow.decisions()[1].reason(), Some(Reason::Store));
}

#[test]
fn unsupported_is_an_error_through_all_wrappers() {
    let (store, faults, clock) = resilient();
    let limiter = limiter(&store, &clock);
    faults.fail(error(StoreErrorKind::Unavailable));
    for call in [limiter.limit("nobody", "u"), limiter.limit("open", "u").cost(0)] {
        assert!(ask(call).unwrap_err().is_misuse());
    }
    assert_eq!(faults.calls().decisions(), 0);
}

#[test]
fn close_reaches_the_store() {
    let (store, faults, clock) = resilient();
    block_on(limiter(&store, &clock).close());
    assert_eq!(faults.calls().close, 1);
}

/// A limiter with a limit of each policy over a store that can hang.
fn over(store: impl Store + 'static, clock: &ManualClock) -> Limiter {
    let quota = Quota::fixed_window(5, minutes(1)).unwrap();
    let builder = Limiter::builder()
        .limit("open", Limit::new(quota).on_store_error(OnStoreError::Open))
        .limit("closed", Limit::new(quota).on_store_error(OnStoreError::Closed))
        .limit("local", Limit::new(quota).on_store_error(OnStoreError::Local));
    builder.store(store).sleeper(clock.clone()).build().unwrap()
}

/// The decision of a limit once that much time has passed; none when it is still waited for.
fn after(limiter: &Limiter, clock: &ManualClock, limit: &str, wait: Duration) -> Option<Result<Decision, Error>> {
    let mut call = pin!(limiter.limit(limit, "u").into_future());
    assert!(poll(call.as_mut()).is_pending());
    clock.advance(wait);
    match poll(call.as_mut()) {
        Poll::Ready(decision) => Some(decision),
        Poll::Pending => None,
    }
}

#[test]
fn builder_puts_a_timeout_and_the_policies_around_a_store_that_waits() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let limiter = over(store, &clock);
    faults.hang();
    assert_eq!(after(&limiter, &clock, "open", millis(50)).unwrap().unwrap().reason(), Some(Reason::Store));
    assert!(matches!(after(&limiter, &clock, "closed", millis(50)), Some(Err(Error::Store(_)))));
    assert_eq!(after(&limiter, &clock, "local", millis(50)).unwrap().unwrap().remaining(), 4);
}

#[test]
fn builder_takes_other_settings() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let quota = Quota::fixed_window(5, minutes(1)).unwrap();
    let settings = Resilience::new(clock.clone()).timeout(millis(200));
    let limiter = Limiter::builder().limit("open", quota).store(store).resilience(settings).build().unwrap();
    faults.hang();
    assert!(after(&limiter, &clock, "open", millis(199)).is_none());
    assert!(after(&limiter, &clock, "open", millis(200)).unwrap().unwrap().allowed());
}

#[test]
fn builder_leaves_a_bare_store_alone() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let quota = Quota::fixed_window(5, minutes(1)).unwrap();
    let limiter = Limiter::builder().limit("open", quota).bare_store(store).sleeper(clock.clone()).build().unwrap();
    faults.hang();
    assert!(after(&limiter, &clock, "open", minutes(60)).is_none());
    faults.fail(error(StoreErrorKind::Unavailable));
    assert!(matches!(ask(limiter.limit("open", "u")), Err(Error::Store(_))));
}

#[test]
fn builder_leaves_a_store_with_a_failure_policy_alone() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let limiter = over(FallbackStore::new(store), &clock);
    faults.hang();
    assert!(after(&limiter, &clock, "open", minutes(60)).is_none(), "a second timeout would have ended it");
}

#[test]
fn shadow_limit_returns_the_error_of_an_operation_that_it_cannot_deny() {
    let (store, faults, clock) = resilient();
    let limiter = limiter(&store, &clock);
    faults.fail(error(StoreErrorKind::Unavailable));
    assert!(ask(limiter.limit("closed-shadow", "u")).unwrap().allowed());
    assert!(ask(limiter.refund("closed-shadow", "u")).is_err());
    // The policy of a single call wins.
    assert!(ask(limiter.limit("closed-shadow", "u").on_store_error(OnStoreError::Closed)).is_err());
}

#[cfg(feature = "tokio")]
#[test]
fn call_outside_of_a_runtime_is_an_error_that_says_what_to_do() {
    let (store, faults) = faulty(&clock());
    faults.hang();
    let quota = Quota::fixed_window(5, minutes(1)).unwrap();
    let limiter = Limiter::builder().limit("a", quota).store(store).build().unwrap();
    let error = ask(limiter.limit("a", "u")).unwrap_err().to_string();
    assert!(error.contains("bare_store") && error.contains("sleeper"), "{error}");
}
