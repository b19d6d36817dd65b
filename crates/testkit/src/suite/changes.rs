//! The quota of a key changes: a reload, another tier, other arguments. What was used is kept.

use tidegate_core::{Algorithm, Op, Quota, Testing, Timestamp, seconds};

use super::caller::{BASE, Caller, SECOND, at_rate, cost, label, quotas, tens};
use crate::{Applicability, MapStore, Subject};

/// A larger quota gives what it is larger by, and not what was used.
pub async fn quota_raise_keeps_what_was_used<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in tens() {
        let caller = Caller::new(subject, "quota_raise_keeps_what_was_used", quota);
        let raised = caller.with_quota(at_rate(20, &quota));
        caller.take(7, BASE).await;
        raised.has(13, BASE, "7 of 10 used, now 20").await;
        caller.has(3, BASE, "a look under the other quota changed nothing").await;
        raised.take(13, BASE).await;
        raised.denied(1, BASE).await;
    }
    Applicability::Ran
}

/// A smaller quota makes a debt of what was used beyond it, and repays that by its own rule.
pub async fn quota_cut_becomes_debt<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in tens() {
        let caller = Caller::new(subject, "quota_cut_becomes_debt", quota);
        let cut = caller.with_quota(at_rate(5, &quota));
        caller.take(7, BASE).await;
        let denied = cut.denied(1, BASE).await;
        assert_eq!((denied.limit, denied.remaining), (5, 0), "{cut}: 7 of 10 used, now 5: {denied:?}");
        if quota.algorithm() == Algorithm::TokenBucket {
            let expected = Some(6 * SECOND);
            assert_eq!(denied.retry_after, expected, "{cut}: 2 owed and 1 asked for, one every 2 seconds: {denied:?}");
        }
        cut.retries(Op::Limit(cost(1)), denied, BASE).await;

        let caller = caller.with_key("and back");
        caller.take(7, BASE).await;
        caller.with_quota(cut.quota).denied(5, BASE).await;
        caller.has(3, BASE, "cut and raised again").await;
    }
    Applicability::Ran
}

/// Under another algorithm what was used is still used.
pub async fn algorithm_change_keeps_what_was_used<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for from in tens() {
        for to in tens() {
            let caller = Caller::new(subject, "algorithm_change_keeps_what_was_used", from).with_key(label(&to));
            let changed = caller.with_quota(to);
            caller.take(7, BASE).await;
            let step = format!("7 of 10 used under {}", label(&from));
            changed.has(3, BASE, &step).await;
            changed.take(2, BASE).await;
            changed.has(1, BASE, &format!("{step} and 2 under the new one")).await;
            caller.has(1, BASE, "and changed back").await;
            changed.denied(2, BASE).await;
        }
    }
    Applicability::Ran
}

/// Callers of two tiers on one key share what was used, whichever asks.
pub async fn tiers_that_alternate_share_what_was_used<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in tens() {
        let free = Caller::new(subject, "tiers_that_alternate_share_what_was_used", quota);
        let paid = free.with_quota(at_rate(20, &quota));
        for used in (1..=10).step_by(2) {
            assert_eq!(u64::from(free.take(1, BASE).await.remaining), 10 - used, "{free}: after {used}");
            assert_eq!(u64::from(paid.take(1, BASE).await.remaining), 19 - used, "{paid}: after {}", used + 1);
        }
        free.denied(1, BASE).await;
        paid.take(10, BASE).await;
        paid.denied(1, BASE).await;
        free.denied(1, BASE).await;
    }
    Applicability::Ran
}

/// A key that changes tier with every call still refills: nothing is rounded to whole units on the way.
pub async fn tiers_that_alternate_keep_refilling<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    let free = Quota::token_bucket(10, seconds(1)).expect("a valid quota");
    let free = Caller::new(subject, "tiers_that_alternate_keep_refilling", free);
    let paid = free.with_quota(Quota::token_bucket(30, seconds(1)).expect("a valid quota"));
    let reference = MapStore::new();
    let mut taken = 0;
    for n in 0..300 {
        let (at, caller) = (BASE + n * 10_000, if n % 2 == 0 { &free } else { &paid });
        let op = Op::Limit(cost(if n == 0 { 10 } else { 1 }));
        let got = caller.apply(op, at).await;
        let expected = reference.apply_at(&caller.request(op), Timestamp::from_micros(at)).await;
        let expected = caller.expect(expected, op).into_parts();
        assert_eq!(got, expected, "{caller}: poll number {n}, at {at}");
        taken += u64::from(got.allowed && n > 0);
    }
    // 30 a second under the better quota and the 20 by which it is larger, less a little for rounding.
    assert!((90..=110).contains(&taken), "{free}: {taken} taken in 3 seconds");
    Applicability::Ran
}

/// A key that is as good as new under its own quota is new under any: whether the store has forgotten it yet must
/// not show.
pub async fn idle_is_new_under_any_quota<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for from in tens() {
        // So slow that what was used at BASE would still be used, had the key not been as good as new since.
        for slow in quotas(11, seconds(864_000)) {
            let caller = Caller::new(subject, "idle_is_new_under_any_quota", from).with_key(label(&slow));
            let reset = BASE + caller.take(7, BASE).await.reset_after as u64;
            caller.with_quota(slow).has(11, reset, "as good as new under the quota it was used under").await;
        }
    }
    Applicability::Ran
}
