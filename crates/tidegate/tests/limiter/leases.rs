//! Places of a concurrency limit: admitted, renewed, released.

use std::collections::HashSet;
use std::future::IntoFuture;

use tidegate::{
    AdmitCall, AdmitDecision, Call, Error, Lease, Limit, Limiter, Normalize, Quota, Reason, millis, seconds,
};
use tidegate_testkit::block_on;

use crate::support::{ask, bucket, builder, clock, left, refused};

/// `capacity` at once, each for ten seconds.
fn places(capacity: u64) -> Quota {
    Quota::concurrency(capacity, seconds(10)).unwrap()
}

fn working(capacity: u64) -> Limiter {
    builder(&clock()).limit("work", places(capacity)).limit("rate", bucket(5)).build().unwrap()
}

/// The answer, which has to be the same kind of answer with and without waiting.
fn admit(call: AdmitCall<'_>) -> AdmitDecision {
    block_on(call.into_future()).unwrap()
}

/// A place that has to be free.
fn held(limiter: &Limiter, name: &str, key: &str) -> Lease {
    admit(limiter.admit(name, key)).lease().expect("a place is free")
}

#[test]
fn a_place_is_held_until_it_is_released() {
    let limiter = working(2);
    let [first, second] = [(); 2].map(|()| held(&limiter, "work", "u"));
    let full = admit(limiter.admit("work", "u"));
    assert_eq!((full.decision().allowed(), full.lease()), (false, None));
    let said = (full.decision().reason(), full.decision().retry_after());
    assert_eq!(said, (Some(Reason::Concurrency), Some(seconds(10))));
    assert_eq!(ask(limiter.release("work", "u", first)).remaining(), 1);
    assert!(!ask(limiter.release("work", "u", first)).allowed(), "released before");
    held(&limiter, "work", "u");
    assert!(ask(limiter.release("work", "u", second)).allowed());
}

#[test]
fn a_lease_lives_its_time_from_when_it_was_last_renewed() {
    let clock = clock();
    let limiter = builder(&clock).limit("work", places(1)).build().unwrap();
    let lease = held(&limiter, "work", "u");
    clock.advance(millis(9_999));
    assert!(ask(limiter.renew("work", "u", lease)).allowed());
    clock.advance(millis(9_999));
    assert_eq!(left(&limiter, "work", "u"), 0);
    clock.advance(millis(1));
    assert!(!ask(limiter.renew("work", "u", lease)).allowed(), "it is gone");
    let other = held(&limiter, "work", "u");
    assert!(!ask(limiter.release("work", "u", lease)).allowed(), "its place is another's");
    assert!(ask(limiter.renew("work", "u", other)).allowed());
}

#[test]
fn every_answer_is_there_without_waiting() {
    let limiter = working(1);
    let lease = limiter.admit("work", "u").try_now().unwrap().lease().unwrap();
    assert!(limiter.admit("work", "u").try_now().unwrap().lease().is_none());
    assert!(limiter.renew("work", "u", lease).try_now().unwrap().allowed());
    assert!(limiter.release("work", "u", lease).try_now().unwrap().allowed());
}

#[test]
fn whoever_asks_again_takes_no_second_place() {
    let limiter = working(2);
    let call = limiter.admit("work", "u");
    let leases = [admit(call.clone()), admit(call.clone()), call.try_now().unwrap()].map(|admitted| admitted.lease());
    assert!(leases[0].is_some() && leases.iter().all(|lease| *lease == leases[0]), "{leases:?}");
    assert_eq!(left(&limiter, "work", "u"), 1);
    // From another process, too, which knows the lease.
    assert_eq!(admit(limiter.admit("work", "u").lease(leases[0].unwrap())).lease(), leases[0]);
    assert_eq!(left(&limiter, "work", "u"), 1);
}

#[test]
fn leases_are_drawn_anew_by_every_limiter() {
    let limiters = [working(u64::from(u32::MAX)), working(u64::from(u32::MAX))];
    let drawn: HashSet<_> = limiters.iter().flat_map(|limiter| (0..500).map(|_| held(limiter, "work", "u"))).collect();
    assert_eq!(drawn.len(), 1_000);
    // Nor are they numbers that follow each other.
    let small = drawn.iter().filter(|lease| lease.to_bits() < 1 << 48).count();
    assert!(small < 10, "{small} of 1000 begin with sixteen bits of zero");
}

#[test]
fn what_a_limit_does_not_count_is_refused_before_the_store_is_asked() {
    let limiter = working(2);
    let lease = Lease::from_bits(7);
    let (one_place, one_unit) = (places(1), bucket(1));
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
    // The same for a quota of one call only, which may be of another kind than the limit's.
    for call in calls.into_iter().chain([limiter.admit("work", "u").with_quota(&one_unit).into()]) {
        let error = refused(call);
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
    let text = refused(limiter.limit("work", "u")).to_string();
    assert!(text.contains("use `admit`, `renew` and `release`"), "{text}");
}

#[test]
fn a_look_says_how_many_would_fit_and_a_reset_forgets_all() {
    let limiter = working(3);
    held(&limiter, "work", "u");
    let [two, three] = [2, 3].map(|cost| ask(limiter.check("work", "u").cost(cost)).allowed());
    assert_eq!((two, three), (true, false));
    assert_eq!(ask(limiter.reset("work", "u")).remaining(), 3);
}

#[test]
fn a_key_on_the_deny_list_holds_no_place_and_may_give_one_back() {
    let limiter = working(2);
    let lease = held(&limiter, "work", "mallory");
    limiter.replace("work", Limit::new(places(2)).deny(["mallory", "203.0.113.0/24"]).unwrap()).unwrap();
    let denied = admit(limiter.admit("work", "mallory"));
    assert_eq!((denied.lease(), denied.decision().reason()), (None, Some(Reason::Deny)));
    let address = "203.0.113.9".parse().unwrap();
    assert_eq!(admit(limiter.admit("work", "bob").address(&address)).decision().reason(), Some(Reason::Deny));
    assert!(ask(limiter.release("work", "mallory", lease)).allowed());
}

#[test]
fn keys_that_are_made_alike_share_their_places() {
    let limit = Limit::new(places(1)).normalize(Normalize::Lowercase);
    let limiter = builder(&clock()).limit("work", limit).build().unwrap();
    let lease = held(&limiter, "work", "Alice");
    assert_eq!(admit(limiter.admit("work", "ALICE")).lease(), None);
    assert!(ask(limiter.release("work", "alice", lease)).allowed());
}

#[test]
fn in_shadow_mode_nobody_is_denied_and_a_place_is_held_by_whoever_got_one() {
    let limiter = builder(&clock()).limit("work", Limit::new(places(1)).shadow(true)).build().unwrap();
    let lease = held(&limiter, "work", "u");
    let beyond = admit(limiter.admit("work", "u"));
    let said = (beyond.decision().allowed(), beyond.decision().reason(), beyond.lease());
    assert_eq!(said, (true, Some(Reason::Concurrency), None));
    let _ = ask(limiter.release("work", "u", lease));
    assert_eq!(left(&limiter, "work", "u"), 1, "nobody else had one");
}

#[test]
fn places_are_cut_by_key() {
    let limit = Limit::new(places(7)).shards(3).unwrap();
    let limiter = builder(&clock()).limit("work", limit).build().unwrap();
    // All keys together hold the whole, and each gives back where it took.
    let keys: Vec<String> = (0..60).map(|n| format!("user-{n}")).collect();
    let leases: Vec<_> =
        keys.iter().filter_map(|key| Some((key, admit(limiter.admit("work", key)).lease()?))).collect();
    assert_eq!(leases.len(), 7);
    for (key, lease) in leases {
        assert!(ask(limiter.release("work", key, lease)).allowed());
    }
}

#[test]
fn leases_stay_when_a_limit_is_replaced() {
    let limiter = working(3);
    let leases = [(); 3].map(|()| held(&limiter, "work", "u"));
    limiter.set_quota("work", places(1)).unwrap();
    assert!(ask(limiter.renew("work", "u", leases[0])).allowed());
    for lease in &leases[..2] {
        assert_eq!(ask(limiter.release("work", "u", *lease)).remaining(), 0);
    }
    assert_eq!(admit(limiter.admit("work", "u")).lease(), None);
    assert_eq!(ask(limiter.release("work", "u", leases[2])).remaining(), 1);
}

#[test]
fn a_quota_of_one_call_counts_the_same_leases() {
    let limiter = working(1);
    let premium = places(2);
    held(&limiter, "work", "u");
    assert_eq!(admit(limiter.admit("work", "u")).lease(), None);
    assert!(admit(limiter.admit("work", "u").with_quota(&premium)).lease().is_some());
    assert_eq!(admit(limiter.admit("work", "u").with_quota(&premium)).lease(), None);
}

#[test]
fn several_leases_are_renewed_and_released_in_one_call() {
    let limiter = working(3);
    let leases = [(); 3].map(|()| held(&limiter, "work", "u"));
    let calls =
        leases.iter().flat_map(|lease| [limiter.renew("work", "u", *lease), limiter.release("work", "u", *lease)]);
    let answers = block_on(limiter.batch(calls));
    assert!(answers.into_iter().all(|answer| answer.unwrap().allowed()));
    assert_eq!(left(&limiter, "work", "u"), 3);
}

#[test]
fn a_closed_limiter_holds_no_places() {
    let limiter = working(1);
    let lease = held(&limiter, "work", "u");
    block_on(limiter.close());
    assert!(matches!(limiter.admit("work", "u").try_now(), Err(Error::Closed)));
    assert!(matches!(refused(limiter.release("work", "u", lease)), Error::Closed));
    assert!(matches!(block_on(limiter.admit("nowhere", "u").into_future()), Err(Error::UnknownLimit(_))));
}
