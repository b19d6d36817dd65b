//! All limits replaced at once.

use tidegate::{Error, Limiter, Quota, minutes};

use crate::support::{ask, bucket, builder, clock, left};

#[test]
fn what_was_used_of_a_limit_that_stays_is_kept() {
    let limiter = builder(&clock()).limit("stays", bucket(5)).limit("goes", bucket(5)).build().unwrap();
    let _ = ask(limiter.limit("stays", "u").cost(4));
    let ten = Quota::token_bucket(10, minutes(1)).unwrap();
    limiter.replace_all(Limiter::builder().limit("stays", ten).limit("comes", bucket(2))).unwrap();
    assert_eq!(limiter.names(), ["comes", "stays"]);
    assert_eq!((left(&limiter, "stays", "u"), left(&limiter, "comes", "u")), (6, 2));
    assert!(matches!(limiter.limit("goes", "u").try_now(), Err(Error::UnknownLimit(_))));
}

#[test]
fn deny_lists_are_replaced_too() {
    let limiter = builder(&clock()).limit("a", bucket(5)).deny_all(["ann"]).unwrap().build().unwrap();
    assert!(!ask(limiter.limit("a", "ann")).allowed());
    limiter.replace_all(Limiter::builder().limit("a", bucket(5)).deny_all(["bob"]).unwrap()).unwrap();
    assert!(ask(limiter.limit("a", "ann")).allowed() && !ask(limiter.limit("a", "bob")).allowed());
}

#[test]
fn limits_that_are_wrong_change_nothing() {
    let limiter = builder(&clock()).limit("a", bucket(5)).build().unwrap();
    let twice = Limiter::builder().limit("b", bucket(1)).limit("b", bucket(2));
    assert!(limiter.replace_all(twice).is_err());
    assert_eq!(limiter.names(), ["a"]);
}

#[test]
fn a_limiter_that_is_closed_stays_closed() {
    let limiter = builder(&clock()).limit("a", bucket(5)).build().unwrap();
    tidegate_testkit::block_on(limiter.close());
    limiter.replace_all(Limiter::builder().limit("a", bucket(5))).unwrap();
    assert!(matches!(limiter.limit("a", "u").try_now(), Err(Error::Closed)));
}

#[test]
fn another_prefix_is_other_keys() {
    let limiter = builder(&clock()).limit("a", bucket(5)).build().unwrap();
    let _ = ask(limiter.limit("a", "u").cost(4));
    limiter.replace_all(Limiter::builder().limit("a", bucket(5)).prefix("new")).unwrap();
    assert_eq!(left(&limiter, "a", "u"), 5);
    limiter.replace_all(Limiter::builder().limit("a", bucket(5))).unwrap();
    assert_eq!(left(&limiter, "a", "u"), 1);
}
