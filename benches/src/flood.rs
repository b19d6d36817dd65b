//! Floods of keys that are requested once, for every kind of state in the overflow table.
//!
//! No exhausted key is evicted, and memory stays within its bound.

use std::process::Command;
use std::thread;
use std::time::Duration;

use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Key, Lease, ManualClock, MemoryStore, OnStoreError, Quota, Store, Timestamp, days, seconds};

use crate::footprint::resident;

const RUNS: u32 = 20;
const EXHAUSTED: u64 = 400;
const CAPACITY: u64 = 10;
const FLOOD: u64 = 2_000_000;
const THREADS: u64 = 4;
const MAX_BYTES: usize = 64 << 20;
const LARGE_LOGS: u64 = 50_000;
const LARGE_LOG_LEN: u64 = 100;
const KINDS: [&str; 4] = ["log", "window", "lease", "in turn"];

pub(crate) fn run() {
    println!(
        "\n{EXHAUSTED} exhausted keys, then {FLOOD} keys with one request each, {RUNS} times. max_bytes is {MAX_BYTES}.\n"
    );
    println!("{:<10} {:>12} {:>14} {:>16}", "flood", "forgotten", "bytes beside", "resident bytes");
    for kind in KINDS {
        let this = std::env::current_exe().expect("this program");
        let output = Command::new(this).args(["flood", kind]).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        println!("{kind:<10} {}", String::from_utf8_lossy(&output.stdout).trim_end());
    }
    in_slots();
}

/// Floods tables with a growing share of slots with exhausted keys.
fn in_slots() {
    const MAX_KEYS: u64 = 100_000;
    println!("\nExhausted keys evicted from slots by {FLOOD} keys with one request each. max_keys is {MAX_KEYS}.\n");
    println!("{:<10} {:>12} {:>14}", "exhausted", "evicted", "p^24 each");
    let quota = Quota::token_bucket(CAPACITY, days(1)).expect("a valid quota");
    for quarters in 1..=4 {
        let target = Target::new(MAX_KEYS as usize);
        let exhausted = MAX_KEYS * quarters / 4;
        for key in 0..exhausted {
            assert!((0..CAPACITY).all(|number| target.take(key, &quota, number)));
        }
        let before = target.store.stats().forgotten_busy;
        assert!((MAX_KEYS..MAX_KEYS + FLOOD).all(|key| target.take(key, &quota, 0)));
        let evictions = target.store.stats().forgotten_busy - before;
        let forgotten = (0..exhausted).filter(|key| target.take(*key, &quota, 0)).count();
        // `max_keys` are three quarters of the slots.
        let expected = evictions as f64 * (0.75 * quarters as f64 / 4.0).powi(24);
        println!("{exhausted:<10} {forgotten:>12} {expected:>14.6}");
    }
}

/// Floods stores with one kind of key. Prints the number of forgotten exhausted keys and the memory.
pub(crate) fn measure(kind: &str) {
    let quotas = quotas();
    let floods = match KINDS.iter().position(|known| *known == kind) {
        Some(index) if index < quotas.len() => vec![quotas[index]],
        _ => quotas.to_vec(),
    };
    let (mut forgotten, mut beside, mut most_resident) = (0, 0, 0);
    for run in 0..RUNS {
        let before = resident();
        let target = Target::new(1_000_000);
        let exhausted = || (0..EXHAUSTED).zip(quotas.iter().cycle());
        for (key, quota) in exhausted() {
            assert!((0..CAPACITY).all(|number| target.take(key, quota, number)));
        }
        target.clock.advance(seconds(1));
        for (round, flood) in floods.iter().enumerate() {
            // New threads for each round: an allocator keeps freed memory for the thread that freed it.
            thread::scope(|scope| {
                for part in 0..THREADS {
                    let (target, start) = (&target, (1 + round as u64) * FLOOD);
                    scope.spawn(move || {
                        let keys = (start + part..start + FLOOD).step_by(THREADS as usize);
                        keys.for_each(|key| assert!(target.take(key, flood, 0)));
                    });
                }
            });
            beside = beside.max(target.store.stats().bytes - target.table);
            if run == 0 {
                most_resident = most_resident.max(resident() - before);
            }
        }
        if run == 0 {
            target.grow_logs();
            most_resident = most_resident.max(resident() - before);
            beside = beside.max(target.store.stats().bytes - target.table);
        }
        forgotten += exhausted().filter(|(key, quota)| target.take(*key, quota, CAPACITY)).count();
    }
    assert!(forgotten == 0 && beside <= MAX_BYTES, "{forgotten} forgotten, {beside} bytes");
    println!("{forgotten:>12} {beside:>14} {most_resident:>16}");
}

fn quotas() -> [Quota; 3] {
    let window = Quota::sliding_window(CAPACITY, days(1)).and_then(|quota| quota.buckets(10));
    [Quota::sliding_log(CAPACITY, days(1)), window, Quota::concurrency(CAPACITY, days(1))]
        .map(|quota| quota.expect("a valid quota"))
}

/// The store under the flood.
struct Target {
    store: MemoryStore,
    clock: ManualClock,
    scope: Scope,
    /// The bytes of its table.
    table: usize,
}

impl Target {
    fn new(max_keys: usize) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let store = MemoryStore::builder().max_keys(max_keys).max_bytes(MAX_BYTES).clock(clock.clone()).build();
        Target { table: store.stats().bytes, store, clock, scope: Scope::new("", "flood") }
    }

    /// Replaces many small states by few large ones.
    fn grow_logs(&self) {
        let log = Quota::sliding_log(1_000, days(1)).expect("a valid quota");
        for key in 0..LARGE_LOGS {
            for _ in 0..LARGE_LOG_LEN {
                self.clock.advance(Duration::from_micros(1));
                assert!(self.take(u64::MAX - key, &log, 0));
            }
        }
    }

    /// Takes one unit, or a lease with that number.
    fn take(&self, key: u64, quota: &Quota, number: u64) -> bool {
        let lease = Op::Admit(Lease::from_bits(number));
        let op = if quota.supports(lease) { lease } else { Op::Limit(Cost::ONE) };
        let (scope, key) = (&self.scope, &Key::from(key));
        let request = Request { scope, key, quota, op, on_store_error: OnStoreError::Open };
        self.store.try_apply(&request).expect("it is in process").expect("it cannot fail").allowed()
    }
}
