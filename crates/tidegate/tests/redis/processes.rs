//! Many processes on one server, and a lease holder that is killed.

use tidegate::redis::RedisStore;

use crate::child_process::test_process;
use crate::crashed_holder::{assert_lease_expires, hold_forever, limits};
use crate::fleet::Fleet;
use crate::settlement_race::{self, assert_each_is_settled_once, settle_all};
use crate::support::{connect_single, run, unique_prefix};

const FLEET: Fleet =
    Fleet { processes: 16, tasks: 25, limits: [(20_000, 100_000), (2_000, 10_000), (2_000, 10_000), (500, 4_000)] };

/// Set for a process that is one of the sixteen.
const CHILD: &str = "TIDEGATE_TEST_PREFIX";

#[test]
fn sixteen_processes_admit_exactly_the_quota() {
    // This test runs in each of the sixteen processes, too: there it only takes quota.
    if let Ok(prefix) = std::env::var(CHILD) {
        let store = connect_single("TIDEGATE_REDIS_URL", RedisStore::builder());
        return run(FLEET.take_share(&FLEET.limits().prefix(prefix).bare_store(store).build().unwrap()));
    }
    let prefix = unique_prefix();
    FLEET.run(|| test_process("processes::sixteen_processes_admit_exactly_the_quota", CHILD, &prefix));
}

#[test]
fn lease_of_killed_holder_frees_its_permit_on_expiry() {
    let limiter = |prefix: &str| {
        let store = connect_single("TIDEGATE_REDIS_URL", RedisStore::builder());
        limits().prefix(prefix).bare_store(store).build().unwrap()
    };
    if let Ok(prefix) = std::env::var(CHILD) {
        return run(hold_forever(&limiter(&prefix)));
    }
    let prefix = unique_prefix();
    let test = "processes::lease_of_killed_holder_frees_its_permit_on_expiry";
    assert_lease_expires(test_process(test, CHILD, &prefix), &limiter(&prefix), |check| run(check));
}

#[test]
fn processes_settle_each_hold_once() {
    let limiter = |prefix: &str| {
        let store = connect_single("TIDEGATE_REDIS_URL", RedisStore::builder());
        settlement_race::limits().prefix(prefix).bare_store(store).build().unwrap()
    };
    if let Ok(prefix) = std::env::var(CHILD) {
        return run(settle_all(&limiter(&prefix)));
    }
    let prefix = unique_prefix();
    let child = || test_process("processes::processes_settle_each_hold_once", CHILD, &prefix);
    run(assert_each_is_settled_once(&limiter(&prefix), child));
}
