//! A table on a disk that becomes full.

use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate::{Error, Limiter, MAX_PERIOD, Quota, StoreErrorKind};
use tidegate_servers::{DiskRights, Postgres, required_env, run_on_small_disk};

use crate::child_process::test_process;
use crate::support::{builder, run, unique_name};

/// Set for the process that has a disk of its own.
const DISK: &str = "TIDEGATE_TEST_DISK";

const CAPACITY: u64 = 3;

#[test]
fn full_disk_is_an_error_and_loses_nothing() {
    if let Some(disk) = std::env::var_os(DISK) {
        return fill(Path::new(&disk));
    }
    let folder = std::env::temp_dir().join(unique_name("tidegate-disk"));
    std::fs::create_dir(&folder).unwrap();
    let child = test_process("full_disk::full_disk_is_an_error_and_loses_nothing", DISK, &folder);
    let output = run_on_small_disk(&child, &folder, "6m", DiskRights::Unprivileged);
    std::fs::remove_dir(&folder).unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "the test did not run there: {stdout}");
}

fn fill(disk: &Path) {
    let server =
        Postgres::start(&PathBuf::from(required_env("TIDEGATE_POSTGRES_PROGRAMS")), &[Postgres::NO_FSYNC]).unwrap();
    let (space, filler) = (disk.join("space"), disk.join("filler"));
    std::fs::create_dir(&space).unwrap();
    server.chown(&space).unwrap();
    std::fs::File::create(&filler).unwrap().write_all(&vec![1; 4 << 20]).unwrap();
    assert_eq!(server.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", space.display())), "CREATE TABLESPACE");
    let url = format!("{}?options=-c%20default_tablespace%3Dsmall", server.url());
    let store = run(builder("tidegate").connect(&url)).unwrap();
    let quota = Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(CAPACITY).unwrap();
    let limiter = Limiter::builder().limit("a", quota).bare_store(store).build().unwrap();
    let name = |key: u64| format!("{key:0>400}");

    let mut admitted = 0;
    let error = loop {
        match run(limiter.limit("a", name(admitted)).into_future()) {
            Ok(decision) => assert!(decision.allowed()),
            Err(error) => break error,
        }
        admitted += 1;
        assert!(admitted < 100_000, "the disk does not become full");
    };
    let Error::Store(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("No space left on device"), "{error}");

    // Admitted units are spent, others are not, and a check still works.
    assert!(admitted > 100, "{admitted}");
    let left = |key| run(limiter.check("a", name(key)).into_future()).unwrap().remaining();
    for key in 0..admitted + 3 {
        assert_eq!(left(key), CAPACITY - u64::from(key < admitted), "key {key} of {admitted}");
    }
    // It continues by itself.
    std::fs::remove_file(filler).unwrap();
    for key in 0..admitted + 3 {
        let decision = run(limiter.limit("a", name(key)).into_future()).unwrap();
        assert_eq!(decision.remaining(), CAPACITY - 1 - u64::from(key < admitted));
    }
}
