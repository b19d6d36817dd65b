//! Idle keys cost nothing, and nobody notices.

use tidegate_core::{Key, Op, Store, Testing, Timestamp};

use super::caller::{BASE, Caller, SECOND, after, cost, tens};
use crate::{Applicability, MapStore, Random, Subject};

const CANNOT_TELL: Applicability = Applicability::NotApplicable("the store cannot tell how many keys it holds");

async fn held<S: Testing + 'static>(subject: &Subject<S>, at: u64) -> Option<usize> {
    subject.store().held_at(Timestamp::from_micros(at)).await
}

/// A key that is as good as new is not held any more; one that was only looked at, denied or refunded never was.
pub async fn idle_keys_are_forgotten<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in tens() {
        let caller = Caller::new(subject, "idle_keys_are_forgotten", quota);
        let Some(before) = held(subject, BASE).await else { return CANNOT_TELL };
        caller.check(1, BASE).await;
        caller.limit(11, BASE).await;
        caller.refund(1, BASE).await;
        caller.apply(Op::Reset, BASE).await;
        assert_eq!(held(subject, BASE).await, Some(before), "{caller}: held after nothing was taken");
        caller.take(3, BASE).await;
        caller.apply(Op::Reset, BASE).await;
        caller.take(3, BASE).await;
        caller.refund(3, BASE).await;
        assert_eq!(held(subject, BASE).await, Some(before), "{caller}: held after all was given back");
        let mut reset = BASE;
        for n in 0_u64..5 {
            reset = after(BASE, Some(caller.with_key(Key::from(n)).take(n + 1, BASE).await.reset_after)).max(reset);
        }
        assert_eq!(held(subject, BASE).await, Some(before + 5), "{caller}: held after five keys took something");
        assert_eq!(held(subject, reset).await, Some(before), "{caller}: held after all five are as good as new");
    }
    Applicability::Ran
}

/// A key that is not as good as new is held until the microsecond it is, while others around it are forgotten.
pub async fn busy_keys_are_not_forgotten<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in tens() {
        let busy = Caller::new(subject, "busy_keys_are_not_forgotten", quota);
        let idle = busy.with_key("idle");
        let Some(before) = held(subject, BASE).await else { return CANNOT_TELL };
        idle.take(1, BASE).await;
        busy.take(7, BASE).await;
        let now = BASE + 11 * SECOND;
        let owed = busy.reserve(10, now).await;
        let idle_reset = after(now, Some(idle.check(1, now).await.reset_after));
        assert_eq!(held(subject, idle_reset).await, Some(before + 1), "{busy}: held when the idle key is new");
        let reset = after(now, Some(owed.reset_after));
        assert_eq!(held(subject, reset - 1).await, Some(before + 1), "{busy}: held a microsecond before it is new");
        let early = busy.check(1, reset - 1).await;
        assert_eq!(early.reset_after, 1, "{busy}: its state is still there: {early:?}");
        assert_eq!(held(subject, reset).await, Some(before), "{busy}: held when it is as good as new");
    }
    Applicability::Ran
}

/// Decisions are the same whether the store forgets at every chance or never.
pub async fn forgetting_changes_no_decision<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    if held(subject, BASE).await.is_none() {
        return CANNOT_TELL;
    }
    for quota in tens() {
        let caller = Caller::new(subject, "forgetting_changes_no_decision", quota);
        // It holds whatever it was told: nobody asks it what it holds.
        let remembers = MapStore::new();
        let (mut random, mut now) = (Random::new(1), BASE);
        for n in 0..60 {
            now += random.pick(&[0, 1, 999_999, SECOND, 5 * SECOND, 10 * SECOND, 20 * SECOND]);
            let caller = caller.with_key(Key::from(random.below(3)));
            let units = cost(random.between(1, 10));
            let op = random.pick(&[Op::Limit(units), Op::Reserve(units), Op::Refund(units), Op::Check(units)]);
            held(subject, now).await;
            let got = caller.apply(op, now).await;
            let expected = remembers.apply_at(&caller.request(op), Timestamp::from_micros(now)).await;
            let expected = caller.expect(expected, op).into_parts();
            assert_eq!(got, expected, "{caller}: step {n}, {op:?} at {now}");
        }
        remembers.close().await;
    }
    Applicability::Ran
}
