//! A soak test of a full memory table: two minutes with more threads than cores.
//!
//! No key is ever admitted beyond its capacity, unless the store reports an eviction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{Limiter, ManualClock, MemoryStore, Quota, Timestamp, days};

use crate::workload::Random;

const THREADS: u64 = 4;
const KEYS: u64 = 900;
const CAPACITY: u64 = 1_000;

pub(crate) fn run() {
    let stop = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(120));
            stop.store(true, Ordering::Relaxed);
        });
        while !stop.load(Ordering::Relaxed) {
            round(rounds.fetch_add(1, Ordering::Relaxed));
        }
    });
    println!("{} rounds of {} decisions, none too many", rounds.into_inner(), 2 * KEYS * CAPACITY);
}

fn round(seed: u64) {
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let store = Arc::new(MemoryStore::builder().max_keys(KEYS as usize).clock(clock).build());
    let quotas = [Quota::token_bucket(CAPACITY, days(1)), Quota::sliding_log(CAPACITY, days(1))];
    let [bucket, log] = quotas.map(|quota| quota.expect("a valid quota"));
    let limiter = Limiter::builder().limit("bucket", bucket).limit("log", log).store(Arc::clone(&store)).build();
    let limiter = limiter.expect("a valid limiter");
    let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (limiter, admitted) = (&limiter, &admitted);
            scope.spawn(move || {
                let mut random = Random(seed * THREADS + thread);
                for _ in 0..2 * KEYS * CAPACITY / THREADS {
                    let key = random.next() % KEYS;
                    let name = if key.is_multiple_of(10) { "log" } else { "bucket" };
                    let decision = limiter.limit(name, key).try_now().expect("the limit is there");
                    admitted[key as usize].fetch_add(decision.allowed().into(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(store.stats().forgotten_busy, 0);
    for (key, admitted) in admitted.iter().enumerate() {
        let admitted = admitted.load(Ordering::Relaxed);
        assert!(admitted <= CAPACITY, "key {key}: {admitted}");
    }
}
