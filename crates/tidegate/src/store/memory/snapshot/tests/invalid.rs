//! Files that are no snapshot, or not of this store, are rejected.

use tidegate_core::{days, millis};
use tidegate_testkit::Random;

use super::*;

/// Returns the file with a valid checksum.
fn with_valid_checksum(mut file: Vec<u8>) -> Vec<u8> {
    let body = file.len() - 8;
    let mut sum = Checksum::default();
    sum.add(&file[..body]);
    file[body..].copy_from_slice(&sum.get().to_le_bytes());
    file
}

fn with_number(mut file: Vec<u8>, at: usize, number: u64) -> Vec<u8> {
    file[at..at + 8].copy_from_slice(&number.to_le_bytes());
    with_valid_checksum(file)
}

/// Returns a small file with a key of every kind.
fn sample(clock: &ManualClock) -> Vec<u8> {
    // Repeatable, because tests search the file for numbers.
    let store = small_store(clock).seed(1).build();
    for (quota, key) in quotas().iter().zip(0..) {
        assert!(take(&store, key, quota, 3));
        clock.advance(millis(1));
        assert!(take(&store, key, quota, 2));
    }
    save(&store)
}

#[test]
fn every_truncation_and_every_changed_byte_is_rejected() {
    let clock = ManualClock::new(START);
    let file = sample(&clock);
    assert!(small_store(&clock).load(&file[..]).is_ok());
    for length in 0..file.len() {
        let error = small_store(&clock).load(&file[..length]).unwrap_err();
        assert!(matches!(error, SnapshotError::Damaged(_)), "{length}: {error}");
    }
    for at in 0..file.len() {
        for change in [1, 0x10, 0x80, 0xff] {
            let mut file = file.clone();
            file[at] ^= change;
            let error = small_store(&clock).load(&file[..]).unwrap_err();
            let expected = match at {
                0..VERSION_AT => matches!(error, SnapshotError::Foreign),
                VERSION_AT..20 => matches!(error, SnapshotError::Version(_)),
                _ => matches!(error, SnapshotError::Damaged(_)),
            };
            assert!(expected, "{at}: {error}");
        }
    }
    let mut longer = file.clone();
    longer.push(0);
    assert!(matches!(small_store(&clock).load(&longer[..]), Err(SnapshotError::Damaged("something follows its end"))));
    let twice = [&file[..], &file[..]].concat();
    assert!(small_store(&clock).load(&twice[..]).is_err());
}

#[test]
fn forged_file_is_rejected_or_loads_a_working_store() {
    let clock = ManualClock::new(START);
    let file = sample(&clock);
    let mut random = Random::new(1);
    let mut loaded = 0;
    for at in HEAD..file.len() - 8 {
        for change in [1, 0x80, random.between(1, 255) as u8] {
            let mut file = file.clone();
            file[at] ^= change;
            let Ok(store) = small_store(&clock).load(&with_valid_checksum(file)[..]) else { continue };
            loaded += 1;
            for (quota, key) in quotas().iter().zip(0..) {
                let _ = check(&store, key, quota);
                for other in quotas() {
                    let _ = check(&store, key, &other);
                }
                let _ = apply(&store, key, quota, Op::Reserve(Cost::ONE));
                let _ = apply(&store, key, quota, Op::Refund(Cost::new(2).unwrap()));
            }
            assert!(small_store(&clock).load(&save(&store)[..]).is_ok());
        }
    }
    assert!(loaded > 1_000, "{loaded}");
}

#[test]
fn forged_counts_are_rejected_without_allocating() {
    let clock = ManualClock::new(START);
    let empty = save(&small_store(&clock).build());
    let load = |file: &[u8]| small_store(&clock).load(file).map(|_| ()).unwrap_err();
    let keys = with_number(empty.clone(), HEAD + 4, 1 << 60);
    assert!(matches!(load(&keys), SnapshotError::Damaged("keys are missing")));
    let lines = with_number(empty.clone(), LINES_AT, 1 << 60);
    assert!(matches!(load(&lines), SnapshotError::Size { wanted: 1_001, .. }), "{}", load(&lines));
    // A log of four billion announced numbers, and none in the file.
    let mut log = sample(&clock);
    let first = log[HEAD..].windows(4).position(|bytes| bytes == [2, 0, 0, 0]).unwrap() + HEAD;
    log[first..first + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(load(&with_valid_checksum(log)), SnapshotError::Damaged("it ends too early")));
}

#[test]
fn wrong_size_is_rejected_with_the_size_that_fits() {
    let quota = Quota::token_bucket(1, days(1)).unwrap();
    let clock = ManualClock::new(START);
    for max_keys in [1, 100, 1_000, 12_345, 1_000_000] {
        let builder = || MemoryStore::builder().clock(clock.clone());
        let store = builder().max_keys(max_keys).build();
        assert!(take(&store, 1, &quota, 1));
        let file = save(&store);
        let error = builder().max_keys(2 * max_keys + 1_000).load(&file[..]).unwrap_err();
        let SnapshotError::Size { saved, wanted } = error else { panic!("{error}") };
        assert!(saved >= max_keys && wanted >= 2 * max_keys + 1_000 && wanted != saved);
        assert!(!take(&builder().max_keys(saved).load(&file[..]).unwrap(), 1, &quota, 1));
        assert!(!take(&builder().max_keys(max_keys).load(&file[..]).unwrap(), 1, &quota, 1));
    }
}

#[test]
fn other_hash_newer_format_and_foreign_file_are_rejected() {
    let clock = ManualClock::new(START);
    let file = sample(&clock);
    let other = with_number(file.clone(), WITNESS_AT, 1);
    assert!(matches!(small_store(&clock).load(&other[..]), Err(SnapshotError::Hash)));
    let mut newer = file;
    newer[VERSION_AT] = 2;
    let error = small_store(&clock).load(&with_valid_checksum(newer)[..]).unwrap_err();
    assert!(error.to_string().starts_with("the snapshot has format 2 and this version knows 1"), "{error}");
    assert!(matches!(small_store(&clock).load(&b"#!/bin/sh\nexit 1\n"[..]), Err(SnapshotError::Foreign)));
}

#[test]
fn reader_and_writer_errors_are_passed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is full"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let clock = ManualClock::new(START);
    let store = small_store(&clock).build();
    assert_eq!(store.save(Broken).unwrap_err().to_string(), "the disk is full");
    // A failed save does not affect the next one.
    assert!(small_store(&clock).load(&save(&store)[..]).is_ok());
    let error = small_store(&clock).load(Broken).unwrap_err();
    assert_eq!(error.to_string(), "the snapshot could not be read: the disk is gone");
}
