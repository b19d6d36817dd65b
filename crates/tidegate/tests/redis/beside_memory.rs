//! Step by step beside the memory store, where the scripts have something special to do.

use tidegate::{Cost, Key, MemoryStore, OnStoreError, Op, Quota, Request, Scope, Testing, Timestamp, days, seconds};
use tidegate_testkit::Random;

use crate::support::{redis, run, variable};

/// Adds to the running totals of a stored log, which mean the same then.
fn raise_totals(key: &str, by: f64) {
    let mut connection = ::redis::Client::open(variable("TIDEGATE_REDIS_URL")).unwrap().get_connection().unwrap();
    let mut value: Vec<u8> = ::redis::cmd("GET").arg(key).query(&mut connection).unwrap();
    let numbers = (value.len() - usize::from(*value.last().unwrap())) / 8;
    // Until when it lives, when it was written, the total before; then a time and a total for each run.
    for index in (2..numbers).step_by(2) {
        let bytes = value[8 * index..8 * index + 8].as_mut_array().unwrap();
        *bytes = (f64::from_le_bytes(*bytes) + by).to_le_bytes();
    }
    ::redis::cmd("SET").arg(key).arg(value).exec(&mut connection).unwrap();
}

/// Asks both stores the same, step by step, with times and costs up to these.
fn agree(quota: Quota, seed: u64, longest: u64, largest: u64, mut after: impl FnMut(u64, &Scope)) {
    let (subject, memory) = (redis(), MemoryStore::new());
    let (scope, key) = (subject.scope("beside", "a"), Key::from("u1"));
    let mut random = Random::new(seed);
    let mut now = 1_700_000_000_000_000;
    for step in 0..150 {
        now += random.below(longest);
        let cost = Cost::new(1 + random.below(if step % 3 == 0 { largest } else { largest.div_ceil(8) })).unwrap();
        let op = match random.below(10) {
            0..=5 => Op::Limit(cost),
            6..=7 => Op::Check(cost),
            8 => Op::Reserve(cost),
            _ => Op::Refund(cost),
        };
        let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
        let at = Timestamp::from_micros(now);
        let (expected, found) = run(async {
            (memory.apply_at(&request, at).await.unwrap(), subject.store().apply_at(&request, at).await.unwrap())
        });
        assert_eq!(found.into_parts(), expected.into_parts(), "{quota:?}, seed {seed}, step {step}: {op:?}");
        after(step, &scope);
    }
}

#[test]
fn a_log_that_is_longer_than_an_answer_shows() {
    let quota = Quota::sliding_log(60, seconds(100)).unwrap().max_debt(40).unwrap();
    for seed in 0..12 {
        agree(quota, seed, 4_000_000, 30, |step, scope| {
            if step == 75 {
                raise_totals(&name(scope), 4_503_599_627_370_496.0);
            }
        });
    }
}

#[test]
fn buckets_around_the_end_of_luas_exact_numbers() {
    // 31,622,400,000,000 sub-units each: 285 of them are the first that do not fit in 53 bits.
    let year = Quota::token_bucket(1, days(366)).unwrap();
    for capacity in [140, 284, 285, 286, 400, 570, 600, 5_000] {
        let quota = year.capacity(capacity).unwrap();
        for seed in 0..3 {
            for debt in [0, 100, 300] {
                let quota = quota.max_debt(debt).unwrap();
                agree(quota, seed, 40_000_000_000_000, capacity, |_, _| ());
            }
        }
    }
}

fn name(scope: &Scope) -> String {
    format!("{}|u1", scope.as_str())
}
