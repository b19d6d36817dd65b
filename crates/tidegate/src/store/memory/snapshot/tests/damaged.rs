//! What is no snapshot, or not this store's, is refused.

use tidegate_core::{days, millis};
use tidegate_testkit::Random;

use super::*;

/// The file with the checksum that it should have.
fn forged(mut file: Vec<u8>) -> Vec<u8> {
    let body = file.len() - 8;
    let mut sum = Sum::default();
    sum.add(&file[..body]);
    file[body..].copy_from_slice(&sum.get().to_le_bytes());
    file
}

fn with_number(mut file: Vec<u8>, at: usize, number: u64) -> Vec<u8> {
    file[at..at + 8].copy_from_slice(&number.to_le_bytes());
    forged(file)
}

/// A small file with a key of every kind.
fn sample(clock: &ManualClock) -> Vec<u8> {
    // The same every time: whoever looks for a number in it finds the same one.
    let store = small(clock).seed(1).build();
    for (quota, key) in quotas().iter().zip(0..) {
        assert!(take(&store, key, quota, 3));
        clock.advance(millis(1));
        assert!(take(&store, key, quota, 2));
    }
    saved(&store)
}

#[test]
fn every_truncation_and_every_changed_byte_is_refused() {
    let clock = ManualClock::new(START);
    let file = sample(&clock);
    assert!(small(&clock).load(&file[..]).is_ok());
    for length in 0..file.len() {
        let error = small(&clock).load(&file[..length]).unwrap_err();
        assert!(matches!(error, SnapshotError::Damaged(_)), "{length}: {error}");
    }
    for at in 0..file.len() {
        for change in [1, 0x10, 0x80, 0xff] {
            let mut file = file.clone();
            file[at] ^= change;
            let error = small(&clock).load(&file[..]).unwrap_err();
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
    assert!(matches!(small(&clock).load(&longer[..]), Err(SnapshotError::Damaged("something follows its end"))));
    let twice = [&file[..], &file[..]].concat();
    assert!(small(&clock).load(&twice[..]).is_err());
}

#[test]
fn a_forged_file_makes_a_store_that_decides_or_none() {
    let clock = ManualClock::new(START);
    let file = sample(&clock);
    let mut random = Random::new(1);
    let mut loaded = 0;
    for at in HEAD..file.len() - 8 {
        for change in [1, 0x80, random.between(1, 255) as u8] {
            let mut file = file.clone();
            file[at] ^= change;
            let Ok(store) = small(&clock).load(&forged(file)[..]) else { continue };
            loaded += 1;
            for (quota, key) in quotas().iter().zip(0..) {
                let _ = look(&store, key, quota);
                for other in quotas() {
                    let _ = look(&store, key, &other);
                }
                let _ = ask(&store, key, quota, Op::Reserve(Cost::ONE));
                let _ = ask(&store, key, quota, Op::Refund(Cost::new(2).unwrap()));
            }
            assert!(small(&clock).load(&saved(&store)[..]).is_ok());
        }
    }
    assert!(loaded > 1_000, "{loaded}");
}

#[test]
fn what_a_file_promises_is_not_believed() {
    let clock = ManualClock::new(START);
    let empty = saved(&small(&clock).build());
    let load = |file: &[u8]| small(&clock).load(file).map(|_| ()).unwrap_err();
    let keys = with_number(empty.clone(), HEAD + 4, 1 << 60);
    assert!(matches!(load(&keys), SnapshotError::Damaged("keys are missing")));
    let lines = with_number(empty.clone(), LINES_AT, 1 << 60);
    assert!(matches!(load(&lines), SnapshotError::Size { wanted: 1_001, .. }), "{}", load(&lines));
    // A log of four billion numbers, of which none follows.
    let mut log = sample(&clock);
    let first = log[HEAD..].windows(4).position(|bytes| bytes == [2, 0, 0, 0]).unwrap() + HEAD;
    log[first..first + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(load(&forged(log)), SnapshotError::Damaged("it ends too early")));
}

#[test]
fn another_size_is_refused_with_the_one_that_fits() {
    let quota = Quota::token_bucket(1, days(1)).unwrap();
    let clock = ManualClock::new(START);
    for max_keys in [1, 100, 1_000, 12_345, 1_000_000] {
        let builder = || MemoryStore::builder().clock(clock.clone());
        let store = builder().max_keys(max_keys).build();
        assert!(take(&store, 1, &quota, 1));
        let file = saved(&store);
        let error = builder().max_keys(2 * max_keys + 1_000).load(&file[..]).unwrap_err();
        let SnapshotError::Size { saved, wanted } = error else { panic!("{error}") };
        assert!(saved >= max_keys && wanted >= 2 * max_keys + 1_000 && wanted != saved);
        assert!(!take(&builder().max_keys(saved).load(&file[..]).unwrap(), 1, &quota, 1));
        assert!(!take(&builder().max_keys(max_keys).load(&file[..]).unwrap(), 1, &quota, 1));
    }
}

#[test]
fn another_way_to_hash_and_a_newer_format_are_refused() {
    let clock = ManualClock::new(START);
    let file = sample(&clock);
    let other = with_number(file.clone(), WITNESS_AT, 1);
    assert!(matches!(small(&clock).load(&other[..]), Err(SnapshotError::Hash)));
    let mut newer = file;
    newer[VERSION_AT] = 2;
    let error = small(&clock).load(&forged(newer)[..]).unwrap_err();
    assert!(error.to_string().starts_with("the snapshot has format 2 and this version knows 1"), "{error}");
    assert!(matches!(small(&clock).load(&b"#!/bin/sh\nexit 1\n"[..]), Err(SnapshotError::Foreign)));
}

#[test]
fn an_error_of_the_reader_or_the_writer_is_passed_on() {
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
    let store = small(&clock).build();
    assert_eq!(store.save(Broken).unwrap_err().to_string(), "the disk is full");
    // A save that failed is in nobody's way.
    assert!(small(&clock).load(&saved(&store)[..]).is_ok());
    let error = small(&clock).load(Broken).unwrap_err();
    assert_eq!(error.to_string(), "the snapshot could not be read: the disk is gone");
}
