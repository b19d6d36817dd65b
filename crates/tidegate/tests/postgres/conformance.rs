//! The whole suite and the oracle.

use std::sync::LazyLock;

use tidegate::postgres::PostgresStore;
use tidegate::store::Testing;
use tidegate::{Store, Timestamp};
use tidegate_testkit::{conformance_tests, oracle};

use crate::support::{builder, pool, run, store, subject, unique};
use tidegate_servers::variable;

// A table for each case: some count the keys in it.
conformance_tests!(on_postgres, subject(&store()));
conformance_tests!(behind_a_pooler, subject(&pooled()));
conformance_tests!(over_a_pool, subject(&prepared()));

/// Statements prepared once, on a pool of the caller's.
fn prepared() -> PostgresStore {
    run(builder(&unique("prepared")).prepared().over(pool())).unwrap()
}

/// Behind PgBouncer in transaction mode, where two statements may run on two connections, with hashed keys.
fn pooled() -> PostgresStore {
    let builder = builder(&unique("pooled")).hash_keys("a secret").connections(2);
    run(builder.connect(&variable("TIDEGATE_PGBOUNCER_URL"))).unwrap()
}

/// What it did not claim would not be tried.
#[test]
fn it_claims_what_it_can() {
    for store in [store(), pooled(), prepared()] {
        assert!(store.capabilities().atomic_all && !store.is_immediate());
        assert_eq!(run(store.held_at(Timestamp::EPOCH)), Some(0));
    }
}

/// How many random traces; `cargo xtask deep` asks for more.
fn seeds() -> u64 {
    std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40)
}

#[test]
fn random_traces_agree_on_postgres() {
    static STORE: LazyLock<PostgresStore> = LazyLock::new(store);
    for seed in 0..seeds() {
        if let Err(mismatch) = run(oracle::run(&subject(&STORE), seed, 60)) {
            panic!("{mismatch}");
        }
    }
}
