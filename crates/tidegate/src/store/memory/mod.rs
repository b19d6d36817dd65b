//! The in-memory store: a bucketed cuckoo-style table, shared by many threads, without background work.
//!
//! A bucket is one cache line of three slots (`line`, `slot`), and every key has two candidate lines (`table`). A slot
//! keeps a fingerprint of a keyed hash, never the key's text. A decision reads the line, steps, and writes it with one
//! compare-and-swap; a denial and a check write nothing and take no lock. States that do not fit in a slot live in the
//! `overflow` table behind small locks, which a denial takes there, too. These are sliding logs, leases, sliding
//! windows of several buckets, and very large numbers. New keys and steps on several lines take `locks`. A full table
//! moves or evicts keys (`eviction`), and a snapshot visits every key (`scan`).
//!
//! The table is never rehashed. Its size is set when it is built, and its pages belong to the operating system until
//! they are used. Calls that add keys sweep idle keys, a line at a time.

mod eviction;
mod line;
mod locks;
#[cfg(all(test, loom))]
mod loom_tests;
mod overflow;
mod quota_registry;
mod scan;
mod slab;
mod slot;
mod snapshot;
mod sync;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use tidegate_core::private::InlineVec;
use tidegate_core::{
    Capabilities, Decision, JointDecision, Key, Op, Request, Scope, Store, StoreError, StoreErrorKind, Timestamp,
};

use crate::clock::{Clock, SystemClock, TickCounter};
use crate::keyed_hash::KeyedHash;
use crate::random::draw_secrets;
use crate::telemetry;
use locks::TooManyKeys;
pub use snapshot::SnapshotError;
use sync::Ordering;
use table::Table;

/// A store in the memory of the process.
///
/// ```
/// use tidegate::MemoryStore;
///
/// let store = MemoryStore::builder().max_keys(10_000_000).build();
/// assert_eq!(store.stats().keys, 0);
/// ```
pub struct MemoryStore {
    /// Keyed with the secrets of this store.
    hash: KeyedHash,
    clock: ClockSource,
    table: Table,
    /// The secrets of the hash, for a snapshot.
    secrets: [u64; 4],
}

/// The store's clock. The system's clock is not behind a trait, because every decision reads it.
enum ClockSource {
    System(&'static TickCounter),
    Custom(Box<dyn Clock>),
}

impl ClockSource {
    #[inline]
    fn now(&self) -> Timestamp {
        match self {
            ClockSource::System(counter) => counter.now(),
            ClockSource::Custom(clock) => clock.now(),
        }
    }
}

/// A builder of a [`MemoryStore`].
pub struct MemoryStoreBuilder {
    max_keys: usize,
    max_bytes: usize,
    clock: Option<Box<dyn Clock>>,
    seed: Option<u64>,
}

/// Counts and sizes of a [`MemoryStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryStats {
    /// Keys, including those that are as good as new and not swept yet.
    pub keys: usize,
    /// Bytes of the whole table, used or not, and of the states beside it.
    pub bytes: usize,
    /// Busy keys that were evicted for lack of room since the store was built. Each of them got its quota back.
    pub forgotten_busy: u64,
}

impl MemoryStoreBuilder {
    /// Sets the number of keys there is room for. Defaults to 1,000,000. Count the keys that can appear within the
    /// longest period; [`MemoryStats::forgotten_busy`] grows where the number was too small.
    ///
    /// The table takes about 29 bytes a key, and only pages in use take memory. About a tenth more keys fit before a busy
    /// one is evicted, and hardly any is with up to a fifth more.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Sets the bytes for states that need more than a slot of the table, such as sliding logs and leases. Defaults to
    /// 256 MiB.
    ///
    /// Each state takes about 200 bytes and, for a log, 16 more for each request that its quota remembers, twice that while
    /// it grows.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Sets the clock. Defaults to the system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Sets the seed of the hash that places keys in the table, so that a simulation is repeatable even when the table
    /// is full. Defaults to a random seed, which keeps clients from choosing keys that collide.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds the store.
    pub fn build(self) -> MemoryStore {
        let secrets = self.seed.map_or_else(draw_secrets, |seed| [0, 1, 2, 3].map(|n| seed ^ n));
        self.build_with(secrets)
    }

    fn build_with(self, secrets: [u64; 4]) -> MemoryStore {
        telemetry::register_forgotten_busy();
        MemoryStore {
            table: Table::for_keys(self.max_keys, self.max_bytes),
            hash: KeyedHash::new(secrets),
            secrets,
            // The first use calibrates the counter. It happens here and not in a decision.
            clock: self.clock.map_or_else(|| ClockSource::System(SystemClock.counter()), ClockSource::Custom),
        }
    }
}

impl MemoryStore {
    /// Creates a store with the defaults.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder, for other settings.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder { max_keys: 1_000_000, max_bytes: 256 << 20, clock: None, seed: None }
    }

    /// Returns counts and sizes.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            keys: self.table.keys.load(Ordering::Relaxed),
            bytes: self.table.bytes(),
            forgotten_busy: self.table.forgotten_busy.load(Ordering::Relaxed),
        }
    }

    /// Removes every key that is as good as new. Calls that add keys do this by themselves, a little at a time. With
    /// other calls running, keys that became idle within the last second may stay.
    pub fn sweep(&self) {
        self.table.sweep_all(self.clock.now());
    }

    #[inline]
    fn request_hash(&self, request: &Request<'_>) -> u64 {
        self.hash.hash(request.scope, request.key)
    }

    fn decide_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        let mut targets = InlineVec::with_capacity(requests.len());
        for request in requests {
            let Op::Limit(cost) = request.op else {
                return Err(unsupported("all-or-nothing is for `limit` only"));
            };
            if !request.quota.supports(request.op) {
                return Err(unsupported("all-or-nothing is not for leases"));
            }
            let candidates = self.table.candidates(self.request_hash(request));
            if targets.iter().any(|(known, quota, _)| *known == candidates && *quota != request.quota) {
                return Err(unsupported("one key under two quotas in one all-or-nothing call"));
            }
            targets.push((candidates, request.quota, cost));
        }
        self.table.apply_all(&targets, at).map_err(|TooManyKeys| {
            unsupported("more keys in one all-or-nothing call than there is room for in the table; raise max_keys")
        })
    }
}

fn unsupported(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never shows the seed or the secrets.
        f.debug_struct("MemoryStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_atomic_all(true)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.table.prefetch(self.hash.hash(scope, key));
    }

    #[inline]
    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        Some(Ok(self.table.apply(self.request_hash(request), request.quota, request.op, || self.clock.now())))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        Ok(self.table.apply(self.request_hash(request), request.quota, request.op, || self.clock.now()))
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.decide_all_at(requests, self.clock.now())
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        requests.iter().for_each(|request| self.prefetch(request.scope, request.key));
        requests
            .iter()
            .map(|request| {
                Ok(self.table.apply(self.request_hash(request), request.quota, request.op, || self.clock.now()))
            })
            .collect()
    }

    async fn close(&self) {}
}

#[cfg(feature = "testing")]
impl tidegate_core::TestableStore for MemoryStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        Ok(self.table.apply(self.request_hash(request), request.quota, request.op, || at))
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_all_at(requests, at)
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        self.table.sweep_all(at);
        Some(self.stats().keys)
    }
}
