//! Cases about the spans of a decision: `retry_after`, `reset_after` and `next_after` are exact to the microsecond.

use tidegate_core::{Op, Quota, TestableStore, minutes, seconds};

use super::caller::{BASE, Caller, SECOND, cost, quotas, standard_quotas, time_after};
use crate::{Applicability, Subject};

/// Returns quotas with round and with odd numbers.
fn sample_quotas() -> Vec<Quota> {
    let mut quotas_of_all_kinds = standard_quotas();
    quotas_of_all_kinds.extend(quotas(7, minutes(1)));
    let bucket = Quota::token_bucket(3, seconds(1)).expect("a valid quota");
    quotas_of_all_kinds.push(bucket.capacity(20).expect("a valid quota"));
    quotas_of_all_kinds
}

/// Returns one caller for each quota, with the later of the two times at which [`use_twice`] takes units.
fn callers_with_times<'a, S: TestableStore + 'static>(
    subject: &'a Subject<S>,
    case: &'a str,
) -> Vec<(Caller<'a, S>, u64)> {
    (0..)
        .zip(sample_quotas())
        .map(|(n, quota)| (Caller::new(subject, &format!("{case}{n}"), quota), BASE + SECOND + 234_567))
        .collect()
}

/// Takes units at `BASE` and at `now`.
async fn use_twice<S: TestableStore + 'static>(caller: &Caller<'_, S>, now: u64) {
    caller.expect_allowed(3, BASE).await;
    caller.expect_allowed(2, now).await;
}

/// A retry after `retry_after` is allowed, and one a microsecond earlier is not.
pub async fn retry_after_is_honest<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for (caller, mut now) in callers_with_times(subject, "retry_after_is_honest") {
        use_twice(&caller, now).await;
        let capacity = u64::from(caller.quota.parts().capacity);
        let left = u64::from(caller.check(1, now).await.remaining);
        for units in [left + 1, capacity, 1, 3, capacity] {
            let mut decision = caller.limit(units, now).await;
            if decision.allowed {
                // The last wait made room. Use it up, so that there is something to wait for.
                decision = caller.limit(capacity, now).await;
                if !decision.allowed {
                    now = caller.expect_retry(Op::Limit(cost(capacity)), decision, now).await;
                }
            } else {
                now = caller.expect_retry(Op::Limit(cost(units)), decision, now).await;
            }
        }
    }
    Applicability::Ran
}

/// A key is as good as new after `reset_after`, and not a microsecond earlier.
pub async fn reset_after_is_honest<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for (caller, now) in callers_with_times(subject, "reset_after_is_honest") {
        use_twice(&caller, now).await;
        for op in [Op::Check(cost(1)), Op::Limit(cost(1)), Op::Refund(cost(1)), Op::Reserve(cost(5))] {
            let decision = caller.apply(op, now).await;
            let reset = time_after(now, Some(decision.reset_after));
            let early = caller.check(1, reset - 1).await;
            assert_eq!(early.reset_after, 1, "{caller}: after {op:?}, a microsecond before {reset}: {early:?}");
        }
        let reset = time_after(now, Some(caller.check(1, now).await.reset_after));
        let new = caller.check(1, reset).await;
        assert_eq!(new.remaining, new.limit, "{caller}: at {reset}, which should be as good as new: {new:?}");
        assert_eq!((new.reset_after, new.next_after), (0, None), "{caller}: at {reset}: {new:?}");
    }
    Applicability::Ran
}

/// `remaining` grows after `next_after`, and not a microsecond earlier.
pub async fn next_after_is_honest<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for (caller, mut now) in callers_with_times(subject, "next_after_is_honest") {
        use_twice(&caller, now).await;
        // Into debt: `remaining` stays 0 until the debt is repaid.
        caller.reserve(u64::from(caller.quota.parts().capacity), now).await;
        let mut decision = caller.check(1, now).await;
        let mut grown = 0;
        while decision.remaining < decision.limit {
            let next = time_after(now, decision.next_after);
            let early = caller.check(1, next - 1).await;
            assert_eq!(early.remaining, decision.remaining, "{caller}: a microsecond before {next}: {early:?}");
            let later = caller.check(1, next).await;
            assert!(later.remaining > decision.remaining, "{caller}: should have grown at {next}: {later:?}");
            (now, decision, grown) = (next, later, grown + 1);
            assert!(grown <= decision.limit, "{caller}: remaining grows without end");
        }
        assert_eq!(decision.next_after, None, "{caller}: nothing more can come: {decision:?}");
    }
    Applicability::Ran
}
