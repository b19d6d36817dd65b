//! The denial cache, which keeps calls about exhausted keys from the server.

use std::future::IntoFuture;

use tidegate::redis::RedisStore;
use tidegate::resilience::DenialCacheStore;
use tidegate::{Decision, Limiter, Quota, Store, days, millis};
use tidegate_servers::Redis;
use tokio::time::sleep;

use crate::coalescing::{connect_store, count_script_calls, start_server};
use crate::support::run;

fn limiter(store: impl Store + 'static, quota: Quota) -> Limiter {
    Limiter::builder().prefix("denials").limit("a", quota).bare_store(store).build().unwrap()
}

/// Limiters as of two processes: one with a denial cache, and one that calls the server each time.
fn cached_and_uncached(server: &Redis, quota: Quota) -> [Limiter; 2] {
    let [cached, uncached] = [(); 2].map(|()| connect_store(server, RedisStore::builder()));
    [limiter(DenialCacheStore::new(cached), quota), limiter(uncached, quota)]
}

fn limit(limiter: &Limiter, cost: u64) -> Decision {
    run(limiter.limit("a", "u").cost(cost).into_future()).unwrap()
}

#[test]
fn exhausted_key_is_queried_once() {
    let server = start_server();
    let [cached, _] = cached_and_uncached(&server, Quota::sliding_log(10, days(1)).unwrap());
    assert!(limit(&cached, 9).allowed());
    let first = limit(&cached, 2).retry_after().unwrap();
    let before = count_script_calls(&server);
    let mut shortest = first;
    for cost in (0..1_000).map(|number| 2 + number % 8) {
        let denied = limit(&cached, cost);
        assert!(!denied.allowed() && denied.remaining() == 1);
        if cost == 2 {
            assert!(denied.retry_after().unwrap() <= shortest, "{:?} after {shortest:?}", denied.retry_after());
            shortest = denied.retry_after().unwrap();
        }
    }
    assert!(shortest < first, "it shrinks with time");
    assert_eq!(count_script_calls(&server), before, "the server is not called");
    assert!(limit(&cached, 1).allowed(), "a smaller cost calls the server");
    assert_eq!(count_script_calls(&server), before + 1);
    let _ = run(cached.check("a", "u").into_future()).unwrap();
    assert_eq!(count_script_calls(&server), before + 2, "and so does a check");
}

#[test]
fn request_is_admitted_after_retry_after() {
    let server = start_server();
    for quota in [
        Quota::token_bucket(10, millis(2_000)).unwrap(),
        Quota::fixed_window(10, millis(400)).unwrap(),
        Quota::sliding_window(10, millis(300)).unwrap(),
        Quota::sliding_log(10, millis(300)).unwrap(),
    ] {
        let limits = Limiter::builder().prefix(format!("{:?}", quota.algorithm())).limit("a", quota);
        let limiter =
            limits.bare_store(DenialCacheStore::new(connect_store(&server, RedisStore::builder()))).build().unwrap();
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
fn own_refund_is_seen_at_once_and_remote_refund_late() {
    let server = start_server();
    let [cached, uncached] = cached_and_uncached(&server, Quota::sliding_log(10, days(1)).unwrap());
    assert!(limit(&cached, 10).allowed() && !limit(&cached, 1).allowed());
    let _ = run(uncached.refund("a", "u").into_future()).unwrap();
    assert!(!limit(&cached, 1).allowed(), "late");
    let _ = run(cached.refund("a", "u").into_future()).unwrap();
    assert!(limit(&cached, 2).allowed(), "at once, and the other refund with it");
    assert!(!limit(&cached, 1).allowed());
    let _ = run(cached.reset("a", "u").into_future()).unwrap();
    assert_eq!(limit(&cached, 1).remaining(), 9);
}
