//! Several processes that share a file, and one that is killed while it holds a lease.

use std::path::Path;

use tidegate::sqlite::SqliteStore;

use crate::child_process::test_process;
use crate::crashed_holder::{assert_lease_expires, hold_forever, limits};
use crate::fleet::Fleet;
use crate::settlement_race::{self, assert_each_is_settled_once, settle_all};
use crate::support::{TempFolder, run};

const FLEET: Fleet =
    Fleet { processes: 8, tasks: 10, limits: [(8_000, 24_000), (2_000, 8_000), (2_000, 8_000), (500, 4_000)] };

/// Set for a process that is one of the eight.
const CHILD: &str = "TIDEGATE_TEST_FILE";

#[test]
fn eight_processes_never_exceed_the_quota() {
    // This test runs in each of the eight processes, too, and only makes calls there.
    if let Ok(path) = std::env::var(CHILD) {
        return run(FLEET.take_share(&FLEET.limits().bare_store(SqliteStore::open(path).unwrap()).build().unwrap()));
    }
    // They create the file and the table themselves, all at once.
    let folder = TempFolder::new();
    FLEET.run(|| test_process("processes::eight_processes_never_exceed_the_quota", CHILD, folder.file()));
    assert_eq!(folder.integrity(), "ok");
}

#[test]
fn place_of_a_killed_holder_is_free_after_its_lease_expires() {
    let limiter = |path: &Path| limits().bare_store(SqliteStore::open(path).unwrap()).build().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        return run(hold_forever(&limiter(Path::new(&path))));
    }
    let folder = TempFolder::new();
    let test = "processes::place_of_a_killed_holder_is_free_after_its_lease_expires";
    assert_lease_expires(test_process(test, CHILD, folder.file()), &limiter(&folder.file()), |check| run(check));
    assert_eq!(folder.integrity(), "ok");
}

#[test]
fn processes_settle_each_hold_once() {
    let limiter = |path: &Path| settlement_race::limits().bare_store(SqliteStore::open(path).unwrap()).build().unwrap();
    if let Ok(path) = std::env::var(CHILD) {
        return run(settle_all(&limiter(Path::new(&path))));
    }
    let folder = TempFolder::new();
    let child = || test_process("processes::processes_settle_each_hold_once", CHILD, folder.file());
    run(assert_each_is_settled_once(&limiter(&folder.file()), child));
    assert_eq!(folder.integrity(), "ok");
}
