//! Several processes, one file; and one that is killed while it holds a place.

use std::path::Path;

use tidegate::sqlite::SqliteStore;

use crate::crashed::{comes_back_when_it_expires, hold_for_ever, limits};
use crate::fleet::Fleet;
use crate::myself::myself;
use crate::support::{Folder, run};

const FLEET: Fleet =
    Fleet { processes: 8, tasks: 10, limits: [(8_000, 24_000), (2_000, 8_000), (2_000, 8_000), (500, 4_000)] };

/// Set for a process that is one of the eight.
const CHILD: &str = "TIDEGATE_TEST_FILE";

#[test]
fn eight_processes_never_admit_one_too_many() {
    // The same test runs as each of the eight: there it only asks.
    if let Ok(path) = std::env::var(CHILD) {
        return run(FLEET.ask(&FLEET.limits().bare_store(SqliteStore::open(path).unwrap()).build().unwrap()));
    }
    // They make the file and the table themselves, all at once.
    let folder = Folder::new();
    FLEET.run(|| myself("processes::eight_processes_never_admit_one_too_many", CHILD, folder.file()));
    assert_eq!(folder.integrity(), "ok");
}

#[test]
fn the_place_of_a_killed_holder_comes_back_when_its_lease_expires() {
    let limiter = |path: &Path| limits().bare_store(SqliteStore::open(path).unwrap()).build().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        return run(hold_for_ever(&limiter(Path::new(&path))));
    }
    let folder = Folder::new();
    let test = "processes::the_place_of_a_killed_holder_comes_back_when_its_lease_expires";
    comes_back_when_it_expires(myself(test, CHILD, folder.file()), &limiter(&folder.file()), |waited| run(waited));
    assert_eq!(folder.integrity(), "ok");
}
