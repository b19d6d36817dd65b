//! Changed quotas, for one call or from now on: used units are kept.

use std::thread;

use tidegate::{Error, Limit, Limiter, Quota, Reason, millis, minutes, seconds};

use crate::support::{bucket, builder, clock, decide, expect_error, left, window};

fn api_limiter(quota: Quota) -> Limiter {
    builder(&clock()).limit("api", quota).build().unwrap()
}

#[test]
fn quota_of_a_call_applies_to_that_call_only() {
    let limiter = api_limiter(bucket(3));
    let premium = decide(limiter.limit("api", "u").with_quota(&bucket(10)));
    assert_eq!((premium.limit(), premium.remaining()), (10, 9));
    let free = decide(limiter.limit("api", "u"));
    assert_eq!((free.limit(), free.remaining()), (3, 1));
    assert_eq!(decide(limiter.limit("api", "v")).limit(), 3);
    assert_eq!(limiter.quota("api").unwrap(), bucket(3));
}

/// The memory store has a number for each quota, and a limit caches the number of its own. The order of use must not
/// matter.
#[test]
fn quota_of_a_call_is_not_mistaken_for_the_limits_own() {
    for own in [0, 1] {
        let (limiter, premium) = (api_limiter(bucket(3)), bucket(100));
        assert!(own == 0 || decide(limiter.limit("api", "u")).allowed());
        for used in 1..=5 {
            assert_eq!(decide(limiter.limit("api", "u").with_quota(&premium)).remaining(), 100 - own - used);
        }
        assert!(!decide(limiter.limit("api", "u")).allowed());
    }
}

#[test]
fn used_units_count_under_every_quota() {
    let limiter = api_limiter(bucket(3));
    assert!(decide(limiter.limit("api", "u").with_quota(&bucket(10)).cost(8)).allowed());
    let free = decide(limiter.limit("api", "u"));
    assert_eq!((free.allowed(), free.reason(), free.remaining()), (false, Some(Reason::Rate), 0));
    assert_eq!(decide(limiter.check("api", "u").with_quota(&bucket(10))).remaining(), 2);
    // Alternating creates no units.
    for _ in 0..20 {
        assert!(!decide(limiter.limit("api", "u")).allowed());
        assert_eq!(decide(limiter.check("api", "u").with_quota(&bucket(10))).remaining(), 2);
    }
}

#[test]
fn every_operation_accepts_a_quota() {
    let limiter = api_limiter(bucket(3));
    let quota = bucket(10);
    assert_eq!(decide(limiter.reserve("api", "u").with_quota(&quota).cost(10)).remaining(), 0);
    assert_eq!(decide(limiter.refund("api", "u").with_quota(&quota).cost(4)).remaining(), 4);
    assert_eq!(limiter.limit("api", "u").with_quota(&quota).try_now().unwrap().remaining(), 3);
    assert_eq!(decide(limiter.acquire("api", "u", millis(0)).with_quota(&quota)).remaining(), 2);
    assert_eq!(decide(limiter.reset("api", "u").with_quota(&quota)).remaining(), 10);
    assert_eq!(left(&limiter, "api", "u"), 3);
}

#[test]
fn quota_of_another_algorithm_keeps_used_units() {
    let kinds = [
        bucket(10),
        window(10),
        Quota::sliding_window(10, minutes(1)).unwrap(),
        Quota::sliding_window(10, minutes(1)).unwrap().buckets(6).unwrap(),
        Quota::sliding_log(10, minutes(1)).unwrap(),
    ];
    for before in kinds {
        for after in kinds {
            let limiter = api_limiter(before);
            let _ = decide(limiter.limit("api", "u").cost(4));
            limiter.set_quota("api", after).unwrap();
            assert_eq!(left(&limiter, "api", "u"), 6, "{before:?} {after:?}");
            assert!(!decide(limiter.limit("api", "u").cost(7)).allowed(), "{before:?} {after:?}");
            assert!(decide(limiter.limit("api", "u").cost(6)).allowed(), "{before:?} {after:?}");
        }
    }
}

#[test]
fn set_quota_keeps_used_units_and_other_settings() {
    let limit = Limit::new(bucket(10)).deny(["mallory"]).unwrap().normalize(tidegate::Normalize::Lowercase);
    let limiter = builder(&clock()).limit("api", limit.clone()).build().unwrap();
    let _ = decide(limiter.limit("api", "U").cost(6));
    limiter.set_quota("api", bucket(8)).unwrap();
    assert_eq!(limiter.get("api").unwrap(), limit.with_quota(bucket(8)).unwrap());
    assert_eq!(left(&limiter, "api", "u"), 2);
    assert_eq!(decide(limiter.limit("api", "Mallory")).reason(), Some(Reason::Deny));
    // Less than the used units: nothing is left, and nothing is refilled before the debt is repaid.
    limiter.set_quota("api", bucket(4)).unwrap();
    let denied = decide(limiter.limit("api", "u"));
    assert_eq!((denied.remaining(), denied.retry_after()), (0, Some(seconds(45))));
    limiter.set_quota("api", bucket(60)).unwrap();
    assert_eq!(left(&limiter, "api", "u"), 54);
}

#[test]
fn replace_keeps_used_units_and_no_setting() {
    let limit = Limit::new(bucket(10)).deny(["mallory"]).unwrap().shadow(true);
    let limiter = builder(&clock()).limit("api", limit).limit("other", bucket(1)).build().unwrap();
    let _ = decide(limiter.limit("api", "u").cost(6));
    limiter.replace("api", Limit::new(window(7))).unwrap();
    assert_eq!(limiter.get("api").unwrap(), Limit::new(window(7)));
    assert_eq!(left(&limiter, "api", "u"), 1);
    assert!(decide(limiter.limit("api", "mallory")).allowed());
    assert_eq!(limiter.names(), ["api", "other"]);
    assert_eq!(limiter.quota("other").unwrap(), bucket(1));
}

#[test]
fn quota_too_small_for_its_shards_is_rejected_and_changes_nothing() {
    {
        let limit = Limit::new(bucket(10)).shards(5).unwrap();
        let limiter = builder(&clock()).limit("api", limit.clone()).build().unwrap();
        let error = limiter.set_quota("api", bucket(4)).unwrap_err();
        assert!(matches!(&error, Error::Quota(error) if error.field() == "shards"), "{error:?}");
        assert!(error.is_misuse());
        assert_eq!(limiter.get("api").unwrap(), limit);
        let error = expect_error(limiter.limit("api", "u").with_quota(&bucket(4)));
        assert!(matches!(&error, Error::Quota(error) if error.field() == "shards"), "{error:?}");
        assert_eq!(left(&limiter, "api", "u"), 2);
    }
}

#[test]
fn quota_of_a_call_is_sharded_like_the_limit() {
    let limit = Limit::new(window(4)).shards(2).unwrap();
    let limiter = builder(&clock()).limit("api", limit).build().unwrap();
    let premium = decide(limiter.limit("api", "u").with_quota(&window(20)).cost(9));
    assert_eq!((premium.limit(), premium.remaining()), (10, 1));
    assert!(!decide(limiter.limit("api", "u")).allowed());
}

#[test]
fn running_thread_sees_the_new_quota() {
    let limiter = api_limiter(bucket(1));
    thread::scope(|scope| {
        let asking = scope.spawn(|| while decide(limiter.check("api", "u")).limit() != 1_000 {});
        for rate in 2..=1_000 {
            limiter.set_quota("api", bucket(rate)).unwrap();
            assert_eq!(decide(limiter.check("api", "u")).limit(), rate);
        }
        asking.join().unwrap();
    });
}

#[test]
fn concurrent_replacements_are_all_applied() {
    let names = ["a", "b", "c", "d"];
    let limiter = builder(&clock()).limits(names.map(|name| (name, bucket(1)))).build().unwrap();
    thread::scope(|scope| {
        for name in names {
            let limiter = &limiter;
            scope.spawn(move || {
                for rate in 2..=200 {
                    limiter.replace(name, bucket(rate).into()).unwrap();
                    assert_eq!(decide(limiter.check(name, "u")).limit(), rate);
                }
            });
        }
    });
    assert!(names.iter().all(|name| limiter.quota(name).unwrap() == bucket(200)));
}
