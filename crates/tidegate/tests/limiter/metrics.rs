//! Decisions as metrics: each request counts once, by the answer that its caller gets.

use std::future::IntoFuture;
use std::task::Poll;

use tidegate::concurrency::{Completion, Concurrency, Priority};
use tidegate::enforce::{Admission, Caller};
use tidegate::{Limit, Limiter, OnStoreError, StoreError, StoreErrorKind, hours, millis, minutes};
use tidegate_testkit::{FaultyStore, block_on};

use crate::recorded::{counters, recorded};
use crate::support::{builder, clock, decide, limit_all, memory, poll, window};

const DECISIONS: &str = "tidegate_decisions_total";

/// Returns the decisions that `work` has recorded, by their labels.
fn decisions(work: impl FnOnce()) -> Vec<(String, u64)> {
    let recorded = recorded(work);
    counters(&recorded, DECISIONS).into_iter().map(|(labels, count)| (labels.to_owned(), count)).collect()
}

fn owned<const N: usize>(expected: [(&str, u64); N]) -> Vec<(String, u64)> {
    expected.map(|(labels, count)| (labels.to_owned(), count)).to_vec()
}

#[test]
fn decisions_are_counted_by_limit_outcome_and_reason() {
    let counted = decisions(|| {
        let clock = clock();
        let store = FaultyStore::new(memory(&clock));
        let faults = store.faults();
        let limiter = Limiter::builder()
            .limit("login", Limit::new(window(2)).on_store_error(OnStoreError::Open))
            .limit("send", window(2))
            .limit("pay", Limit::new(window(2)).on_store_error(OnStoreError::Closed))
            .store(store)
            .sleeper(clock)
            .build()
            .unwrap();
        // One without waiting, one awaited, and one in a batch: the last finds nothing left.
        assert!(limiter.limit("login", "u").try_now().unwrap().allowed());
        assert!(decide(limiter.limit("login", "u")).allowed());
        assert!(!block_on(limiter.batch([limiter.limit("login", "u")]))[0].as_ref().unwrap().allowed());
        // Denied as a whole, by one of them: nothing is taken of the other.
        assert!(!limit_all(&limiter, [limiter.limit("send", "u"), limiter.limit("login", "u")]).allowed());
        assert!(limit_all(&limiter, [limiter.limit("send", "u"), limiter.limit("send", "u")]).allowed());
        let _ = decide(limiter.reserve("send", "u"));
        let _ = decide(limiter.limit("send", "u").cost(3));
        // Looks that pass and gifts are no requests to take.
        for call in [limiter.check("send", "v"), limiter.refund("send", "u"), limiter.reset("send", "u")] {
            let _ = decide(call);
        }
        faults.fail(StoreError::new(StoreErrorKind::Unavailable, "on command"));
        let _ = decide(limiter.limit("login", "w"));
        block_on(limiter.limit("pay", "w").into_future()).unwrap_err();
        block_on(limiter.limit_all([limiter.limit("pay", "w"), limiter.limit("pay", "x")])).unwrap_err();
        // A mistake in the program is no decision.
        block_on(limiter.limit("pay", "w").cost(0).into_future()).unwrap_err();
    });
    assert_eq!(
        counted,
        owned([
            ("{limit=login,outcome=allowed,reason=store}", 1),
            ("{limit=login,outcome=allowed}", 2),
            ("{limit=login,outcome=denied,reason=rate}", 2),
            ("{limit=pay,outcome=failed}", 3),
            ("{limit=send,outcome=allowed}", 3),
            ("{limit=send,outcome=denied,reason=cost_exceeds_capacity}", 1),
        ])
    );
}

#[test]
fn refusal_counts_whatever_refused() {
    let counted = decisions(|| {
        let limiter = builder(&clock())
            .limits([("login", window(1)), ("send", window(5))])
            .deny("login", ["mallory"])
            .unwrap()
            .build()
            .unwrap();
        // A deny list, alone, in a batch and in a whole.
        assert!(!limiter.limit("login", "mallory").try_now().unwrap().allowed());
        assert!(!block_on(limiter.batch([limiter.limit("login", "mallory")]))[0].as_ref().unwrap().allowed());
        assert!(!limit_all(&limiter, [limiter.limit("send", "u"), limiter.limit("login", "mallory")]).allowed());
        // A check: the request ends there.
        assert!(decide(limiter.limit("login", "u")).allowed());
        assert!(!decide(limiter.check("login", "u")).allowed());
        // A caller that does not wait.
        assert!(!decide(limiter.acquire("login", "u", millis(1))).allowed());
        // A guard before the limits.
        let admission = Admission::new(Concurrency::fixed(1), limiter.enforcer("send").unwrap());
        let caller = Caller::new("u");
        let admitted = block_on(admission.admit(&caller, 1, Priority::Default)).unwrap();
        let _ = block_on(admission.admit(&caller, 1, Priority::Default)).unwrap_err();
        admitted.release(Completion::Success);
    });
    assert_eq!(
        counted,
        owned([
            ("{limit=concurrency,outcome=allowed}", 1),
            ("{limit=concurrency,outcome=denied,reason=concurrency}", 1),
            ("{limit=login,outcome=allowed}", 1),
            ("{limit=login,outcome=denied,reason=deny}", 3),
            ("{limit=login,outcome=denied,reason=rate}", 2),
            ("{limit=send,outcome=allowed}", 1),
        ])
    );
}

#[test]
fn caller_that_waits_counts_once() {
    let counted = decisions(|| {
        let clock = clock();
        let limiter = builder(&clock).limit("login", window(1)).build().unwrap();
        assert!(decide(limiter.limit("login", "u")).allowed());
        let mut first = limiter.acquire("login", "u", hours(1)).into_future();
        let mut late = limiter.acquire("login", "u", millis(1)).into_future();
        assert!(poll(&mut first).is_pending() && poll(&mut late).is_pending());
        clock.advance(millis(2));
        // Its turn did not come, whatever the store would say.
        assert!(matches!(poll(&mut late), Poll::Ready(Ok(decision)) if !decision.allowed()));
        clock.advance(minutes(1));
        assert!(matches!(poll(&mut first), Poll::Ready(Ok(decision)) if decision.allowed()));
    });
    let expected = [("{limit=login,outcome=allowed}", 2), ("{limit=login,outcome=denied,reason=rate}", 1)];
    assert_eq!(counted, owned(expected));
}

#[test]
fn shadow_mode_counts_permissions_with_their_reason() {
    let shadowed_limit = decisions(|| {
        let limiter = builder(&clock()).limit("login", Limit::new(window(1)).shadow(true)).build().unwrap();
        (0..3).for_each(|_| assert!(decide(limiter.limit("login", "u")).allowed()));
    });
    let shadowed_enforcer = decisions(|| {
        let limiter = builder(&clock()).limit("login", window(1)).build().unwrap();
        let enforcer = limiter.enforcer("login").unwrap().shadow(true);
        (0..3).for_each(|_| assert!(block_on(enforcer.enforce("u", 1)).is_allowed()));
    });
    let expected = owned([("{limit=login,outcome=allowed,reason=rate}", 2), ("{limit=login,outcome=allowed}", 1)]);
    assert_eq!((&shadowed_limit, &shadowed_enforcer), (&expected, &expected));
}

#[test]
fn recorder_that_is_installed_later_counts_from_then_on() {
    let limiter = builder(&clock()).limit("login", window(1)).build().unwrap();
    assert!(decide(limiter.limit("login", "u")).allowed());
    let counted = || decisions(|| assert!(!decide(limiter.limit("login", "u")).allowed()));
    for _ in 0..2 {
        assert_eq!(counted(), owned([("{limit=login,outcome=denied,reason=rate}", 1)]));
    }
}

#[test]
fn program_can_leave_counting_to_itself() {
    let counted = decisions(|| {
        let limiter = builder(&clock()).limit("login", window(1)).count_decisions(false).build().unwrap();
        assert!(decide(limiter.limit("login", "u")).allowed());
    });
    assert!(counted.is_empty(), "{counted:?}");
}

#[test]
fn no_label_holds_a_key() {
    let recorded = recorded(|| {
        let limiter = builder(&clock()).limit("login", window(1)).deny("login", ["alice@example.org"]).unwrap();
        let limiter = limiter.build().unwrap();
        for key in ["alice@example.org", "bob@example.org", "bob@example.org"] {
            let _ = decide(limiter.limit("login", key));
        }
    });
    assert_eq!(counters(&recorded, DECISIONS).len(), 3);
    assert!(recorded.keys().all(|key| !key.contains("example.org")), "{recorded:?}");
}
