//! A full disk and a read-only disk, each a small file system in a namespace of its own.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use tidegate::sqlite::SqliteStore;
use tidegate::{Error, Store, StoreErrorKind};
use tidegate_servers::{DiskRights, run_on_small_disk};

use crate::child_process::test_process;
use crate::support::{CAPACITY, TempFolder, decide, limiter, remaining, run};

/// Set for the process that has a disk of its own.
const DISK: &str = "TIDEGATE_TEST_DISK";

/// Runs `work` in a process with a mounted disk of this `size` in a folder.
fn on_a_disk(size: &str, test: &str, work: impl FnOnce(&Path)) {
    if let Some(disk) = std::env::var_os(DISK) {
        return work(Path::new(&disk));
    }
    let folder = TempFolder::new();
    let child = test_process(test, DISK, folder.path());
    let output = run_on_small_disk(&child, folder.path(), size, DiskRights::MayMount);
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "the test did not run there: {stdout}");
}

#[test]
fn full_disk_is_an_error_and_loses_nothing() {
    on_a_disk("16m", "disks::full_disk_is_an_error_and_loses_nothing", |disk| {
        let (file, filler) = (disk.join("limits.db"), disk.join("filler"));
        std::fs::File::create(&filler).unwrap().write_all(&vec![1; 6 << 20]).unwrap();
        let limiter = limiter(&SqliteStore::open(&file).unwrap());
        let name = |key: u64| format!("{key:0>400}");
        let mut admitted = 0;
        let error = loop {
            match decide(limiter.limit("a", name(admitted))) {
                Ok(decision) => assert!(decision.allowed()),
                Err(error) => break error,
            }
            admitted += 1;
            assert!(admitted < 100_000, "the disk does not become full");
        };
        let Error::Store(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("is full") && text.contains("nothing was taken") && text.contains("limits.db"), "{text}");

        // Admitted units are spent, others are not, and a check still works.
        assert!(admitted > 1_000, "{admitted}");
        for key in 0..admitted + 3 {
            let spent = u64::from(key < admitted);
            assert_eq!(remaining(&limiter, &name(key)), CAPACITY - spent, "key {key} of {admitted}");
        }
        assert!(decide(limiter.limit("a", name(admitted))).unwrap_err().is_retryable(), "it is still full");

        // It continues by itself.
        std::fs::remove_file(filler).unwrap();
        for key in 0..admitted + 3 {
            let spent = u64::from(key < admitted);
            assert_eq!(decide(limiter.limit("a", name(key))).unwrap().remaining(), CAPACITY - spent - 1);
        }
        let connection = Connection::open(file).unwrap();
        let integrity: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok");
    });
}

#[test]
fn disk_without_room_for_a_database_is_an_error() {
    on_a_disk("4k", "disks::disk_without_room_for_a_database_is_an_error", |disk| {
        std::fs::File::create(disk.join("filler")).unwrap().write_all(&[1; 4_096]).unwrap();
        let error = SqliteStore::open(disk.join("limits.db")).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("limits.db"), "{error}");
    });
}

#[test]
fn read_only_disk_is_an_error() {
    on_a_disk("2m", "disks::read_only_disk_is_an_error", |disk| {
        let file = disk.join("limits.db");
        let store = SqliteStore::open(&file).unwrap();
        let _ = decide(limiter(&store).limit("a", "alice")).unwrap();
        run(store.close());
        drop(store);
        let remount = |how: &str| {
            let done = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(disk).status().unwrap();
            assert!(done.success());
        };
        remount("ro");
        for (name, advice) in [("limits.db", "read-only"), ("new.db", "allowed to write there")] {
            let error = SqliteStore::open(disk.join(name)).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            let text = error.to_string();
            assert!(text.contains("sqlite: ") && text.contains(name) && text.contains(advice), "{text}");
        }
        remount("rw");
        assert_eq!(remaining(&limiter(&SqliteStore::open(&file).unwrap()), "alice"), CAPACITY - 1);
    });
}
