//! Tests of the error of a denied call.

use std::error::Error;

use tidegate::attribute::LimitError;
use tidegate::enforce::Outcome;
use tidegate::resilience::FallbackStore;
use tidegate::{Limit, Limiter, ManualClock, OnStoreError, StoreError, StoreErrorKind, limit};
use tidegate_testkit::{FaultyStore, MapStore, block_on};

use crate::support::{builder, limiter, quota};

fn dead() -> FaultyStore<MapStore> {
    let store = FaultyStore::new(MapStore::new());
    store.faults().fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
    store
}

#[limit("send", key = "u", cost = cost, limiter = limiter)]
async fn send(limiter: &Limiter, cost: u64) -> Result<(), LimitError> {
    Ok(())
}

#[limit("send", key = "u", limiter = limiter)]
async fn boxed(limiter: &Limiter) -> Result<(), Box<dyn Error + Send + Sync>> {
    Ok(())
}

#[test]
fn error_has_the_outcome_and_the_retry_hint() {
    let limiter = limiter(&[("send", 2)]);
    block_on(send(&limiter, 2)).unwrap();
    let error = block_on(send(&limiter, 1)).unwrap_err();
    assert!(matches!(error.outcome(), Outcome::Limited(_)));
    assert!(error.retry_after().is_some());
    assert!(error.to_string().starts_with("the limit \"send\" is used up: try again in "), "{error}");

    let error = block_on(send(&limiter, 3)).unwrap_err();
    assert_eq!(error.retry_after(), None);
    assert_eq!(error.to_string(), "the cost is more than the whole capacity of the limit \"send\"");

    let error = block_on(send(&limiter, 0)).unwrap_err();
    assert!(matches!(error.outcome(), Outcome::Invalid(tidegate::Error::InvalidCost(_))));
    assert!(error.source().is_some());

    assert!(block_on(boxed(&limiter)).unwrap_err().is::<LimitError>());
}

#[test]
fn cost_above_the_allowance_without_store_is_denied_for_that() {
    let limit = Limit::new(quota(4)).on_store_error(OnStoreError::Local);
    let store = FallbackStore::new(dead()).expected_replicas(2);
    let limiter = Limiter::builder().store(store).limit("send", limit).build().unwrap();
    let error = block_on(send(&limiter, 3)).unwrap_err();
    assert_eq!(error.retry_after(), None);
    assert_eq!(error.to_string(), "the cost is more than is admitted while the store of the limit \"send\" is away");
}

#[test]
fn caller_on_the_deny_list_is_denied() {
    let limiter = builder().limit("send", quota(9)).deny("send", ["u"]).unwrap().build().unwrap();
    let error = block_on(send(&limiter, 1)).unwrap_err();
    assert!(matches!(error.outcome(), Outcome::Denied(_)));
    assert_eq!(error.to_string(), "on the deny list of the limit \"send\"");
}

#[test]
fn shadow_mode_admits_every_call() {
    let limiter = builder().limit("send", Limit::new(quota(1)).shadow(true)).build().unwrap();
    for _ in 0..3 {
        block_on(send(&limiter, 1)).unwrap();
    }
}

#[test]
fn broken_store_follows_the_failure_policy() {
    for (policy, allowed) in [(OnStoreError::Open, true), (OnStoreError::Closed, false)] {
        let limit = Limit::new(quota(1)).on_store_error(policy);
        let limiter =
            Limiter::builder().store(dead()).sleeper(ManualClock::default()).limit("send", limit).build().unwrap();
        let result = block_on(send(&limiter, 1));
        assert_eq!(result.is_ok(), allowed);
        if let Err(error) = result {
            assert!(matches!(error.outcome(), Outcome::Unavailable(_)));
        }
    }
}

#[test]
fn error_is_as_small_as_a_pointer() {
    assert_eq!(size_of::<LimitError>(), size_of::<usize>());
}
