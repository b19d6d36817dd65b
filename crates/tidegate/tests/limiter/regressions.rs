//! Regression tests for fixed bugs.

use std::future::IntoFuture;
use std::task::Poll;
use std::time::Duration;

use tidegate::{Error, Limit, Limiter, Normalize, Quota, days, minutes, seconds};
use tidegate_testkit::{FaultyStore, block_on};

use super::support::*;

#[test]
fn invalid_shadow_call_in_a_joint_call_takes_nothing() {
    let trial = Limit::new(bucket(10)).shards(5).unwrap().shadow(true);
    let limiter = builder(&clock()).limit("user", bucket(3)).limit("trial", trial).build().unwrap();
    let two = bucket(2);
    block_on(limiter.limit_all([limiter.limit("user", "u"), limiter.limit("trial", "u").with_quota(&two)]))
        .unwrap_err();
    assert_eq!(left(&limiter, "user", "u"), 3);
}

#[test]
fn closed_limiter_rejects_an_empty_joint_call() {
    let limiter = builder(&clock()).limit("user", bucket(3)).build().unwrap();
    block_on(limiter.close());
    assert!(matches!(block_on(limiter.limit_all([])), Err(Error::Closed)));
}

#[test]
fn close_ends_waiting_calls() {
    let c = clock();
    let limiter = builder(&c).limit("send", bucket(1)).build().unwrap();
    let _ = decide(limiter.limit("send", "u"));
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "u", days(1)));
    block_on(limiter.close());
    crowd.advance(&c, minutes(1));
    let answers = crowd.answers();
    assert!(matches!(answers.as_slice(), [(0, Err(Error::Closed))]), "{answers:?}");
}

#[test]
fn acquire_waits_under_the_current_quota() {
    let c = clock();
    let limiter = builder(&c).limit("send", Quota::token_bucket(1, seconds(1)).unwrap()).build().unwrap();
    let _ = decide(limiter.limit("send", "u"));
    let mut crowd = Crowd::default();
    for _ in 0..5 {
        crowd.join(limiter.acquire("send", "u", days(1)));
    }
    limiter.set_quota("send", Quota::token_bucket(1, minutes(1)).unwrap()).unwrap();
    for _ in 0..5 {
        crowd.advance(&c, seconds(1));
    }
    let n = crowd.answered().len();
    assert!(n <= 1, "{n} were admitted in five seconds under one a minute");
}

#[test]
fn spellings_of_a_normalized_key_share_one_queue() {
    let c = clock();
    let q = Quota::token_bucket(1, seconds(1)).unwrap().capacity(5).unwrap();
    let limiter = builder(&c).limit("send", Limit::new(q).normalize(Normalize::Lowercase)).build().unwrap();
    let _ = decide(limiter.limit("send", "bob").cost(5));
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "bob", days(1)).cost(3));
    crowd.join(limiter.acquire("send", "Bob", days(1)).cost(1));
    crowd.advance(&c, seconds(1));
    assert!(crowd.answered().is_empty(), "the second overtook the first");
}

#[test]
fn acquire_in_shadow_mode_never_denies() {
    let c = clock();
    let store = FaultyStore::new(memory(&c));
    let faults = store.faults();
    let limiter = Limiter::builder()
        .limit("trial", Limit::new(bucket(3)).shadow(true))
        .bare_store(store)
        .sleeper(c.clone())
        .build()
        .unwrap();
    faults.hang();
    let mut first = limiter.acquire("trial", "u", days(1)).into_future();
    assert!(poll(&mut first).is_pending());
    faults.pass();
    let Poll::Ready(Ok(second)) = poll(&mut limiter.acquire("trial", "u", Duration::ZERO).into_future()) else {
        panic!()
    };
    assert!(second.allowed(), "{second:?}");
}

#[test]
fn deny_entry_is_normalized_like_keys() {
    let limit = Limit::new(bucket(9)).normalize(Normalize::Lowercase).deny(["Mallory"]).unwrap();
    let limiter = builder(&clock()).limit("a", limit).build().unwrap();
    assert!(!decide(limiter.limit("a", "mallory")).allowed());
}

#[test]
fn one_key_under_two_quotas_in_a_joint_call_is_misuse() {
    let limiter = builder(&clock()).limit("user", bucket(3)).build().unwrap();
    let t = bucket(30);
    let e = block_on(limiter.limit_all([limiter.limit("user", "u"), limiter.limit("user", "u").with_quota(&t)]))
        .unwrap_err();
    assert!(e.is_misuse());
}

#[test]
fn denied_key_is_not_queued() {
    let c = clock();
    let store = FaultyStore::new(memory(&c));
    let faults = store.faults();
    let limiter = Limiter::builder().limit("a", bucket(3)).bare_store(store).sleeper(c.clone()).build().unwrap();
    faults.hang();
    let mut first = limiter.acquire("a", "u", days(1)).into_future();
    assert!(poll(&mut first).is_pending());
    limiter.replace("a", Limit::new(bucket(3)).deny(["u"]).unwrap()).unwrap();
    let mut second = limiter.acquire("a", "u", days(1)).into_future();
    assert!(poll(&mut second).is_ready(), "a denied key waits in the queue");
}

#[test]
fn cost_above_the_capacity_is_not_queued() {
    let c = clock();
    let limiter = builder(&c).limit("a", bucket(3)).build().unwrap();
    let _ = decide(limiter.limit("a", "u").cost(3));
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("a", "u", days(1)));
    crowd.join(limiter.acquire("a", "u", days(1)).cost(4));
    assert_eq!(crowd.answered(), [(1, false)]);
}

#[test]
fn turn_after_the_deadline_is_denied() {
    // The turn comes after the deadline, and is still taken.
    let c = clock();
    let limiter =
        builder(&c).limit("a", Quota::token_bucket(1, seconds(1)).unwrap().capacity(5).unwrap()).build().unwrap();
    let _ = decide(limiter.limit("a", "u").cost(5));
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("a", "u", days(1)).cost(1));
    crowd.join(limiter.acquire("a", "u", seconds(1)).cost(1));
    crowd.advance(&c, seconds(3));
    assert_eq!(crowd.answered(), [(0, true), (1, false)]);
}

#[test]
fn waiting_call_can_be_polled_again() {
    let c = clock();
    let store = FaultyStore::new(memory(&c));
    let faults = store.faults();
    let limiter = Limiter::builder().limit("a", bucket(3)).bare_store(store).build().unwrap();
    faults.hang();
    let mut call = limiter.limit("a", "u").into_future();
    assert!(poll(&mut call).is_pending() && poll(&mut call).is_pending());
    faults.release();
    assert!(matches!(poll(&mut call), Poll::Ready(Ok(_))));
}

#[test]
fn shard_of_a_key_depends_on_every_bit() {
    // Plain FNV-1a modulo a power of two assigned all of these to one shard.
    let limiter = builder(&clock()).limit("cut", Limit::new(window(160)).shards(16).unwrap()).build().unwrap();
    for key in ["alice", "ALICE", "Alice", "1lice", "qlice"] {
        assert!(decide(limiter.limit("cut", key)).allowed());
    }
    let used = (0..200_u64).filter(|key| left(&limiter, "cut", *key) < 10).count();
    assert!(used > 200 * 2 / 16, "{used} of 200 other keys share a part with one of five");
}
