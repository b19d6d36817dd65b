//! What a refused call returns.

use std::error::Error;

use tidegate::attribute::Refusal;
use tidegate::enforce::Outcome;
use tidegate::resilience::Fallback;
use tidegate::{Limit, Limiter, OnStoreError, StoreError, StoreErrorKind, limit};
use tidegate_testkit::{FaultyStore, MapStore, block_on};

use crate::support::{builder, limiter, quota};

fn dead() -> FaultyStore<MapStore> {
    let store = FaultyStore::new(MapStore::new());
    store.faults().fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
    store
}

#[limit("send", key = "u", cost = cost, limiter = limiter)]
async fn send(limiter: &Limiter, cost: u64) -> Result<(), Refusal> {
    Ok(())
}

#[limit("send", key = "u", limiter = limiter)]
async fn boxed(limiter: &Limiter) -> Result<(), Box<dyn Error + Send + Sync>> {
    Ok(())
}

#[test]
fn a_refusal_says_what_was_decided_and_how_long_to_wait() {
    let limiter = limiter(&[("send", 2)]);
    block_on(send(&limiter, 2)).unwrap();
    let refusal = block_on(send(&limiter, 1)).unwrap_err();
    assert!(matches!(refusal.outcome(), Outcome::Limited(_)));
    assert!(refusal.retry_after().is_some());
    assert!(refusal.to_string().starts_with("the limit \"send\" is used up: try again in "), "{refusal}");

    let refusal = block_on(send(&limiter, 3)).unwrap_err();
    assert_eq!(refusal.retry_after(), None);
    assert_eq!(refusal.to_string(), "the cost is more than the whole capacity of the limit \"send\"");

    let refusal = block_on(send(&limiter, 0)).unwrap_err();
    assert!(matches!(refusal.outcome(), Outcome::Invalid(tidegate::Error::InvalidCost(_))));
    assert!(refusal.source().is_some());

    assert!(block_on(boxed(&limiter)).unwrap_err().is::<Refusal>());
}

#[test]
fn more_than_is_admitted_without_the_store_is_refused_for_that() {
    let limit = Limit::new(quota(4)).on_store_error(OnStoreError::Local);
    let store = Fallback::new(dead()).expected_replicas(2);
    let limiter = Limiter::builder().store(store).limit("send", limit).build().unwrap();
    let refusal = block_on(send(&limiter, 3)).unwrap_err();
    assert_eq!(refusal.retry_after(), None);
    assert_eq!(refusal.to_string(), "the cost is more than is admitted while the store of the limit \"send\" is away");
}

#[test]
fn who_is_on_the_deny_list_is_refused() {
    let limiter = builder().limit("send", quota(9)).deny("send", ["u"]).unwrap().build().unwrap();
    let refusal = block_on(send(&limiter, 1)).unwrap_err();
    assert!(matches!(refusal.outcome(), Outcome::Denied(_)));
    assert_eq!(refusal.to_string(), "on the deny list of the limit \"send\"");
}

#[test]
fn a_limit_in_shadow_mode_lets_everything_through() {
    let limiter = builder().limit("send", Limit::new(quota(1)).shadow(true)).build().unwrap();
    for _ in 0..3 {
        block_on(send(&limiter, 1)).unwrap();
    }
}

#[test]
fn a_broken_store_is_what_the_limit_says() {
    for (policy, allowed) in [(OnStoreError::Open, true), (OnStoreError::Closed, false)] {
        let limit = Limit::new(quota(1)).on_store_error(policy);
        let limiter = Limiter::builder().store(dead()).limit("send", limit).build().unwrap();
        let result = block_on(send(&limiter, 1));
        assert_eq!(result.is_ok(), allowed);
        if let Err(refusal) = result {
            assert!(matches!(refusal.outcome(), Outcome::Unavailable(_)));
        }
    }
}

#[test]
fn a_refusal_is_a_word() {
    assert_eq!(size_of::<Refusal>(), size_of::<usize>());
}
