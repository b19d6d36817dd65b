//! Cases about basic decisions: allowed, denied, and the units that each consumes.

use tidegate_core::{DecisionParts, Op, Reason, TestableStore};

use super::caller::{BASE, Caller, SECOND, cost, standard_quotas};
use crate::{Applicability, Subject};

/// A new key is allowed, and the decision reports the remaining quota.
pub async fn new_key_is_allowed<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "new_key_is_allowed", quota);
        let decision = caller.limit(1, BASE).await;
        assert!(decision.allowed, "{caller}: first call: {decision:?}");
        assert_eq!((decision.limit, decision.remaining), (10, 9), "{caller}: limit and remaining in {decision:?}");
        assert_eq!((decision.retry_after, decision.reason), (None, None), "{caller}: in {decision:?}");
        assert!(decision.reset_after > 0, "{caller}: something was taken, so the key is not new: {decision:?}");
        assert!(decision.next_after.is_some(), "{caller}: something was taken, so remaining will grow: {decision:?}");
    }
    Applicability::Ran
}

/// A key that has used everything is denied, and the decision has a retry time.
pub async fn exhausted_key_is_denied<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "exhausted_key_is_denied", quota);
        for taken in 1..=10 {
            let decision = caller.expect_allowed(1, BASE).await;
            assert_eq!(decision.remaining, 10 - taken, "{caller}: remaining after {taken} calls");
        }
        let decision = caller.expect_denied(1, BASE).await;
        assert_eq!((decision.limit, decision.remaining), (10, 0), "{caller}: limit and remaining in {decision:?}");
        assert_eq!(decision.reason, Some(Reason::Rate), "{caller}: reason");
        assert!(decision.retry_after.is_some_and(|wait| wait > 0), "{caller}: a retry time in {decision:?}");
    }
    Applicability::Ran
}

/// A cost above 1 takes that many units.
pub async fn weighted_cost_is_consumed<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "weighted_cost_is_consumed", quota);
        let decisions = [caller.expect_allowed(3, BASE).await, caller.expect_allowed(4, BASE).await];
        assert_eq!(decisions.map(|decision| decision.remaining), [7, 3], "{caller}: remaining after 3 and 4");
        let decision = caller.expect_denied(4, BASE).await;
        assert_eq!(decision.remaining, 3, "{caller}: a denial of 4 reports the 3 that are left");
        assert_eq!(caller.expect_allowed(3, BASE).await.remaining, 0, "{caller}: remaining after the last 3");
    }
    Applicability::Ran
}

/// The whole capacity can be taken at once, and not one unit more.
pub async fn capacity_is_admitted_exactly<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "capacity_is_admitted_exactly", quota);
        assert_eq!(caller.expect_allowed(10, BASE).await.remaining, 0, "{caller}: remaining after the whole capacity");
        caller.expect_denied(1, BASE).await;
    }
    Applicability::Ran
}

/// A cost above the capacity can never succeed: it has a reason of its own, and no retry time.
pub async fn cost_above_capacity_is_never_retryable<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "cost_above_capacity_is_never_retryable", quota);
        for used in [0, 4] {
            if used > 0 {
                caller.expect_allowed(used, BASE).await;
            }
            for units in [11, 1 << 32, u64::MAX] {
                for op in [Op::Limit(cost(units)), Op::Check(cost(units)), Op::Reserve(cost(units))] {
                    let decision = caller.apply(op, BASE).await;
                    assert!(!decision.allowed, "{caller}: {op:?} of a capacity of 10: {decision:?}");
                    assert_eq!(decision.reason, Some(Reason::CostExceedsCapacity), "{caller}: {op:?}: reason");
                    assert_eq!(decision.retry_after, None, "{caller}: {op:?}: retry_after");
                    assert_eq!(u64::from(decision.remaining), 10 - used, "{caller}: {op:?}: remaining");
                }
            }
        }
    }
    Applicability::Ran
}

/// A denied request takes nothing, and does not move the key's time.
pub async fn denied_request_consumes_nothing<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "denied_request_consumes_nothing", quota);
        let taken = caller.expect_allowed(8, BASE).await;
        for n in 0..5 {
            let decision = caller.expect_denied(10, BASE + n).await;
            assert_eq!(decision.remaining, 2, "{caller}: denial number {n} reports what is left");
        }
        expect_state_unchanged(&caller, taken, Op::Limit(cost(10))).await;
        assert_eq!(caller.expect_allowed(2, BASE).await.remaining, 0, "{caller}: what was left can still be taken");
    }
    Applicability::Ran
}

/// A check decides as `limit` would, takes nothing and does not move the key's time.
pub async fn check_writes_nothing<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "check_writes_nothing", quota);
        for n in 0..3 {
            let decision = caller.check(10, BASE).await;
            let new = (decision.allowed, decision.remaining, decision.next_after, decision.reset_after);
            assert_eq!(new, (true, 10, None, 0), "{caller}: check number {n} of a new key: {decision:?}");
        }
        let taken = caller.expect_allowed(8, BASE).await;
        for n in 0..5 {
            assert_eq!(caller.check(2, BASE).await, taken, "{caller}: check number {n} says what is left");
        }
        expect_state_unchanged(&caller, taken, Op::Check(cost(1))).await;
        let (checked, denied) = (caller.check(3, BASE).await, caller.limit(3, BASE).await);
        assert_eq!(checked, denied, "{caller}: a check answers as a limit would");
        assert_eq!(caller.expect_allowed(2, BASE).await.remaining, 0, "{caller}: after many checks, what was left");
    }
    Applicability::Ran
}

/// Applies `op` a little later. It must write nothing, so the earlier state must still be there. `written` is the
/// decision of the last write, at `BASE`.
async fn expect_state_unchanged<S: TestableStore + 'static>(caller: &Caller<'_, S>, written: DecisionParts, op: Op) {
    caller.apply(op, BASE + SECOND + SECOND / 2).await;
    // A state that was written again would be at the later time, and would have refilled until then.
    let decision = caller.check(1, BASE).await;
    let left = |decision: DecisionParts| (decision.remaining, decision.next_after, decision.reset_after);
    assert_eq!(left(decision), left(written), "{caller}: {op:?} at a later time must not write");
}
