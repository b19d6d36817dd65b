//! Joint calls: several limits, all or nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate::{Error, Limit, Limiter, Quota, Reason, StoreErrorKind, millis, seconds};
use tidegate_testkit::{FaultyStore, block_on};

use crate::support::{allowed_each, bucket, builder, clock, decide, left, limit_all, memory, window};

/// Creates a limiter where `user` is 3, `address` is 5 and `tenant` is 10 a minute.
fn three_limits() -> Limiter {
    let limits = [("user", bucket(3)), ("address", bucket(5)), ("tenant", bucket(10))];
    builder(&clock()).limits(limits).build().unwrap()
}

#[test]
fn admitted_joint_call_reports_decisions_in_order() {
    let limiter = three_limits();
    let answer = limit_all(
        &limiter,
        [limiter.limit("tenant", "t").cost(4), limiter.limit("user", "u"), limiter.limit("address", "a").cost(5)],
    );
    assert!(answer.allowed());
    assert_eq!(answer.retry_after(), None);
    let shown: Vec<_> = answer.decisions().iter().map(|decision| (decision.limit(), decision.remaining())).collect();
    assert_eq!(shown, [(10, 6), (3, 2), (5, 0)]);
    let left = [left(&limiter, "tenant", "t"), left(&limiter, "user", "u"), left(&limiter, "address", "a")];
    assert_eq!(left, [6, 2, 0]);
}

#[test]
fn one_denial_takes_nothing_from_the_others_at_any_position() {
    for place in 0..3 {
        let limiter = three_limits();
        let _ = decide(limiter.limit("user", "u").cost(3));
        let mut calls = vec![limiter.limit("tenant", "t").cost(4), limiter.limit("address", "a")];
        calls.insert(place, limiter.limit("user", "u"));
        let answer = limit_all(&limiter, calls);
        let mut expected = vec![true; 3];
        expected[place] = false;
        assert_eq!(allowed_each(&answer), expected);
        // Limits that took nothing report their quota.
        let remaining: Vec<_> = answer.decisions().iter().map(|decision| decision.remaining()).collect();
        let mut whole = vec![10, 5];
        whole.insert(place, 0);
        assert_eq!(remaining, whole);
        assert_eq!((left(&limiter, "tenant", "t"), left(&limiter, "address", "a")), (10, 5));
    }
}

#[test]
fn retry_after_is_exactly_when_all_are_admitted() {
    let clock = clock();
    let limiter = builder(&clock).limit("fast", bucket(60)).limit("slow", bucket(3)).build().unwrap();
    let _ = decide(limiter.limit("fast", "u").cost(60));
    let _ = decide(limiter.limit("slow", "u").cost(3));
    let calls = || [limiter.limit("fast", "u").cost(30), limiter.limit("slow", "u").cost(2)];
    let answer = limit_all(&limiter, calls());
    let waits: Vec<_> = answer.decisions().iter().map(|decision| decision.retry_after()).collect();
    assert_eq!(waits, [Some(seconds(30)), Some(seconds(40))]);
    assert_eq!(answer.retry_after(), Some(seconds(40)));
    clock.advance(seconds(40) - Duration::from_micros(1));
    assert_eq!(allowed_each(&limit_all(&limiter, calls())), [true, false]);
    clock.advance(Duration::from_micros(1));
    assert!(limit_all(&limiter, calls()).allowed());
}

#[test]
fn impossible_cost_leaves_no_retry_after() {
    let limiter = three_limits();
    let _ = decide(limiter.limit("address", "a").cost(5));
    let answer = limit_all(&limiter, [limiter.limit("address", "a"), limiter.limit("user", "u").cost(4)]);
    let reasons: Vec<_> = answer.decisions().iter().map(|decision| decision.reason()).collect();
    assert_eq!(reasons, [Some(Reason::Rate), Some(Reason::CostExceedsCapacity)]);
    assert_eq!(answer.retry_after(), None);
}

#[test]
fn duplicate_calls_are_applied_in_order() {
    let limiter = three_limits();
    let user = |cost| limiter.limit("user", "u").cost(cost);
    let answer = limit_all(&limiter, [user(1), limiter.limit("tenant", "t"), user(2)]);
    let remaining: Vec<_> = answer.decisions().iter().map(|decision| decision.remaining()).collect();
    assert_eq!(remaining, [2, 9, 0]);
    let _ = decide(limiter.reset("user", "u"));
    // Each of them would pass alone; together they do not.
    let answer = limit_all(&limiter, [user(2), user(2)]);
    assert_eq!(allowed_each(&answer), [true, false]);
    assert_eq!(left(&limiter, "user", "u"), 3);
    // Another key of the same limit is another budget.
    assert!(limit_all(&limiter, [user(2), limiter.limit("user", "v").cost(2)]).allowed());
}

#[test]
fn duplicate_calls_are_admitted_after_retry_after() {
    let clock = clock();
    let limiter = builder(&clock).limit("user", bucket(6)).build().unwrap();
    let _ = decide(limiter.limit("user", "u").cost(6));
    let calls = || [limiter.limit("user", "u").cost(2), limiter.limit("user", "u").cost(3)];
    let wait = limit_all(&limiter, calls()).retry_after().unwrap();
    assert_eq!(wait, seconds(50));
    clock.advance(wait - Duration::from_micros(1));
    assert!(!limit_all(&limiter, calls()).allowed());
    clock.advance(Duration::from_micros(1));
    assert!(limit_all(&limiter, calls()).allowed());
}

#[test]
fn spellings_of_a_normalized_key_share_one_quota() {
    let limit = Limit::new(bucket(3)).normalize(tidegate::Normalize::Lowercase);
    let limiter = builder(&clock()).limit("user", limit).build().unwrap();
    assert!(
        !limit_all(&limiter, [limiter.limit("user", "Bob").cost(2), limiter.limit("user", "bob").cost(2)]).allowed()
    );
    assert!(
        limit_all(&limiter, [limiter.limit("user", "Bob").cost(1), limiter.limit("user", "bob").cost(2)]).allowed()
    );
}

#[test]
fn empty_joint_call_is_admitted() {
    let answer = limit_all(&three_limits(), []);
    assert!(answer.allowed() && answer.decisions().is_empty());
    assert_eq!(answer.retry_after(), None);
}

#[test]
fn call_of_another_limiter_is_rejected_and_takes_nothing() {
    let (limiter, other) = (three_limits(), three_limits());
    let error = block_on(limiter.limit_all([limiter.limit("user", "u"), other.limit("user", "u")])).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(why) if why.limit == "user") && error.is_misuse(), "{error:?}");
    assert_eq!((left(&limiter, "user", "u"), left(&other, "user", "u")), (3, 3));
    assert!(limit_all(&limiter, [limiter.clone().limit("user", "u")]).allowed(), "a clone is the same limiter");
}

#[test]
fn joint_call_accepts_limit_operations_only() {
    let limiter = three_limits();
    let others = [
        limiter.check("user", "u"),
        limiter.reserve("user", "u"),
        limiter.refund("user", "u"),
        limiter.reset("user", "u"),
        limiter.acquire("user", "u", millis(1)),
    ];
    for other in others {
        let error = block_on(limiter.limit_all([limiter.limit("tenant", "t"), other])).unwrap_err();
        assert!(matches!(&error, Error::Unsupported(_)) && error.is_misuse(), "{error:?}");
    }
    assert_eq!(left(&limiter, "tenant", "t"), 10);
}

#[test]
fn invalid_last_call_takes_nothing_from_the_first() {
    let limiter = builder(&clock())
        .limit("user", bucket(3))
        .limit("cut", Limit::new(bucket(10)).shards(5).unwrap())
        .build()
        .unwrap();
    let two = bucket(2);
    let mistakes = [
        limiter.limit("nobody", "u"),
        limiter.limit("user", "u").cost(0),
        // A quota that cannot be cut into the limit's five parts.
        limiter.limit("cut", "u").with_quota(&two),
    ];
    for mistake in mistakes {
        let error = block_on(limiter.limit_all([limiter.limit("user", "u"), mistake])).unwrap_err();
        assert!(error.is_misuse(), "{error:?}");
    }
    assert_eq!(left(&limiter, "user", "u"), 3);
}

#[test]
fn joint_call_uses_the_quota_of_each_call() {
    let limiter = three_limits();
    let thirty = bucket(30);
    let premium = || limiter.limit("user", "u").with_quota(&thirty).cost(20);
    let answer = limit_all(&limiter, [premium(), limiter.limit("tenant", "t")]);
    assert!(answer.allowed());
    assert_eq!((answer.decisions()[0].limit(), answer.decisions()[0].remaining()), (30, 10));
    assert!(!limit_all(&limiter, [premium(), limiter.limit("tenant", "t")]).allowed());
    assert_eq!(left(&limiter, "tenant", "t"), 9);
}

#[test]
fn one_key_under_two_quotas_is_rejected_and_takes_nothing() {
    let limiter = three_limits();
    let error =
        block_on(limiter.limit_all([limiter.limit("user", "u"), limiter.limit("user", "u").with_quota(&bucket(30))]));
    let error = error.unwrap_err();
    assert!(matches!(&error, Error::Store(error) if error.kind() == StoreErrorKind::Unsupported), "{error:?}");
    assert!(!error.is_retryable());
    assert_eq!(left(&limiter, "user", "u"), 3);
}

#[test]
fn shadow_limit_counts_admitted_calls_and_never_denies() {
    let limiter =
        builder(&clock()).limit("user", bucket(5)).limit("trial", Limit::new(bucket(2)).shadow(true)).build().unwrap();
    let calls = || [limiter.limit("trial", "u"), limiter.limit("user", "u")];
    let seen: Vec<_> = (0..5)
        .map(|_| {
            let answer = limit_all(&limiter, calls());
            assert!(answer.allowed());
            let trial = answer.decisions()[0];
            (trial.limit(), trial.remaining(), trial.reason())
        })
        .collect();
    let would_deny = (2, 0, Some(Reason::Rate));
    assert_eq!(seen, [(2, 1, None), (2, 0, None), would_deny, would_deny, would_deny]);
    assert_eq!(left(&limiter, "user", "u"), 0);
}

#[test]
fn shadow_limit_does_not_count_denied_calls() {
    let limiter =
        builder(&clock()).limit("user", bucket(1)).limit("trial", Limit::new(bucket(9)).shadow(true)).build().unwrap();
    let calls = || [limiter.limit("trial", "u").cost(2), limiter.limit("user", "u")];
    assert!(limit_all(&limiter, calls()).allowed());
    for _ in 0..5 {
        let answer = limit_all(&limiter, calls());
        assert_eq!(allowed_each(&answer), [true, false]);
        assert_eq!(answer.decisions()[0].remaining(), 7);
        assert_eq!(answer.retry_after(), Some(seconds(60)));
    }
    assert_eq!(left(&limiter, "trial", "u"), 7);
}

#[test]
fn joint_call_of_shadow_limits_is_always_admitted() {
    let limiter = builder(&clock()).limit("trial", Limit::new(bucket(1)).shadow(true)).build().unwrap();
    let calls = || [limiter.limit("trial", "u"), limiter.limit("trial", "u"), limiter.limit("trial", "u").cost(7)];
    let answer = limit_all(&limiter, calls());
    let reasons: Vec<_> = answer.decisions().iter().map(|decision| decision.reason()).collect();
    assert_eq!(reasons, [None, Some(Reason::Rate), Some(Reason::CostExceedsCapacity)]);
    assert!(answer.allowed());
}

#[test]
fn sharded_limit_joins_a_joint_call() {
    let limiter = builder(&clock())
        .limit("user", bucket(1))
        .limit("cut", Limit::new(window(10)).shards(2).unwrap())
        .build()
        .unwrap();
    assert!(limit_all(&limiter, [limiter.limit("cut", "k").cost(3), limiter.limit("user", "u")]).allowed());
    assert_eq!(left(&limiter, "cut", "k"), 2);
    assert!(!limit_all(&limiter, [limiter.limit("cut", "k"), limiter.limit("user", "u")]).allowed());
    assert_eq!(left(&limiter, "cut", "k"), 2);
}

#[test]
fn joint_call_is_one_call_of_the_store() {
    let store = FaultyStore::new(memory(&clock()));
    let faults = store.faults();
    let limiter = Limiter::builder().limit("a", bucket(3)).limit("b", bucket(3)).bare_store(store).build().unwrap();
    assert!(limit_all(&limiter, [limiter.limit("a", "u"), limiter.limit("b", "u")]).allowed());
    assert_eq!((faults.calls().apply_all, faults.calls().decisions()), (1, 1));
}

#[test]
fn joint_calls_in_opposite_orders_neither_block_nor_exceed_the_limit() {
    let quota = Quota::token_bucket(500, seconds(60)).unwrap();
    let limiter = builder(&clock()).limit("a", quota).limit("b", quota).build().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let limiter = limiter.clone();
            thread::spawn(move || {
                let names = if number % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
                (0..300).filter(|_| limit_all(&limiter, names.map(|name| limiter.limit(name, "u"))).allowed()).count()
            })
        })
        .collect();
    let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((admitted, left(&limiter, "a", "u"), left(&limiter, "b", "u")), (500, 0, 0));
}

#[test]
fn joint_call_sees_one_version_of_the_limits() {
    let quotas = [1_000_000, 2_000_000].map(|rate| Quota::token_bucket(rate, seconds(1)).unwrap());
    let limiter = Limiter::builder().limit("api", quotas[0]).build().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            for quota in quotas.iter().cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                limiter.set_quota("api", *quota).unwrap();
            }
        });
        let same = || limiter.limit("api", "u");
        // One key twice: under two quotas that would be a mistake.
        let failed = (0..20_000).find_map(|_| block_on(limiter.limit_all([same(), same()])).err());
        done.store(true, Ordering::Relaxed);
        assert!(failed.is_none(), "{failed:?}");
    });
}
