//! Everything around one store, and a limiter on top.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tidegate::resilience::{BreakerState, Resilience, Resilient};
use tidegate::{
    Call, Decision, Error, Limit, Limiter, ManualClock, OnStoreError, Quota, Reason, ShardBy, Store, StoreErrorKind,
    millis, minutes, seconds,
};
use tidegate_testkit::{Faults, block_on};

use crate::support::{Asked, Faulty, clock, error, faulty, poll};

fn resilient() -> (Arc<Resilient<Faulty>>, Faults, ManualClock) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let settings = Resilience::new(clock.clone()).timeout(millis(20)).breaker(2, seconds(3)).expected_replicas(2);
    (Arc::new(settings.name("faulty").build(store)), faults, clock)
}

/// A limiter with a limit of each policy, each in three shapes.
fn limiter(store: &Arc<Resilient<Faulty>>, clock: &ManualClock) -> Limiter {
    let mut builder = Limiter::builder().store(Arc::clone(store)).sleeper(clock.clone());
    for policy in OnStoreError::ALL {
        let plain = Limit::new(Quota::fixed_window(12, minutes(1)).unwrap()).on_store_error(policy);
        let spread = plain.clone().shards(3).unwrap().shard_by(ShardBy::Spread);
        builder = builder
            .limit(format!("{}-shadow", policy.as_str()), plain.clone().shadow(true))
            .limit(format!("{}-spread", policy.as_str()), spread)
            .limit(policy.as_str(), plain);
    }
    builder.build().unwrap()
}

fn ask(call: Call<'_>) -> Result<Decision, Error> {
    block_on(call.into_future())
}

#[test]
fn a_timeout_is_answered_by_the_policy() {
    let (store, faults, clock) = resilient();
    faults.hang();
    let asked = Asked::new(5);
    let request = asked.limit();
    let mut call = pin!(store.apply(&request));
    assert!(poll(call.as_mut()).is_pending());
    clock.advance(millis(20));
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(decision)) if decision.reason() == Some(Reason::Store)));
}

#[test]
fn timeouts_open_the_breaker_and_then_nobody_waits() {
    let (store, faults, clock) = resilient();
    faults.hang();
    let asked = Asked::new(5);
    for _ in 0..2 {
        let request = asked.limit();
        let mut call = pin!(store.apply(&request));
        assert!(poll(call.as_mut()).is_pending());
        clock.advance(millis(20));
        assert!(poll(call.as_mut()).is_ready());
    }
    assert_eq!(store.breaker(), BreakerState::Open);
    let request = asked.limit();
    assert!(matches!(poll(pin!(store.apply(&request))), Poll::Ready(Ok(_))));
    assert!(matches!(store.apply_now(&request), Some(Ok(decision)) if decision.reason() == Some(Reason::Store)));
    // And it comes back by itself.
    faults.pass();
    clock.advance(seconds(3));
    assert_eq!((asked.take(&store).reason(), store.breaker()), (None, BreakerState::Closed));
}

#[test]
fn a_hanging_try_does_not_keep_the_breaker_half_open() {
    let (store, faults, clock) = resilient();
    faults.fail(error(StoreErrorKind::Unavailable));
    let asked = Asked::new(5);
    assert!(asked.admitted(&store) == 100 && store.breaker() == BreakerState::Open);
    faults.hang();
    clock.advance(seconds(3));
    let request = asked.limit();
    let mut call = pin!(store.apply(&request));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(store.breaker(), BreakerState::HalfOpen);
    clock.advance(millis(20));
    assert!(poll(call.as_mut()).is_ready());
    assert_eq!(store.breaker(), BreakerState::Open);
}

#[test]
fn a_limiter_answers_through_an_outage_by_the_policy_of_each_limit() {
    let (store, faults, clock) = resilient();
    let limiter = limiter(&store, &clock);
    faults.fail(error(StoreErrorKind::Unavailable));
    for open in ["open", "open-spread", "open-shadow"] {
        for call in
            [limiter.limit(open, "u"), limiter.check(open, "u"), limiter.refund(open, "u"), limiter.reset(open, "u")]
        {
            let decision = ask(call).unwrap();
            assert!(decision.allowed());
            assert_eq!((decision.reason(), decision.limit()), (Some(Reason::Store), 12));
        }
        assert!(ask(limiter.acquire(open, "u", seconds(1))).unwrap().allowed());
    }
    for closed in ["closed", "closed-spread", "closed-shadow"] {
        for call in [limiter.limit(closed, "u"), limiter.check(closed, "u"), limiter.refund(closed, "u")] {
            let error = ask(call).unwrap_err();
            assert!(matches!(error, Error::Store(_)) && error.is_retryable() && !error.is_misuse());
        }
    }
    // Twelve over two replicas, also when they are cut into three parts of four.
    for local in ["local", "local-spread"] {
        let admitted = (0..100).filter(|_| ask(limiter.limit(local, "u")).unwrap().allowed()).count();
        assert_eq!(admitted, 6, "{local}");
        assert_eq!(ask(limiter.check(local, "u")).unwrap().remaining(), 0);
        assert!(ask(limiter.reset(local, "u")).unwrap().allowed());
        assert_eq!(ask(limiter.check(local, "u")).unwrap().remaining(), 6);
    }
    assert!((0..100).all(|_| ask(limiter.limit("local-shadow", "u")).unwrap().allowed()));
}

#[test]
fn several_limits_at_once_through_an_outage() {
    let (store, faults, clock) = resilient();
    let limiter = limiter(&store, &clock);
    faults.fail(error(StoreErrorKind::Unavailable));
    let all = |names: &[&'static str]| block_on(limiter.all(names.iter().map(|name| limiter.limit(name, "u"))));
    assert!(all(&["open", "open-spread", "open-shadow"]).unwrap().allowed());
    assert!(all(&["open", "local", "closed"]).is_err());
    let admitted = |names: &[&'static str]| (0..100).filter(|_| all(names).unwrap().allowed()).count();
    assert_eq!(admitted(&["local-spread", "open-spread"]), 6);
    assert_eq!(admitted(&["open", "local"]), 6);
    // A shadow limit never holds the others back, however its store fails.
    let shadow = all(&["open", "closed-shadow"]).unwrap();
    assert!(shadow.allowed());
    assert_eq!(shadow.decisions()[1].reason(), Some(Reason::Store));
}

#[test]
fn misuse_is_an_error_through_everything() {
    let (store, faults, clock) = resilient();
    let limiter = limiter(&store, &clock);
    faults.fail(error(StoreErrorKind::Unavailable));
    for call in [limiter.limit("nobody", "u"), limiter.limit("open", "u").cost(0), limiter.reserve("open-spread", "u")]
    {
        assert!(ask(call).unwrap_err().is_misuse());
    }
    assert_eq!(faults.calls().decisions(), 0);
}

#[test]
fn closing_reaches_the_store() {
    let (store, faults, clock) = resilient();
    block_on(limiter(&store, &clock).close());
    assert_eq!(faults.calls().close, 1);
}
