//! The oracle on `MapStore`: agreement with the model, and admissions within the bound.

use tidegate_core::{Algorithm, Cost, Key, OnStoreError, Op, Request, TestableStore, Timestamp};
use tidegate_testkit::oracle::{self, Trace, check_admission_bound, random_quota};
use tidegate_testkit::{MapStore, Random, Subject, block_on};

/// Returns the number of seeds: enough for a few seconds, or the value of `TIDEGATE_ORACLE_SEEDS`.
fn seeds() -> u64 {
    std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(30)
}

#[test]
fn random_traces_agree_on_a_map() {
    let mut total = oracle::RunReport::default();
    for seed in 0..seeds() {
        let subject = Subject::new(MapStore::new());
        let report = block_on(oracle::run(&subject, seed, 60)).unwrap_or_else(|mismatch| panic!("{mismatch}"));
        total.steps += report.steps;
        total.decisions += report.decisions;
        total.denied += report.denied;
    }
    // A trace that allows everything, or nothing, would find little.
    assert!(total.denied * 10 > total.decisions && total.denied * 10 < total.decisions * 9, "{total:?}");
}

#[test]
fn equal_seeds_give_equal_traces() {
    assert_eq!(Trace::from_seed(5, 40), Trace::from_seed(5, 40));
    assert_ne!(Trace::from_seed(5, 40), Trace::from_seed(6, 40));
    assert!(Trace::from_seed(5, 40).expected().is_some());
}

#[test]
fn admissions_stay_within_the_bound() {
    for seed in 0..seeds() * 4 {
        let mut random = Random::new(seed);
        let quota = random_quota(&mut random);
        if quota.algorithm() == Algorithm::Concurrency {
            continue;
        }
        let capacity = u64::from(quota.parts().capacity);
        let scope = tidegate_core::Scope::new("bound", "limit");
        let (store, key) = (MapStore::new(), Key::GLOBAL);
        let (mut now, mut admitted) = (1_700_000_000_000_000 + random.below(1 << 40), Vec::new());
        for _ in 0..80 {
            let units = if random.one_in(2) { 1 } else { random.between(1, capacity) };
            let op = Op::Limit(Cost::new(units).unwrap());
            let request =
                Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::default() };
            let decision = block_on(store.apply_at(&request, Timestamp::from_micros(now))).unwrap();
            if decision.allowed() {
                admitted.push((now, units));
            }
            let period = quota.parts().period.as_micros() as u64;
            now += match decision.into_parts().retry_after {
                // At the promised time, where one unit too many would be admitted.
                Some(retry) if random.one_in(2) && retry < period * 4 => retry,
                _ => {
                    let longest = random.pick(&[2, period / 10, period, period * 2]);
                    random.below(longest)
                }
            };
        }
        check_admission_bound(&quota, &admitted).unwrap_or_else(|exceeded| panic!("seed {seed}: {exceeded}"));
    }
}
