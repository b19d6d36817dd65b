//! Leases of a concurrency limit: admitted, renewed, released.

use std::collections::HashSet;
use std::future::IntoFuture;

use tidegate::{
    AdmitCall, AdmitDecision, Call, Error, Lease, Limit, Limiter, Normalize, Quota, Reason, millis, seconds,
};
use tidegate_testkit::block_on;

use crate::support::{bucket, builder, clock, decide, expect_error, left};

/// Creates a quota of `capacity` leases, each for ten seconds.
fn concurrency_quota(capacity: u64) -> Quota {
    Quota::concurrency(capacity, seconds(10)).unwrap()
}

fn work_limiter(capacity: u64) -> Limiter {
    builder(&clock()).limit("work", concurrency_quota(capacity)).limit("rate", bucket(5)).build().unwrap()
}

/// Awaits an admit call.
fn admit(call: AdmitCall<'_>) -> AdmitDecision {
    block_on(call.into_future()).unwrap()
}

/// Admits a lease that must fit.
fn admit_lease(limiter: &Limiter, name: &str, key: &str) -> Lease {
    admit(limiter.admit(name, key)).lease().expect("a lease fits")
}

#[test]
fn lease_counts_until_it_is_released() {
    let limiter = work_limiter(2);
    let [first, second] = [(); 2].map(|()| admit_lease(&limiter, "work", "u"));
    let full = admit(limiter.admit("work", "u"));
    assert_eq!((full.decision().allowed(), full.lease()), (false, None));
    let said = (full.decision().reason(), full.decision().retry_after());
    assert_eq!(said, (Some(Reason::Concurrency), Some(seconds(10))));
    assert_eq!(decide(limiter.release("work", "u", first)).remaining(), 1);
    assert!(!decide(limiter.release("work", "u", first)).allowed(), "released before");
    admit_lease(&limiter, "work", "u");
    assert!(decide(limiter.release("work", "u", second)).allowed());
}

#[test]
fn lease_expires_its_ttl_after_the_last_renewal() {
    let clock = clock();
    let limiter = builder(&clock).limit("work", concurrency_quota(1)).build().unwrap();
    let lease = admit_lease(&limiter, "work", "u");
    clock.advance(millis(9_999));
    assert!(decide(limiter.renew("work", "u", lease)).allowed());
    clock.advance(millis(9_999));
    assert_eq!(left(&limiter, "work", "u"), 0);
    clock.advance(millis(1));
    assert!(!decide(limiter.renew("work", "u", lease)).allowed(), "it has expired");
    let other = admit_lease(&limiter, "work", "u");
    assert!(!decide(limiter.release("work", "u", lease)).allowed(), "another lease took its room");
    assert!(decide(limiter.renew("work", "u", other)).allowed());
}

#[test]
fn lease_operations_do_not_wait() {
    let limiter = work_limiter(1);
    let lease = limiter.admit("work", "u").try_now().unwrap().lease().unwrap();
    assert!(limiter.admit("work", "u").try_now().unwrap().lease().is_none());
    assert!(limiter.renew("work", "u", lease).try_now().unwrap().allowed());
    assert!(limiter.release("work", "u", lease).try_now().unwrap().allowed());
}

#[test]
fn repeated_admit_call_counts_one_lease() {
    let limiter = work_limiter(2);
    let call = limiter.admit("work", "u");
    let leases = [admit(call.clone()), admit(call.clone()), call.try_now().unwrap()].map(|admitted| admitted.lease());
    assert!(leases[0].is_some() && leases.iter().all(|lease| *lease == leases[0]), "{leases:?}");
    assert_eq!(left(&limiter, "work", "u"), 1);
    // Another process that knows the lease gets it, too.
    assert_eq!(admit(limiter.admit("work", "u").lease(leases[0].unwrap())).lease(), leases[0]);
    assert_eq!(left(&limiter, "work", "u"), 1);
}

#[test]
fn lease_ids_are_unique_across_limiters() {
    let limiters = [work_limiter(u64::from(u32::MAX)), work_limiter(u64::from(u32::MAX))];
    let leases_seen: HashSet<_> =
        limiters.iter().flat_map(|limiter| (0..500).map(|_| admit_lease(limiter, "work", "u"))).collect();
    assert_eq!(leases_seen.len(), 1_000);
    // Nor are they consecutive numbers.
    let small = leases_seen.iter().filter(|lease| lease.to_bits() < 1 << 48).count();
    assert!(small < 10, "{small} of 1000 begin with sixteen bits of zero");
}

#[test]
fn unsupported_operation_is_rejected_before_the_store_is_called() {
    let limiter = work_limiter(2);
    let lease = Lease::from_bits(7);
    let (one_place, one_unit) = (concurrency_quota(1), bucket(1));
    let calls: [Call<'_>; 8] = [
        limiter.limit("work", "u"),
        limiter.reserve("work", "u"),
        limiter.refund("work", "u"),
        limiter.acquire("work", "u", seconds(1)),
        limiter.admit("rate", "u").into(),
        limiter.renew("rate", "u", lease),
        limiter.release("rate", "u", lease),
        limiter.limit("rate", "u").with_quota(&one_place),
    ];
    // It also holds for a quota of a single call, which may be of another kind than the limit's.
    for call in calls.into_iter().chain([limiter.admit("work", "u").with_quota(&one_unit).into()]) {
        let error = expect_error(call);
        assert!(matches!(&error, Error::Unsupported(_)) && error.is_misuse(), "{error}");
    }
    assert_eq!((left(&limiter, "work", "u"), left(&limiter, "rate", "u")), (2, 5));
    for all in [
        [limiter.limit("rate", "u"), limiter.limit("work", "u")],
        [limiter.limit("rate", "u"), limiter.admit("work", "u").into()],
    ] {
        assert!(block_on(limiter.limit_all(all)).unwrap_err().is_misuse());
    }
    assert_eq!(left(&limiter, "rate", "u"), 5, "nothing was taken");
    let text = expect_error(limiter.limit("work", "u")).to_string();
    assert!(text.contains("use `admit`, `renew` and `release`"), "{text}");
}

#[test]
fn check_tells_how_many_fit_and_reset_removes_all_leases() {
    let limiter = work_limiter(3);
    admit_lease(&limiter, "work", "u");
    let [two, three] = [2, 3].map(|cost| decide(limiter.check("work", "u").cost(cost)).allowed());
    assert_eq!((two, three), (true, false));
    assert_eq!(decide(limiter.reset("work", "u")).remaining(), 3);
}

#[test]
fn denied_key_is_not_admitted_and_can_release() {
    let limiter = work_limiter(2);
    let lease = admit_lease(&limiter, "work", "mallory");
    limiter.replace("work", Limit::new(concurrency_quota(2)).deny(["mallory", "203.0.113.0/24"]).unwrap()).unwrap();
    let denied = admit(limiter.admit("work", "mallory"));
    assert_eq!((denied.lease(), denied.decision().reason()), (None, Some(Reason::Deny)));
    let address = "203.0.113.9".parse().unwrap();
    assert_eq!(admit(limiter.admit("work", "bob").address(&address)).decision().reason(), Some(Reason::Deny));
    assert!(decide(limiter.release("work", "mallory", lease)).allowed());
}

#[test]
fn spellings_of_a_normalized_key_share_their_leases() {
    let limit = Limit::new(concurrency_quota(1)).normalize(Normalize::Lowercase);
    let limiter = builder(&clock()).limit("work", limit).build().unwrap();
    let lease = admit_lease(&limiter, "work", "Alice");
    assert_eq!(admit(limiter.admit("work", "ALICE")).lease(), None);
    assert!(decide(limiter.release("work", "alice", lease)).allowed());
}

#[test]
fn shadow_mode_admits_without_a_lease_beyond_the_capacity() {
    let limiter = builder(&clock()).limit("work", Limit::new(concurrency_quota(1)).shadow(true)).build().unwrap();
    let lease = admit_lease(&limiter, "work", "u");
    let beyond = admit(limiter.admit("work", "u"));
    let said = (beyond.decision().allowed(), beyond.decision().reason(), beyond.lease());
    assert_eq!(said, (true, Some(Reason::Concurrency), None));
    let _ = decide(limiter.release("work", "u", lease));
    assert_eq!(left(&limiter, "work", "u"), 1, "no other lease was counted");
}

#[test]
fn sharded_concurrency_limit_admits_the_whole_capacity() {
    let limit = Limit::new(concurrency_quota(7)).shards(3).unwrap();
    let limiter = builder(&clock()).limit("work", limit).build().unwrap();
    // All keys together hold the whole, and each returns its place to its own shard.
    let keys: Vec<String> = (0..60).map(|n| format!("user-{n}")).collect();
    let leases: Vec<_> =
        keys.iter().filter_map(|key| Some((key, admit(limiter.admit("work", key)).lease()?))).collect();
    assert_eq!(leases.len(), 7);
    for (key, lease) in leases {
        assert!(decide(limiter.release("work", key, lease)).allowed());
    }
}

#[test]
fn replaced_limit_keeps_its_leases() {
    let limiter = work_limiter(3);
    let leases = [(); 3].map(|()| admit_lease(&limiter, "work", "u"));
    limiter.set_quota("work", concurrency_quota(1)).unwrap();
    assert!(decide(limiter.renew("work", "u", leases[0])).allowed());
    for lease in &leases[..2] {
        assert_eq!(decide(limiter.release("work", "u", *lease)).remaining(), 0);
    }
    assert_eq!(admit(limiter.admit("work", "u")).lease(), None);
    assert_eq!(decide(limiter.release("work", "u", leases[2])).remaining(), 1);
}

#[test]
fn quota_of_a_call_counts_the_same_leases() {
    let limiter = work_limiter(1);
    let premium = concurrency_quota(2);
    admit_lease(&limiter, "work", "u");
    assert_eq!(admit(limiter.admit("work", "u")).lease(), None);
    assert!(admit(limiter.admit("work", "u").with_quota(&premium)).lease().is_some());
    assert_eq!(admit(limiter.admit("work", "u").with_quota(&premium)).lease(), None);
}

#[test]
fn batch_renews_and_releases_several_leases() {
    let limiter = work_limiter(3);
    let leases = [(); 3].map(|()| admit_lease(&limiter, "work", "u"));
    let calls =
        leases.iter().flat_map(|lease| [limiter.renew("work", "u", *lease), limiter.release("work", "u", *lease)]);
    let answers = block_on(limiter.batch(calls));
    assert!(answers.into_iter().all(|answer| answer.unwrap().allowed()));
    assert_eq!(left(&limiter, "work", "u"), 3);
}

#[test]
fn closed_limiter_rejects_lease_operations() {
    let limiter = work_limiter(1);
    let lease = admit_lease(&limiter, "work", "u");
    block_on(limiter.close());
    assert!(matches!(limiter.admit("work", "u").try_now(), Err(Error::Closed)));
    assert!(matches!(expect_error(limiter.release("work", "u", lease)), Error::Closed));
    assert!(matches!(block_on(limiter.admit("nowhere", "u").into_future()), Err(Error::UnknownLimit(_))));
}
