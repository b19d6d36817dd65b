//! Shadow mode: decides and counts, never denies.

use tidegate::{Limit, Limiter, Quota, Reason, millis, seconds};

use crate::support::{bucket, builder, clock, decide, left, window};

fn shadow_limiter(quota: Quota) -> Limiter {
    builder(&clock()).limit("trial", Limit::new(quota).shadow(true)).build().unwrap()
}

#[test]
fn denial_is_admitted_and_keeps_its_reason() {
    let limiter = shadow_limiter(bucket(2));
    for expected in [(1, None), (0, None), (0, Some(Reason::Rate)), (0, Some(Reason::Rate))] {
        let decision = decide(limiter.limit("trial", "u"));
        assert!(decision.allowed());
        assert_eq!((decision.remaining(), decision.reason()), expected);
        assert_eq!((decision.limit(), decision.retry_after()), (2, None));
    }
    let dear = decide(limiter.limit("trial", "v").cost(3));
    assert_eq!((dear.allowed(), dear.reason()), (true, Some(Reason::CostExceedsCapacity)));
}

#[test]
fn every_operation_is_admitted() {
    let limiter = shadow_limiter(bucket(2).max_debt(1).unwrap());
    let _ = decide(limiter.limit("trial", "u").cost(2));
    let _ = decide(limiter.reserve("trial", "u"));
    let decisions = [
        decide(limiter.check("trial", "u")),
        decide(limiter.reserve("trial", "u").cost(2)),
        decide(limiter.acquire("trial", "u", millis(0))),
        limiter.limit("trial", "u").try_now().unwrap(),
        decide(limiter.limit("trial", "u").with_quota(&bucket(1))),
    ];
    for decision in decisions {
        assert_eq!((decision.allowed(), decision.reason()), (true, Some(Reason::Rate)), "{decision:?}");
        assert!(decision.into_result().is_ok());
    }
}

#[test]
fn reservation_tells_when_its_debt_is_cleared() {
    let limiter = shadow_limiter(bucket(2));
    let debt = decide(limiter.reserve("trial", "u").cost(2));
    assert_eq!((debt.retry_after(), debt.reason()), (None, None));
    let debt = decide(limiter.reserve("trial", "u"));
    assert_eq!((debt.allowed(), debt.retry_after(), debt.reason()), (true, Some(seconds(30)), None));
}

#[test]
fn shadow_limit_counts_like_an_enforced_one() {
    let clock = clock();
    let limits = [("trial", Limit::new(bucket(3)).shadow(true)), ("real", Limit::new(bucket(3)))];
    let limiter = builder(&clock).limits(limits).build().unwrap();
    let mut random = tidegate_testkit::Random::new(5);
    for _ in 0..500 {
        clock.advance(millis(random.below(30_000)));
        let cost = random.between(1, 4);
        let (trial, real) =
            (decide(limiter.limit("trial", "u").cost(cost)), decide(limiter.limit("real", "u").cost(cost)));
        assert!(trial.allowed());
        assert_eq!((trial.reason(), trial.remaining()), (real.reason(), real.remaining()));
        assert_eq!((trial.next_after(), trial.reset_after()), (real.next_after(), real.reset_after()));
    }
}

#[test]
fn enforced_limit_continues_from_the_shadow_count() {
    let limiter = shadow_limiter(window(5));
    for _ in 0..4 {
        let _ = decide(limiter.limit("trial", "u"));
    }
    limiter.replace("trial", limiter.get("trial").unwrap().shadow(false)).unwrap();
    assert_eq!(left(&limiter, "trial", "u"), 1);
    assert!(decide(limiter.limit("trial", "u")).allowed());
    assert!(!decide(limiter.limit("trial", "u")).allowed());
    limiter.replace("trial", limiter.get("trial").unwrap().shadow(true)).unwrap();
    assert!(decide(limiter.limit("trial", "u")).allowed());
}

#[test]
fn sharded_limit_supports_shadow_mode() {
    let limit = Limit::new(window(4)).shards(2).unwrap().shadow(true);
    let limiter = builder(&clock()).limit("trial", limit).build().unwrap();
    let reasons: Vec<_> = (0..50).map(|_| decide(limiter.limit("trial", "u"))).collect();
    assert!(reasons.iter().all(|decision| decision.allowed()));
    let within = reasons.iter().filter(|decision| decision.reason().is_none()).count();
    // A key belongs to one of the two shards.
    assert_eq!(within, 2);
}
