//! The conformance suite and the oracle, on Redis, Valkey and a cluster.

use tidegate::Store;
use tidegate::redis::RedisStore;
use tidegate::store::TestableStore;
use tidegate_testkit::{Subject, conformance_tests, oracle};

use crate::support::{cluster_subject, connect_cluster, redis_subject, run, valkey_subject};

conformance_tests!(on_redis, redis_subject());
conformance_tests!(on_valkey, valkey_subject());
conformance_tests!(on_a_cluster, cluster_subject());

/// The suite skips capabilities that a store does not claim. The number of keys on a shared server says nothing of one
/// test.
#[test]
fn capabilities_match_the_servers() {
    assert!(redis_subject().store().capabilities().atomic_all && valkey_subject().store().capabilities().atomic_all);
    assert!(cluster_subject().store().capabilities().atomic_all, "a prefix is in one place");
    assert!(!connect_cluster(RedisStore::builder()).capabilities().atomic_all, "keys are not");
    assert!(!redis_subject().store().is_immediate() && !cluster_subject().store().is_immediate());
}

/// The number of random traces; `cargo xtask deep` sets more.
fn seed_count() -> u64 {
    std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40)
}

fn assert_traces_agree<S: TestableStore + 'static>(subject: impl Fn() -> Subject<S>) {
    for seed in 0..seed_count() {
        if let Err(mismatch) = run(oracle::run(&subject(), seed, 60)) {
            panic!("{mismatch}");
        }
    }
}

#[test]
fn random_traces_agree_on_redis() {
    assert_traces_agree(redis_subject);
}

#[test]
fn random_traces_agree_on_valkey() {
    assert_traces_agree(valkey_subject);
}

#[test]
fn random_traces_agree_on_a_cluster() {
    assert_traces_agree(cluster_subject);
}
