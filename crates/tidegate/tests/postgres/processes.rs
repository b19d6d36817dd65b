//! Many processes that share a table, and one that is killed in the middle of a call.

use tidegate::postgres::PostgresStore;

use crate::child_process::test_process;
use crate::crashed_holder::{self, assert_lease_expires, hold_forever};
use crate::fleet::Fleet;
use crate::killed_process::{KEY, assert_kills_refund_nothing, limits, take_forever};
use crate::settlement_race::{self, assert_each_is_settled_once, settle_all};
use crate::support::{builder, run, store_in_table, unique_name};
use tidegate_servers::required_env;

/// As many tasks as there are connections.
const FLEET: Fleet =
    Fleet { processes: 8, tasks: 8, limits: [(4_000, 16_000), (1_000, 4_480), (1_000, 4_480), (300, 1_920)] };

/// Set for a child process.
const CHILD: &str = "TIDEGATE_TEST_TABLE";

#[test]
fn eight_processes_never_exceed_the_quota() {
    // This test runs in each of the eight processes, too, and only makes calls there. All of them create the table at
    // once.
    if let Ok(table) = std::env::var(CHILD) {
        return run(FLEET.take_share(&FLEET.limits().bare_store(store_in_table(&table)).build().unwrap()));
    }
    let table = unique_name("processes");
    FLEET.run(|| test_process("processes::eight_processes_never_exceed_the_quota", CHILD, &table));
}

/// A store on the server with its default settings: a commit waits for the disk.
fn durable_store(table: &str) -> PostgresStore {
    run(builder(table).connect(&required_env("TIDEGATE_POSTGRES_URL"))).unwrap()
}

#[test]
fn killed_process_returns_no_quota() {
    if let Ok(table) = std::env::var(CHILD) {
        return run(take_forever(&limits().bare_store(durable_store(&table)).build().unwrap()));
    }
    let table = unique_name("killed");
    let child = || test_process("processes::killed_process_returns_no_quota", CHILD, &table);
    assert_kills_refund_nothing(5, child, |limit| {
        let limiter = limits().bare_store(durable_store(&table)).build().unwrap();
        run(limiter.check(limit, KEY).into_future()).unwrap().remaining()
    });
}

#[test]
fn place_of_a_killed_holder_is_free_after_its_lease_expires() {
    let limiter = |table: &str| crashed_holder::limits().bare_store(durable_store(table)).build().unwrap();
    if let Ok(table) = std::env::var(CHILD) {
        return run(hold_forever(&limiter(&table)));
    }
    let table = unique_name("holder");
    let test = "processes::place_of_a_killed_holder_is_free_after_its_lease_expires";
    assert_lease_expires(test_process(test, CHILD, &table), &limiter(&table), |check| run(check));
}

#[test]
fn processes_settle_each_hold_once() {
    let limiter = |table: &str| settlement_race::limits().bare_store(store_in_table(table)).build().unwrap();
    if let Ok(table) = std::env::var(CHILD) {
        return run(settle_all(&limiter(&table)));
    }
    let table = unique_name("settlements");
    let child = || test_process("processes::processes_settle_each_hold_once", CHILD, &table);
    run(assert_each_is_settled_once(&limiter(&table), child));
}
