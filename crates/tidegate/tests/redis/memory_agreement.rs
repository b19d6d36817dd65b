//! Agreement with the memory store, step by step, in the special cases of the scripts.

use tidegate::store::Scope;
use tidegate::{MemoryStore, Quota, days, seconds};
use tidegate_testkit::oracle;

use crate::support::{redis_subject, run};
use tidegate_servers::required_env;

/// Adds to the running totals of a stored log, whose state stays equal.
fn raise_totals(key: &str, by: f64) {
    let mut connection = ::redis::Client::open(required_env("TIDEGATE_REDIS_URL")).unwrap().get_connection().unwrap();
    let mut value: Vec<u8> = ::redis::cmd("GET").arg(key).query(&mut connection).unwrap();
    let numbers = (value.len() - usize::from(*value.last().unwrap())) / 8;
    // Until when it lives, when it was written, the total before; then a time and a total for each run.
    for index in (2..numbers).step_by(2) {
        let bytes = value[8 * index..8 * index + 8].as_mut_array().unwrap();
        *bytes = (f64::from_le_bytes(*bytes) + by).to_le_bytes();
    }
    ::redis::cmd("SET").arg(key).arg(value).exec(&mut connection).unwrap();
}

fn assert_agrees(quota: Quota, numbers: (u64, u64, u64), after: impl AsyncFnMut(u64, &Scope)) {
    run(oracle::compare_stores(&redis_subject(), &MemoryStore::new(), &quota, numbers, after));
}

#[test]
fn long_log_agrees_with_memory_store() {
    let quota = Quota::sliding_log(60, seconds(100)).unwrap().max_debt(40).unwrap();
    for seed in 0..12 {
        assert_agrees(quota, (seed, 4_000_000, 30), async |step, scope: &Scope| {
            if step == 75 {
                raise_totals(&key_name(scope), 4_503_599_627_370_496.0);
            }
        });
    }
}

#[test]
fn buckets_around_lua_integer_limit_agree_with_memory_store() {
    // 31,622,400,000,000 sub-units each: 285 of them are the first that do not fit in 53 bits.
    let year = Quota::token_bucket(1, days(366)).unwrap();
    for capacity in [140, 284, 285, 286, 400, 570, 600, 5_000] {
        let quota = year.capacity(capacity).unwrap();
        for seed in 0..3 {
            for debt in [0, 100, 300] {
                let quota = quota.max_debt(debt).unwrap();
                assert_agrees(quota, (seed, 40_000_000_000_000, capacity), async |_, _: &Scope| ());
            }
        }
    }
}

fn key_name(scope: &Scope) -> String {
    format!("{}|u1", scope.as_str())
}
