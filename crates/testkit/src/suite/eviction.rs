//! Cases about the eviction of idle keys, which changes no decision.

use tidegate_core::{Key, Op, Store, TestableStore, Timestamp};

use super::caller::{BASE, Caller, SECOND, cost, standard_quotas, time_after};
use crate::{Applicability, MapStore, Random, Subject};

const NO_KEY_COUNT: Applicability = Applicability::NotApplicable("the store cannot tell how many keys it holds");

async fn count_keys<S: TestableStore + 'static>(subject: &Subject<S>, at: u64) -> Option<usize> {
    subject.store().sweep_at(Timestamp::from_micros(at)).await
}

/// A key that is as good as new is evicted. A key that was only checked, denied or refunded was never stored.
pub async fn idle_keys_are_evicted<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "idle_keys_are_evicted", quota);
        let Some(before) = count_keys(subject, BASE).await else { return NO_KEY_COUNT };
        caller.check(1, BASE).await;
        caller.limit(11, BASE).await;
        caller.refund(1, BASE).await;
        caller.apply(Op::Reset, BASE).await;
        assert_eq!(count_keys(subject, BASE).await, Some(before), "{caller}: held after nothing was taken");
        caller.expect_allowed(3, BASE).await;
        caller.apply(Op::Reset, BASE).await;
        caller.expect_allowed(3, BASE).await;
        caller.refund(3, BASE).await;
        assert_eq!(count_keys(subject, BASE).await, Some(before), "{caller}: held after all was given back");
        let mut reset = BASE;
        for n in 0_u64..5 {
            reset = time_after(BASE, Some(caller.with_key(Key::from(n)).expect_allowed(n + 1, BASE).await.reset_after))
                .max(reset);
        }
        assert_eq!(count_keys(subject, BASE).await, Some(before + 5), "{caller}: held after five keys took something");
        assert_eq!(count_keys(subject, reset).await, Some(before), "{caller}: held after all five are as good as new");
    }
    Applicability::Ran
}

/// A busy key stays until the microsecond at which it is as good as new, while keys around it are evicted.
pub async fn busy_keys_are_not_evicted<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let busy = Caller::new(subject, "busy_keys_are_not_evicted", quota);
        let idle = busy.with_key("idle");
        let Some(before) = count_keys(subject, BASE).await else { return NO_KEY_COUNT };
        idle.expect_allowed(1, BASE).await;
        busy.expect_allowed(7, BASE).await;
        let now = BASE + 11 * SECOND;
        let owed = busy.reserve(10, now).await;
        let idle_reset = time_after(now, Some(idle.check(1, now).await.reset_after));
        assert_eq!(count_keys(subject, idle_reset).await, Some(before + 1), "{busy}: held when the idle key is new");
        let reset = time_after(now, Some(owed.reset_after));
        assert_eq!(
            count_keys(subject, reset - 1).await,
            Some(before + 1),
            "{busy}: held a microsecond before it is new"
        );
        let early = busy.check(1, reset - 1).await;
        assert_eq!(early.reset_after, 1, "{busy}: its state is still there: {early:?}");
        assert_eq!(count_keys(subject, reset).await, Some(before), "{busy}: held when it is as good as new");
    }
    Applicability::Ran
}

/// A store that evicts at every chance decides like one that never evicts.
pub async fn eviction_changes_no_decision<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    if count_keys(subject, BASE).await.is_none() {
        return NO_KEY_COUNT;
    }
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "eviction_changes_no_decision", quota);
        // It never evicts: only `sweep_at` would, and the case does not call it.
        let reference = MapStore::new();
        let (mut random, mut now) = (Random::new(1), BASE);
        for n in 0..60 {
            now += random.pick(&[0, 1, 999_999, SECOND, 5 * SECOND, 10 * SECOND, 20 * SECOND]);
            let caller = caller.with_key(Key::from(random.below(3)));
            let units = cost(random.between(1, 10));
            let op = random.pick(&[Op::Limit(units), Op::Reserve(units), Op::Refund(units), Op::Check(units)]);
            count_keys(subject, now).await;
            let got = caller.apply(op, now).await;
            let expected = reference.apply_at(&caller.request(op), Timestamp::from_micros(now)).await;
            let expected = caller.expect(expected, op).into_parts();
            assert_eq!(got, expected, "{caller}: step {n}, {op:?} at {now}");
        }
        reference.close().await;
    }
    Applicability::Ran
}
