//! The rules of batches and balances, step by step, without a store.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::{Cost, Decision, Op, Quota, State, Timestamp, days, millis, seconds, step};

use super::balance::{Balance, BatchRules, RefillSize, RefillStep};

fn at(millis: u64) -> Timestamp {
    // The beginning of a minute, far from the epoch.
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

fn rules(quota: Quota, replicas: u32) -> BatchRules {
    BatchRules::new(&quota, NonZeroU32::new(replicas).unwrap()).expect("a quota that is batched")
}

fn bucket() -> BatchRules {
    rules(Quota::token_bucket(1_000, seconds(1)).unwrap(), 10)
}

/// Returns the answer of an unused store to a request for that many units.
fn taken(rules: &BatchRules, units: u64, now: Timestamp) -> Decision {
    step(&rules.quota, &mut State::New, Op::Limit(Cost::new(units).unwrap()), now).decision
}

/// Completes a refill.
fn refill(balance: &mut Balance, rules: &BatchRules, now: Timestamp) -> u64 {
    let RefillSize { units, .. } = balance.begin_refill(rules, 1, 0, now);
    balance.refill_granted(rules, units, &taken(rules, units, now), now);
    units
}

/// Spends so many units. Returns how many there were.
fn spend_units(balance: &mut Balance, rules: &BatchRules, units: u64, now: Timestamp) -> u64 {
    (0..units).filter(|_| balance.take(rules, 1, now).is_some_and(|decision| decision.allowed())).count() as u64
}

/// Spends the whole balance.
fn spend(balance: &mut Balance, rules: &BatchRules, now: Timestamp) -> u64 {
    (0..).take_while(|_| balance.take(rules, 1, now).is_some_and(|decision| decision.allowed())).count() as u64
}

#[test]
fn large_enough_buckets_and_windows_are_batched() {
    let batched = |quota: Result<Quota, _>, replicas| {
        BatchRules::new(&quota.unwrap(), NonZeroU32::new(replicas).unwrap()).map(|rules| rules.max)
    };
    assert_eq!(batched(Quota::token_bucket(100, seconds(1)), 16), Some(6));
    assert_eq!(batched(Quota::fixed_window(33, seconds(1)), 16), Some(2));
    assert_eq!(batched(Quota::fixed_window(31, seconds(1)), 16), None, "a batch of 1 saves no call");
    assert_eq!(batched(Quota::sliding_window(100, seconds(1)), 1), Some(100));
    assert_eq!(batched(Quota::sliding_log(100, seconds(1)), 1), None);
    assert_eq!(batched(Quota::concurrency(100, seconds(1)), 1), None);
    // In a shorter window most of a batch would expire.
    assert_eq!(batched(Quota::fixed_window(100, millis(500)), 1), Some(100));
    assert_eq!(batched(Quota::fixed_window(100, millis(499)), 1), None);
    assert_eq!(batched(Quota::sliding_window(100, seconds(2)).unwrap().buckets(4), 1), Some(100));
    assert_eq!(batched(Quota::sliding_window(100, seconds(2)).unwrap().buckets(5), 1), None);
}

#[test]
fn batches_double_while_spent_quickly_up_to_the_share_of_a_process() {
    let (rules, mut balance, mut sizes) = (bucket(), Balance::new(at(0)), Vec::new());
    for round in 0..9 {
        sizes.push(refill(&mut balance, &rules, at(round)));
        assert_eq!(spend(&mut balance, &rules, at(round)), *sizes.last().unwrap());
    }
    assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    // A batch that lasts as long as the target keeps its size. One that lasts much longer is halved.
    assert_eq!(refill(&mut balance, &rules, at(8 + 20)), 100);
    spend(&mut balance, &rules, at(28));
    assert_eq!(refill(&mut balance, &rules, at(28 + 80)), 50);
}

#[test]
fn batches_shrink_when_denied_or_returned() {
    let (rules, mut balance) = (bucket(), Balance::new(at(0)));
    for round in 0..5 {
        refill(&mut balance, &rules, at(round));
        spend(&mut balance, &rules, at(round));
    }
    // Of 16.
    balance.begin_refill(&rules, 1, 0, at(30));
    balance.refill_denied(1, millis(1), millis(10), &taken(&rules, 1_000, at(30)), at(30));
    assert_eq!(refill(&mut balance, &rules, at(60)), 8);
    assert_eq!(balance.take_idle(&rules, millis(100), at(159)), 0, "it is not idle yet");
    assert_eq!(balance.take_idle(&rules, millis(100), at(160)), 8);
    assert_eq!(balance.take_idle(&rules, millis(100), at(160)), 0, "nothing is returned twice");
    assert_eq!(
        balance.begin_refill(&rules, 1, 0, at(160)).units,
        2,
        "halved for the return, and again for lasting so long"
    );
}

#[test]
fn batches_shrink_when_a_window_ends_before_they_are_spent() {
    let rules = rules(Quota::fixed_window(1_000, millis(500)).unwrap(), 10);
    let (mut balance, mut taken_of_it, mut now) = (Balance::new(at(0)), 0, 0);
    // One request each 10 ms, for a hundred windows: less than a tenth of the quota.
    for _ in 0..5_000 {
        now += 10;
        if balance.take(&rules, 1, at(now)).is_none() {
            taken_of_it += refill(&mut balance, &rules, at(now));
            assert!(balance.take(&rules, 1, at(now)).unwrap().allowed());
        }
    }
    assert!(taken_of_it < 5_000 * 11 / 10, "{taken_of_it} taken for 5,000");
    // A batch that expires is followed by one of half the size, although the next one is fetched at once.
    let mut balance = Balance::with_largest_batch(&rules, at(490));
    assert_eq!(refill(&mut balance, &rules, at(490)), 100);
    assert_eq!(balance.take(&rules, 1, at(500)), None);
    assert_eq!(balance.begin_refill(&rules, 1, 0, at(500)).units, 50);
}

#[test]
fn units_being_returned_count_as_held() {
    let (rules, mut balance) = (bucket(), Balance::with_largest_batch(&bucket(), at(0)));
    assert_eq!(refill(&mut balance, &rules, at(0)), 100);
    assert_eq!(spend_units(&mut balance, &rules, 70, at(0)), 70);
    assert_eq!(balance.take_idle(&rules, seconds(1), at(1_000)), 30);
    assert!(!balance.is_disposable(seconds(1), at(1_000)));
    assert!(balance.can_refill(&rules, 70, at(1_000)) && !balance.can_refill(&rules, 71, at(1_000)));
    // As many more as there is room for.
    assert_eq!(balance.begin_refill(&rules, 60, 40, at(1_000)).units, 70);
    balance.refill_granted(&rules, 70, &taken(&rules, 70, at(1_000)), at(1_000));
    assert!(!balance.can_refill(&rules, 1, at(1_000)), "nothing more is fetched in the background");
    // Half of it, by an answer, and the rest by time.
    balance.return_arrived(15);
    assert!(balance.can_refill(&rules, 85, at(1_000)) && !balance.can_refill(&rules, 86, at(15_999)));
    assert!(balance.can_refill(&rules, 100, at(16_000)));
}

#[test]
fn balance_and_pending_refill_never_exceed_the_maximum() {
    let (rules, mut balance) = (bucket(), Balance::new(at(0)));
    for round in 0..10 {
        refill(&mut balance, &rules, at(round));
        spend(&mut balance, &rules, at(round));
    }
    refill(&mut balance, &rules, at(10));
    for _ in 0..75 {
        let _ = balance.take(&rules, 1, at(10)).unwrap();
    }
    assert!(balance.is_low(at(10)));
    let RefillSize { units, min } = balance.begin_refill(&rules, 1, 0, at(10));
    assert_eq!((units, min), (75, 1), "25 are in the balance");
    assert!(!balance.is_low(at(10)), "one refill is pending");
}

#[test]
fn refill_takes_less_when_the_store_has_less() {
    let rules = bucket();
    let mut state = State::New;
    let mut take = |units: u64| step(&rules.quota, &mut state, Op::Limit(Cost::new(units).unwrap()), at(0)).decision;
    let _ = take(993);
    let size = RefillSize { units: 100, min: 5 };
    // 7 are left.
    assert_eq!(size.step(100, &take(100)), RefillStep::Retry(7));
    assert_eq!(size.step(7, &take(7)), RefillStep::Granted(7));
    // Another process took them: the last attempt requests the minimum.
    assert_eq!(size.step(7, &take(7)), RefillStep::Retry(5));
    assert_eq!(size.step(5, &take(5)), RefillStep::Denied(millis(5)));
    // The next one is all that is size: the first answer says when.
    assert_eq!(RefillSize { units: 100, min: 1 }.step(100, &take(100)), RefillStep::Denied(millis(1)));
    assert_eq!(size.step(100, &Decision::admitted_without_store(1_000)), RefillStep::Fallback);
}

#[test]
fn denials_are_answered_in_process_until_a_refill_can_succeed() {
    let (rules, mut balance) = (bucket(), Balance::new(at(0)));
    let empty = taken(&rules, 1_000, at(0));
    balance.begin_refill(&rules, 1, 0, at(0));
    balance.refill_denied(1, millis(1), millis(10), &empty, at(0));
    let denied = balance.take(&rules, 1, at(0)).unwrap();
    assert_eq!((denied.allowed(), denied.remaining(), denied.retry_after()), (false, 0, Some(millis(10))));
    assert_eq!(balance.take(&rules, 1, at(9)).unwrap().retry_after(), Some(millis(1)));
    // A larger cost takes longer: 50 come in 50 ms.
    assert_eq!(balance.take(&rules, 50, at(9)).unwrap().retry_after(), Some(millis(41)));
    assert_eq!(balance.check(&rules, 50, at(9)).unwrap().retry_after(), Some(millis(41)));
    assert_eq!(balance.take(&rules, 1, at(10)), None);

    // During a long denial the store is asked once a second, and `retry_after` stays exact.
    balance.begin_refill(&rules, 1, 0, at(10));
    balance.refill_denied(1, days(1), millis(10), &empty, at(10));
    assert_eq!(balance.take(&rules, 1, at(1_009)).unwrap().retry_after(), Some(days(1) - millis(999)));
    assert_eq!(balance.take(&rules, 1, at(1_010)), None);
    // A refund ends the denial, too.
    balance.begin_refill(&rules, 1, 0, at(1_010));
    balance.refill_denied(1, days(1), millis(10), &empty, at(1_010));
    balance.record_refund();
    assert_eq!(balance.take(&rules, 1, at(1_010)), None);
}

#[test]
fn units_of_a_window_expire_before_its_end() {
    let minute = seconds(60);
    for quota in [Quota::fixed_window(100, minute), Quota::sliding_window(100, minute * 4).unwrap().buckets(4)] {
        let rules = rules(quota.unwrap(), 10);
        let mut balance = Balance::new(at(59_000));
        balance.begin_refill(&rules, 10, 0, at(59_000));
        // The answer took half a second, and the store decided at some time within.
        let answer = taken(&rules, 10, at(59_300));
        balance.refill_granted(&rules, 10, &answer, at(59_500));
        // 700 ms were left then, counted from the request, and a little less.
        assert!(balance.take(&rules, 1, at(59_696)).unwrap().allowed());
        assert_eq!(balance.take(&rules, 1, at(59_697)), None);
        assert_eq!(balance.take(&rules, 1, at(59_600)), None, "a clock that is set back does not restore them");
    }
}

#[test]
fn refill_slower_than_its_window_adds_nothing() {
    let rules = rules(Quota::fixed_window(100, seconds(1)).unwrap(), 10);
    let mut balance = Balance::new(at(900));
    balance.begin_refill(&rules, 10, 0, at(900));
    balance.refill_granted(&rules, 10, &taken(&rules, 10, at(990)), at(1_200));
    assert_eq!(balance.take(&rules, 1, at(1_200)), None);
}

#[test]
fn units_of_a_window_are_returned_only_in_time() {
    let rules = rules(Quota::fixed_window(100, seconds(60)).unwrap(), 10);
    for (now, expected) in [(40_000, 10), (56_000, 0)] {
        let mut balance = Balance::new(at(30_000));
        balance.begin_refill(&rules, 10, 0, at(30_000));
        balance.refill_granted(&rules, 10, &taken(&rules, 10, at(30_000)), at(30_000));
        assert_eq!(balance.take_idle(&rules, Duration::ZERO, at(now)), expected);
    }
}

#[test]
fn clock_set_back_drops_balance_and_denial() {
    let rules = rules(Quota::fixed_window(100, seconds(60)).unwrap(), 10);
    let mut balance = Balance::new(at(30_000));
    balance.begin_refill(&rules, 10, 0, at(30_000));
    balance.refill_granted(&rules, 10, &taken(&rules, 10, at(30_000)), at(30_000));
    balance.begin_refill(&rules, 10, 0, at(30_000));
    // An hour back: the window of the pending refill is unknown.
    assert_eq!(balance.take(&rules, 1, Timestamp::from_millis(1_799_996_400_000)), None);
    let back = Timestamp::from_millis(1_799_996_400_001);
    balance.refill_granted(&rules, 10, &taken(&rules, 10, back), back);
    assert_eq!(balance.take(&rules, 1, back), None);
    balance.refill_denied(1, days(1), millis(10), &taken(&rules, 100, back), back);
    assert!(balance.take(&rules, 1, back).is_some());
    assert_eq!(balance.take(&rules, 1, Timestamp::from_millis(1_799_996_399_000)), None);
}

#[test]
fn clock_jitter_loses_nothing() {
    for rules in [bucket(), rules(Quota::fixed_window(100, seconds(60)).unwrap(), 10)] {
        let mut balance = Balance::new(at(30_000));
        balance.begin_refill(&rules, 10, 0, at(30_000));
        balance.refill_granted(&rules, 10, &taken(&rules, 10, at(30_000)), at(30_001));
        assert!(balance.take(&rules, 1, at(30_000)).unwrap().allowed());
        assert_eq!(spend(&mut balance, &rules, at(30_000)), 9);
        let empty = taken(&rules, rules.quota.parts().capacity.into(), at(30_001));
        balance.refill_denied(1, days(1), millis(10), &empty, at(30_001));
        assert!(!balance.take(&rules, 1, at(30_000)).unwrap().allowed(), "the denial is remembered");
    }
}

#[test]
fn refill_pending_during_a_reset_is_discarded() {
    let (rules, mut balance) = (bucket(), Balance::new(at(0)));
    balance.begin_refill(&rules, 10, 0, at(0));
    balance.reset();
    balance.refill_granted(&rules, 10, &taken(&rules, 10, at(0)), at(1));
    assert_eq!(balance.take(&rules, 1, at(1)), None);
    balance.begin_refill(&rules, 10, 0, at(1));
    balance.refill_granted(&rules, 10, &taken(&rules, 10, at(1)), at(1));
    assert!(balance.take(&rules, 1, at(1)).unwrap().allowed(), "and the next is");
}

#[test]
fn denial_pending_during_a_refund_is_ignored() {
    let (rules, empty) = (bucket(), taken(&bucket(), 1_000, at(0)));
    for give_back in [Balance::reset, Balance::record_refund] {
        let mut balance = Balance::new(at(0));
        balance.begin_refill(&rules, 1, 0, at(0));
        give_back(&mut balance);
        balance.refill_denied(1, days(1), millis(10), &empty, at(1));
        assert_eq!(balance.take(&rules, 1, at(1)), None);
        assert!(!balance.is_refilling());
        balance.begin_refill(&rules, 1, 0, at(1));
        balance.refill_denied(1, days(1), millis(10), &empty, at(2));
        assert!(!balance.take(&rules, 1, at(2)).unwrap().allowed(), "and the next is");
    }
}

#[test]
fn cost_above_the_maximum_is_left_to_the_store() {
    let (rules, mut balance) = (bucket(), Balance::new(at(0)));
    balance.begin_refill(&rules, 1, 0, at(0));
    balance.refill_denied(1, seconds(1), millis(10), &taken(&rules, 1_000, at(0)), at(0));
    assert!(!balance.take(&rules, rules.max, at(0)).unwrap().allowed());
    assert_eq!(balance.take(&rules, rules.max + 1, at(0)), None);
    assert_eq!(balance.check(&rules, 1_001, at(0)), None, "a denial here would claim that a retry can succeed");
}

#[test]
fn remaining_is_balance_plus_what_the_store_had_left() {
    let (rules, mut balance) = (bucket(), Balance::new(at(0)));
    balance.begin_refill(&rules, 10, 0, at(0));
    balance.refill_granted(&rules, 10, &taken(&rules, 10, at(0)), at(0));
    let decision = balance.take(&rules, 3, at(0)).unwrap();
    assert_eq!((decision.remaining(), decision.limit(), decision.reset_after()), (997, 1_000, millis(10)));
    assert_eq!(balance.check(&rules, 7, at(0)).unwrap().remaining(), 997);
    assert_eq!(balance.check(&rules, 8, at(0)), None, "the store must decide");
    balance.reset();
    assert_eq!(balance.check(&rules, 1, at(0)), None);
}
