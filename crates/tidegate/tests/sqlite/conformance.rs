//! The whole suite and the oracle.

use tidegate::sqlite::{SqliteStore, SqliteStoreBuilder};
use tidegate::store::Testing;
use tidegate::{Store, Timestamp};
use tidegate_testkit::{Subject, block_on, conformance_tests, oracle};

use crate::support::Folder;

/// A store in a file that nobody else has. The folder stays as long as somebody can run something.
fn subject(builder: SqliteStoreBuilder) -> Subject<SqliteStore> {
    let folder = Folder::new();
    Subject::new(folder.store_with(builder)).run_with(move |future| {
        let _stays = &folder;
        block_on(future);
    })
}

conformance_tests!(on_a_file, subject(SqliteStore::builder()));
conformance_tests!(with_hashed_keys, subject(SqliteStore::builder().hash_keys("a secret").table("limits").unwrap()));

/// What it did not claim would not be tried.
#[test]
fn it_claims_what_it_can() {
    let subject = subject(SqliteStore::builder());
    let store = subject.store();
    assert!(store.capabilities().atomic_all && !store.is_immediate());
    assert_eq!(block_on(store.held_at(Timestamp::EPOCH)), Some(0));
}

/// How many random traces; `cargo xtask deep` asks for more.
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
