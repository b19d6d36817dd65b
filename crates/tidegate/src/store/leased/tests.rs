//! The rules of a lease, step by step, without a store.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::{Cost, Decision, Op, Quota, State, Timestamp, days, millis, seconds, step};

use super::hand::{Hand, Next, Wanted};
use super::rules::Rules;

fn at(millis: u64) -> Timestamp {
    // The beginning of a minute, far from the epoch.
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

fn rules(quota: Quota, replicas: u32) -> Rules {
    Rules::new(&quota, NonZeroU32::new(replicas).unwrap()).expect("a quota that is leased")
}

fn bucket() -> Rules {
    rules(Quota::token_bucket(1_000, seconds(1)).unwrap(), 10)
}

/// What a store with nothing else to do answers to who takes that much.
fn taken(rules: &Rules, units: u64, now: Timestamp) -> Decision {
    step(&rules.quota, &mut State::New, Op::Limit(Cost::new(units).unwrap()), now).decision
}

/// Asks for a batch and gets it.
fn refill(hand: &mut Hand, rules: &Rules, now: Timestamp) -> u64 {
    let Wanted { units, .. } = hand.ask(rules, 1, 0, now);
    hand.granted(rules, units, &taken(rules, units, now), now);
    units
}

/// Spends all of it.
fn spend(hand: &mut Hand, rules: &Rules, now: Timestamp) -> u64 {
    (0..).take_while(|_| hand.take(rules, 1, now).is_some_and(|decision| decision.allowed())).count() as u64
}

#[test]
fn which_quotas_are_leased() {
    let leased = |quota: Result<Quota, _>, replicas| {
        Rules::new(&quota.unwrap(), NonZeroU32::new(replicas).unwrap()).map(|rules| rules.most)
    };
    assert_eq!(leased(Quota::token_bucket(100, seconds(1)), 16), Some(6));
    assert_eq!(leased(Quota::fixed_window(33, seconds(1)), 16), Some(2));
    assert_eq!(leased(Quota::fixed_window(31, seconds(1)), 16), None, "1 for each is what is asked for anyway");
    assert_eq!(leased(Quota::sliding_window(100, seconds(1)), 1), Some(100));
    assert_eq!(leased(Quota::sliding_log(100, seconds(1)), 1), None);
    assert_eq!(leased(Quota::concurrency(100, seconds(1)), 1), None);
    // Most of a batch would be lost with the window.
    assert_eq!(leased(Quota::fixed_window(100, millis(500)), 1), Some(100));
    assert_eq!(leased(Quota::fixed_window(100, millis(499)), 1), None);
    assert_eq!(leased(Quota::sliding_window(100, seconds(2)).unwrap().buckets(4), 1), Some(100));
    assert_eq!(leased(Quota::sliding_window(100, seconds(2)).unwrap().buckets(5), 1), None);
}

#[test]
fn batches_grow_while_they_are_spent_quickly_up_to_the_part_of_a_process() {
    let (rules, mut hand, mut sizes) = (bucket(), Hand::new(at(0)), Vec::new());
    for round in 0..9 {
        sizes.push(refill(&mut hand, &rules, at(round)));
        assert_eq!(spend(&mut hand, &rules, at(round)), *sizes.last().unwrap());
    }
    assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    // As long as it should last: the same again. Much longer: half.
    assert_eq!(refill(&mut hand, &rules, at(8 + 20)), 100);
    spend(&mut hand, &rules, at(28));
    assert_eq!(refill(&mut hand, &rules, at(28 + 80)), 50);
}

#[test]
fn batches_shrink_when_they_are_denied_or_given_back() {
    let (rules, mut hand) = (bucket(), Hand::new(at(0)));
    for round in 0..5 {
        refill(&mut hand, &rules, at(round));
        spend(&mut hand, &rules, at(round));
    }
    // Of 16.
    hand.ask(&rules, 1, 0, at(30));
    hand.refused(1, millis(1), millis(10), &taken(&rules, 1_000, at(30)), at(30));
    assert_eq!(refill(&mut hand, &rules, at(60)), 8);
    assert_eq!(hand.give_back(&rules, millis(100), at(159)), 0, "it is not idle yet");
    assert_eq!(hand.give_back(&rules, millis(100), at(160)), 8);
    assert_eq!(hand.give_back(&rules, millis(100), at(160)), 0, "nothing is given back twice");
    assert_eq!(hand.ask(&rules, 1, 0, at(160)).units, 2, "half for being given back, half for lasting so long");
}

#[test]
fn batches_shrink_when_a_window_ends_before_they_are_spent() {
    let rules = rules(Quota::fixed_window(1_000, millis(500)).unwrap(), 10);
    let (mut hand, mut taken_of_it, mut now) = (Hand::new(at(0)), 0, 0);
    // One each 10 ms, for a hundred windows: less than a tenth of what could be had.
    for _ in 0..5_000 {
        now += 10;
        if hand.take(&rules, 1, at(now)).is_none() {
            taken_of_it += refill(&mut hand, &rules, at(now));
            assert!(hand.take(&rules, 1, at(now)).unwrap().allowed());
        }
    }
    assert!(taken_of_it < 5_000 * 11 / 10, "{taken_of_it} taken for 5,000");
    // One that is lost with its window is followed by half of it, though the next is fetched at once.
    let mut hand = Hand::grown(&rules, at(490));
    assert_eq!(refill(&mut hand, &rules, at(490)), 100);
    assert_eq!(hand.take(&rules, 1, at(500)), None);
    assert_eq!(hand.ask(&rules, 1, 0, at(500)).units, 50);
}

#[test]
fn in_hand_and_on_its_way_is_never_more_than_the_most() {
    let (rules, mut hand) = (bucket(), Hand::new(at(0)));
    for round in 0..10 {
        refill(&mut hand, &rules, at(round));
        spend(&mut hand, &rules, at(round));
    }
    refill(&mut hand, &rules, at(10));
    for _ in 0..75 {
        let _ = hand.take(&rules, 1, at(10)).unwrap();
    }
    assert!(hand.is_low(at(10)));
    let Wanted { units, least } = hand.ask(&rules, 1, 0, at(10));
    assert_eq!((units, least), (75, 1), "25 are in hand");
    assert!(!hand.is_low(at(10)), "one refill is on its way");
}

#[test]
fn what_the_store_has_not_is_asked_for_in_part() {
    let rules = bucket();
    let mut state = State::New;
    let mut take = |units: u64| step(&rules.quota, &mut state, Op::Limit(Cost::new(units).unwrap()), at(0)).decision;
    let _ = take(993);
    let wanted = Wanted { units: 100, least: 5 };
    // 7 are left.
    assert_eq!(wanted.next(100, &take(100)), Next::Ask(7));
    assert_eq!(wanted.next(7, &take(7)), Next::Granted(7));
    // Somebody else had them: then only what is needed.
    assert_eq!(wanted.next(7, &take(7)), Next::Ask(5));
    assert_eq!(wanted.next(5, &take(5)), Next::Refused(millis(5)));
    // The next one is all that is wanted: the first answer says when.
    assert_eq!(Wanted { units: 100, least: 1 }.next(100, &take(100)), Next::Refused(millis(1)));
    assert_eq!(wanted.next(100, &Decision::admitted_without_store(1_000)), Next::Broken);
}

#[test]
fn denials_are_answered_until_the_store_may_have_more() {
    let (rules, mut hand) = (bucket(), Hand::new(at(0)));
    let empty = taken(&rules, 1_000, at(0));
    hand.ask(&rules, 1, 0, at(0));
    hand.refused(1, millis(1), millis(10), &empty, at(0));
    let denied = hand.take(&rules, 1, at(0)).unwrap();
    assert_eq!((denied.allowed(), denied.remaining(), denied.retry_after()), (false, 0, Some(millis(10))));
    assert_eq!(hand.take(&rules, 1, at(9)).unwrap().retry_after(), Some(millis(1)));
    // A larger cost takes longer: 50 come in 50 ms.
    assert_eq!(hand.take(&rules, 50, at(9)).unwrap().retry_after(), Some(millis(41)));
    assert_eq!(hand.check(&rules, 50, at(9)).unwrap().retry_after(), Some(millis(41)));
    assert_eq!(hand.take(&rules, 1, at(10)), None);

    // A long denial is looked at again, and says the truth meanwhile.
    hand.ask(&rules, 1, 0, at(10));
    hand.refused(1, days(1), millis(10), &empty, at(10));
    assert_eq!(hand.take(&rules, 1, at(1_009)).unwrap().retry_after(), Some(days(1) - millis(999)));
    assert_eq!(hand.take(&rules, 1, at(1_010)), None);
    // So it is when somebody has given back.
    hand.ask(&rules, 1, 0, at(1_010));
    hand.refused(1, days(1), millis(10), &empty, at(1_010));
    hand.given_back();
    assert_eq!(hand.take(&rules, 1, at(1_010)), None);
}

#[test]
fn what_was_taken_in_a_window_is_worth_nothing_after_it() {
    let minute = seconds(60);
    for quota in [Quota::fixed_window(100, minute), Quota::sliding_window(100, minute * 4).unwrap().buckets(4)] {
        let rules = rules(quota.unwrap(), 10);
        let mut hand = Hand::new(at(59_000));
        hand.ask(&rules, 10, 0, at(59_000));
        // The answer has taken half a second, and the store decided at some time within.
        let answer = taken(&rules, 10, at(59_300));
        hand.granted(&rules, 10, &answer, at(59_500));
        // 700 ms were left then: counted from when it was asked, and a little less.
        assert!(hand.take(&rules, 1, at(59_696)).unwrap().allowed());
        assert_eq!(hand.take(&rules, 1, at(59_697)), None);
        assert_eq!(hand.take(&rules, 1, at(59_600)), None, "they do not come back when the clock is set back");
    }
}

#[test]
fn a_refill_that_takes_longer_than_the_window_brings_nothing() {
    let rules = rules(Quota::fixed_window(100, seconds(1)).unwrap(), 10);
    let mut hand = Hand::new(at(900));
    hand.ask(&rules, 10, 0, at(900));
    hand.granted(&rules, 10, &taken(&rules, 10, at(990)), at(1_200));
    assert_eq!(hand.take(&rules, 1, at(1_200)), None);
}

#[test]
fn a_windows_quota_is_given_back_only_in_time() {
    let rules = rules(Quota::fixed_window(100, seconds(60)).unwrap(), 10);
    for (now, expected) in [(40_000, 10), (56_000, 0)] {
        let mut hand = Hand::new(at(30_000));
        hand.ask(&rules, 10, 0, at(30_000));
        hand.granted(&rules, 10, &taken(&rules, 10, at(30_000)), at(30_000));
        assert_eq!(hand.give_back(&rules, Duration::ZERO, at(now)), expected);
    }
}

#[test]
fn a_clock_that_was_set_back_keeps_no_lease_and_no_denial() {
    let rules = rules(Quota::fixed_window(100, seconds(60)).unwrap(), 10);
    let mut hand = Hand::new(at(30_000));
    hand.ask(&rules, 10, 0, at(30_000));
    hand.granted(&rules, 10, &taken(&rules, 10, at(30_000)), at(30_000));
    hand.ask(&rules, 10, 0, at(30_000));
    // An hour back; what was on its way then is of a window that nobody can place.
    assert_eq!(hand.take(&rules, 1, Timestamp::from_millis(1_799_996_400_000)), None);
    let back = Timestamp::from_millis(1_799_996_400_001);
    hand.granted(&rules, 10, &taken(&rules, 10, back), back);
    assert_eq!(hand.take(&rules, 1, back), None);
    hand.refused(1, days(1), millis(10), &taken(&rules, 100, back), back);
    assert!(hand.take(&rules, 1, back).is_some());
    assert_eq!(hand.take(&rules, 1, Timestamp::from_millis(1_799_996_399_000)), None);
}

#[test]
fn a_clock_that_goes_back_a_little_loses_nothing() {
    for rules in [bucket(), rules(Quota::fixed_window(100, seconds(60)).unwrap(), 10)] {
        let mut hand = Hand::new(at(30_000));
        hand.ask(&rules, 10, 0, at(30_000));
        hand.granted(&rules, 10, &taken(&rules, 10, at(30_000)), at(30_001));
        assert!(hand.take(&rules, 1, at(30_000)).unwrap().allowed());
        assert_eq!(spend(&mut hand, &rules, at(30_000)), 9);
        let empty = taken(&rules, rules.quota.parts().capacity.into(), at(30_001));
        hand.refused(1, days(1), millis(10), &empty, at(30_001));
        assert!(!hand.take(&rules, 1, at(30_000)).unwrap().allowed(), "the denial is remembered");
    }
}

#[test]
fn what_was_on_its_way_when_the_key_began_anew_is_not_spent() {
    let (rules, mut hand) = (bucket(), Hand::new(at(0)));
    hand.ask(&rules, 10, 0, at(0));
    hand.forget();
    hand.granted(&rules, 10, &taken(&rules, 10, at(0)), at(1));
    assert_eq!(hand.take(&rules, 1, at(1)), None);
    hand.ask(&rules, 10, 0, at(1));
    hand.granted(&rules, 10, &taken(&rules, 10, at(1)), at(1));
    assert!(hand.take(&rules, 1, at(1)).unwrap().allowed(), "and the next is");
}

#[test]
fn a_refusal_that_was_on_its_way_when_something_was_given_back_is_not_believed() {
    let (rules, empty) = (bucket(), taken(&bucket(), 1_000, at(0)));
    for give_back in [Hand::forget, Hand::given_back] {
        let mut hand = Hand::new(at(0));
        hand.ask(&rules, 1, 0, at(0));
        give_back(&mut hand);
        hand.refused(1, days(1), millis(10), &empty, at(1));
        assert_eq!(hand.take(&rules, 1, at(1)), None);
        assert!(!hand.is_asking());
        hand.ask(&rules, 1, 0, at(1));
        hand.refused(1, days(1), millis(10), &empty, at(2));
        assert!(!hand.take(&rules, 1, at(2)).unwrap().allowed(), "and the next is");
    }
}

#[test]
fn what_is_more_than_a_process_may_have_is_for_the_store_to_deny() {
    let (rules, mut hand) = (bucket(), Hand::new(at(0)));
    hand.ask(&rules, 1, 0, at(0));
    hand.refused(1, seconds(1), millis(10), &taken(&rules, 1_000, at(0)), at(0));
    assert!(!hand.take(&rules, rules.most, at(0)).unwrap().allowed());
    assert_eq!(hand.take(&rules, rules.most + 1, at(0)), None);
    assert_eq!(hand.check(&rules, 1_001, at(0)), None, "it would say that it can be retried");
}

#[test]
fn what_remains_is_in_hand_and_what_the_store_said() {
    let (rules, mut hand) = (bucket(), Hand::new(at(0)));
    hand.ask(&rules, 10, 0, at(0));
    hand.granted(&rules, 10, &taken(&rules, 10, at(0)), at(0));
    let decision = hand.take(&rules, 3, at(0)).unwrap();
    assert_eq!((decision.remaining(), decision.limit(), decision.reset_after()), (997, 1_000, millis(10)));
    assert_eq!(hand.check(&rules, 7, at(0)).unwrap().remaining(), 997);
    assert_eq!(hand.check(&rules, 8, at(0)), None, "the store has to say");
    hand.forget();
    assert_eq!(hand.check(&rules, 1, at(0)), None);
}
