//! Durability: after a restart, and after a process was killed in the middle of a call.

use std::path::Path;

use tidegate::Store;
use tidegate::sqlite::{SqliteStore, Synchronous};

use crate::child_process::test_process;
use crate::killed_process::{KEY, assert_kills_refund_nothing, limits, take_forever};
use crate::support::{CAPACITY, TempFolder, decide, limiter, remaining, run};

#[test]
fn reopened_store_remembers() {
    let folder = TempFolder::new();
    for spent in 0..CAPACITY {
        let store = folder.store();
        let limiter = limiter(&store);
        assert_eq!(remaining(&limiter, "alice"), CAPACITY - spent);
        assert!(decide(limiter.limit("a", "alice")).unwrap().allowed());
        // With and without closing it.
        if spent % 2 == 0 {
            run(store.close());
        }
    }
    assert!(!decide(limiter(&folder.store()).limit("a", "alice")).unwrap().allowed());
}

#[test]
fn close_leaves_one_file_behind() {
    let folder = TempFolder::new();
    let store = folder.store();
    let _ = decide(limiter(&store).limit("a", "alice")).unwrap();
    assert_eq!(folder.files(), ["limits.db", "limits.db-shm", "limits.db-wal"]);
    run(store.close());
    assert_eq!(folder.files(), ["limits.db"]);
}

/// Set for the process that is killed.
const CHILD: &str = "TIDEGATE_TEST_KILLED";

const ROUNDS: u64 = 8;

#[test]
fn killed_process_returns_no_quota_under_normal() {
    run_killed_process_test(Synchronous::Normal, "durability::killed_process_returns_no_quota_under_normal");
}

#[test]
fn killed_process_returns_no_quota_under_full() {
    run_killed_process_test(Synchronous::Full, "durability::killed_process_returns_no_quota_under_full");
}

fn run_killed_process_test(synchronous: Synchronous, test: &str) {
    let open = |path: &Path| {
        let store = SqliteStore::builder().synchronous(synchronous).open(path).unwrap();
        limits().bare_store(store).build().unwrap()
    };
    if let Some(path) = std::env::var_os(CHILD) {
        return run(take_forever(&open(Path::new(&path))));
    }
    let folder = TempFolder::new();
    assert_kills_refund_nothing(
        ROUNDS,
        || test_process(test, CHILD, folder.file()),
        |limit| {
            assert_eq!(folder.integrity(), "ok");
            let limiter = open(&folder.file());
            assert!(decide(limiter.limit(limit, "somebody else")).unwrap().allowed());
            decide(limiter.check(limit, KEY)).unwrap().remaining()
        },
    );
}
