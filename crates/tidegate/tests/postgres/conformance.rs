//! The conformance suite and the oracle.

use std::sync::LazyLock;

use tidegate::postgres::PostgresStore;
use tidegate::store::TestableStore;
use tidegate::{Store, Timestamp};
use tidegate_testkit::{conformance_tests, oracle};

use crate::support::{builder, pool, run, store, subject, unique_name};
use tidegate_servers::required_env;

// A table for each case, because some cases count its keys.
conformance_tests!(on_postgres, subject(&store()));
conformance_tests!(behind_pgbouncer, subject(&pgbouncer_store()));
conformance_tests!(prepared_statements, subject(&prepared_store()));

/// Statements prepared once, on a pool of the caller's.
fn prepared_store() -> PostgresStore {
    run(builder(&unique_name("prepared")).prepared().over(pool())).unwrap()
}

/// Behind PgBouncer in transaction mode, where two statements may run on two connections, with hashed keys.
fn pgbouncer_store() -> PostgresStore {
    let builder = builder(&unique_name("pooled")).hash_keys("a secret").connections(2);
    run(builder.connect(&required_env("TIDEGATE_PGBOUNCER_URL"))).unwrap()
}

/// The suite does not test a capability that the store does not report.
#[test]
fn store_reports_its_capabilities() {
    for store in [store(), pgbouncer_store(), prepared_store()] {
        assert!(store.capabilities().atomic_all && !store.is_immediate());
        assert_eq!(run(store.sweep_at(Timestamp::EPOCH)), Some(0));
    }
}

/// Returns the number of random traces. `cargo xtask deep` sets a larger one.
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
