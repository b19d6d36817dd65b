use super::*;
use crate::{MAX_COUNT, MAX_PERIOD, seconds};

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + micros)
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

#[test]
fn extremes_are_exact() {
    let quota = Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(MAX_COUNT).unwrap();
    let mut state = State::New;
    let all = step(&quota, &mut state, Op::Limit(cost(MAX_COUNT)), at(0)).decision;
    assert!(all.allowed());
    // Longer than any timestamp: reported as the longest span there is, and kept exactly all the same.
    assert_eq!(all.reset_after().as_micros(), u128::from(DecisionParts::LONGEST));
    let deficit = u128::from(MAX_COUNT) * MAX_PERIOD.as_micros();
    assert_eq!(state, State::TokenBucket { deficit, last: at(0) });
    let denied = step(&quota, &mut state, Op::Limit(Cost::ONE), at(7)).decision;
    assert_eq!(denied.retry_after().unwrap().as_micros(), MAX_PERIOD.as_micros() - 7);
    let debt = step(&quota, &mut state, Op::Reserve(cost(MAX_COUNT)), at(7)).decision;
    assert!(debt.allowed() && debt.retry_after().is_some());
}

#[test]
fn a_fixed_window_moves_with_its_start() {
    let quota = Quota::fixed_window(2, seconds(10)).unwrap().start(seconds(3)).unwrap();
    let mut state = State::New;
    let decision = step(&quota, &mut state, Op::Limit(cost(2)), Timestamp::from_millis(1_000)).decision;
    assert_eq!(decision.reset_after(), seconds(2));
    let decision = step(&quota, &mut state, Op::Limit(Cost::ONE), Timestamp::from_millis(3_000)).decision;
    assert!(decision.allowed());
    assert_eq!(decision.reset_after(), seconds(10));
}

#[test]
fn alternating_tiers_still_refill() {
    let free = Quota::token_bucket(10, seconds(1)).unwrap();
    let paid = Quota::token_bucket(30, seconds(1)).unwrap();
    let mut state = State::New;
    step(&free, &mut state, Op::Limit(cost(10)), at(0));
    // Ten seconds of polling far faster than the refill, each time under the other quota.
    let mut tiers = [free, paid];
    let mut taken = 0;
    for n in 1..=100_000_u64 {
        state = state.rebase(&tiers[0], &tiers[1], at(n * 100));
        tiers.swap(0, 1);
        taken += u64::from(step(&tiers[0], &mut state, Op::Limit(Cost::ONE), at(n * 100)).decision.allowed());
    }
    // 30 a second under the better quota and the 20 by which it is larger; rounding may cost a little, never all.
    assert!((300..=320).contains(&taken), "{taken}");
}

#[test]
fn a_downgrade_keeps_what_was_used_as_debt() {
    let paid = Quota::token_bucket(1_000, seconds(100)).unwrap();
    let free = Quota::token_bucket(10, seconds(100)).unwrap();
    let mut state = State::New;
    step(&paid, &mut state, Op::Limit(cost(500)), at(0));
    let mut state = state.rebase(&paid, &free, at(0));
    let decision = step(&free, &mut state, Op::Check(Cost::ONE), at(0)).decision;
    assert_eq!(decision.retry_after(), Some(seconds(4_910)));
    // And back up: nothing was forgiven on the way.
    let mut state = state.rebase(&free, &paid, at(0));
    assert_eq!(step(&paid, &mut state, Op::Check(Cost::ONE), at(0)).decision.remaining(), 500);
}

#[test]
fn what_was_used_moves_between_algorithms() {
    let quotas = [
        Quota::token_bucket(10, seconds(60)).unwrap(),
        Quota::fixed_window(10, seconds(60)).unwrap(),
        Quota::sliding_window(10, seconds(60)).unwrap(),
        Quota::sliding_window(10, seconds(60)).unwrap().buckets(6).unwrap(),
        Quota::sliding_log(10, seconds(60)).unwrap(),
    ];
    for from in &quotas {
        for to in &quotas {
            let mut state = State::New;
            step(from, &mut state, Op::Limit(cost(7)), at(0));
            let mut state = state.rebase(from, to, at(0));
            let decision = step(to, &mut state, Op::Check(Cost::ONE), at(0)).decision;
            assert_eq!(decision.remaining(), 3, "{from:?} to {to:?}");
        }
    }
}

#[test]
fn a_log_keeps_one_run_for_one_microsecond() {
    let quota = Quota::sliding_log(1_000_000, seconds(1)).unwrap();
    let mut state = State::New;
    for _ in 0..10_000 {
        step(&quota, &mut state, Op::Limit(Cost::ONE), at(5));
    }
    assert!(state.heap_bytes() <= 128, "{}", state.heap_bytes());
    let State::SlidingLog(log) = &state else { panic!("{state:?}") };
    assert_eq!(log.runs().collect::<Vec<_>>(), [(at(5), 10_000)]);
}

#[test]
fn a_log_gives_room_back_after_a_burst() {
    let quota = Quota::sliding_log(100_000, seconds(1)).unwrap();
    let mut state = State::New;
    for n in 0..50_000 {
        step(&quota, &mut state, Op::Limit(Cost::ONE), at(n));
    }
    let busy = state.heap_bytes();
    step(&quota, &mut state, Op::Limit(Cost::ONE), at(10_000_000));
    assert!(state.heap_bytes() * 100 < busy, "{} after {busy}", state.heap_bytes());
}

#[test]
fn the_same_key_twice_is_judged_by_its_sum() {
    let quota = Quota::token_bucket(10, seconds(10)).unwrap();
    let entry = |units| Entry { quota: &quota, cost: cost(units), state: 0 };
    let mut states = [State::New];
    // Each alone would fit, and after a wait for two more units the second still would not: together never.
    let all = step_all(&[entry(6), entry(6)], &mut states, at(0));
    assert!(!all.allowed());
    assert_eq!(all.retry_after(), None);
    assert_eq!(all.decisions()[1].reason(), Some(Reason::CostExceedsCapacity));
    assert_eq!(states[0], State::New);

    let all = step_all(&[entry(3), entry(4)], &mut states, at(0));
    assert!(all.allowed());
    assert_eq!(all.decisions().iter().map(Decision::remaining).collect::<Vec<_>>(), [7, 3]);

    let all = step_all(&[entry(3), entry(4)], &mut states, at(0));
    assert_eq!(all.retry_after(), Some(seconds(4)));
    assert!(step_all(&[entry(3), entry(4)], &mut states, at(4_000_000)).allowed());
}
