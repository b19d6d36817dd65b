//! All or nothing in a cluster.

use tidegate::redis::{CrossSlot, RedisStore, RedisStoreBuilder};
use tidegate::{Colocation, Error, Limiter, Quota, Reason, StoreErrorKind, days};

use crate::support::{clustered, prefix, run};
use tidegate_servers::variable;

/// Two limits: of one, five a day, of the other, two.
fn limiter(builder: RedisStoreBuilder) -> Limiter {
    limiter_under(&prefix(), builder)
}

fn limiter_under(prefix: &str, builder: RedisStoreBuilder) -> Limiter {
    let quota = |rate| Quota::sliding_log(rate, days(1)).unwrap();
    let limits = Limiter::builder().prefix(prefix).limit("five", quota(5)).limit("two", quota(2));
    limits.bare_store(clustered(builder)).build().unwrap()
}

fn left(limiter: &Limiter, limit: &str, key: &str) -> u64 {
    run(limiter.check(limit, key).into_future()).unwrap().remaining()
}

/// Whether both were taken.
fn both(limiter: &Limiter, first: &str, second: &str) -> Result<bool, Error> {
    let calls = [limiter.limit("five", first), limiter.limit("two", second)];
    run(async { limiter.limit_all(calls).await }).map(|all| all.allowed())
}

#[test]
fn keys_that_live_together_are_taken_all_or_nothing() {
    let limiter = limiter(RedisStore::builder().colocation(Colocation::Key));
    for n in 0..20 {
        let user = format!("user {n} {{with}} braces");
        let taken: Vec<_> = (0..4).map(|_| both(&limiter, &user, &user).unwrap()).collect();
        assert_eq!(taken, [true, true, false, false]);
        assert_eq!((left(&limiter, "five", &user), left(&limiter, "two", &user)), (3, 0));
    }
}

#[test]
fn keys_that_live_apart_are_refused_and_nothing_is_taken() {
    for builder in [RedisStore::builder(), RedisStore::builder().colocation(Colocation::Key)] {
        let limiter = limiter(builder);
        let error = both(&limiter, "a", "b").unwrap_err();
        let Error::Store(error) = &error else { panic!("{error}") };
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        assert!(error.to_string().contains("together"), "{error}");
        assert_eq!((left(&limiter, "five", "a"), left(&limiter, "two", "b")), (5, 2));
    }
}

#[test]
fn in_the_weaker_mode_a_call_that_cannot_be_right_takes_nothing() {
    let limiter = limiter(RedisStore::builder().cross_slot(CrossSlot::Refund));
    let other = Quota::sliding_log(9, days(1)).unwrap();
    let calls = [limiter.limit("five", "a"), limiter.limit("two", "b"), limiter.limit("two", "b").with_quota(&other)];
    run(async { limiter.limit_all(calls).await }).unwrap_err();
    assert_eq!((left(&limiter, "five", "a"), left(&limiter, "two", "b")), (5, 2));
}

#[test]
fn in_the_weaker_mode_what_was_taken_is_given_back() {
    let limiter = limiter(RedisStore::builder().cross_slot(CrossSlot::Refund));
    let taken: Vec<_> = (0..4).map(|_| both(&limiter, "a", "b").unwrap()).collect();
    assert_eq!(taken, [true, true, false, false]);
    assert_eq!((left(&limiter, "five", "a"), left(&limiter, "two", "b")), (3, 0));
}

#[test]
fn in_the_weaker_mode_a_look_that_fails_does_not_hide_the_denial() {
    let prefix = prefix();
    let limiter = limiter_under(&prefix, RedisStore::builder().cross_slot(CrossSlot::Refund));
    let _ = run(limiter.limit("two", "b").cost(2).into_future()).unwrap();
    // Something else lies where the last key would be.
    run(async {
        let client = redis::cluster::ClusterClient::new(variable("TIDEGATE_CLUSTER_URLS").split(',')).unwrap();
        let mut connection = client.get_async_connection().await.unwrap();
        let name = format!("{{}}{prefix}|five|c");
        redis::cmd("RPUSH").arg(name).arg("x").exec_async(&mut connection).await.unwrap();
    });
    let calls = [limiter.limit("five", "a"), limiter.limit("two", "b"), limiter.limit("five", "c")];
    let all = run(async { limiter.limit_all(calls).await }).unwrap();
    let seen: Vec<_> = all.decisions().iter().map(|decision| (decision.allowed(), decision.reason())).collect();
    assert_eq!(seen, [(true, None), (false, Some(Reason::Rate)), (true, Some(Reason::Store))]);
    assert_eq!(left(&limiter, "five", "a"), 5);
}
