//! The whole suite and the oracle, on each of them.

use tidegate::Store;
use tidegate::redis::RedisStore;
use tidegate::store::Testing;
use tidegate_testkit::{Subject, conformance_tests, oracle};

use crate::support::{cluster, clustered, redis, run, valkey};

conformance_tests!(on_redis, redis());
conformance_tests!(on_valkey, valkey());
conformance_tests!(on_a_cluster, cluster());

/// What it did not claim would not be tried. How many keys a shared server holds says nothing of a test's own.
#[test]
fn it_claims_what_it_can() {
    assert!(redis().store().capabilities().atomic_all && valkey().store().capabilities().atomic_all);
    assert!(cluster().store().capabilities().atomic_all, "a prefix is in one place");
    assert!(!clustered(RedisStore::builder()).capabilities().atomic_all, "keys are not");
    assert!(!redis().store().is_immediate() && !cluster().store().is_immediate());
}

/// How many random traces; `cargo xtask deep` asks for more.
fn seeds() -> u64 {
    std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40)
}

fn agrees<S: Testing + 'static>(subject: impl Fn() -> Subject<S>) {
    for seed in 0..seeds() {
        if let Err(mismatch) = run(oracle::run(&subject(), seed, 60)) {
            panic!("{mismatch}");
        }
    }
}

#[test]
fn random_traces_agree_on_redis() {
    agrees(redis);
}

#[test]
fn random_traces_agree_on_valkey() {
    agrees(valkey);
}

#[test]
fn random_traces_agree_on_a_cluster() {
    agrees(cluster);
}
