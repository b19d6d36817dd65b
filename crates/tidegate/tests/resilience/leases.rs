//! Leases while the store is broken.

use std::future::IntoFuture;

use tidegate::resilience::FallbackStore;
use tidegate::{Limiter, OnStoreError, Quota, Reason, StoreErrorKind, seconds};
use tidegate_testkit::{Faults, block_on};

use crate::support::{clock, error, faulty};

fn limiter(policy: OnStoreError) -> (Limiter, Faults) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let store = FallbackStore::new(store).clock(clock).expected_replicas(2);
    let limit = tidegate::Limit::new(Quota::concurrency(4, seconds(10)).unwrap()).on_store_error(policy);
    (Limiter::builder().limit("work", limit).store(store).build().unwrap(), faults)
}

#[test]
fn open_admits_without_a_lease_and_renews_held_ones() {
    let (limiter, faults) = limiter(OnStoreError::Open);
    let lease = block_on(limiter.admit("work", "u").into_future()).unwrap().lease().unwrap();
    faults.fail(error(StoreErrorKind::Unavailable));
    for _ in 0..9 {
        let admitted = block_on(limiter.admit("work", "u").into_future()).unwrap();
        assert_eq!((admitted.decision().reason(), admitted.lease()), (Some(Reason::Store), None));
    }
    for call in [limiter.renew("work", "u", lease), limiter.release("work", "u", lease)] {
        let decision = block_on(call.into_future()).unwrap();
        assert_eq!((decision.allowed(), decision.reason()), (true, Some(Reason::Store)));
    }
    faults.pass();
    // The store never heard of the release: the place comes back when the lease expires.
    assert_eq!(block_on(limiter.check("work", "u").into_future()).unwrap().remaining(), 3);
}

#[test]
fn closed_returns_an_error_for_every_lease_operation() {
    let (limiter, faults) = limiter(OnStoreError::Closed);
    let lease = block_on(limiter.admit("work", "u").into_future()).unwrap().lease().unwrap();
    faults.fail(error(StoreErrorKind::Timeout));
    assert!(block_on(limiter.admit("work", "u").into_future()).unwrap_err().is_retryable());
    assert!(block_on(limiter.renew("work", "u", lease).into_future()).unwrap_err().is_retryable());
    assert!(block_on(limiter.release("work", "u", lease).into_future()).unwrap_err().is_retryable());
}

#[test]
fn local_admits_the_share_of_one_replica_including_held_leases() {
    let (limiter, faults) = limiter(OnStoreError::Local);
    let lease = block_on(limiter.admit("work", "u").into_future()).unwrap().lease().unwrap();
    faults.fail(error(StoreErrorKind::Unavailable));
    // Two of four: the holder of a lease goes on, and one more.
    let renewed = block_on(limiter.renew("work", "u", lease).into_future()).unwrap();
    assert_eq!((renewed.allowed(), renewed.reason()), (true, Some(Reason::Store)), "the store has not renewed it");
    let admit = || block_on(limiter.admit("work", "u").into_future()).unwrap();
    let local = admit().lease().expect("a place of the share");
    let full = admit();
    assert_eq!((full.lease(), full.decision().limit(), full.decision().reason()), (None, 2, Some(Reason::Concurrency)));
    assert!(block_on(limiter.release("work", "u", local).into_future()).unwrap().allowed());
    assert!(admit().lease().is_some());
    faults.pass();
    assert!(block_on(limiter.renew("work", "u", lease).into_future()).unwrap().allowed());
    assert!(!block_on(limiter.release("work", "u", local).into_future()).unwrap().allowed(), "never the store's");
    assert_eq!(block_on(limiter.check("work", "u").into_future()).unwrap().remaining(), 3);
}
