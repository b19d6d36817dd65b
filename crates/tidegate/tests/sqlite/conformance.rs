//! The conformance suite and the oracle.

use tidegate::sqlite::{SqliteStore, SqliteStoreBuilder};
use tidegate::store::TestableStore;
use tidegate::{Store, Timestamp};
use tidegate_testkit::{Subject, block_on, conformance_tests, oracle};

use crate::support::TempFolder;

/// A subject in a file of its own. Its runner keeps the folder.
fn subject(builder: SqliteStoreBuilder) -> Subject<SqliteStore> {
    let folder = TempFolder::new();
    Subject::new(folder.store_with(builder)).with_runner(move |future| {
        let _folder = &folder;
        block_on(future);
    })
}

conformance_tests!(on_a_file, subject(SqliteStore::builder()));
conformance_tests!(with_hashed_keys, subject(SqliteStore::builder().hash_keys("a secret").table("limits").unwrap()));

/// The suite does not test a capability that the store does not report.
#[test]
fn store_reports_its_capabilities() {
    let subject = subject(SqliteStore::builder());
    let store = subject.store();
    assert!(store.capabilities().atomic_all && !store.is_immediate());
    assert_eq!(block_on(store.sweep_at(Timestamp::EPOCH)), Some(0));
}

/// Returns the number of random traces. `cargo xtask deep` sets a larger one.
fn seeds() -> u64 {
    std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40)
}

#[test]
fn random_traces_agree_on_a_file() {
    let subject = subject(SqliteStore::builder());
    for seed in 0..seeds() {
        if let Err(mismatch) = block_on(oracle::run(&subject, seed, 60)) {
            panic!("{mismatch}");
        }
    }
}
