//! Decisions in the special cases of the functions, compared step by step with the memory store.

use std::time::Duration;

use tidegate::store::{Op, Request, Scope, TestableStore};
use tidegate::{Cost, Key, MAX_COUNT, MemoryStore, OnStoreError, Quota, Timestamp, days, hours, millis, seconds};
use tidegate_testkit::{Random, oracle};

use crate::support::{client, run, store_in_table, subject, unique_name};

#[test]
fn log_longer_than_a_reply_agrees() {
    let (table, client) = (unique_name("log"), client());
    let store = store_in_table(&table);
    // Adds to the running totals of a stored log, which keeps its meaning.
    let raise = format!(
        "UPDATE {table} SET state = ARRAY(SELECT CASE WHEN i % 2 = 0 THEN n + 4503599627370496 ELSE n END \
         FROM unnest(state) WITH ORDINALITY AS t (n, i) ORDER BY i) WHERE key = $1"
    );
    let quota = Quota::sliding_log(60, seconds(100)).unwrap().max_debt(40).unwrap();
    for seed in 0..12 {
        run(oracle::compare_stores(
            &subject(&store),
            &MemoryStore::new(),
            &quota,
            (seed, 4_000_000, 30),
            async |step, scope: &Scope| {
                if step == 75 {
                    let name = format!("{}|u1", scope.as_str()).into_bytes();
                    assert_eq!(client.execute(&raise, &[&name]).await.unwrap(), 1);
                }
            },
        ));
    }
}

#[test]
fn bucket_deficit_around_53_bits_agrees() {
    let store = store_in_table(&unique_name("bucket"));
    // 31,622,400,000,000 sub-units each: 285 of them are the first that do not fit in 53 bits.
    let year = Quota::token_bucket(1, days(366)).unwrap();
    for capacity in [140, 284, 285, 286, 570, 5_000] {
        for debt in [0, 100, 300] {
            let quota = year.capacity(capacity).unwrap().max_debt(debt).unwrap();
            let numbers = (debt, 40_000_000_000_000, capacity);
            run(oracle::compare_stores(
                &subject(&store),
                &MemoryStore::new(),
                &quota,
                numbers,
                async |_, _: &Scope| (),
            ));
        }
    }
}

#[test]
fn products_beyond_64_bits_agree() {
    let store = store_in_table(&unique_name("large"));
    let quotas = [
        Quota::token_bucket(4_294_967_291, days(366)).unwrap().capacity(MAX_COUNT).unwrap(),
        Quota::token_bucket(1, days(366)).unwrap().capacity(MAX_COUNT).unwrap(),
        Quota::fixed_window(1, days(366)).unwrap().capacity(MAX_COUNT).unwrap(),
        Quota::fixed_window(MAX_COUNT, millis(1)).unwrap(),
        Quota::sliding_window(MAX_COUNT, days(366)).unwrap(),
        Quota::sliding_window(MAX_COUNT, days(366)).unwrap().buckets(64).unwrap(),
        Quota::sliding_log(MAX_COUNT, days(366)).unwrap(),
    ];
    for (seed, quota) in quotas.iter().enumerate() {
        let numbers = (seed as u64, 3_000_000_000_000, MAX_COUNT);
        run(oracle::compare_stores(&subject(&store), &MemoryStore::new(), quota, numbers, async |_, _: &Scope| ()));
    }
}

/// A sliding window whose last bucket has more than can be multiplied by its length in 64 bits.
#[test]
fn weighted_count_beyond_64_bits_agrees() {
    let (subject, memory) = (subject(&store_in_table(&unique_name("weight"))), MemoryStore::new());
    let (length, quota) = (366 * 86_400_000_000, Quota::sliding_window(MAX_COUNT, days(366)).unwrap());
    let (scope, key) = (subject.scope("weight", "a"), Key::from("u1"));
    let begins = 1_700_000_000_000_000 / length * length;
    // A tenth into the bucket, nine tenths of the 200,000 count, so 145,000 do not fit.
    let limits = [(begins - 1, 200_000), (begins, 1), (begins + length / 10, MAX_COUNT - 145_000)];
    let more = [(begins + length / 10, MAX_COUNT - 180_000), (begins + length / 10, MAX_COUNT - 180_002)];
    for (at, cost) in limits.into_iter().chain(more) {
        let (at, op) = (Timestamp::from_micros(at), Op::Limit(Cost::new(cost).unwrap()));
        let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
        let expected = run(memory.apply_at(&request, at)).unwrap().into_parts();
        let actual = run(subject.store().apply_at(&request, at)).unwrap().into_parts();
        assert_eq!(actual, expected, "{op:?} at {at:?}");
    }
}

/// Windows begin at `start` plus whole periods, also before the first start.
#[test]
fn times_before_the_window_start_agree() {
    let (subject, memory) = (subject(&store_in_table(&unique_name("start"))), MemoryStore::new());
    let quota = Quota::fixed_window(2, seconds(3)).unwrap().capacity(50).unwrap().start(seconds(1)).unwrap();
    let (scope, key, op) = (subject.scope("start", "a"), Key::from("u1"), Op::Limit(Cost::ONE));
    let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
    for at in [0, 1, 400_000, 999_999, 1_000_000, 1_000_001, 3_999_999, 4_000_000, 4_000_001, 4_000_002, 7_000_000] {
        for _ in 0..2 {
            let at = Timestamp::from_micros(at);
            let expected = run(memory.apply_at(&request, at)).unwrap().into_parts();
            let actual = run(subject.store().apply_at(&request, at)).unwrap().into_parts();
            assert_eq!(actual, expected, "{at:?}");
        }
    }
}

/// Decisions by one statement: at, before and after the end of a window, with a clock that goes back, and up to the
/// last unit.
#[test]
fn shortcut_agrees_at_window_edges() {
    const PERIOD: u64 = 1_000;
    let period = Duration::from_micros(PERIOD);
    let start = Duration::from_micros(300);
    let quotas = [
        Quota::token_bucket(5, period).unwrap(),
        Quota::token_bucket(7, period).unwrap().capacity(20).unwrap().max_debt(3).unwrap(),
        Quota::fixed_window(5, period).unwrap(),
        Quota::fixed_window(5, period).unwrap().capacity(12).unwrap().start(start).unwrap(),
        Quota::sliding_window(5, period).unwrap(),
        Quota::sliding_window(7, period).unwrap().start(start).unwrap().max_debt(3).unwrap(),
        Quota::sliding_window(60, period).unwrap(),
    ];
    let store = store_in_table(&unique_name("edges"));
    for (quota, seed) in quotas.iter().flat_map(|quota| (0..8).map(move |seed| (quota, seed))) {
        let (subject, memory, mut random) = (subject(&store), MemoryStore::new(), Random::new(seed));
        let (scope, key) = (subject.scope("edges", "a"), Key::from("u1"));
        let capacity = u64::from(quota.parts().capacity);
        let mut now = 1_700_000_000_000_000;
        for step in 0..60 {
            // The last microsecond of a window, the first of the next, or one more. Or any time, also an earlier one.
            let shift = if random.below(2) == 0 { 0 } else { 300 };
            now = match random.below(8) {
                0..=3 => (now - shift) / PERIOD * PERIOD + shift + PERIOD * random.below(3) + random.below(3) - 1,
                4 => now - random.below(PERIOD),
                5 => now,
                _ => now + random.below(PERIOD),
            };
            let cost =
                Cost::new(1 + random.below(if step % 4 == 0 { capacity + 2 } else { capacity.div_ceil(4) })).unwrap();
            let op = match random.below(8) {
                0 => Op::Check(cost),
                1 => Op::Reserve(cost),
                2 => Op::Refund(cost),
                _ => Op::Limit(cost),
            };
            let request = Request { scope: &scope, key: &key, quota, op, on_store_error: OnStoreError::Closed };
            let at = Timestamp::from_micros(now);
            let expected = run(memory.apply_at(&request, at)).unwrap().into_parts();
            let actual = run(subject.store().apply_at(&request, at)).unwrap().into_parts();
            assert_eq!(actual, expected, "{quota:?}, seed {seed}, step {step} at {now}: {op:?}");
        }
    }
}

/// The reply of the step shows whether it took the shortcut, so the test notices a fallback to the slow path.
#[test]
fn shortcut_suffices_for_an_existing_row_with_room() {
    let (table, client) = (unique_name("once"), client());
    let store = store_in_table(&table);
    let (hour, at) = (3_600_000_000_i64, 1_700_000_000_000_000);
    // The arguments of the step for each quota.
    let cases = [
        (Quota::token_bucket(10, seconds(1)).unwrap(), [100_000, 1, 1 << 53, 0, 1]),
        (Quota::fixed_window(10, hours(1)).unwrap(), [1 << 50, 10, hour, hour, 2]),
        (Quota::sliding_window(10, hours(1)).unwrap(), [hour, hour, 1, 1 << 30, 3]),
    ];
    for (quota, [n1, n2, n3, n4, shortcut]) in cases {
        let subject = subject(&store);
        let (scope, key, op) = (subject.scope("once", "a"), Key::from("u1"), Op::Limit(Cost::ONE));
        let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
        assert!(run(subject.store().apply_at(&request, Timestamp::from_micros(at))).unwrap().allowed());
        let query = format!(
            "SELECT (s).done FROM (SELECT {table}_step_v2(key, quota, $2, 10 - $2::bigint, {n1}, {n2}, {n3}, {n4}, {shortcut}, $3, \
             NULL, NULL, NULL) AS s FROM {table} WHERE key = $1) AS asked"
        );
        let name = format!("{}|u1", scope.as_str()).into_bytes();
        let effect = |units: i64, later: u64| -> i16 {
            run(client.query_one(&query, &[&name, &units, &((at + later) as i64)])).unwrap().get(0)
        };
        assert_eq!(effect(2, 0), 3, "{quota:?}: room for it");
        assert_eq!(effect(7, 0), 3, "{quota:?}: all that is left");
        assert_eq!(effect(1, 0), 0, "{quota:?}: nothing is left");
        // An hour later there is room again. A sliding window in its next bucket cannot take the shortcut.
        assert_eq!(effect(1, hour as u64), if shortcut == 3 { 1 } else { 3 }, "{quota:?}: later");
        assert_eq!(effect(1, hour as u64), 3, "{quota:?}: and once more");
    }
}
