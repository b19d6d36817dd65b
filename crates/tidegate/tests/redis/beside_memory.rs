//! Step by step beside the memory store, where the scripts have something special to do.

use tidegate::store::Scope;
use tidegate::{MemoryStore, Quota, days, seconds};
use tidegate_testkit::oracle;

use crate::support::{redis, run};
use tidegate_servers::variable;

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

fn agree(quota: Quota, numbers: (u64, u64, u64), after: impl AsyncFnMut(u64, &Scope)) {
    run(oracle::beside(&redis(), &MemoryStore::new(), &quota, numbers, after));
}

#[test]
fn a_log_that_is_longer_than_an_answer_shows() {
    let quota = Quota::sliding_log(60, seconds(100)).unwrap().max_debt(40).unwrap();
    for seed in 0..12 {
        agree(quota, (seed, 4_000_000, 30), async |step, scope: &Scope| {
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
                agree(quota, (seed, 40_000_000_000_000, capacity), async |_, _: &Scope| ());
            }
        }
    }
}

fn name(scope: &Scope) -> String {
    format!("{}|u1", scope.as_str())
}
