//! Cases about quota changes of a key, by a reload, another tier or other arguments. Usage is kept.

use tidegate_core::{Algorithm, Op, Quota, TestableStore, Timestamp, seconds};

use super::caller::{BASE, Caller, SECOND, cost, label, quotas, standard_quotas, with_rate};
use crate::{Applicability, MapStore, Subject};

/// A larger quota adds the difference, and forgives no usage.
pub async fn quota_raise_keeps_usage<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "quota_raise_keeps_usage", quota);
        let raised = caller.with_quota(with_rate(20, &quota));
        caller.expect_allowed(7, BASE).await;
        raised.expect_remaining(13, BASE, "7 of 10 used, now 20").await;
        caller.expect_remaining(3, BASE, "a look under the other quota changed nothing").await;
        raised.expect_allowed(13, BASE).await;
        raised.expect_denied(1, BASE).await;
    }
    Applicability::Ran
}

/// Under a smaller quota, usage beyond it becomes debt, which is repaid by its own rule.
pub async fn quota_cut_becomes_debt<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "quota_cut_becomes_debt", quota);
        let cut = caller.with_quota(with_rate(5, &quota));
        caller.expect_allowed(7, BASE).await;
        let denied = cut.expect_denied(1, BASE).await;
        assert_eq!((denied.limit, denied.remaining), (5, 0), "{cut}: 7 of 10 used, now 5: {denied:?}");
        if quota.algorithm() == Algorithm::TokenBucket {
            let expected = Some(6 * SECOND);
            assert_eq!(denied.retry_after, expected, "{cut}: 2 owed and 1 asked for, one every 2 seconds: {denied:?}");
        }
        cut.expect_retry(Op::Limit(cost(1)), denied, BASE).await;

        let caller = caller.with_key("and back");
        caller.expect_allowed(7, BASE).await;
        caller.with_quota(cut.quota).expect_denied(5, BASE).await;
        caller.expect_remaining(3, BASE, "cut and raised again").await;
    }
    Applicability::Ran
}

/// Usage is kept under another algorithm.
pub async fn algorithm_change_keeps_usage<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for from in standard_quotas() {
        for to in standard_quotas() {
            let caller = Caller::new(subject, "algorithm_change_keeps_usage", from).with_key(label(&to));
            let changed = caller.with_quota(to);
            caller.expect_allowed(7, BASE).await;
            let step = format!("7 of 10 used under {}", label(&from));
            changed.expect_remaining(3, BASE, &step).await;
            changed.expect_allowed(2, BASE).await;
            changed.expect_remaining(1, BASE, &format!("{step} and 2 under the new one")).await;
            caller.expect_remaining(1, BASE, "and changed back").await;
            changed.expect_denied(2, BASE).await;
        }
    }
    Applicability::Ran
}

/// Callers of two tiers on one key share the usage, in any order.
pub async fn alternating_tiers_share_usage<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let free = Caller::new(subject, "alternating_tiers_share_usage", quota);
        let paid = free.with_quota(with_rate(20, &quota));
        for used in (1..=10).step_by(2) {
            assert_eq!(u64::from(free.expect_allowed(1, BASE).await.remaining), 10 - used, "{free}: after {used}");
            assert_eq!(
                u64::from(paid.expect_allowed(1, BASE).await.remaining),
                19 - used,
                "{paid}: after {}",
                used + 1
            );
        }
        free.expect_denied(1, BASE).await;
        paid.expect_allowed(10, BASE).await;
        paid.expect_denied(1, BASE).await;
        free.expect_denied(1, BASE).await;
    }
    Applicability::Ran
}

/// A key that changes tier with every call still refills: nothing is rounded to whole units.
pub async fn alternating_tiers_keep_refilling<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let free = Quota::token_bucket(10, seconds(1)).expect("a valid quota");
    let free = Caller::new(subject, "alternating_tiers_keep_refilling", free);
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
    // 30 a second under the better quota, and the 20 by which it is larger, less a little for rounding.
    assert!((90..=110).contains(&taken), "{free}: {taken} taken in 3 seconds");
    Applicability::Ran
}

/// A key that is as good as new under its own quota is new under any quota. It makes no difference whether the store
/// has evicted it yet.
pub async fn idle_key_is_new_under_any_quota<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for from in standard_quotas() {
        // So slow that usage at BASE would still count if the key had not become new since.
        for slow in quotas(11, seconds(864_000)) {
            let caller = Caller::new(subject, "idle_key_is_new_under_any_quota", from).with_key(label(&slow));
            let reset = BASE + caller.expect_allowed(7, BASE).await.reset_after as u64;
            caller
                .with_quota(slow)
                .expect_remaining(11, reset, "as good as new under the quota it was used under")
                .await;
        }
    }
    Applicability::Ran
}
