//! Decisions of the memory store, allowed or denied, awaited or not.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate::{Call, Decision, Key, Limiter, ManualClock, MemoryStore, Quota, Timestamp, seconds};

use crate::counting::count_allocations;

fn poll_ready<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a store in process answers at once"),
    }
}

fn decide_awaited(call: Call<'_>) -> Decision {
    poll_ready(call.into_future()).unwrap()
}

fn decide_now(call: Call<'_>) -> Decision {
    call.try_now().unwrap()
}

/// Checks one kind of key: admitted and denied requests, awaited or not.
fn assert_no_allocation<'a, K: Into<Key<'a>>>(limiter: &'a Limiter, label: &str, key: impl Fn() -> K) {
    for (mode, ask) in [("try_now", decide_now as fn(Call<'a>) -> Decision), ("await", decide_awaited)] {
        for name in ["token_bucket", "fixed_window", "sliding_window"] {
            let _ = decide_now(limiter.reset(name, key()));
            for expected in [true, true, false, false] {
                let given = key();
                let (decision, allocations) = count_allocations(move || ask(limiter.limit(name, given)));
                assert_eq!(decision.allowed(), expected, "{label} {mode} {name}");
                assert_eq!(allocations, 0, "{label} {mode} {name}, allowed: {expected}");
            }
            let given = key();
            let (decision, allocations) = count_allocations(move || ask(limiter.check(name, given)));
            assert_eq!((decision.allowed(), allocations), (false, 0), "{label} {mode} {name}: check");
            let given = key();
            let (_, allocations) = count_allocations(move || ask(limiter.refund(name, given)));
            assert_eq!(allocations, 0, "{label} {mode} {name}: refund");
        }
    }
}

#[test]
fn decision_in_memory_allocates_nothing() {
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let limiter = Limiter::builder()
        .limit("token_bucket", Quota::token_bucket(2, seconds(60)).unwrap())
        .limit("fixed_window", Quota::fixed_window(2, seconds(60)).unwrap())
        .limit("sliding_window", Quota::sliding_window(2, seconds(60)).unwrap())
        .store(MemoryStore::builder().max_keys(1_000).clock(clock).build())
        .build()
        .unwrap();
    // The first decision of each outcome makes the labels of its counter.
    for name in ["token_bucket", "fixed_window", "sliding_window"] {
        (0..3).for_each(|_| drop(limiter.limit(name, "warm").try_now()));
    }

    let owned = "user-0123456789".to_owned();
    let long = "x".repeat(500);
    assert_no_allocation(&limiter, "&str", || "alice");
    assert_no_allocation(&limiter, "a long &str", || long.as_str());
    assert_no_allocation(&limiter, "&String", || &owned);
    // The string is the caller's, and moved in: only the allocations of the decision are counted.
    assert_no_allocation(&limiter, "String", || owned.clone());
    assert_no_allocation(&limiter, "u64", || u64::MAX);
    assert_no_allocation(&limiter, "i64", || i64::MIN);
    assert_no_allocation(&limiter, "(&str, u64)", || ("tenant", u64::MAX));
    assert_no_allocation(&limiter, "(&str, &String)", || ("tenant", &owned));
    assert_no_allocation(&limiter, "(&str, &str) with an escape", || ("a|b", "50%"));
    assert_no_allocation(&limiter, "(&str, u64, u32)", || ("tenant", 7_u64, 9_u32));
    assert_no_allocation(&limiter, "global", || Key::GLOBAL);
    // A new key each time takes a new place in the table.
    for number in 0..500_u64 {
        let (decision, allocations) =
            count_allocations(|| decide_awaited(limiter.limit("token_bucket", ("new", number))));
        assert!(decision.allowed());
        assert_eq!(allocations, 0, "a new key");
    }
}

#[test]
fn joint_decision_in_memory_allocates_nothing() {
    let quota = Quota::token_bucket(2, seconds(60)).unwrap();
    let names = ["a", "b", "c", "d"];
    let limiter = Limiter::builder().limits(names.map(|name| (name, quota))).build().unwrap();
    // The first one ever makes room for its quotas, and the first of each outcome makes the labels of its counters.
    (0..3).for_each(|_| drop(poll_ready(limiter.limit_all(names.map(|name| limiter.limit(name, "warm"))))));
    // A new key, then one that has a place, and one that is denied.
    for expected in [true, true, false] {
        let (all, allocations) = count_allocations(|| {
            poll_ready(limiter.limit_all(names.map(|name| limiter.limit(name, ("tenant", 7_u64)))))
        });
        let all = all.unwrap();
        assert_eq!((all.allowed(), all.decisions().len(), allocations), (expected, 4, 0));
    }
}
