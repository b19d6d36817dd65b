//! A decision of the store in process, allowed or denied, awaited or not.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate::{Call, Decision, Key, Limiter, ManualClock, MemoryStore, Quota, Timestamp, seconds};

use crate::counting::counted;

fn at_once<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a store in process answers at once"),
    }
}

fn awaited(call: Call<'_>) -> Decision {
    at_once(call.into_future()).unwrap()
}

fn now(call: Call<'_>) -> Decision {
    call.try_now().unwrap()
}

/// One kind of key: takes all there is and is denied then, with both ways to ask.
fn try_keys<'a, K: Into<Key<'a>>>(limiter: &'a Limiter, what: &str, key: impl Fn() -> K) {
    for (way, ask) in [("try_now", now as fn(Call<'a>) -> Decision), ("await", awaited)] {
        for name in ["token_bucket", "fixed_window", "sliding_window"] {
            let _ = now(limiter.reset(name, key()));
            for expected in [true, true, false, false] {
                let given = key();
                let (decision, allocations) = counted(move || ask(limiter.limit(name, given)));
                assert_eq!(decision.allowed(), expected, "{what} {way} {name}");
                assert_eq!(allocations, 0, "{what} {way} {name}, allowed: {expected}");
            }
            let given = key();
            let (decision, allocations) = counted(move || ask(limiter.check(name, given)));
            assert_eq!((decision.allowed(), allocations), (false, 0), "{what} {way} {name}: check");
            let given = key();
            let (_, allocations) = counted(move || ask(limiter.refund(name, given)));
            assert_eq!(allocations, 0, "{what} {way} {name}: refund");
        }
    }
}

#[test]
fn a_decision_in_process_allocates_nothing() {
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let limiter = Limiter::builder()
        .limit("token_bucket", Quota::token_bucket(2, seconds(60)).unwrap())
        .limit("fixed_window", Quota::fixed_window(2, seconds(60)).unwrap())
        .limit("sliding_window", Quota::sliding_window(2, seconds(60)).unwrap())
        .store(MemoryStore::builder().max_keys(1_000).clock(clock).build())
        .build()
        .unwrap();
    // The first question of a thread to a limiter makes the thread's own copy of the limits.
    let _ = now(limiter.check("token_bucket", "warm"));

    let owned = "user-0123456789".to_owned();
    let long = "x".repeat(500);
    try_keys(&limiter, "&str", || "alice");
    try_keys(&limiter, "a long &str", || long.as_str());
    try_keys(&limiter, "&String", || &owned);
    // The string is the caller's, and moved in: only what the decision adds is counted.
    try_keys(&limiter, "String", || owned.clone());
    try_keys(&limiter, "u64", || u64::MAX);
    try_keys(&limiter, "i64", || i64::MIN);
    try_keys(&limiter, "(&str, u64)", || ("tenant", u64::MAX));
    try_keys(&limiter, "(&str, &String)", || ("tenant", &owned));
    try_keys(&limiter, "(&str, &str) with an escape", || ("a|b", "50%"));
    try_keys(&limiter, "(&str, u64, u32)", || ("tenant", 7_u64, 9_u32));
    try_keys(&limiter, "global", || Key::GLOBAL);
    // A new key each time takes a new place in the table.
    for number in 0..500_u64 {
        let (decision, allocations) = counted(|| awaited(limiter.limit("token_bucket", ("new", number))));
        assert!(decision.allowed());
        assert_eq!(allocations, 0, "a new key");
    }
}

#[test]
fn several_at_once_allocate_nothing_either() {
    let quota = Quota::token_bucket(2, seconds(60)).unwrap();
    let names = ["a", "b", "c", "d"];
    let limiter = Limiter::builder().limits(names.map(|name| (name, quota))).build().unwrap();
    // The first one ever makes room for its quotas.
    let _ = at_once(limiter.limit_all(names.map(|name| limiter.limit(name, "warm")))).unwrap();
    // A new key, then one that has a place, and one that is denied.
    for expected in [true, true, false] {
        let (all, allocations) =
            counted(|| at_once(limiter.limit_all(names.map(|name| limiter.limit(name, ("tenant", 7_u64))))));
        let all = all.unwrap();
        assert_eq!((all.allowed(), all.decisions().len(), allocations), (expected, 4, 0));
    }
}
