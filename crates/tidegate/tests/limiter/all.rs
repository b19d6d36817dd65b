//! Several limits at once, all or nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate::{Error, Limit, Limiter, Quota, Reason, StoreErrorKind, millis, seconds};
use tidegate_testkit::{FaultyStore, block_on};

use crate::support::{all, answers, ask, bucket, builder, clock, left, memory, window};

/// `user` is 3, `address` is 5, `tenant` is 10 in a minute.
fn three() -> Limiter {
    let limits = [("user", bucket(3)), ("address", bucket(5)), ("tenant", bucket(10))];
    builder(&clock()).limits(limits).build().unwrap()
}

#[test]
fn everything_is_taken_and_reported_in_order() {
    let limiter = three();
    let answer = all(
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
fn one_that_denies_keeps_the_others_whole_wherever_it_stands() {
    for place in 0..3 {
        let limiter = three();
        let _ = ask(limiter.limit("user", "u").cost(3));
        let mut calls = vec![limiter.limit("tenant", "t").cost(4), limiter.limit("address", "a")];
        calls.insert(place, limiter.limit("user", "u"));
        let answer = all(&limiter, calls);
        let mut expected = vec![true; 3];
        expected[place] = false;
        assert_eq!(answers(&answer), expected);
        // Those that were not taken report what they have.
        let remaining: Vec<_> = answer.decisions().iter().map(|decision| decision.remaining()).collect();
        let mut whole = vec![10, 5];
        whole.insert(place, 0);
        assert_eq!(remaining, whole);
        assert_eq!((left(&limiter, "tenant", "t"), left(&limiter, "address", "a")), (10, 5));
    }
}

#[test]
fn retry_after_is_when_all_of_them_pass_and_not_a_microsecond_earlier() {
    let clock = clock();
    let limiter = builder(&clock).limit("fast", bucket(60)).limit("slow", bucket(3)).build().unwrap();
    let _ = ask(limiter.limit("fast", "u").cost(60));
    let _ = ask(limiter.limit("slow", "u").cost(3));
    let calls = || [limiter.limit("fast", "u").cost(30), limiter.limit("slow", "u").cost(2)];
    let answer = all(&limiter, calls());
    let waits: Vec<_> = answer.decisions().iter().map(|decision| decision.retry_after()).collect();
    assert_eq!(waits, [Some(seconds(30)), Some(seconds(40))]);
    assert_eq!(answer.retry_after(), Some(seconds(40)));
    clock.advance(seconds(40) - Duration::from_micros(1));
    assert_eq!(answers(&all(&limiter, calls())), [true, false]);
    clock.advance(Duration::from_micros(1));
    assert!(all(&limiter, calls()).allowed());
}

#[test]
fn one_that_never_passes_leaves_no_time_to_retry() {
    let limiter = three();
    let _ = ask(limiter.limit("address", "a").cost(5));
    let answer = all(&limiter, [limiter.limit("address", "a"), limiter.limit("user", "u").cost(4)]);
    let reasons: Vec<_> = answer.decisions().iter().map(|decision| decision.reason()).collect();
    assert_eq!(reasons, [Some(Reason::Rate), Some(Reason::CostExceedsCapacity)]);
    assert_eq!(answer.retry_after(), None);
}

#[test]
fn the_same_limit_and_key_twice_is_applied_in_order() {
    let limiter = three();
    let user = |cost| limiter.limit("user", "u").cost(cost);
    let answer = all(&limiter, [user(1), limiter.limit("tenant", "t"), user(2)]);
    let remaining: Vec<_> = answer.decisions().iter().map(|decision| decision.remaining()).collect();
    assert_eq!(remaining, [2, 9, 0]);
    let _ = ask(limiter.reset("user", "u"));
    // Each of them would pass alone; together they do not.
    let answer = all(&limiter, [user(2), user(2)]);
    assert_eq!(answers(&answer), [true, false]);
    assert_eq!(left(&limiter, "user", "u"), 3);
    // Another key of the same limit is another budget.
    assert!(all(&limiter, [user(2), limiter.limit("user", "v").cost(2)]).allowed());
}

#[test]
fn duplicates_pass_together_after_the_retry_they_were_told() {
    let clock = clock();
    let limiter = builder(&clock).limit("user", bucket(6)).build().unwrap();
    let _ = ask(limiter.limit("user", "u").cost(6));
    let calls = || [limiter.limit("user", "u").cost(2), limiter.limit("user", "u").cost(3)];
    let wait = all(&limiter, calls()).retry_after().unwrap();
    assert_eq!(wait, seconds(50));
    clock.advance(wait - Duration::from_micros(1));
    assert!(!all(&limiter, calls()).allowed());
    clock.advance(Duration::from_micros(1));
    assert!(all(&limiter, calls()).allowed());
}

#[test]
fn keys_that_are_the_same_once_normalised_are_one_budget() {
    let limit = Limit::new(bucket(3)).normalize(tidegate::Normalize::Lowercase);
    let limiter = builder(&clock()).limit("user", limit).build().unwrap();
    assert!(!all(&limiter, [limiter.limit("user", "Bob").cost(2), limiter.limit("user", "bob").cost(2)]).allowed());
    assert!(all(&limiter, [limiter.limit("user", "Bob").cost(1), limiter.limit("user", "bob").cost(2)]).allowed());
}

#[test]
fn no_calls_at_all_pass() {
    let answer = all(&three(), []);
    assert!(answer.allowed() && answer.decisions().is_empty());
    assert_eq!(answer.retry_after(), None);
}

#[test]
fn a_call_of_another_limiter_is_refused_and_takes_nothing() {
    let (limiter, other) = (three(), three());
    let error = block_on(limiter.limit_all([limiter.limit("user", "u"), other.limit("user", "u")])).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(why) if why.limit == "user") && error.is_misuse(), "{error:?}");
    assert_eq!((left(&limiter, "user", "u"), left(&other, "user", "u")), (3, 3));
    assert!(all(&limiter, [limiter.clone().limit("user", "u")]).allowed(), "a clone is the same limiter");
}

#[test]
fn only_limits_are_taken_all_or_nothing() {
    let limiter = three();
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
fn a_mistake_in_the_last_call_takes_nothing_from_the_first() {
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
fn another_quota_counts_for_its_call() {
    let limiter = three();
    let thirty = bucket(30);
    let premium = || limiter.limit("user", "u").with_quota(&thirty).cost(20);
    let answer = all(&limiter, [premium(), limiter.limit("tenant", "t")]);
    assert!(answer.allowed());
    assert_eq!((answer.decisions()[0].limit(), answer.decisions()[0].remaining()), (30, 10));
    assert!(!all(&limiter, [premium(), limiter.limit("tenant", "t")]).allowed());
    assert_eq!(left(&limiter, "tenant", "t"), 9);
}

#[test]
fn one_key_under_two_quotas_is_refused_and_takes_nothing() {
    let limiter = three();
    let error =
        block_on(limiter.limit_all([limiter.limit("user", "u"), limiter.limit("user", "u").with_quota(&bucket(30))]));
    let error = error.unwrap_err();
    assert!(matches!(&error, Error::Store(error) if error.kind() == StoreErrorKind::Unsupported), "{error:?}");
    assert!(!error.is_retryable());
    assert_eq!(left(&limiter, "user", "u"), 3);
}

#[test]
fn a_shadow_limit_counts_what_passes_and_never_holds_it_back() {
    let limiter =
        builder(&clock()).limit("user", bucket(5)).limit("trial", Limit::new(bucket(2)).shadow(true)).build().unwrap();
    let calls = || [limiter.limit("trial", "u"), limiter.limit("user", "u")];
    let seen: Vec<_> = (0..5)
        .map(|_| {
            let answer = all(&limiter, calls());
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
fn a_shadow_limit_does_not_count_what_was_denied() {
    let limiter =
        builder(&clock()).limit("user", bucket(1)).limit("trial", Limit::new(bucket(9)).shadow(true)).build().unwrap();
    let calls = || [limiter.limit("trial", "u").cost(2), limiter.limit("user", "u")];
    assert!(all(&limiter, calls()).allowed());
    for _ in 0..5 {
        let answer = all(&limiter, calls());
        assert_eq!(answers(&answer), [true, false]);
        assert_eq!(answer.decisions()[0].remaining(), 7);
        assert_eq!(answer.retry_after(), Some(seconds(60)));
    }
    assert_eq!(left(&limiter, "trial", "u"), 7);
}

#[test]
fn shadow_limits_alone_always_pass() {
    let limiter = builder(&clock()).limit("trial", Limit::new(bucket(1)).shadow(true)).build().unwrap();
    let calls = || [limiter.limit("trial", "u"), limiter.limit("trial", "u"), limiter.limit("trial", "u").cost(7)];
    let answer = all(&limiter, calls());
    let reasons: Vec<_> = answer.decisions().iter().map(|decision| decision.reason()).collect();
    assert_eq!(reasons, [None, Some(Reason::Rate), Some(Reason::CostExceedsCapacity)]);
    assert!(answer.allowed());
}

#[test]
fn a_limit_cut_by_key_is_one_of_the_others() {
    let limiter = builder(&clock())
        .limit("user", bucket(1))
        .limit("cut", Limit::new(window(10)).shards(2).unwrap())
        .build()
        .unwrap();
    assert!(all(&limiter, [limiter.limit("cut", "k").cost(3), limiter.limit("user", "u")]).allowed());
    assert_eq!(left(&limiter, "cut", "k"), 2);
    assert!(!all(&limiter, [limiter.limit("cut", "k"), limiter.limit("user", "u")]).allowed());
    assert_eq!(left(&limiter, "cut", "k"), 2);
}

#[test]
fn it_is_one_question_to_the_store() {
    let store = FaultyStore::new(memory(&clock()));
    let faults = store.faults();
    let limiter = Limiter::builder().limit("a", bucket(3)).limit("b", bucket(3)).bare_store(store).build().unwrap();
    assert!(all(&limiter, [limiter.limit("a", "u"), limiter.limit("b", "u")]).allowed());
    assert_eq!((faults.calls().apply_all, faults.calls().decisions()), (1, 1));
}

#[test]
fn threads_that_ask_in_opposite_orders_neither_block_nor_pass_the_limit() {
    let quota = Quota::token_bucket(500, seconds(60)).unwrap();
    let limiter = builder(&clock()).limit("a", quota).limit("b", quota).build().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let limiter = limiter.clone();
            thread::spawn(move || {
                let names = if number % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
                (0..300).filter(|_| all(&limiter, names.map(|name| limiter.limit(name, "u"))).allowed()).count()
            })
        })
        .collect();
    let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((admitted, left(&limiter, "a", "u"), left(&limiter, "b", "u")), (500, 0, 0));
}

#[test]
fn one_question_is_about_the_limits_of_one_moment() {
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
        // The same key twice: under two quotas that would be a mistake.
        let failed = (0..20_000).find_map(|_| block_on(limiter.limit_all([same(), same()])).err());
        done.store(true, Ordering::Relaxed);
        assert!(failed.is_none(), "{failed:?}");
    });
}
