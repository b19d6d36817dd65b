//! Sliding logs that are longer than an answer shows, step by step beside the memory store.

use tidegate::{Cost, Key, MemoryStore, OnStoreError, Op, Quota, Request, Scope, Testing, Timestamp, seconds};
use tidegate_testkit::Random;

use crate::support::{redis, run, variable};

const PERIOD: u64 = 100_000_000;

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

#[test]
fn a_long_log_answers_like_the_memory_store() {
    let quota = Quota::sliding_log(60, seconds(100)).unwrap().max_debt(40).unwrap();
    for seed in 0..12 {
        let (subject, memory) = (redis(), MemoryStore::new());
        let (scope, key) = (subject.scope("logs", "a"), Key::from("u1"));
        let mut random = Random::new(seed);
        let mut now = 1_700_000_000_000_000;
        for step in 0..150 {
            now += random.below(PERIOD / 25);
            let cost = Cost::new(1 + random.below(if step % 3 == 0 { 30 } else { 4 })).unwrap();
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
            assert_eq!(found.into_parts(), expected.into_parts(), "seed {seed}, step {step}: {op:?}");
            if step == 75 {
                raise_totals(&name(&scope), 4_503_599_627_370_496.0);
            }
        }
    }
}

fn name(scope: &Scope) -> String {
    format!("{}|u1", scope.as_str())
}
