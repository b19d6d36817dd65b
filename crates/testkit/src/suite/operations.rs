//! Cases about reserve, refund and reset.

use tidegate_core::{Algorithm, Op, Quota, Reason, TestableStore, seconds};

use super::caller::{BASE, Caller, SECOND, cost, label, standard_quotas};
use crate::{Applicability, Subject};

/// A reservation is allowed into debt, reports when the debt has cleared, and is repaid by the quota's own rule.
pub async fn reserve_goes_into_debt<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "reserve_goes_into_debt", quota);
        let decision = caller.reserve(8, BASE).await;
        let ordinary = (decision.allowed, decision.remaining, decision.retry_after, decision.reason);
        assert_eq!(ordinary, (true, 2, None, None), "{caller}: a reservation that fits: {decision:?}");

        let debt = caller.reserve(5, BASE).await;
        assert!(debt.allowed && debt.reason.is_none(), "{caller}: a reservation into debt: {debt:?}");
        assert_eq!(debt.remaining, 0, "{caller}: remaining in debt");
        // 13 are used, 3 beyond the capacity.
        let clears = match (quota.algorithm(), quota.parts().buckets) {
            (Algorithm::TokenBucket, _) => 3 * SECOND,
            (Algorithm::SlidingWindow, 1) => 10 * SECOND + 2_307_693,
            (Algorithm::SlidingWindow, 5) => 10 * SECOND + 461_539,
            (Algorithm::SlidingWindow, _) => 10 * SECOND + 36_058,
            _ => 10 * SECOND,
        };
        assert_eq!(debt.retry_after, Some(clears), "{caller}: when the debt has cleared: {debt:?}");
        let denied = caller.expect_denied(1, BASE).await;
        assert!(denied.retry_after >= debt.retry_after, "{caller}: a request waits for the debt: {denied:?}");
        // With a debt of at most 1, one unit can be reserved exactly when nothing is owed.
        let strict = caller.with_quota(quota.max_debt(1).expect("a valid quota"));
        let early = strict.reserve(1, BASE + clears - 1).await;
        assert!(!early.allowed, "{caller}: the debt has cleared a microsecond early: {early:?}");
        let cleared = strict.reserve(1, BASE + clears).await;
        assert!(cleared.allowed, "{caller}: the debt has not cleared when it should: {cleared:?}");
    }
    Applicability::Ran
}

/// A reservation beyond `max_debt` is denied, takes nothing, and has an honest retry time.
pub async fn reserve_stops_at_max_debt<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "reserve_stops_at_max_debt", quota.max_debt(3).expect("a valid quota"));
        caller.expect_allowed(10, BASE).await;
        let debt = caller.reserve(3, BASE).await;
        assert!(debt.allowed, "{caller}: a debt of 3, which is the most: {debt:?}");
        for n in 0..3 {
            let refused = caller.reserve(1, BASE).await;
            assert_eq!((refused.allowed, refused.reason), (false, Some(Reason::Rate)), "{caller}: refusal {n}");
        }
        let refused = caller.reserve(2, BASE).await;
        caller.expect_retry(Op::Reserve(cost(2)), refused, BASE).await;

        let without = Caller::new(subject, "reserve_without_debt", quota.max_debt(0).expect("a valid quota"));
        without.expect_allowed(9, BASE).await;
        let refused = without.reserve(2, BASE).await;
        assert_eq!(refused, without.limit(2, BASE).await, "{without}: without debt a reservation is a limit");
        without.expect_retry(Op::Reserve(cost(2)), refused, BASE).await;
    }
    Applicability::Ran
}

/// A refund returns units, never beyond the capacity, and none to a key that took none.
pub async fn refund_restores_quota<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "refund_restores_quota", quota);
        let decision = caller.refund(5, BASE).await;
        assert_eq!((decision.allowed, decision.remaining), (true, 10), "{caller}: refund of a new key: {decision:?}");
        caller.expect_allowed(6, BASE).await;
        let decision = caller.refund(4, BASE).await;
        assert_eq!((decision.allowed, decision.remaining), (true, 8), "{caller}: 4 of 6 given back: {decision:?}");
        let decision = caller.refund(u64::MAX, BASE).await;
        let new = (decision.remaining, decision.next_after, decision.reset_after);
        assert_eq!(new, (10, None, 0), "{caller}: more given back than was taken: {decision:?}");
        caller.expect_allowed(10, BASE).await;
        caller.expect_denied(1, BASE).await;
        // A refund repays debt, too.
        caller.reserve(5, BASE).await;
        caller.refund(6, BASE).await;
        caller.expect_remaining(1, BASE, "15 taken, 6 given back").await;
    }
    Applicability::Ran
}

/// In the sliding algorithms, a refund removes the newest usage, so older usage still expires first.
pub async fn refund_removes_the_newest_usage_first<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let window = Quota::sliding_window(10, seconds(10)).expect("a valid quota");
    let finer = window.buckets(5).expect("a valid quota");
    let log = Quota::sliding_log(10, seconds(10)).expect("a valid quota");
    // The time at which 3 more are taken, and the time at which the first 4 are gone.
    for (quota, newer, gone) in [(window, 11, 20), (finer, 4, 12), (log, 4, 10)] {
        let caller = Caller::new(subject, "refund_removes_the_newest_usage_first", quota);
        caller.expect_allowed(4, BASE).await;
        caller.expect_allowed(3, BASE + newer * SECOND).await;
        caller.refund(3, BASE + (newer + 1) * SECOND).await;
        let decision = caller.expect_remaining(10, BASE + gone * SECOND, "the refunded were the newest").await;
        assert_eq!(decision.reset_after, 0, "{caller}: only the refunded were left");
        // One more than the newest run: the rest comes from the older one.
        let caller = caller.with_key(label(&quota));
        caller.expect_allowed(4, BASE).await;
        caller.expect_allowed(2, BASE + SECOND).await;
        caller.refund(3, BASE + SECOND).await;
        caller.expect_remaining(7, BASE + SECOND, "3 of 6 given back, over two times").await;
    }
    Applicability::Ran
}

/// A reset forgets the usage and the debt of one key, and of no other key.
pub async fn reset_clears_the_key<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "reset_clears_the_key", quota);
        let other = caller.with_key("other");
        other.expect_allowed(7, BASE).await;
        for owed in [0, 6] {
            caller.expect_allowed(10, BASE).await;
            if owed > 0 {
                caller.reserve(owed, BASE).await;
            }
            let decision = caller.apply(Op::Reset, BASE).await;
            let new = (decision.allowed, decision.remaining, decision.next_after, decision.reset_after);
            assert_eq!(new, (true, 10, None, 0), "{caller}: reset of a key that owes {owed}: {decision:?}");
            caller.expect_remaining(10, BASE, "after a reset").await;
        }
        let again = caller.apply(Op::Reset, BASE).await;
        assert_eq!(again.remaining, 10, "{caller}: reset of a new key: {again:?}");
        other.expect_remaining(3, BASE, "after another key was reset").await;
    }
    Applicability::Ran
}
