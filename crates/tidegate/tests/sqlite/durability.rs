//! What is remembered: after a restart, and after a process was killed in the middle of it.

use std::path::Path;

use tidegate::Store;
use tidegate::sqlite::{SqliteStore, Synchronous};

use crate::killed::{KEY, gives_nothing_back, limits, take_for_ever};
use crate::myself::myself;
use crate::support::{CAPACITY, Folder, ask, left, limiter, run};

#[test]
fn a_store_that_is_opened_again_remembers() {
    let folder = Folder::new();
    for spent in 0..CAPACITY {
        let store = folder.store();
        let limiter = limiter(&store);
        assert_eq!(left(&limiter, "alice"), CAPACITY - spent);
        assert!(ask(limiter.limit("a", "alice")).unwrap().allowed());
        // Whether it was closed or not.
        if spent % 2 == 0 {
            run(store.close());
        }
    }
    assert!(!ask(limiter(&folder.store()).limit("a", "alice")).unwrap().allowed());
}

#[test]
fn closing_leaves_one_file_behind() {
    let folder = Folder::new();
    let store = folder.store();
    let _ = ask(limiter(&store).limit("a", "alice")).unwrap();
    assert_eq!(folder.files(), ["limits.db", "limits.db-shm", "limits.db-wal"]);
    run(store.close());
    assert_eq!(folder.files(), ["limits.db"]);
}

/// Set for the process that is killed.
const CHILD: &str = "TIDEGATE_TEST_KILLED";

const ROUNDS: u64 = 8;

#[test]
fn a_killed_process_gives_nothing_back_under_normal() {
    killed(Synchronous::Normal, "durability::a_killed_process_gives_nothing_back_under_normal");
}

#[test]
fn a_killed_process_gives_nothing_back_under_full() {
    killed(Synchronous::Full, "durability::a_killed_process_gives_nothing_back_under_full");
}

fn killed(synchronous: Synchronous, test: &str) {
    let open = |path: &Path| {
        let store = SqliteStore::builder().synchronous(synchronous).open(path).unwrap();
        limits().bare_store(store).build().unwrap()
    };
    if let Some(path) = std::env::var_os(CHILD) {
        return run(take_for_ever(&open(Path::new(&path))));
    }
    let folder = Folder::new();
    gives_nothing_back(
        ROUNDS,
        || myself(test, CHILD, folder.file()),
        |limit| {
            assert_eq!(folder.integrity(), "ok");
            let limiter = open(&folder.file());
            assert!(ask(limiter.limit(limit, "somebody else")).unwrap().allowed());
            ask(limiter.check(limit, KEY)).unwrap().remaining()
        },
    );
}
