//! Tests of the internals of the memory store. The conformance suite tests its decisions.

#![cfg(not(loom))]

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use tidegate_core::{Cost, Key, Lease, OnStoreError, Quota, days, minutes, seconds};

use super::line::{SLOTS, WORDS};
use super::table::CandidateLines;
use super::*;
use crate::clock::ManualClock;

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

/// A memory store with a manual clock, and helpers that apply requests.
struct TestStore {
    inner: MemoryStore,
    clock: ManualClock,
    scope: Scope,
}

impl TestStore {
    fn new(builder: MemoryStoreBuilder) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        TestStore { inner: builder.clock(clock.clone()).build(), clock, scope: Scope::new("", "test") }
    }

    /// Creates a store with so few lines that keys collide.
    fn with_lines(lines: usize, seed: u64) -> Self {
        let mut store = TestStore::new(MemoryStore::builder().seed(seed));
        store.inner.table = Table::new(lines, 1 << 20);
        store
    }

    fn apply_all(&self, keys: impl IntoIterator<Item = u64>, quota: &Quota) -> Result<JointDecision, StoreError> {
        let keys: Vec<_> = keys.into_iter().map(Key::from).collect();
        let op = Op::Limit(Cost::ONE);
        let request = |key| Request { scope: &self.scope, key, quota, op, on_store_error: OnStoreError::Open };
        self.inner.decide_all_at(&keys.iter().map(request).collect::<Vec<_>>(), self.clock.now())
    }

    fn apply(&self, key: u64, quota: &Quota, op: Op) -> Decision {
        let key = Key::from(key);
        let request = Request { scope: &self.scope, key: &key, quota, op, on_store_error: OnStoreError::Open };
        self.inner.try_apply(&request).unwrap().unwrap()
    }

    fn take(&self, key: u64, quota: &Quota, units: u64) -> bool {
        self.apply(key, quota, Op::Limit(cost(units))).allowed()
    }

    /// Returns every word of the table, versions included.
    fn words(&self) -> Vec<u64> {
        let table = &self.inner.table;
        (0..table.lines * WORDS).map(|word| table.word(word)).collect()
    }
}

#[test]
fn denial_and_check_write_nothing_and_take_no_lock() {
    let store = TestStore::new(MemoryStore::builder().max_keys(50));
    let quotas = [
        Quota::token_bucket(10, minutes(1)).unwrap(),
        Quota::fixed_window(10, minutes(1)).unwrap(),
        Quota::sliding_window(10, minutes(1)).unwrap(),
    ];
    for (quota, key) in quotas.iter().zip(0..) {
        assert!(store.take(key, quota, 10));
        store.clock.advance(seconds(1));
        // A lock would change the version of a line.
        let before = store.words();
        assert!(!store.take(key, quota, 10));
        assert!(!store.take(key, quota, 11));
        assert!(!store.take(key + 100, quota, 11));
        let _ = store.apply(key, quota, Op::Check(Cost::ONE));
        let _ = store.apply(key + 100, quota, Op::Check(Cost::ONE));
        assert_eq!(store.words(), before);
    }
}

#[test]
fn max_keys_fit_without_eviction() {
    let quota = Quota::token_bucket(1, days(1)).unwrap();
    for max_keys in [1, 2, 10, 100, 1_000, 20_000, 200_000] {
        let store = TestStore::new(MemoryStore::builder().max_keys(max_keys));
        assert!((0..max_keys as u64).all(|key| store.take(key, &quota, 1)));
        assert_eq!(store.inner.stats().forgotten_busy, 0, "{max_keys}");
        assert_eq!(store.inner.stats().keys, max_keys);
        assert!((0..max_keys as u64).all(|key| !store.take(key, &quota, 1)));
    }
}

#[test]
fn flood_of_new_keys_evicts_no_exhausted_key() {
    let quotas = [
        Quota::token_bucket(10, days(1)).unwrap(),
        Quota::fixed_window(10, days(1)).unwrap(),
        Quota::sliding_window(10, days(1)).unwrap(),
        Quota::sliding_window(10, days(1)).unwrap().buckets(24).unwrap(),
        Quota::sliding_log(10, days(1)).unwrap(),
    ];
    for quota in quotas {
        let store = TestStore::new(MemoryStore::builder().max_keys(1_000));
        let exhausted = 0..200;
        assert!(exhausted.clone().all(|key| store.take(key, &quota, 10)));
        // Later, so that the flood's keys are further from new by the clock, though hardly used.
        store.clock.advance(seconds(1));
        for key in 1_000..50_000 {
            assert!(store.take(key, &quota, 1));
        }
        let stats = store.inner.stats();
        assert!(stats.keys <= 1_000 * 100 / 75 + 2 * SLOTS, "{stats:?}");
        assert!(stats.forgotten_busy > 45_000, "{stats:?}");
        let forgiven = exhausted.filter(|key| store.take(*key, &quota, 1)).count();
        assert_eq!(forgiven, 0, "{quota:?}");
    }
}

#[test]
fn no_key_is_evicted_while_a_free_slot_is_one_move_away() {
    let quota = Quota::token_bucket(10, days(1)).unwrap();
    let store = TestStore::with_lines(1_000, 1);
    let table = &store.inner.table;
    let has_room = |line: usize| table.line(line).slots().into_iter().any(|slot| slot.fingerprint == 0);
    let is_near = |candidates: CandidateLines| {
        [candidates.first, candidates.second].into_iter().any(|line| {
            let behind = table.line(line).slots().map(|slot| table.other_line(line, slot.fingerprint));
            has_room(line) || behind.into_iter().any(has_room)
        })
    };
    let evicted = || store.inner.stats().forgotten_busy;
    // From a table that is nearly full to one that is full.
    assert!((0..2_800).all(|key| store.take(key, &quota, 1)));
    let mut nearly_full = 0;
    for key in 2_800..4_000 {
        let near = is_near(table.candidates(store.inner.hash.hash(&store.scope, &Key::from(key))));
        let (before, keys) = (evicted(), store.inner.stats().keys);
        assert!(store.take(key, &quota, 1));
        assert!(!near || evicted() == before, "with {keys} keys");
        nearly_full += u64::from(near && keys > 1_000 * SLOTS * 96 / 100);
    }
    assert!(nearly_full > 50, "{nearly_full}");
}

#[test]
fn forgotten_busy_counts_exactly_the_evicted_busy_keys() {
    let long = Quota::token_bucket(10, days(1)).unwrap();
    let short = Quota::token_bucket(10, seconds(1)).unwrap();
    let store = TestStore::with_lines(1_000, 2);
    let has_all = |keys: std::ops::Range<u64>, quota: &Quota| {
        keys.filter(|key| store.apply(*key, quota, Op::Check(Cost::ONE)).remaining() == 10).count() as u64
    };
    // Mostly busy keys, and here and there some that are as good as new.
    assert!((0..2_700).all(|key| store.take(key, &long, 1)));
    assert!((10_000..10_290).all(|key| store.take(key, &short, 10)));
    let mut forgotten = has_all(10_000..10_290, &short);
    store.clock.advance(seconds(1));
    assert!((20_000..20_200).all(|key| store.take(key, &long, 1)));
    forgotten += has_all(0..2_700, &long) + has_all(20_000..20_200, &long);
    assert_eq!(store.inner.stats().forgotten_busy, forgotten);
}

#[test]
fn idle_keys_are_evicted_first() {
    let short = Quota::token_bucket(1, seconds(1)).unwrap();
    let long = Quota::token_bucket(10, days(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(1_000));
    assert!((0..500).all(|key| store.take(key, &long, 1)));
    for round in 1..100 {
        assert!((0..500).all(|key| store.take(round * 1_000 + key, &short, 1)));
        store.clock.advance(seconds(1));
    }
    assert_eq!(store.inner.stats().forgotten_busy, 0);
    assert!((0..500).all(|key| store.apply(key, &long, Op::Check(Cost::ONE)).remaining() == 9));
}

#[test]
fn calls_that_add_keys_sweep_idle_ones() {
    let short = Quota::token_bucket(1, seconds(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(10_000));
    assert!((0..10_000).all(|key| store.take(key, &short, 1)));
    store.clock.advance(seconds(2));
    // One line is swept for one new key, and a line has three.
    let long = Quota::token_bucket(1, days(1)).unwrap();
    assert!((20_000..26_000).all(|key| store.take(key, &long, 1)));
    let held = store.inner.stats().keys;
    assert!(held < 6_100, "{held}");
}

#[test]
fn late_decision_finds_its_key_after_a_sweep() {
    let window = Quota::fixed_window(1, seconds(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(10_000).seed(1));
    assert!((0..500).all(|key| store.take(key, &window, 1)));
    store.clock.advance(seconds(1));
    // Each sweeps a line, of which there are some nine times as many.
    assert!((1_000..1_500).all(|key| store.take(key, &window, 1)));
    store.clock.set(store.clock.now().saturating_sub(Duration::from_micros(1)));
    assert!((0..500).all(|key| !store.take(key, &window, 1)));
}

#[test]
fn overflow_states_stay_within_max_bytes() {
    let log = Quota::sliding_log(100, days(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(100_000).max_bytes(1 << 20));
    let table = store.inner.stats().bytes;
    assert!((0..50).all(|_| store.take(0, &log, 2)));
    for key in 1..20_000 {
        store.clock.advance(seconds(1) / 1_000);
        assert!(store.take(key, &log, 1));
        let extra = store.inner.stats().bytes - table;
        assert!(extra < (1 << 20) + 10_000, "{extra}");
    }
    assert!(store.inner.stats().forgotten_busy > 0);
    assert!(!store.take(0, &log, 1), "the exhausted key was evicted before those that were used once");
}

/// Returns a quota of each kind whose states are in the overflow table.
fn overflow_quotas() -> [Quota; 3] {
    [
        Quota::sliding_log(10, days(1)).unwrap(),
        Quota::sliding_window(10, days(1)).unwrap().buckets(10).unwrap(),
        Quota::concurrency(10, days(1)).unwrap(),
    ]
}

impl TestStore {
    /// Takes one unit, or one lease that the key does not have yet.
    fn take_one(&self, key: u64, quota: &Quota, number: u64) -> bool {
        let is_lease = quota.supports(Op::Admit(Lease::from_bits(0)));
        let op = if is_lease { Op::Admit(Lease::from_bits(number)) } else { Op::Limit(Cost::ONE) };
        self.apply(key, quota, op).allowed()
    }
}

#[test]
fn flood_of_new_keys_evicts_no_exhausted_overflow_state() {
    const MAX_BYTES: usize = 256 << 10;
    for seed in 0..20 {
        for flood in overflow_quotas() {
            let store = TestStore::new(MemoryStore::builder().max_keys(10_000).max_bytes(MAX_BYTES).seed(seed));
            let table = store.inner.stats().bytes;
            // One after the other, so that they are neighbours: a third of the bytes.
            let exhausted: Vec<_> = (0..400).zip(overflow_quotas().into_iter().cycle()).collect();
            for (key, quota) in &exhausted {
                assert!((0..10).all(|number| store.take_one(*key, quota, number)));
            }
            store.clock.advance(seconds(1));
            for key in 1_000..4_000 {
                assert!(store.take_one(key, &flood, 0));
                let extra = store.inner.stats().bytes - table;
                assert!(extra <= MAX_BYTES, "{extra}");
            }
            assert!(store.inner.stats().forgotten_busy > 1_000);
            let forgiven = exhausted.iter().filter(|(key, quota)| store.take_one(*key, quota, 10)).count();
            assert_eq!(forgiven, 0, "seed {seed}, {flood:?}");
        }
    }
}

#[test]
fn flood_of_new_keys_evicts_no_lease_in_flight() {
    let [log, window, leases] = overflow_quotas();
    for flood in [log, window] {
        let store = TestStore::new(MemoryStore::builder().max_keys(10_000).max_bytes(256 << 10));
        // A renewed lease of one, of ten that there may be.
        assert!((0..400).all(|key| store.take_one(key, &leases, 0)));
        for key in 1_000..4_000 {
            assert!(store.take_one(key, &flood, 0));
        }
        assert!(store.inner.stats().forgotten_busy > 1_000);
        assert!((0..400).all(|key| store.apply(key, &leases, Op::Renew(Lease::from_bits(0))).allowed()), "{flood:?}");
    }
}

#[test]
fn among_equal_states_the_least_recently_written_is_evicted() {
    let [_, _, leases] = overflow_quotas();
    let store = TestStore::new(MemoryStore::builder().max_keys(10_000).max_bytes(256 << 10));
    let renew = |key| store.apply(key, &leases, Op::Renew(Lease::from_bits(0))).allowed();
    assert!((0..400).all(|key| store.take_one(key, &leases, 0)));
    for key in 1_000..4_000 {
        store.clock.advance(seconds(1));
        assert!(store.take_one(key, &leases, 0));
        assert!(key % 100 > 0 || (0..200).all(renew));
    }
    assert!((200..400).all(|key| !renew(key)));
}

#[test]
fn idle_overflow_states_are_evicted_before_busy_ones() {
    let short = Quota::sliding_log(10, seconds(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(100_000).max_bytes(256 << 10));
    for round in 0..5 {
        assert!((0..800).all(|key| store.take(round * 800 + key, &short, 10)));
        store.clock.advance(seconds(2));
    }
    let long = Quota::sliding_log(10, days(1)).unwrap();
    assert!((10_000..10_800).all(|key| store.take(key, &long, 1)));
    assert_eq!(store.inner.stats().forgotten_busy, 0);
    assert!((10_000..10_800).all(|key| store.apply(key, &long, Op::Check(Cost::ONE)).remaining() == 9));
}

#[test]
fn memory_of_removed_overflow_states_is_reused_and_freed() {
    let store = TestStore::new(MemoryStore::builder().max_keys(10_000));
    let [log, ..] = overflow_quotas();
    assert!((0..5_000).all(|key| store.take(key, &log, 3)));
    assert_eq!(store.inner.table.overflow.entries(), 5_000);
    for key in (0..5_000).filter(|key| key % 50 > 0) {
        let _ = store.apply(key, &log, Op::Reset);
    }
    // Each of 16 shards may have a few vacant entries.
    let entries = store.inner.table.overflow.entries();
    assert!(entries < 100 + 16 * 8, "{entries}");
    assert!((0..5_000).step_by(50).all(|key| store.apply(key, &log, Op::Check(Cost::ONE)).remaining() == 7));
}

#[test]
fn moving_records_are_never_admitted_twice() {
    const KEYS: u64 = 100;
    const CAPACITY: u64 = 20;
    let log = Quota::sliding_log(CAPACITY, days(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(10_000));
    let admitted: Vec<_> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, admitted, start) = (&store, &admitted, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..=CAPACITY {
                    // Records before and between the others come and go, so the others move.
                    let others = || (0..KEYS).map(|n| 1_000 + thread * KEYS + n);
                    assert!(others().all(|key| store.take(key, &log, 1)));
                    for n in 0..KEYS {
                        let key = (n * 7 + thread * 25 + round) % KEYS;
                        let allowed = store.take(key, &log, 1);
                        admitted[key as usize].fetch_add(allowed.into(), Ordering::Relaxed);
                    }
                    others().for_each(|key| _ = store.apply(key, &log, Op::Reset));
                }
            });
        }
    });
    assert!(admitted.iter().all(|count| count.load(Ordering::Relaxed) == CAPACITY));
    assert_eq!(store.inner.stats().keys, KEYS as usize);
}

#[test]
fn key_beyond_its_share_is_evicted_before_others() {
    let log = Quota::sliding_log(5, days(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(1_000).max_bytes(1 << 20));
    assert!((1..100).all(|key| store.take(key, &log, 5)));
    // An arbitrarily large log, on credit.
    for _ in 0..200_000 {
        store.clock.advance(Duration::from_micros(1));
        assert!(store.apply(0, &log, Op::Reserve(cost(1))).allowed());
    }
    assert!(store.inner.stats().forgotten_busy > 0);
    assert!((1..100).all(|key| !store.take(key, &log, 1)), "none of the others got its quota back");
}

#[test]
fn state_that_the_quota_needs_is_not_evicted_for_its_size() {
    let log = Quota::sliding_log(10_000, days(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(100_000).max_bytes(1 << 20));
    // There are too many bytes all the time.
    for number in 0..30_000 {
        store.clock.advance(Duration::from_micros(1));
        assert!(store.take(1 + number, &log, 1));
        let admitted = store.take(0, &log, 1);
        assert_eq!(admitted, number < 10_000, "{number}");
    }
    assert!(store.inner.stats().forgotten_busy > 0);
}

#[test]
fn keys_with_few_leases_are_evicted_before_full_ones() {
    let leases = Quota::concurrency(10, days(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(100_000).max_bytes(1 << 20));
    let table = store.inner.stats().bytes;
    let admit = |key, bits| store.apply(key, &leases, Op::Admit(Lease::from_bits(bits))).allowed();
    assert!((0..10).all(|bits| admit(0, bits)));
    for key in 1..20_000 {
        store.clock.advance(seconds(1) / 1_000);
        assert!(admit(key, 1));
        let extra = store.inner.stats().bytes - table;
        assert!(extra < (1 << 20) + 10_000, "{extra}");
    }
    assert!(store.inner.stats().forgotten_busy > 0);
    assert!(!admit(0, 11), "the full key was evicted before those with one lease");
}

#[test]
fn state_moves_between_slot_and_overflow_table() {
    let quota = Quota::token_bucket(999, seconds(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(10));
    let table = store.inner.stats().bytes;
    // Five million units of a million sub-units do not fit in 42 bits.
    for _ in 0..5_000 {
        let _ = store.apply(1, &quota, Op::Reserve(cost(999)));
    }
    assert!(store.inner.stats().bytes > table);
    let _ = store.apply(1, &quota, Op::Refund(cost(4_999 * 999)));
    assert_eq!(store.inner.stats().bytes, table);
    assert_eq!(store.apply(1, &quota, Op::Check(Cost::ONE)).remaining(), 0);
    let _ = store.apply(1, &quota, Op::Reset);
    assert_eq!(store.inner.stats().keys, 0);
}

#[test]
fn no_table_scan_on_insert_when_nearly_full() {
    let quota = Quota::token_bucket(10, days(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(20_000));
    let mut most = 0;
    for key in 0..60_000 {
        table::LINES_TOUCHED.set(0);
        store.take(key, &quota, 1);
        most = most.max(table::LINES_TOUCHED.get());
    }
    // Two lines, six keys to move, eighteen behind those and fifty-four behind them; each is looked at a few times.
    assert!(most < 600, "{most} lines for one decision");
}

#[test]
fn moving_keys_are_never_admitted_twice() {
    const KEYS: u64 = 300;
    const CAPACITY: u64 = 20;
    let quota = Quota::token_bucket(CAPACITY, days(1)).unwrap();
    for _ in 0..20 {
        // Nearly full, so that new keys make the others move while they are asked.
        let store = TestStore::new(MemoryStore::builder().max_keys(KEYS as usize));
        let admitted: Vec<_> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, admitted, start) = (&store, &admitted, &start);
                scope.spawn(move || {
                    start.wait();
                    for round in 0..=CAPACITY {
                        for n in 0..KEYS {
                            let key = (n * 7 + thread * 75 + round) % KEYS;
                            let allowed = store.take(key, &quota, 1);
                            admitted[key as usize].fetch_add(allowed.into(), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(store.inner.stats().forgotten_busy, 0);
        assert_eq!(store.inner.stats().keys, KEYS as usize);
        assert!(admitted.iter().all(|count| count.load(Ordering::Relaxed) == CAPACITY));
    }
}

#[test]
fn joint_decisions_are_atomic_while_keys_move() {
    let quota = Quota::token_bucket(50, days(1)).unwrap();
    let store = Arc::new(TestStore::new(MemoryStore::builder().max_keys(64)));
    let threads: Vec<_> = (0..4)
        .map(|thread: u64| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                let mut taken = 0_u64;
                for round in 0..200 {
                    let keys = [Key::from(1_u64), Key::from(2_u64), Key::from(100 + (thread * 50 + round) % 60)];
                    let request = |key| Request {
                        scope: &store.scope,
                        key,
                        quota: &quota,
                        op: Op::Limit(Cost::ONE),
                        on_store_error: OnStoreError::Open,
                    };
                    let requests: Vec<_> = keys.iter().map(request).collect();
                    let now = store.clock.now();
                    taken += u64::from(store.inner.decide_all_at(&requests, now).unwrap().allowed());
                }
                taken
            })
        })
        .collect();
    let taken: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(taken, 50);
    for key in [1, 2] {
        assert_eq!(store.apply(key, &quota, Op::Check(Cost::ONE)).remaining(), 0);
    }
}

#[test]
fn clock_is_read_once_per_decision() {
    struct CountingClock(Arc<AtomicU64>);
    impl Clock for CountingClock {
        fn now(&self) -> Timestamp {
            self.0.fetch_add(1, Ordering::Relaxed);
            Timestamp::from_millis(1_700_000_000_000)
        }
    }
    let reads = Arc::new(AtomicU64::new(0));
    let store = MemoryStore::builder().max_keys(10).clock(CountingClock(Arc::clone(&reads))).build();
    let (scope, key) = (Scope::new("", "test"), Key::from("u"));
    let quotas = [Quota::token_bucket(1, days(1)), Quota::fixed_window(1, days(1)), Quota::sliding_log(1, days(1))];
    for quota in quotas.map(Result::unwrap) {
        // New, denied, looked at, given back, forgotten.
        for op in [Op::Limit(Cost::ONE), Op::Limit(Cost::ONE), Op::Check(Cost::ONE), Op::Refund(Cost::ONE), Op::Reset] {
            let before = reads.load(Ordering::Relaxed);
            let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Open };
            let _ = store.try_apply(&request).unwrap().unwrap();
            assert_eq!(reads.load(Ordering::Relaxed) - before, 1, "{op:?} under {quota:?}");
        }
    }
}

#[test]
fn joint_call_with_more_keys_than_slots_is_rejected_and_takes_nothing() {
    for quota in [Quota::sliding_log(9, days(1)), Quota::token_bucket(9, days(1))].map(Result::unwrap) {
        for seed in 0..200 {
            let store = TestStore::with_lines(2, seed);
            let held: Vec<u64> = (0..6).filter(|key| store.take(*key, &quota, 1)).collect();
            let before: Vec<_> = held.iter().map(|key| store.apply(*key, &quota, Op::Check(Cost::ONE))).collect();
            assert!(store.apply_all((100..110).chain(held.clone()), &quota).is_err());
            let after: Vec<_> = held.iter().map(|key| store.apply(*key, &quota, Op::Check(Cost::ONE))).collect();
            assert_eq!(before, after, "seed {seed}");
        }
    }
}

#[test]
fn denials_and_checks_evict_no_key() {
    let quota = Quota::token_bucket(10, days(1)).unwrap();
    let store = TestStore::new(MemoryStore::builder().max_keys(1_000));
    assert!(store.take(0, &quota, 10));
    assert!((1..5_000).all(|key| store.take(key, &quota, 1 + key % 9)));
    let full = store.inner.stats();
    for key in 10_000..10_500 {
        assert!(!store.apply_all([0, key], &quota).unwrap().allowed());
        assert!(!store.take(key, &quota, 11));
        let _ = store.apply(key, &quota, Op::Check(Cost::ONE));
    }
    assert_eq!(store.inner.stats(), full);
    // Nor when the registry has no number left for the quota of a check.
    for rate in 1..=40_000 {
        let _ = store.apply(0, &Quota::token_bucket(rate, seconds(7)).unwrap(), Op::Check(Cost::ONE));
    }
    for rate in 40_000..41_000 {
        let _ = store.apply(20_000, &Quota::token_bucket(rate, seconds(7)).unwrap(), Op::Check(Cost::ONE));
    }
    assert_eq!(store.inner.stats(), full);
}

#[cfg(feature = "testing")]
#[test]
fn random_traces_agree_with_the_model_in_a_table_of_two_lines() {
    use tidegate_testkit::{Subject, block_on, oracle};

    // Six slots for a handful of keys: they move about and share the overflow table all the time.
    let mut agreed = 0;
    for seed in 0..60 {
        let subject = Subject::new(TestStore::with_lines(2, seed).inner);
        // Once, and not again with something left out: that would fill the table with other keys.
        let result = block_on(oracle::replay(&subject, "once", &oracle::Trace::from_seed(seed, 60)));
        match (result, subject.store().stats().forgotten_busy) {
            (Ok(_), 0) => agreed += 1,
            (Ok(_), _) => {}
            (Err(mismatch), forgotten) => assert!(forgotten > 0, "seed {seed}: {mismatch}"),
        }
    }
    assert!(agreed >= 50, "only {agreed} traces went without forgetting a busy key");
}
