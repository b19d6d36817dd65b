//! Denials that are remembered, so that an exhausted key costs the server nothing.

use std::future::IntoFuture;

use tidegate::redis::RedisStore;
use tidegate::resilience::DenialCacheStore;
use tidegate::{Decision, Limiter, Quota, Store, days, millis};
use tidegate_servers::Redis;
use tokio::time::sleep;

use crate::coalesce::{calls, server, store_on};
use crate::support::run;

fn limiter(store: impl Store + 'static, quota: Quota) -> Limiter {
    Limiter::builder().prefix("denials").limit("a", quota).bare_store(store).build().unwrap()
}

/// Two processes, as it were: one that remembers denials, and one that asks each time.
fn both(server: &Redis, quota: Quota) -> [Limiter; 2] {
    let [here, elsewhere] = [(); 2].map(|()| store_on(server, RedisStore::builder()));
    [limiter(DenialCacheStore::new(here), quota), limiter(elsewhere, quota)]
}

fn take(limiter: &Limiter, cost: u64) -> Decision {
    run(limiter.limit("a", "u").cost(cost).into_future()).unwrap()
}

#[test]
fn an_exhausted_key_is_asked_for_once() {
    let server = server();
    let [here, _] = both(&server, Quota::sliding_log(10, days(1)).unwrap());
    assert!(take(&here, 9).allowed());
    let told = take(&here, 2).retry_after().unwrap();
    let before = calls(&server);
    let mut shortest = told;
    for cost in (0..1_000).map(|number| 2 + number % 8) {
        let denied = take(&here, cost);
        assert!(!denied.allowed() && denied.remaining() == 1);
        if cost == 2 {
            assert!(denied.retry_after().unwrap() <= shortest, "{:?} after {shortest:?}", denied.retry_after());
            shortest = denied.retry_after().unwrap();
        }
    }
    assert!(shortest < told, "it shrinks with time");
    assert_eq!(calls(&server), before, "nothing is asked");
    assert!(take(&here, 1).allowed(), "for less it is");
    assert_eq!(calls(&server), before + 1);
    let _ = run(here.check("a", "u").into_future()).unwrap();
    assert_eq!(calls(&server), before + 2, "and so is a look");
}

#[test]
fn at_the_time_that_was_told_it_is_admitted() {
    let server = server();
    for quota in [
        Quota::token_bucket(10, millis(2_000)).unwrap(),
        Quota::fixed_window(10, millis(400)).unwrap(),
        Quota::sliding_window(10, millis(300)).unwrap(),
        Quota::sliding_log(10, millis(300)).unwrap(),
    ] {
        let limits = Limiter::builder().prefix(format!("{:?}", quota.algorithm())).limit("a", quota);
        let limiter =
            limits.bare_store(DenialCacheStore::new(store_on(&server, RedisStore::builder()))).build().unwrap();
        run(async {
            // A window may end between two.
            let again = loop {
                let decision = limiter.limit("a", "u").cost(10).await.unwrap();
                if !decision.allowed() {
                    break decision;
                }
            };
            sleep(again.retry_after().unwrap()).await;
            assert!(limiter.limit("a", "u").cost(10).await.unwrap().allowed(), "{quota:?}: {again:?}");
        });
    }
}

#[test]
fn what_is_given_back_is_seen_here_at_once_and_from_elsewhere_late() {
    let server = server();
    let [here, elsewhere] = both(&server, Quota::sliding_log(10, days(1)).unwrap());
    assert!(take(&here, 10).allowed() && !take(&here, 1).allowed());
    let _ = run(elsewhere.refund("a", "u").into_future()).unwrap();
    assert!(!take(&here, 1).allowed(), "late");
    let _ = run(here.refund("a", "u").into_future()).unwrap();
    assert!(take(&here, 2).allowed(), "at once, and what came from elsewhere with it");
    assert!(!take(&here, 1).allowed());
    let _ = run(here.reset("a", "u").into_future()).unwrap();
    assert_eq!(take(&here, 1).remaining(), 9);
}
