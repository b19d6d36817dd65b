//! Joint decisions in a cluster.

use tidegate::redis::{CrossSlot, RedisStore, RedisStoreBuilder};
use tidegate::{Colocation, Error, Limiter, Quota, Reason, StoreErrorKind, days};

use crate::support::{connect_cluster, run, unique_prefix};
use tidegate_servers::required_env;

/// A limiter with two limits: five a day, and two a day.
fn limiter(builder: RedisStoreBuilder) -> Limiter {
    limiter_with_prefix(&unique_prefix(), builder)
}

fn limiter_with_prefix(prefix: &str, builder: RedisStoreBuilder) -> Limiter {
    let quota = |rate| Quota::sliding_log(rate, days(1)).unwrap();
    let limits = Limiter::builder().prefix(prefix).limit("five", quota(5)).limit("two", quota(2));
    limits.bare_store(connect_cluster(builder)).build().unwrap()
}

fn remaining(limiter: &Limiter, limit: &str, key: &str) -> u64 {
    run(limiter.check(limit, key).into_future()).unwrap().remaining()
}

/// Takes one unit of both limits, and returns whether that was allowed.
fn limit_both(limiter: &Limiter, first: &str, second: &str) -> Result<bool, Error> {
    let calls = [limiter.limit("five", first), limiter.limit("two", second)];
    run(async { limiter.limit_all(calls).await }).map(|all| all.allowed())
}

#[test]
fn colocated_keys_are_all_or_nothing() {
    let limiter = limiter(RedisStore::builder().colocation(Colocation::Key));
    for n in 0..20 {
        let user = format!("user {n} {{with}} braces");
        let taken: Vec<_> = (0..4).map(|_| limit_both(&limiter, &user, &user).unwrap()).collect();
        assert_eq!(taken, [true, true, false, false]);
        assert_eq!((remaining(&limiter, "five", &user), remaining(&limiter, "two", &user)), (3, 0));
    }
}

#[test]
fn cross_slot_keys_are_refused_and_consume_nothing() {
    for builder in [RedisStore::builder(), RedisStore::builder().colocation(Colocation::Key)] {
        let limiter = limiter(builder);
        let error = limit_both(&limiter, "a", "b").unwrap_err();
        let Error::Store(error) = &error else { panic!("{error}") };
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        assert!(error.to_string().contains("together"), "{error}");
        assert_eq!((remaining(&limiter, "five", "a"), remaining(&limiter, "two", "b")), (5, 2));
    }
}

#[test]
fn refund_mode_invalid_call_consumes_nothing() {
    let limiter = limiter(RedisStore::builder().cross_slot(CrossSlot::Refund));
    let other = Quota::sliding_log(9, days(1)).unwrap();
    let calls = [limiter.limit("five", "a"), limiter.limit("two", "b"), limiter.limit("two", "b").with_quota(&other)];
    run(async { limiter.limit_all(calls).await }).unwrap_err();
    assert_eq!((remaining(&limiter, "five", "a"), remaining(&limiter, "two", "b")), (5, 2));
}

#[test]
fn refund_mode_denial_refunds_earlier_groups() {
    let limiter = limiter(RedisStore::builder().cross_slot(CrossSlot::Refund));
    let taken: Vec<_> = (0..4).map(|_| limit_both(&limiter, "a", "b").unwrap()).collect();
    assert_eq!(taken, [true, true, false, false]);
    assert_eq!((remaining(&limiter, "five", "a"), remaining(&limiter, "two", "b")), (3, 0));
}

#[test]
fn refund_mode_failed_check_does_not_hide_denial() {
    let prefix = unique_prefix();
    let limiter = limiter_with_prefix(&prefix, RedisStore::builder().cross_slot(CrossSlot::Refund));
    let _ = run(limiter.limit("two", "b").cost(2).into_future()).unwrap();
    // A value of another type is stored under the last key.
    let is_pushed = |url: &str| {
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        redis::cmd("RPUSH").arg(format!("{{{prefix}|five|c}}")).arg("x").exec(&mut connection).is_ok()
    };
    assert!(required_env("TIDEGATE_CLUSTER_URLS").split(',').any(is_pushed), "no node has the key");
    let calls = [limiter.limit("five", "a"), limiter.limit("two", "b"), limiter.limit("five", "c")];
    let all = run(async { limiter.limit_all(calls).await }).unwrap();
    let seen: Vec<_> = all.decisions().iter().map(|decision| (decision.allowed(), decision.reason())).collect();
    assert_eq!(seen, [(true, None), (false, Some(Reason::Rate)), (true, Some(Reason::Store))]);
    assert_eq!(remaining(&limiter, "five", "a"), 5);
}
