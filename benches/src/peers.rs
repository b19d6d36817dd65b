//! The limiters under comparison, each called as its users would call it, with its own clock.

use std::borrow::Borrow;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use foldhash::fast::RandomState as FastHash;
use governor::clock::DefaultClock;
use governor::state::keyed::DashMapStateStore;
use tidegate::{Clock, Key, Limiter, MemoryStore, Quota, SystemClock};

/// A burst, and the time in which one more is refilled.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) burst: u32,
    pub(crate) every: Duration,
}

/// A key type of a service.
pub(crate) trait BenchKey: Hash + Eq + Clone + Send + Sync + 'static {
    fn as_key(&self) -> Key<'_>;
}

impl BenchKey for String {
    #[inline]
    fn as_key(&self) -> Key<'_> {
        Key::from(self)
    }
}

impl BenchKey for u64 {
    #[inline]
    fn as_key(&self) -> Key<'_> {
        Key::from(*self)
    }
}

/// A limiter that decides about one key.
pub(crate) trait Peer<K>: Send + Sync {
    fn decide(&self, key: &K) -> bool;

    /// Returns how many of these keys it admits.
    fn decide_each<'a>(&self, keys: impl Iterator<Item = &'a K>) -> usize
    where
        K: 'a,
        Self: Sized,
    {
        keys.filter(|key| self.decide(key)).count()
    }
}

/// The public limiter with its defaults.
pub(crate) struct Tidegate(pub(crate) Limiter);

impl Tidegate {
    pub(crate) fn new(limit: Limit, keys: usize) -> Self {
        // The rate over a thousand times the period, because a quota's period is at least a millisecond.
        let quota = Quota::token_bucket(1_000, limit.every * 1_000);
        let quota = quota.and_then(|quota| quota.capacity(limit.burst.into()));
        let store = MemoryStore::builder().max_keys(keys).build();
        let limiter = Limiter::builder().limit("bench", quota.expect("a valid quota")).store(store).build();
        Tidegate(limiter.expect("a valid limiter"))
    }
}

impl<K: BenchKey> Peer<K> for Tidegate {
    #[inline]
    fn decide(&self, key: &K) -> bool {
        let decision = self.0.limit("bench", key.as_key()).try_now();
        decision.expect("the limit is there").allowed()
    }
}

fn governor_quota(limit: Limit) -> governor::Quota {
    let burst = NonZeroU32::new(limit.burst).expect("a burst");
    governor::Quota::with_period(limit.every).expect("a period").allow_burst(burst)
}

/// governor with its defaults: a DashMap with the standard library's hasher.
pub(crate) struct Governor<K: BenchKey>(governor::RateLimiter<K, DashMapStateStore<K>, DefaultClock>);

impl<K: BenchKey> Governor<K> {
    pub(crate) fn new(limit: Limit) -> Self {
        Governor(governor::RateLimiter::dashmap(governor_quota(limit)))
    }
}

impl<K: BenchKey> Peer<K> for Governor<K> {
    #[inline]
    fn decide(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }
}

/// governor with a fast hasher.
pub(crate) struct FastGovernor<K: BenchKey>(governor::RateLimiter<K, DashMapStateStore<K, FastHash>, DefaultClock>);

impl<K: BenchKey> FastGovernor<K> {
    pub(crate) fn new(limit: Limit) -> Self {
        FastGovernor(governor::RateLimiter::dashmap_with_hasher(governor_quota(limit), FastHash::default()))
    }
}

impl<K: BenchKey> Peer<K> for FastGovernor<K> {
    #[inline]
    fn decide(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }
}

/// The lower bound: one compare-and-swap on a number for each key, in a table of tidegate's size, at a known place. It
/// has no hash, no clock, no arithmetic and no new keys. So the processor can load the next keys' cache lines at the
/// same time.
pub(crate) struct Yardstick {
    /// Four for each key: a cache line has two keys.
    words: Vec<AtomicU64>,
}

const WORDS: u64 = 4;

impl Yardstick {
    pub(crate) fn new(keys: u64) -> Self {
        Yardstick { words: (0..keys * WORDS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds an amount and returns the earlier value.
    #[inline]
    fn add(&self, place: u64, amount: u64) -> u64 {
        let word = &self.words[(place * WORDS) as usize];
        let mut now = word.load(Ordering::Acquire);
        loop {
            match word.compare_exchange_weak(now, now + amount, Ordering::AcqRel, Ordering::Acquire) {
                Ok(before) => return before,
                Err(other) => now = other,
            }
        }
    }
}

impl Peer<u64> for Yardstick {
    #[inline]
    fn decide(&self, place: &u64) -> bool {
        self.add(*place, 1);
        true
    }
}

/// The lower bound with one key's cache line in flight at a time, as in a service that handles one decided request
/// after the other. The place of each swap depends on the swap before it.
pub(crate) struct SequentialYardstick(pub(crate) Yardstick);

impl Peer<u64> for SequentialYardstick {
    fn decide(&self, place: &u64) -> bool {
        self.0.decide(place)
    }

    #[inline]
    fn decide_each<'a>(&self, places: impl Iterator<Item = &'a u64>) -> usize {
        let mut before = 0;
        // The sum is always 0. It makes each swap wait for the one before it.
        places.map(|place| before = self.0.add(place + (before >> 63), 1)).count()
    }
}

/// The lower bound with a clock: one swap, and a clock read while the cache line is loaded. A read of the processor's
/// counter waits for every earlier load, so fewer cache lines are in flight.
pub(crate) struct ClockedYardstick(pub(crate) Yardstick);

impl Peer<u64> for ClockedYardstick {
    #[inline]
    fn decide(&self, place: &u64) -> bool {
        prefetch_index::prefetch_index(&self.0.words, (place * WORDS) as usize);
        self.0.add(*place, SystemClock.now().as_micros() & 1);
        true
    }
}

/// A limiter that people write by hand: a concurrent map of buckets behind locks.
pub(crate) struct HandwrittenLimiter<K: BenchKey> {
    buckets: DashMap<K, Mutex<Bucket>>,
    limit: Limit,
}

struct Bucket {
    tokens: f64,
    last: Instant,
}

impl<K: BenchKey> HandwrittenLimiter<K> {
    pub(crate) fn new(limit: Limit) -> Self {
        HandwrittenLimiter { buckets: DashMap::new(), limit }
    }

    fn take(&self, bucket: &Mutex<Bucket>) -> bool {
        let mut bucket = bucket.lock().expect("no panics here");
        let now = Instant::now();
        let refill = now.duration_since(bucket.last).as_secs_f64() / self.limit.every.as_secs_f64();
        bucket.tokens = (bucket.tokens + refill).min(self.limit.burst.into());
        bucket.last = now;
        let allowed = bucket.tokens >= 1.0;
        if allowed {
            bucket.tokens -= 1.0;
        }
        allowed
    }
}

impl<K: BenchKey + Borrow<K>> Peer<K> for HandwrittenLimiter<K> {
    fn decide(&self, key: &K) -> bool {
        if let Some(bucket) = self.buckets.get(key) {
            return self.take(&bucket);
        }
        let full = || Mutex::new(Bucket { tokens: self.limit.burst.into(), last: Instant::now() });
        self.take(&self.buckets.entry(key.clone()).or_insert_with(full).downgrade())
    }
}
