//! The memory store against the conformance suite and the oracle.

use tidegate::store::TestableStore;
use tidegate::{MemoryStore, Store, Timestamp};
use tidegate_testkit::{Subject, block_on, conformance_tests, oracle};

fn subject() -> Subject<MemoryStore> {
    Subject::new(MemoryStore::builder().max_keys(10_000).build())
}

conformance_tests!(memory, subject());

/// The suite skips capabilities that a store does not claim.
#[test]
fn memory_store_claims_every_capability() {
    let subject = subject();
    let store = subject.store();
    assert!(store.capabilities().atomic_all && store.is_immediate());
    assert_eq!(block_on(store.sweep_at(Timestamp::EPOCH)), Some(0));
}

/// The number of random traces. `cargo xtask deep` sets a larger one.
fn seeds() -> u64 {
    std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60)
}

#[test]
fn random_traces_agree_with_the_rational_model() {
    for seed in 0..seeds() {
        if let Err(mismatch) = block_on(oracle::run(&subject(), seed, 60)) {
            panic!("{mismatch}");
        }
    }
}
