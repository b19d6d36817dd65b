//! Expiry: every key lives until it is as good as new, and a little longer.

use std::time::Duration;

use tidegate::redis::RedisStore;
use tidegate::{Decision, Lease, Limiter, Quota, days, minutes, seconds};

use crate::support::{connect_single, run, unique_prefix};
use tidegate_servers::required_env;

/// The longest lifetime of a key that is as good as new after `needed`, in milliseconds.
fn max_ttl(needed: i64) -> i64 {
    needed + needed / 2 + 1_000
}

fn query_number(url: &str, command: &str, key: &str) -> i64 {
    run(async {
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd(command).arg(key).query_async(&mut connection).await.unwrap()
    })
}

/// The value that is stored under a key, byte for byte.
fn read_value(url: &str, key: &str) -> Vec<u8> {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    redis::cmd("GET").arg(key).query(&mut connection).unwrap()
}

fn limiter(prefix: &str, quota: Quota, min_ttl: Duration) -> Limiter {
    let store = connect_single("TIDEGATE_REDIS_URL", RedisStore::builder().min_ttl(min_ttl));
    Limiter::builder().prefix(prefix).limit("a", quota).bare_store(store).build().unwrap()
}

fn quotas() -> [Quota; 5] {
    [
        Quota::token_bucket(10, seconds(10)).unwrap(),
        Quota::token_bucket(1, days(300)).unwrap().capacity(u32::MAX.into()).unwrap(),
        Quota::fixed_window(10, seconds(10)).unwrap().capacity(100).unwrap(),
        Quota::sliding_window(10, seconds(10)).unwrap().buckets(5).unwrap(),
        Quota::sliding_log(10, seconds(10)).unwrap(),
    ]
}

/// Asserts that a key's remaining lifetime covers the decision's `reset_after`, and not much more.
fn assert_ttl_covers(url: &str, key: &str, decision: Decision) {
    let ttl = query_number(url, "PTTL", key);
    let needed = decision.reset_after().as_millis() as i64;
    // Half a second is always to spare, and more than that does not pass between the decision and the look.
    assert!((needed - 100..=max_ttl(needed) + 500).contains(&ttl), "{ttl} for {needed}");
}

#[test]
fn every_key_expires_soon_after_it_is_replenished() {
    let url = required_env("TIDEGATE_REDIS_URL");
    for quota in quotas() {
        let prefix = unique_prefix();
        let (limiter, key) = (limiter(&prefix, quota, Duration::ZERO), format!("{prefix}|a|u1"));
        for cost in [1, 1, 3] {
            assert_ttl_covers(&url, &key, run(limiter.limit("a", "u1").cost(cost).into_future()).unwrap());
        }
        assert_ttl_covers(&url, &key, run(limiter.reserve("a", "u1").cost(7).into_future()).unwrap());
        // Giving back only shortens what is needed.
        let _ = run(limiter.refund("a", "u1").cost(2).into_future()).unwrap();
        assert!(query_number(&url, "PTTL", &key) > 0);
        let _ = run(limiter.refund("a", "u1").cost(1_000).into_future()).unwrap();
        assert_eq!(query_number(&url, "EXISTS", &key), 0, "as good as new: gone");
    }
}

#[test]
fn check_and_denial_write_nothing() {
    let url = required_env("TIDEGATE_REDIS_URL");
    for quota in quotas() {
        let prefix = unique_prefix();
        let (limiter, key) = (limiter(&prefix, quota, Duration::ZERO), format!("{prefix}|a|u1"));
        let _ = run(limiter.check("a", "u1").into_future()).unwrap();
        let _ = run(limiter.refund("a", "u1").into_future()).unwrap();
        let _ = run(limiter.limit("a", "u1").cost(5_000_000_000).into_future()).unwrap();
        assert_eq!(query_number(&url, "EXISTS", &key), 0);
        // Nor to a key that is there, of which not all has come back before the test is over.
        let whole = u64::from(quota.parts().capacity);
        assert!(run(limiter.limit("a", "u1").cost(whole).into_future()).unwrap().allowed());
        let (before, lives) = (read_value(&url, &key), query_number(&url, "PTTL", &key));
        assert!(!run(limiter.limit("a", "u1").cost(whole).into_future()).unwrap().allowed());
        assert!(!run(limiter.check("a", "u1").cost(whole).into_future()).unwrap().allowed());
        assert_eq!(read_value(&url, &key), before, "{quota:?}");
        let still_lives = query_number(&url, "PTTL", &key);
        assert!((1..=lives).contains(&still_lives), "{still_lives} after {lives}: {quota:?}");
    }
}

#[test]
fn min_ttl_extends_lifetime_of_keys() {
    let (url, prefix) = (required_env("TIDEGATE_REDIS_URL"), unique_prefix());
    let limiter = limiter(&prefix, Quota::token_bucket(10, seconds(1)).unwrap(), minutes(5));
    let key = format!("{prefix}|a|u1");
    for _ in 0..2 {
        let _ = run(limiter.limit("a", "u1").into_future()).unwrap();
        let ttl = query_number(&url, "PTTL", &key);
        assert!((300_000..=max_ttl(300_000)).contains(&ttl), "{ttl}");
        // As if it had been written a while ago.
        shorten_ttl(&url, &key, 200_000);
    }
}

/// Shortens a key's lifetime by milliseconds, on the server and in the stored value.
fn shorten_ttl(url: &str, key: &str, by: i64) {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut value = read_value(url, key);
    let till = value.first_chunk_mut().unwrap();
    *till = (f64::from_le_bytes(*till) - by as f64 * 1_000.0).to_le_bytes();
    let left: i64 = redis::cmd("PTTL").arg(key).query(&mut connection).unwrap();
    redis::cmd("PSETEX").arg(key).arg(left - by).arg(value).exec(&mut connection).unwrap();
}

#[test]
fn idle_keys_expire() {
    let (url, prefix) = (required_env("TIDEGATE_REDIS_URL"), unique_prefix());
    let limiter = limiter(&prefix, Quota::token_bucket(1_000, seconds(1)).unwrap(), Duration::ZERO);
    let _ = run(limiter.limit("a", "u1").into_future()).unwrap();
    let key = format!("{prefix}|a|u1");
    assert_eq!(query_number(&url, "EXISTS", &key), 1);
    let gone = async {
        while tokio::task::block_in_place(|| key_exists(&url, &key)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    run(async { tokio::time::timeout(Duration::from_secs(10), gone).await }).expect("gone within a second or two");
}

/// Whether the key is still there.
fn key_exists(url: &str, key: &str) -> bool {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    redis::cmd("EXISTS").arg(key).query::<i64>(&mut connection).unwrap() == 1
}

#[test]
fn leases_have_their_own_key_until_the_last_expires() {
    let (url, prefix) = (required_env("TIDEGATE_REDIS_URL"), unique_prefix());
    let (leases, rate) = (Quota::concurrency(2, seconds(10)).unwrap(), Quota::sliding_log(2, seconds(10)).unwrap());
    let (limiter, key) = (limiter(&prefix, leases, Duration::ZERO), format!("{prefix}|a|u1|%l"));
    // A look, and what is denied for a lease that is gone, write nothing.
    let _ = run(limiter.check("a", "u1").into_future()).unwrap();
    let _ = run(limiter.release("a", "u1", Lease::from_bits(1)).into_future()).unwrap();
    assert_eq!(query_number(&url, "EXISTS", &key), 0);
    let admitted = [(); 2].map(|()| run(limiter.admit("a", "u1").into_future()).unwrap());
    assert_ttl_covers(&url, &key, *admitted[1].decision());
    // Two leases, and when they were written.
    assert_eq!(query_number(&url, "ZCARD", &key), 3);
    assert!(run(limiter.admit("a", "u1").into_future()).unwrap().lease().is_none());
    assert_eq!(query_number(&url, "ZCARD", &key), 3);
    let [first, second] = admitted.map(|admitted| admitted.lease().unwrap());
    assert_ttl_covers(&url, &key, run(limiter.renew("a", "u1", first).into_future()).unwrap());
    assert_ttl_covers(&url, &key, run(limiter.release("a", "u1", second).into_future()).unwrap());
    // Under a rate the key begins anew, and the lease is still held.
    assert_eq!(run(limiter.limit("a", "u1").with_quota(&rate).into_future()).unwrap().remaining(), 1);
    assert_eq!(run(limiter.check("a", "u1").into_future()).unwrap().remaining(), 1);
    let _ = run(limiter.release("a", "u1", first).into_future()).unwrap();
    assert_eq!(query_number(&url, "EXISTS", &key), 0, "as good as new: gone");
}

#[test]
fn min_ttl_extends_lifetime_of_leases() {
    let (url, prefix) = (required_env("TIDEGATE_REDIS_URL"), unique_prefix());
    let limiter = limiter(&prefix, Quota::concurrency(2, seconds(1)).unwrap(), minutes(5));
    let _ = run(limiter.admit("a", "u1").into_future()).unwrap();
    let ttl = query_number(&url, "PTTL", &format!("{prefix}|a|u1|%l"));
    assert!((300_000..=max_ttl(300_000)).contains(&ttl), "{ttl}");
}
