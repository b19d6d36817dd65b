//! Tests of the algorithms beyond the oracle: extreme numbers, rebasing, memory and leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::{MAX_COUNT, MAX_PERIOD, seconds};

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + micros)
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

#[test]
fn largest_numbers_are_exact() {
    let quota = Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(MAX_COUNT).unwrap();
    let mut state = State::New;
    let all = step(&quota, &mut state, Op::Limit(cost(MAX_COUNT)), at(0)).decision;
    assert!(all.allowed());
    // Longer than any timestamp: reported as the longest span, and kept exactly.
    assert_eq!(all.reset_after().as_micros(), u128::from(DecisionParts::MAX_SPAN));
    let deficit = u128::from(MAX_COUNT) * MAX_PERIOD.as_micros();
    assert_eq!(state, State::TokenBucket { deficit, last: at(0) });
    let denied = step(&quota, &mut state, Op::Limit(Cost::ONE), at(7)).decision;
    assert_eq!(denied.retry_after().unwrap().as_micros(), MAX_PERIOD.as_micros() - 7);
    let debt = step(&quota, &mut state, Op::Reserve(cost(MAX_COUNT)), at(7)).decision;
    assert!(debt.allowed() && debt.retry_after().is_some());
}

#[test]
fn fixed_window_begins_at_its_start() {
    let quota = Quota::fixed_window(2, seconds(10)).unwrap().start(seconds(3)).unwrap();
    let mut state = State::New;
    let decision = step(&quota, &mut state, Op::Limit(cost(2)), Timestamp::from_millis(1_000)).decision;
    assert_eq!(decision.reset_after(), seconds(2));
    let decision = step(&quota, &mut state, Op::Limit(Cost::ONE), Timestamp::from_millis(3_000)).decision;
    assert!(decision.allowed());
    assert_eq!(decision.reset_after(), seconds(10));
}

#[test]
fn alternating_quotas_still_refill() {
    let free = Quota::token_bucket(10, seconds(1)).unwrap();
    let paid = Quota::token_bucket(30, seconds(1)).unwrap();
    let mut state = State::New;
    step(&free, &mut state, Op::Limit(cost(10)), at(0));
    // Ten seconds of calls far faster than the refill, alternating between the quotas.
    let mut tiers = [free, paid];
    let mut taken = 0;
    for n in 1..=100_000_u64 {
        state = state.rebase(&tiers[0], &tiers[1], at(n * 100));
        tiers.swap(0, 1);
        taken += u64::from(step(&tiers[0], &mut state, Op::Limit(Cost::ONE), at(n * 100)).decision.allowed());
    }
    // 30 a second under the better quota, and the 20 by which it is larger. Rounding may cost a few units, never all.
    assert!((300..=320).contains(&taken), "{taken}");
}

#[test]
fn downgrade_keeps_used_units_as_debt() {
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
fn used_units_are_kept_between_algorithms() {
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
fn log_keeps_one_run_per_microsecond() {
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
fn log_frees_memory_after_a_burst() {
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
fn requests_with_the_same_key_are_decided_by_their_sum() {
    let quota = Quota::token_bucket(10, seconds(10)).unwrap();
    let entry = |units| JointEntry { quota: &quota, cost: cost(units), state: 0 };
    let mut states = [State::New];
    // Each request fits alone. After a wait for two more units, the second still would not: both together never fit.
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

fn admit(bits: u64) -> Op {
    Op::Admit(Lease::from_bits(bits))
}

fn renew(bits: u64) -> Op {
    Op::Renew(Lease::from_bits(bits))
}

fn release(bits: u64) -> Op {
    Op::Release(Lease::from_bits(bits))
}

/// Applies an operation at a time. Returns whether it is allowed, the leases left, and the retry hint in microseconds.
fn step_at(quota: &Quota, state: &mut State, op: Op, micros: u64) -> (bool, u64, Option<u128>) {
    let decision = step(quota, state, op, at(micros)).decision;
    (decision.allowed(), decision.remaining(), decision.retry_after().map(|wait| wait.as_micros()))
}

#[test]
fn lease_expires_exactly_at_its_time() {
    let quota = Quota::concurrency(2, seconds(1)).unwrap();
    let mut state = State::New;
    assert_eq!(step_at(&quota, &mut state, admit(1), 0), (true, 1, None));
    assert_eq!(step_at(&quota, &mut state, admit(2), 400_000), (true, 0, None));
    assert_eq!(step_at(&quota, &mut state, admit(3), 999_999), (false, 0, Some(1)));
    assert_eq!(step_at(&quota, &mut state, renew(2), 999_999), (true, 0, None));
    assert_eq!(step_at(&quota, &mut state, renew(1), 1_000_000), (false, 1, None), "it has expired");
    assert_eq!(step_at(&quota, &mut state, admit(3), 1_000_000), (true, 0, None));
    assert_eq!(
        step_at(&quota, &mut state, release(1), 1_000_001),
        (false, 0, None),
        "expired, and another lease took its room"
    );
    let last = step(&quota, &mut state, release(2), at(1_000_001)).decision;
    assert_eq!((last.next_after(), last.reset_after()), (Some(last.reset_after()), Duration::from_micros(999_999)));
    assert_eq!(step_at(&quota, &mut state, release(3), 1_000_002), (true, 2, None));
    assert_eq!(state, State::New);
}

/// Many leases have an index that is updated with them. No decision depends on it.
#[test]
fn many_leases_decide_like_few() {
    const CAPACITY: u64 = 20_100;
    const TTL: u64 = 500_000;
    let quota = Quota::concurrency(CAPACITY, Duration::from_micros(TTL)).unwrap();
    // The expiry of each lease in flight, and the leases by expiry. Several expire at the same time.
    let mut held: BTreeMap<u64, u64> = (0..20_000).map(|lease| (lease * 2, 1 + lease / 4 * 100)).collect();
    let mut by_expiry: BTreeSet<(u64, u64)> = held.iter().map(|(lease, expires)| (*expires, *lease)).collect();
    let entries = by_expiry.iter().map(|(expires, lease)| (at(*expires), Lease::from_bits(*lease)));
    let mut state = State::Leases(Leases::from_entries(entries.rev(), at(0)));
    let mut random = 0_u64;
    for micros in (0..15_000).map(|turn| turn / 3 * 10) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (lease, choice) = ((random >> 33) % 40_000, (random >> 20) % 8);
        let op = match choice {
            0..4 => admit(lease),
            4..6 => renew(lease),
            _ => release(lease),
        };
        while let Some((expires, lease)) = by_expiry.first().copied().filter(|(expires, _)| *expires <= micros) {
            by_expiry.remove(&(expires, lease));
            held.remove(&lease);
        }
        let is_held = held.contains_key(&lease);
        let is_free = (held.len() as u64) < CAPACITY;
        let expected = is_held || (matches!(op, Op::Admit(_)) && is_free);
        if let Some(expires) = expected.then(|| held.remove(&lease)).flatten() {
            by_expiry.remove(&(expires, lease));
        }
        if expected && !matches!(op, Op::Release(_)) {
            held.insert(lease, micros + TTL);
            by_expiry.insert((micros + TTL, lease));
        }
        let (allowed, remaining, _) = step_at(&quota, &mut state, op, micros);
        assert_eq!((allowed, remaining), (expected, CAPACITY - held.len() as u64), "{op:?} at {micros}");
    }
    let State::Leases(leases) = &state else { panic!("leases in flight") };
    let in_flight: Vec<_> = leases.entries().skip_while(|(expires, _)| *expires <= at(49_990)).collect();
    let expected: Vec<_> = by_expiry.iter().map(|(expires, lease)| (at(*expires), Lease::from_bits(*lease))).collect();
    assert_eq!(in_flight, expected);
}

/// Takes minutes if each operation scans all leases.
#[test]
fn operations_with_many_leases_in_flight_are_searches_in_an_index() {
    const COUNT: u64 = 200_000;
    let quota = Quota::concurrency(COUNT, seconds(60)).unwrap();
    let entries = (0..COUNT).map(|id| (at(id + 60_000_000), Lease::from_bits(id)));
    let mut state = State::Leases(Leases::from_entries(entries, at(COUNT)));
    for id in COUNT..COUNT * 2 {
        assert!(!step(&quota, &mut state, admit(id), at(COUNT)).decision.allowed());
    }
    // All but the newest expire.
    assert!(step(&quota, &mut state, renew(COUNT / 2), at(COUNT)).decision.allowed());
    assert_eq!(step_at(&quota, &mut state, release(0), 60_000_000 + COUNT - 1).1, COUNT - 1);
    let busy = state.heap_bytes();
    assert!(step(&quota, &mut state, admit(0), at(60_000_000 + COUNT - 1)).decision.allowed());
    assert!(state.heap_bytes() * 100 < busy, "{} after {busy}", state.heap_bytes());
}

#[test]
fn lease_admitted_twice_counts_once() {
    let quota = Quota::concurrency(1, seconds(1)).unwrap();
    let mut state = State::New;
    assert!(step_at(&quota, &mut state, admit(1), 0).0);
    assert_eq!(step_at(&quota, &mut state, admit(1), 600_000), (true, 0, None));
    // The second `admit` renewed it.
    assert_eq!(step_at(&quota, &mut state, admit(2), 600_000), (false, 0, Some(1_000_000)));
}

#[test]
fn retry_hint_waits_for_all_leases_beyond_the_capacity() {
    let [many, few] = [5, 2].map(|capacity| Quota::concurrency(capacity, seconds(1)).unwrap());
    let mut state = State::New;
    for n in 0..5 {
        step(&many, &mut state, admit(n), at(n * 10));
    }
    let mut state = state.rebase(&many, &few, at(50));
    let denied = step(&few, &mut state, admit(9), at(50)).decision;
    assert_eq!(denied.retry_after(), Some(Duration::from_micros(1_000_030 - 50)));
    assert_eq!(denied.next_after(), denied.retry_after());
    assert!(!step_at(&few, &mut state, admit(9), 1_000_029).0);
    assert!(step_at(&few, &mut state, admit(9), 1_000_030).0);
}

#[test]
fn shorter_ttl_applies_to_new_leases_only() {
    let [long, short] = [10, 1].map(|ttl| Quota::concurrency(2, seconds(ttl)).unwrap());
    let mut state = State::New;
    step(&long, &mut state, admit(1), at(0));
    let mut state = state.rebase(&long, &short, at(0));
    step(&short, &mut state, admit(2), at(0));
    assert_eq!(step_at(&short, &mut state, admit(3), 0), (false, 0, Some(1_000_000)));
    assert_eq!(step_at(&short, &mut state, admit(3), 1_000_000), (true, 0, None));
    assert!(step_at(&short, &mut state, renew(1), 9_999_999).0);
}

#[test]
fn state_is_reset_between_leases_and_rates() {
    let (leases, rate) = (Quota::concurrency(2, seconds(60)).unwrap(), Quota::sliding_log(2, seconds(60)).unwrap());
    let mut state = State::New;
    step(&leases, &mut state, admit(1), at(0));
    assert_eq!(state.rebase(&leases, &rate, at(0)), State::New);
    let mut state = State::New;
    step(&rate, &mut state, Op::Limit(Cost::ONE), at(0));
    assert_eq!(state.rebase(&rate, &leases, at(0)), State::New);
}

#[test]
fn unsupported_operation_is_denied_forever() {
    let cost = Cost::ONE;
    let of_units = [Op::Limit(cost), Op::Reserve(cost), Op::Refund(cost)];
    let of_leases = [admit(1), renew(1), release(1)];
    for algorithm in Algorithm::ALL {
        let quota = Quota::new(algorithm, 5, seconds(1)).unwrap();
        let (own, others) = match algorithm {
            Algorithm::Concurrency => (of_leases, of_units),
            _ => (of_units, of_leases),
        };
        let mut state = State::New;
        step(&quota, &mut state, own[0], at(0));
        for op in others {
            let before = state.clone();
            let outcome = step(&quota, &mut state, op, at(1));
            assert!(!quota.supports(op) && !outcome.changed && state == before, "{algorithm} {op:?}");
            let decision = outcome.decision;
            assert_eq!((decision.allowed(), decision.remaining(), decision.retry_after()), (false, 4, None));
            assert_eq!(decision.reason(), Some(Reason::CostExceedsCapacity));
        }
        for op in own.into_iter().chain([Op::Check(cost), Op::Reset]) {
            assert!(quota.supports(op), "{algorithm} {op:?}");
        }
    }
}

#[test]
fn leases_free_memory_after_a_burst() {
    let quota = Quota::concurrency(100_000, seconds(1)).unwrap();
    let mut state = State::New;
    for n in 0..10_000 {
        step(&quota, &mut state, admit(n), at(n));
    }
    let busy = state.heap_bytes();
    assert!(busy <= 10_000 * 16 * 2, "{busy}");
    step(&quota, &mut state, admit(0), at(10_000_000));
    assert!(state.heap_bytes() * 100 < busy, "{} after {busy}", state.heap_bytes());
}

#[test]
fn operation_is_two_words() {
    assert_eq!(size_of::<Op>(), 16);
}
