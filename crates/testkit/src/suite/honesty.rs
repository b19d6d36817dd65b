//! What a decision says about the future is true, to the microsecond.

use tidegate_core::{Op, Quota, Testing, minutes, seconds};

use super::caller::{BASE, Caller, SECOND, after, cost, quotas, tens};
use crate::{Applicability, Subject};

/// Quotas with friendly and with awkward numbers.
fn all() -> Vec<Quota> {
    let mut all = tens();
    all.extend(quotas(7, minutes(1)));
    let bucket = Quota::token_bucket(3, seconds(1)).expect("a valid quota");
    all.push(bucket.capacity(20).expect("a valid quota"));
    all
}

/// One caller for each quota, who has already taken some at two different times; and the later of these.
fn begun<'a, S: Testing + 'static>(subject: &'a Subject<S>, case: &'a str) -> Vec<(Caller<'a, S>, u64)> {
    (0..)
        .zip(all())
        .map(|(n, quota)| (Caller::new(subject, &format!("{case}{n}"), quota), BASE + SECOND + 234_567))
        .collect()
}

async fn begin<S: Testing + 'static>(caller: &Caller<'_, S>, now: u64) {
    caller.take(3, BASE).await;
    caller.take(2, now).await;
}

/// A retry after `retry_after` is allowed, and one a microsecond earlier is not.
pub async fn retry_after_is_honest<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for (caller, mut now) in begun(subject, "retry_after_is_honest") {
        begin(&caller, now).await;
        let capacity = u64::from(caller.quota.parts().capacity);
        let left = u64::from(caller.check(1, now).await.remaining);
        for units in [left + 1, capacity, 1, 3, capacity] {
            let mut decision = caller.limit(units, now).await;
            if decision.allowed {
                // There was room after the wait before: use it up, so that there is something to wait for.
                decision = caller.limit(capacity, now).await;
                if !decision.allowed {
                    now = caller.retries(Op::Limit(cost(capacity)), decision, now).await;
                }
            } else {
                now = caller.retries(Op::Limit(cost(units)), decision, now).await;
            }
        }
    }
    Applicability::Ran
}

/// A key is as good as new after `reset_after`, and not a microsecond earlier.
pub async fn reset_after_is_honest<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for (caller, now) in begun(subject, "reset_after_is_honest") {
        begin(&caller, now).await;
        for op in [Op::Check(cost(1)), Op::Limit(cost(1)), Op::Refund(cost(1)), Op::Reserve(cost(5))] {
            let decision = caller.apply(op, now).await;
            let reset = after(now, Some(decision.reset_after));
            let early = caller.check(1, reset - 1).await;
            assert_eq!(early.reset_after, 1, "{caller}: after {op:?}, a microsecond before {reset}: {early:?}");
        }
        let reset = after(now, Some(caller.check(1, now).await.reset_after));
        let new = caller.check(1, reset).await;
        assert_eq!(new.remaining, new.limit, "{caller}: at {reset}, which should be as good as new: {new:?}");
        assert_eq!((new.reset_after, new.next_after), (0, None), "{caller}: at {reset}: {new:?}");
    }
    Applicability::Ran
}

/// `remaining` grows after `next_after`, and not a microsecond earlier.
pub async fn next_after_is_honest<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for (caller, mut now) in begun(subject, "next_after_is_honest") {
        begin(&caller, now).await;
        // Into debt, where remaining stays 0 until that is repaid.
        caller.reserve(u64::from(caller.quota.parts().capacity), now).await;
        let mut decision = caller.check(1, now).await;
        let mut grown = 0;
        while decision.remaining < decision.limit {
            let next = after(now, decision.next_after);
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
