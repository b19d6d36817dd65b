//! Admission: concurrency, rate and cost are decided in that order, and a denied request consumes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::concurrency::{Completion, Concurrency, PerKey, Priority};
use tidegate::enforce::{Admission, AdmissionPermit, Caller, ConcurrencyGuards, Enforcer, LimitKind, Outcome};
use tidegate::{Limit, Limiter, ManualClock, MemoryStore, Normalize, Quota, minutes};
use tidegate_testkit::block_on;

/// Three requests and a hundred tokens a minute, on a clock that stands still.
fn limiter() -> Limiter {
    Limiter::builder()
        .store(MemoryStore::builder().max_keys(1_024).clock(ManualClock::default()).build())
        .limit("requests", Quota::token_bucket(3, minutes(1)).unwrap())
        .limit("tokens", Quota::token_bucket(100, minutes(1)).unwrap())
        .build()
        .unwrap()
}

fn left(limiter: &Limiter, limit: &str) -> u64 {
    limiter.check(limit, "alice").try_now().unwrap().remaining()
}

fn admit(admission: &Admission, cost: u64) -> Result<AdmissionPermit, Outcome> {
    block_on(admission.admit(&Caller::new("alice"), cost, Priority::Default))
}

#[test]
fn denied_request_consumes_nothing_of_concurrency_rate_and_cost() {
    let (limiter, pool, keys) = (limiter(), Concurrency::fixed(2), PerKey::new(1));
    let enforcer = limiter.enforcer("requests").unwrap().and_budget("tokens").unwrap();
    let admission = Admission::new(ConcurrencyGuards::new().and(pool.clone()).and(keys.clone()), enforcer);
    let in_flight = || (pool.in_flight(), keys.in_flight("alice"));

    let first = admit(&admission, 40).unwrap();
    assert!(first.outcome().is_unconditional());
    assert_eq!((in_flight(), left(&limiter, "requests"), left(&limiter, "tokens")), ((1, 1), 2, 60));

    // Too many in flight for the key: the permit of the pool is released.
    let refused = admit(&admission, 40).unwrap_err();
    assert_eq!(refused.kind(), Some(LimitKind::Concurrency));
    assert!(matches!(refused, Outcome::Limited(_)) && refused.retry_after().is_some());
    assert_eq!((in_flight(), left(&limiter, "requests"), left(&limiter, "tokens")), ((1, 1), 2, 60));
    first.release(Completion::Success);
    assert_eq!(in_flight(), (0, 0));

    // Too many in flight, for all callers together.
    let others = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
    let refused = admit(&admission, 1).unwrap_err();
    assert!(matches!(refused, Outcome::Overloaded(_)) && refused.retry_after().is_some());
    assert_eq!((refused.kind(), in_flight()), (Some(LimitKind::Concurrency), (2, 0)));
    drop(others);

    // The cost is too high: the rate keeps its unit, and nothing is in flight.
    let refused = admit(&admission, 61).unwrap_err();
    assert_eq!(refused.kind(), Some(LimitKind::Cost));
    assert_eq!((in_flight(), left(&limiter, "requests"), left(&limiter, "tokens")), ((0, 0), 2, 60));

    // Too many requests: the budget keeps its units. The rate counts requests, at any cost.
    admit(&admission, 5).unwrap().release(Completion::Success);
    drop(admit(&admission, 5).unwrap());
    let refused = admit(&admission, 5).unwrap_err();
    assert_eq!(refused.kind(), Some(LimitKind::Rate));
    assert_eq!((in_flight(), left(&limiter, "requests"), left(&limiter, "tokens")), ((0, 0), 0, 50));

    // Both limits deny: the first is reported.
    assert_eq!(admit(&admission, 99).unwrap_err().kind(), Some(LimitKind::Rate));
}

#[test]
fn without_limits_only_the_guards_decide() {
    let admission = Admission::new(Concurrency::fixed(1), Enforcer::unlimited());
    let held = admit(&admission, 1).unwrap();
    assert!(held.outcome().limit_decisions().is_empty());
    assert!(admit(&admission, 1).is_err());
    drop(held);
    assert!(admit(&admission, 1).is_ok());
}

#[test]
fn critical_work_may_use_the_reserve() {
    let admission = Admission::new(Concurrency::fixed(2).reserve(50), Enforcer::unlimited());
    let admit = |priority| block_on(admission.admit(&Caller::new("alice"), 1, priority));
    let _held = admit(Priority::Default).unwrap();
    assert!(admit(Priority::Default).is_err());
    assert!(admit(Priority::Critical).is_ok());
}

#[test]
fn hooks_see_rejections_by_a_guard() {
    let told = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&told);
    let hooked = Enforcer::unlimited().on_limited(move |caller, outcome| {
        assert_eq!(caller.key(0).unwrap().to_text(), "alice");
        assert_eq!(outcome.kind(), Some(LimitKind::Concurrency));
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let admission = Admission::new(Concurrency::fixed(1), hooked);
    let _held = admit(&admission, 1).unwrap();
    assert!(admit(&admission, 1).is_err());
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

#[test]
fn guard_per_key_without_a_key_is_an_error() {
    let admission = Admission::new(PerKey::new(1), Enforcer::unlimited());
    let outcome = block_on(admission.admit(&Caller::with_keys([]), 1, Priority::Default)).unwrap_err();
    assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome:?}");
}

/// Creates a separate limiter whose limit has the common name, and denies these keys.
fn limiter_with_deny_list(denied: &[&str]) -> Limiter {
    let quota = Quota::token_bucket(100, minutes(1)).unwrap();
    Limiter::builder().limit("api", quota).deny("api", denied.iter().copied()).unwrap().build().unwrap()
}

#[test]
fn guards_use_the_deny_list_of_the_limiter() {
    let admission =
        |limiter: &Limiter, pool: &Concurrency| Admission::new(pool.clone(), limiter.enforcer("api").unwrap());
    // All of it in one thread, which remembers limits.
    for denied_first in [true, false] {
        let (denying, others) = (limiter_with_deny_list(&["alice"]), limiter_with_deny_list(&[]));
        let (full, pool) = (Concurrency::fixed(1), Concurrency::fixed(1));
        let _one = full.try_acquire().unwrap();
        let turned_away = || matches!(admit(&admission(&denying, &full), 1), Err(Outcome::Denied(_)));
        if denied_first {
            assert!(turned_away());
        }
        let admitted = admit(&admission(&others, &pool), 1).expect("that limiter has no deny list");
        assert_eq!(pool.in_flight(), 1);
        drop(admitted);
        assert!(turned_away(), "not because the pool is full");
    }
    // A limiter that is built again under the old name.
    let (before, after) = (limiter_with_deny_list(&["alice"]), limiter_with_deny_list(&[]));
    assert!(admit(&admission(&before, &Concurrency::fixed(1)), 1).is_err());
    drop(before);
    assert!(admit(&admission(&after, &Concurrency::fixed(1)), 1).is_ok());
}

/// Clients that are one key to the limit are one key to the guards.
#[test]
fn guards_use_keys_as_the_first_limit_normalizes_them() {
    let limit = Limit::new(Quota::token_bucket(100, minutes(1)).unwrap()).normalize(Normalize::Lowercase);
    let limiter = Limiter::builder().limit("api", limit).build().unwrap();
    let admission = Admission::new(PerKey::new(1), limiter.enforcer("api").unwrap());
    let admit_key = |key: &'static str| block_on(admission.admit(&Caller::new(key), 1, Priority::Default));
    let held = admit_key("alice").unwrap();
    assert_eq!(admit_key("ALICE").unwrap_err().kind(), Some(LimitKind::Concurrency));
    assert!(admit_key("bob").is_ok());
    drop(held);
    assert!(admit_key("ALICE").is_ok());
}
