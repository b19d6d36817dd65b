//! All limits replaced at once.

use tidegate::{Error, Limiter, Quota, minutes};

use crate::support::{bucket, builder, clock, decide, left};

#[test]
fn remaining_limit_keeps_its_used_units() {
    let limiter = builder(&clock()).limit("stays", bucket(5)).limit("goes", bucket(5)).build().unwrap();
    let _ = decide(limiter.limit("stays", "u").cost(4));
    let ten = Quota::token_bucket(10, minutes(1)).unwrap();
    limiter.replace_all(Limiter::builder().limit("stays", ten).limit("comes", bucket(2))).unwrap();
    assert_eq!(limiter.names(), ["comes", "stays"]);
    assert_eq!((left(&limiter, "stays", "u"), left(&limiter, "comes", "u")), (6, 2));
    assert!(matches!(limiter.limit("goes", "u").try_now(), Err(Error::UnknownLimit(_))));
}

#[test]
fn replace_all_replaces_deny_lists() {
    let limiter = builder(&clock()).limit("a", bucket(5)).deny_all(["ann"]).unwrap().build().unwrap();
    assert!(!decide(limiter.limit("a", "ann")).allowed());
    limiter.replace_all(Limiter::builder().limit("a", bucket(5)).deny_all(["bob"]).unwrap()).unwrap();
    assert!(decide(limiter.limit("a", "ann")).allowed() && !decide(limiter.limit("a", "bob")).allowed());
}

#[test]
fn invalid_limits_change_nothing() {
    let limiter = builder(&clock()).limit("a", bucket(5)).build().unwrap();
    let twice = Limiter::builder().limit("b", bucket(1)).limit("b", bucket(2));
    assert!(limiter.replace_all(twice).is_err());
    assert_eq!(limiter.names(), ["a"]);
}

#[test]
fn closed_limiter_stays_closed() {
    let limiter = builder(&clock()).limit("a", bucket(5)).build().unwrap();
    tidegate_testkit::block_on(limiter.close());
    limiter.replace_all(Limiter::builder().limit("a", bucket(5))).unwrap();
    assert!(matches!(limiter.limit("a", "u").try_now(), Err(Error::Closed)));
}

#[test]
fn other_prefix_has_separate_keys() {
    let limiter = builder(&clock()).limit("a", bucket(5)).build().unwrap();
    let _ = decide(limiter.limit("a", "u").cost(4));
    limiter.replace_all(Limiter::builder().limit("a", bucket(5)).prefix("new")).unwrap();
    assert_eq!(left(&limiter, "a", "u"), 5);
    limiter.replace_all(Limiter::builder().limit("a", bucket(5))).unwrap();
    assert_eq!(left(&limiter, "a", "u"), 1);
}
