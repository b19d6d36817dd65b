//! A loaded store decides as the saved one.

use std::time::Duration;

use tidegate_core::{Algorithm, Lease, State, days};
use tidegate_testkit::Random;

use super::super::super::overflow::KeyRecord;
use super::*;

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

#[test]
fn loaded_store_decides_like_one_that_was_never_saved() {
    let mut quotas = quotas();
    quotas
        .extend([(3, seconds(20)), (5, minutes(10))].map(|(capacity, ttl)| Quota::concurrency(capacity, ttl).unwrap()));
    let (mut reloads, mut held) = (0, 0);
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let clock = ManualClock::new(START);
        let twin = small_store(&clock).build();
        let mut store = small_store(&clock).seed(seed).build();
        for step in 0..4_000 {
            let key = random.below(120);
            // Mostly the key's own quota, and sometimes another one, as after a reload.
            let quota = if random.one_in(20) { random.pick(&quotas) } else { quotas[key as usize % quotas.len()] };
            let op = random_op(&mut random, &quota);
            let decisions = (apply(&store, key, &quota, op), apply(&twin, key, &quota, op));
            assert_eq!(decisions.0, decisions.1, "seed {seed}, step {step}: {op:?} under {quota:?}");
            clock.advance(Duration::from_micros(random.of_bits(0, 20)));
            if random.one_in(200) {
                let file = save(&store);
                // The process is stopped for a while.
                clock.advance(Duration::from_micros(random.of_bits(0, 26)));
                store = small_store(&clock).load(&file[..]).unwrap();
                reloads += 1;
                held += store.stats().keys;
            }
        }
        assert_eq!(store.stats().forgotten_busy, 0);
    }
    assert!(reloads > 60 && held > 40 * reloads, "{reloads} {held}");
}

#[test]
fn exhausted_key_stays_exhausted() {
    for quota in quotas() {
        let clock = ManualClock::new(START);
        let store = small_store(&clock).build();
        assert!(take(&store, 1, &quota, quota.parts().capacity.into()));
        let loaded = small_store(&clock).load(&save(&store)[..]).unwrap();
        assert!(!take(&loaded, 1, &quota, quota.parts().capacity.into()), "{quota:?}");
        assert_eq!(check(&loaded, 1, &quota), check(&store, 1, &quota));
        assert_eq!(loaded.stats().keys, 1);
    }
}

#[test]
fn idle_keys_are_neither_saved_nor_loaded_and_saving_changes_nothing() {
    let quota = Quota::token_bucket(10, minutes(1)).unwrap();
    let log = Quota::sliding_log(10, minutes(1)).unwrap();
    let clock = ManualClock::new(START);
    let store = small_store(&clock).build();
    assert!((0..100).all(|key| take(&store, key, &quota, 10) && take(&store, key + 100, &log, 10)));
    clock.advance(seconds(30));
    assert!((200..250).all(|key| take(&store, key, &quota, 10)));
    clock.advance(seconds(30));
    let (before, records) = (store.stats(), records(&store));
    let mut file = Vec::new();
    assert_eq!(store.save(&mut file).unwrap(), 50);
    assert_eq!((store.stats(), self::records(&store)), (before, records));
    assert_eq!(small_store(&clock).load(&file[..]).unwrap().stats().keys, 50);
    clock.advance(seconds(30));
    assert_eq!(small_store(&clock).load(&file[..]).unwrap().stats().keys, 0);
}

/// Returns every key in the table with its state. Versions are left out, because a lock changes them.
fn records(store: &MemoryStore) -> Vec<(usize, u64, State)> {
    let mut records = Vec::new();
    let collect = |KeyRecord { fingerprint, line, state, .. }| {
        records.push((line, fingerprint, state));
        Ok::<_, ()>(())
    };
    store.table.scan(Timestamp::EPOCH, collect).unwrap();
    records
}

#[test]
fn full_table_is_loaded_without_eviction() {
    for quota in [Quota::token_bucket(10, days(1)).unwrap(), Quota::sliding_log(10, days(1)).unwrap()] {
        let clock = ManualClock::new(START);
        let store = small_store(&clock).build();
        for key in 0..5_000 {
            take(&store, key, &quota, 1 + key % 10);
        }
        let file = save(&store);
        let loaded = small_store(&clock).load(&file[..]).unwrap();
        assert_eq!((loaded.stats().keys, loaded.stats().forgotten_busy), (store.stats().keys, 0));
        assert!(loaded.stats().keys > 1_200);
        assert!((0..5_000).all(|key| check(&loaded, key, &quota) == check(&store, key, &quota)));
    }
}

#[test]
fn smaller_max_bytes_evicts_the_keys_closest_to_new() {
    let log = Quota::sliding_log(10, days(1)).unwrap();
    let clock = ManualClock::new(START);
    let store = small_store(&clock).build();
    assert!((0..500).all(|key| take(&store, key, &log, if key < 20 { 10 } else { 1 })));
    let loaded = small_store(&clock).max_bytes(40_000).load(&save(&store)[..]).unwrap();
    let stats = loaded.stats();
    assert!(stats.forgotten_busy > 100 && stats.forgotten_busy as usize + stats.keys == 500, "{stats:?}");
    assert!((0..20).all(|key| !take(&loaded, key, &log, 1)));
}

#[test]
fn quotas_without_a_number_are_saved() {
    let clock = ManualClock::new(START);
    let builder = || MemoryStore::builder().max_keys(40_000).clock(clock.clone());
    let store = builder().build();
    let quota = |key| Quota::token_bucket(1, days(1)).unwrap().max_debt(key).unwrap();
    assert!((0..20_000).all(|key| take(&store, key, &quota(key), 1)));
    let loaded = builder().load(&save(&store)[..]).unwrap();
    assert!((0..20_000).all(|key| check(&loaded, key, &quota(key)) == check(&store, key, &quota(key))));
    assert!((0..20_000).all(|key| !take(&loaded, key, &quota(key), 1)));
}

#[test]
fn clock_set_back_replenishes_no_loaded_key() {
    for quota in quotas() {
        let clock = ManualClock::new(START);
        let store = small_store(&clock).build();
        let capacity = quota.parts().capacity.into();
        assert!(take(&store, 1, &quota, capacity));
        let file = save(&store);
        for back in [Timestamp::from_micros(START.as_micros() - 3_600_000_000), Timestamp::EPOCH] {
            clock.set(back);
            let loaded = small_store(&clock).load(&file[..]).unwrap();
            assert_eq!(check(&loaded, 1, &quota), check(&store, 1, &quota));
            assert!(!take(&loaded, 1, &quota, capacity) && take(&loaded, 2, &quota, capacity));
        }
    }
}

#[test]
fn key_sizes_in_the_file_match_the_docs() {
    let sizes = quotas().into_iter().map(|quota| {
        let store = small_store(&ManualClock::new(START)).build();
        let size = || save(&store).len() - HEAD - 20;
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
fn leases_are_held_in_the_loaded_store() {
    let (quota, clock) = (Quota::concurrency(3, minutes(1)).unwrap(), ManualClock::new(START));
    let store = small_store(&clock).build();
    let sizes: Vec<_> = [1, u64::MAX, 1 << 63]
        .into_iter()
        .map(|bits| {
            clock.advance(seconds(1));
            assert!(apply(&store, 1, &quota, Op::Admit(Lease::from_bits(bits))).allowed());
            save(&store).len()
        })
        .collect();
    assert_eq!(sizes[1] - sizes[0], 24, "as the docs say");
    assert!(sizes[0] - HEAD - 20 <= 29 + 24 + 40);
    let loaded = small_store(&clock).load(&save(&store)[..]).unwrap();
    assert_eq!(check(&loaded, 1, &quota), check(&store, 1, &quota));
    assert!(!apply(&loaded, 1, &quota, Op::Admit(Lease::from_bits(2))).allowed());
    assert!(apply(&loaded, 1, &quota, Op::Release(Lease::from_bits(1 << 63))).allowed());
    clock.advance(seconds(58));
    assert_eq!(check(&loaded, 1, &quota).remaining(), 2, "the first has expired, and the last was released");
}
