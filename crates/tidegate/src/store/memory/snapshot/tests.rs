//! Files that are whole, and files that are not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::{
    Algorithm, Cost, Decision, Lease, MAX_COUNT, MAX_PERIOD, OnStoreError, Op, Request, State, Store, Timestamp, days,
    hours, millis, minutes, seconds,
};
use tidegate_testkit::Random;

use super::super::elsewhere::Entry;
use super::*;
use crate::clock::ManualClock;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// Bytes before the first key.
const HEAD: usize = 16 + 4 + 6 * 8;
/// Where the version is.
const VERSION_AT: usize = 16;
/// Where the witness and the size are.
const WITNESS_AT: usize = 16 + 4 + 4 * 8;
const LINES_AT: usize = WITNESS_AT + 8;

fn small(clock: &ManualClock) -> MemoryStoreBuilder {
    MemoryStore::builder().max_keys(1_000).clock(clock.clone())
}

fn ask(store: &MemoryStore, key: u64, quota: &Quota, op: Op) -> Decision {
    let (scope, key) = (Scope::new("", "test"), Key::from(key));
    let request = Request { scope: &scope, key: &key, quota, op, on_store_error: OnStoreError::Open };
    store.apply_now(&request).unwrap().unwrap()
}

fn take(store: &MemoryStore, key: u64, quota: &Quota, units: u64) -> bool {
    ask(store, key, quota, Op::Limit(Cost::new(units).unwrap())).allowed()
}

fn look(store: &MemoryStore, key: u64, quota: &Quota) -> Decision {
    ask(store, key, quota, Op::Check(Cost::ONE))
}

fn saved(store: &MemoryStore) -> Vec<u8> {
    let mut file = Vec::new();
    store.save(&mut file).unwrap();
    file
}

/// One of every kind: in a slot and not, of small numbers and of the largest.
fn quotas() -> Vec<Quota> {
    vec![
        Quota::token_bucket(10, minutes(1)).unwrap(),
        Quota::token_bucket(7, seconds(3)).unwrap().capacity(20).unwrap().max_debt(5).unwrap(),
        Quota::token_bucket(MAX_COUNT, MAX_PERIOD).unwrap(),
        Quota::fixed_window(10, minutes(1)).unwrap(),
        Quota::fixed_window(3, seconds(5)).unwrap().capacity(12).unwrap().start(seconds(2)).unwrap(),
        Quota::sliding_window(10, minutes(1)).unwrap(),
        Quota::sliding_window(MAX_COUNT, hours(1)).unwrap(),
        Quota::sliding_window(10, minutes(1)).unwrap().buckets(60).unwrap(),
        Quota::sliding_log(10, minutes(1)).unwrap(),
        Quota::sliding_log(50, seconds(20)).unwrap().max_debt(0).unwrap(),
    ]
}

fn random_op(random: &mut Random, quota: &Quota) -> Op {
    if quota.algorithm() == Algorithm::Concurrency {
        let lease = Lease::from_bits(random.below(8) << 32 | 5);
        return random.pick(&[Op::Admit(lease), Op::Admit(lease), Op::Renew(lease), Op::Release(lease)]);
    }
    let most = u64::from(quota.parts().capacity);
    let cost = Cost::new(if random.one_in(3) { random.between(1, most) } else { random.between(1, 3) }).unwrap();
    match random.below(20) {
        0..12 => Op::Limit(cost),
        12..14 => Op::Check(cost),
        14..17 => Op::Reserve(cost),
        17..19 => Op::Refund(cost),
        _ => Op::Reset,
    }
}

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

#[test]
fn a_loaded_store_goes_on_like_one_that_was_never_saved() {
    let mut quotas = quotas();
    quotas
        .extend([(3, seconds(20)), (5, minutes(10))].map(|(capacity, ttl)| Quota::concurrency(capacity, ttl).unwrap()));
    let (mut reloads, mut held) = (0, 0);
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let clock = ManualClock::new(START);
        let twin = small(&clock).build();
        let mut store = small(&clock).seed(seed).build();
        for step in 0..4_000 {
            let key = random.below(120);
            // Mostly the same for a key, sometimes as after a reload.
            let quota = if random.one_in(20) { random.pick(&quotas) } else { quotas[key as usize % quotas.len()] };
            let op = random_op(&mut random, &quota);
            let decisions = (ask(&store, key, &quota, op), ask(&twin, key, &quota, op));
            assert_eq!(decisions.0, decisions.1, "seed {seed}, step {step}: {op:?} under {quota:?}");
            clock.advance(Duration::from_micros(random.of_bits(0, 20)));
            if random.one_in(200) {
                let file = saved(&store);
                // The process is away for a while.
                clock.advance(Duration::from_micros(random.of_bits(0, 26)));
                store = small(&clock).load(&file[..]).unwrap();
                reloads += 1;
                held += store.stats().keys;
            }
        }
        assert_eq!(store.stats().forgotten_busy, 0);
    }
    assert!(reloads > 60 && held > 40 * reloads, "{reloads} {held}");
}

#[test]
fn an_exhausted_key_stays_exhausted() {
    for quota in quotas() {
        let clock = ManualClock::new(START);
        let store = small(&clock).build();
        assert!(take(&store, 1, &quota, quota.parts().capacity.into()));
        let loaded = small(&clock).load(&saved(&store)[..]).unwrap();
        assert!(!take(&loaded, 1, &quota, quota.parts().capacity.into()), "{quota:?}");
        assert_eq!(look(&loaded, 1, &quota), look(&store, 1, &quota));
        assert_eq!(loaded.stats().keys, 1);
    }
}

#[test]
fn what_is_as_good_as_new_is_neither_saved_nor_loaded_and_saving_changes_nothing() {
    let quota = Quota::token_bucket(10, minutes(1)).unwrap();
    let log = Quota::sliding_log(10, minutes(1)).unwrap();
    let clock = ManualClock::new(START);
    let store = small(&clock).build();
    assert!((0..100).all(|key| take(&store, key, &quota, 10) && take(&store, key + 100, &log, 10)));
    clock.advance(seconds(30));
    assert!((200..250).all(|key| take(&store, key, &quota, 10)));
    clock.advance(seconds(30));
    let (before, words) = (store.stats(), words(&store));
    let mut file = Vec::new();
    assert_eq!(store.save(&mut file).unwrap(), 50);
    assert_eq!((store.stats(), self::words(&store)), (before, words));
    assert_eq!(small(&clock).load(&file[..]).unwrap().stats().keys, 50);
    clock.advance(seconds(30));
    assert_eq!(small(&clock).load(&file[..]).unwrap().stats().keys, 0);
}

/// Every key in the table, and in what state it is. Not the versions: a lock changes them.
fn words(store: &MemoryStore) -> Vec<(usize, u64, State)> {
    let mut words = Vec::new();
    let word = |Entry { fingerprint, line, state, .. }| {
        words.push((line, fingerprint, state));
        Ok::<_, ()>(())
    };
    store.table.walk(Timestamp::EPOCH, word).unwrap();
    words
}

#[test]
fn a_full_table_is_loaded_without_forgetting_anybody() {
    for quota in [Quota::token_bucket(10, days(1)).unwrap(), Quota::sliding_log(10, days(1)).unwrap()] {
        let clock = ManualClock::new(START);
        let store = small(&clock).build();
        for key in 0..5_000 {
            take(&store, key, &quota, 1 + key % 10);
        }
        let file = saved(&store);
        let loaded = small(&clock).load(&file[..]).unwrap();
        assert_eq!((loaded.stats().keys, loaded.stats().forgotten_busy), (store.stats().keys, 0));
        assert!(loaded.stats().keys > 1_200);
        assert!((0..5_000).all(|key| look(&loaded, key, &quota) == look(&store, key, &quota)));
    }
}

#[test]
fn less_room_beside_the_table_forgets_what_is_closest_to_new() {
    let log = Quota::sliding_log(10, days(1)).unwrap();
    let clock = ManualClock::new(START);
    let store = small(&clock).build();
    assert!((0..500).all(|key| take(&store, key, &log, if key < 20 { 10 } else { 1 })));
    let loaded = small(&clock).max_bytes(40_000).load(&saved(&store)[..]).unwrap();
    let stats = loaded.stats();
    assert!(stats.forgotten_busy > 100 && stats.forgotten_busy as usize + stats.keys == 500, "{stats:?}");
    assert!((0..20).all(|key| !take(&loaded, key, &log, 1)));
}

#[test]
fn more_quotas_than_have_numbers_are_saved_too() {
    let clock = ManualClock::new(START);
    let builder = || MemoryStore::builder().max_keys(40_000).clock(clock.clone());
    let store = builder().build();
    let quota = |key| Quota::token_bucket(1, days(1)).unwrap().max_debt(key).unwrap();
    assert!((0..20_000).all(|key| take(&store, key, &quota(key), 1)));
    let loaded = builder().load(&saved(&store)[..]).unwrap();
    assert!((0..20_000).all(|key| look(&loaded, key, &quota(key)) == look(&store, key, &quota(key))));
    assert!((0..20_000).all(|key| !take(&loaded, key, &quota(key), 1)));
}

#[test]
fn keys_wait_for_a_clock_that_went_back() {
    for quota in quotas() {
        let clock = ManualClock::new(START);
        let store = small(&clock).build();
        let capacity = quota.parts().capacity.into();
        assert!(take(&store, 1, &quota, capacity));
        let file = saved(&store);
        for back in [Timestamp::from_micros(START.as_micros() - 3_600_000_000), Timestamp::EPOCH] {
            clock.set(back);
            let loaded = small(&clock).load(&file[..]).unwrap();
            assert_eq!(look(&loaded, 1, &quota), look(&store, 1, &quota));
            assert!(!take(&loaded, 1, &quota, capacity) && take(&loaded, 2, &quota, capacity));
        }
    }
}

#[test]
fn the_size_of_a_key_in_the_file_is_what_the_docs_say() {
    let sizes = quotas().into_iter().map(|quota| {
        let store = small(&ManualClock::new(START)).build();
        let size = || saved(&store).len() - HEAD - 20;
        take(&store, 1, &quota, 3);
        let first = size();
        take(&store, 2, &quota, 3);
        let key = size() - first;
        assert!(first - key <= 40, "{}", first - key);
        (quota.algorithm().as_str(), quota.parts().buckets, key)
    });
    let expected = [
        ("token_bucket", 1, 37),
        ("token_bucket", 1, 37),
        ("token_bucket", 1, 37),
        ("fixed_window", 1, 37),
        ("fixed_window", 1, 37),
        ("sliding_window", 1, 45),
        ("sliding_window", 1, 45),
        ("sliding_window", 60, 517),
        ("sliding_log", 1, 53),
        ("sliding_log", 1, 53),
    ];
    assert_eq!(sizes.collect::<Vec<_>>(), expected);
}

#[test]
fn leases_are_held_in_the_loaded_store_too() {
    let (quota, clock) = (Quota::concurrency(3, minutes(1)).unwrap(), ManualClock::new(START));
    let store = small(&clock).build();
    let sizes: Vec<_> = [1, u64::MAX, 1 << 63]
        .into_iter()
        .map(|bits| {
            clock.advance(seconds(1));
            assert!(ask(&store, 1, &quota, Op::Admit(Lease::from_bits(bits))).allowed());
            saved(&store).len()
        })
        .collect();
    assert_eq!(sizes[1] - sizes[0], 24, "as the docs say");
    assert!(sizes[0] - HEAD - 20 <= 29 + 24 + 40);
    let loaded = small(&clock).load(&saved(&store)[..]).unwrap();
    assert_eq!(look(&loaded, 1, &quota), look(&store, 1, &quota));
    assert!(!ask(&loaded, 1, &quota, Op::Admit(Lease::from_bits(2))).allowed());
    assert!(ask(&loaded, 1, &quota, Op::Release(Lease::from_bits(1 << 63))).allowed());
    clock.advance(seconds(58));
    assert_eq!(look(&loaded, 1, &quota).remaining(), 2, "the first has expired, and the last was released");
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
                look(&store, key, quota);
                for other in quotas() {
                    look(&store, key, &other);
                }
                ask(&store, key, quota, Op::Reserve(Cost::ONE));
                ask(&store, key, quota, Op::Refund(Cost::new(2).unwrap()));
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

#[test]
fn a_key_that_moves_behind_a_walk_is_not_missed() {
    let quota = Quota::token_bucket(2, days(1)).unwrap();
    let state = State::TokenBucket { deficit: 1_000, last: START };
    let table = Table::new(3, 1 << 20);
    let lines = &table;
    let fingerprints =
        |first: usize, second: usize| (1..).filter(move |fingerprint| lines.other(first, *fingerprint) == second);
    // A line's own key tells when it is its turn. The fingerprints of lines 0 and 2 are those of line 1 alone.
    let (first, middle) = (fingerprints(0, 0).next().unwrap(), fingerprints(1, 1).next().unwrap());
    let mover = fingerprints(0, 2).find(|fingerprint| *fingerprint != middle).unwrap();
    for (fingerprint, line) in [(first, 0), (middle, 1), (mover, 0)] {
        table.put(&Entry { fingerprint, line, quota, state: state.clone() }, START);
    }
    let walk = |at: u64, from: usize, to: usize| {
        let mut shown = Vec::new();
        let show = |entry: Entry| {
            shown.push(entry.fingerprint);
            if entry.fingerprint == at {
                assert!(table.move_key(mover, from, to, START));
            }
            Ok::<_, ()>(())
        };
        table.walk(START, show).unwrap();
        shown.into_iter().filter(|fingerprint| *fingerprint == mover).count()
    };
    // Forth, from a line that has had its turn: shown again. Back, from one that has not: shown all the same.
    assert_eq!(walk(middle, 0, 2), 2);
    assert_eq!(walk(middle, 2, 0), 1);
    assert_eq!(walk(first, 0, 2), 2);
    assert_eq!(walk(first, 2, 0), 1);
    // Nothing is left of a walk for the next one.
    assert!(table.move_key(mover, 0, 2, START) && table.move_key(mover, 2, 0, START));
    assert_eq!(walk(0, 0, 0), 1);
}

#[test]
fn of_a_key_that_is_in_a_file_twice_the_later_one_counts() {
    let (bucket, log) = (Quota::token_bucket(10, days(1)).unwrap(), Quota::sliding_log(10, days(1)).unwrap());
    let store = small(&ManualClock::new(START)).build();
    let mut states = Vec::new();
    for (quota, units) in [(bucket, 3), (bucket, 4), (log, 5), (log, 1), (bucket, 2)] {
        take(&store, 1, &quota, units);
        let show = |entry| {
            states.push((look(&store, 1, &quota), entry));
            Ok::<_, ()>(())
        };
        store.table.walk(START, show).unwrap();
        ask(&store, 1, &quota, Op::Reset);
    }
    for (expected, entry) in &states {
        store.table.put(entry, START);
        assert_eq!(look(&store, 1, &entry.quota), *expected);
        assert_eq!(store.stats().keys, 1);
    }
    // Also when there is nothing left of it by now.
    let (_, last) = &states[4];
    store.table.put(last, START.saturating_add(days(1)));
    assert_eq!(store.stats().keys, 0);
}

#[test]
fn a_store_can_be_saved_while_four_threads_use_it() {
    const HOT: u64 = 1_000_000;
    let quota = Quota::token_bucket(4_000_000_000, days(1)).unwrap();
    let exhaustible = [Quota::token_bucket(10, days(1)).unwrap(), Quota::sliding_log(10, days(1)).unwrap()];
    let clock = ManualClock::new(START);
    let store = small(&clock).build();
    assert!((0..100).all(|key| take(&store, key, &exhaustible[key as usize % 2], 10)));
    assert!(take(&store, HOT, &quota, 3_900_000_000));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let (store, done, quotas) = (&store, &done, &exhaustible);
            scope.spawn(move || {
                // New keys make the others move; they are hardly used, so no exhausted one is forgotten for them.
                for key in thread * 10_000_000.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    take(store, key, &quotas[key as usize % 2], 1);
                    take(store, HOT, &quota, 1);
                }
            });
        }
        // Also when an assertion fails.
        let _stop = Stop(&done);
        for _ in 0..60 {
            let before = look(&store, HOT, &quota).remaining();
            let file = saved(&store);
            let after = look(&store, HOT, &quota).remaining();
            let loaded = small(&clock).load(&file[..]).unwrap();
            assert!((after..=before).contains(&look(&loaded, HOT, &quota).remaining()));
            let forgiven = (0..100).filter(|key| take(&loaded, *key, &exhaustible[*key as usize % 2], 1)).count();
            assert_eq!(forgiven, 0);
        }
    });
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
