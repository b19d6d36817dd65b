//! The store in the process's own memory: always there, many threads, no background work.
//!
//! A key is a fingerprint of a keyed hash in one cache line; its text is not stored. A decision reads that line,
//! steps, and writes it with one compare-and-swap; a denial and a check write nothing and take no lock. States that
//! do not fit in a slot (sliding logs, leases, sliding windows of several buckets, very large numbers) live in another table
//! behind small locks, which a denial takes there too. Nothing is ever rehashed or scanned: the table's size is decided when it is built, its pages
//! are the system's until they are used, and keys that are as good as new are swept a line at a time by the calls
//! that add new ones.

mod elsewhere;
mod held;
mod line;
mod locked;
#[cfg(all(test, loom))]
mod loom_tests;
mod registry;
mod room;
mod slot;
mod snapshot;
mod sync;
mod table;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;

use tidegate_core::private::Few;
use tidegate_core::{
    All, Capabilities, Decision, Key, Op, Request, Scope, Store, StoreError, StoreErrorKind, Timestamp,
};

use crate::clock::{Clock, Counter, SystemClock};
use crate::keyed_hash::KeyedHash;
use crate::random::secrets;
use locked::Crowded;
pub(crate) use registry::QuotaNumber;
pub use snapshot::SnapshotError;
use sync::Ordering;
use table::Table;

/// The store in the process's own memory.
///
/// ```
/// use tidegate::MemoryStore;
///
/// let store = MemoryStore::builder().max_keys(10_000_000).build();
/// assert_eq!(store.stats().keys, 0);
/// ```
#[repr(C)] // what every decision looks at is close together
pub struct MemoryStore {
    /// With secrets of this store.
    hash: KeyedHash,
    clock: Source,
    table: Table,
    /// What the hash is keyed with, for a snapshot.
    secrets: [u64; 4],
}

/// What the time is read from. The system's counter is not behind a trait, because every decision reads it.
enum Source {
    System(&'static Counter),
    Other(Box<dyn Clock>),
}

impl Source {
    #[inline(always)]
    fn now(&self) -> Timestamp {
        match self {
            Source::System(counter) => counter.now(),
            Source::Other(clock) => clock.now(),
        }
    }
}

/// The time of a decision: read in the middle of it, or a test's. No closure, because those are not sure to be inlined.
enum When<'a> {
    Now(&'a Source),
    #[cfg(any(feature = "testing", all(test, loom)))]
    At(Timestamp),
}

impl When<'_> {
    #[inline(always)]
    fn get(self) -> Timestamp {
        match self {
            When::Now(source) => source.now(),
            #[cfg(any(feature = "testing", all(test, loom)))]
            When::At(time) => time,
        }
    }
}

/// How a [`MemoryStore`] is made.
pub struct MemoryStoreBuilder {
    max_keys: usize,
    max_bytes: usize,
    clock: Option<Box<dyn Clock>>,
    seed: Option<u64>,
}

/// What a [`MemoryStore`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryStats {
    /// Keys, those included that are as good as new and not swept yet.
    pub keys: usize,
    /// Bytes of the table, used or not, and of the states beside it.
    pub bytes: usize,
    /// How many busy keys were forgotten, ever, because there was no room: each of them got its quota back.
    pub forgotten_busy: u64,
}

impl MemoryStoreBuilder {
    /// How many keys there is room for: 1,000,000 unless said otherwise. Count those that can appear within the longest period;
    /// [`MemoryStats::forgotten_busy`] moves where that was too few. The table takes about 29 bytes for each of
    /// them, of which the system lends what is used. About a tenth more are held before a busy one is forgotten, and
    /// hardly any is with up to a fifth more.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// How many bytes may go to states that need more than a slot of the table, such as sliding logs and leases: 256 MiB
    /// unless said otherwise. A log takes 16 bytes for each request that its quota has it remember, twice that while it grows.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// The clock: the system's unless said otherwise.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Where keys go in the table follows from this number: for simulations that have to be the same every time, even
    /// when the table is full. Random unless said otherwise, which is what keeps strangers from choosing keys that
    /// meet in one place.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The store.
    pub fn build(self) -> MemoryStore {
        let secrets = self.seed.map_or_else(secrets, |seed| [0, 1, 2, 3].map(|n| seed ^ n));
        self.build_with(secrets)
    }

    fn build_with(self, secrets: [u64; 4]) -> MemoryStore {
        MemoryStore {
            table: Table::for_keys(self.max_keys, self.max_bytes),
            hash: KeyedHash::new(secrets),
            secrets,
            // Whoever asks for the counter first waits for it to be measured: better here than in a decision.
            clock: self.clock.map_or_else(|| Source::System(SystemClock.counter()), Source::Other),
        }
    }
}

impl MemoryStore {
    /// A store with the defaults.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// How a store with other settings is made.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder { max_keys: 1_000_000, max_bytes: 256 << 20, clock: None, seed: None }
    }

    /// What the store holds.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            keys: self.table.keys.load(Ordering::Relaxed),
            bytes: self.table.bytes(),
            forgotten_busy: self.table.forgotten_busy.load(Ordering::Relaxed),
        }
    }

    /// Forgets every key that is as good as new, now; with calls that come meanwhile, but for some that have become so within the
    /// last second. The calls do this by themselves, a little at a time.
    pub fn sweep(&self) {
        self.table.sweep_all(self.clock.now());
    }

    #[inline(always)]
    fn hash(&self, scope: &Scope, key: &Key<'_>) -> u64 {
        self.hash.of(scope, key)
    }

    /// The answer. What is kept beside a quota is of that quota in this store, and nothing else's.
    #[inline(always)]
    pub(crate) fn decide(&self, request: &Request<'_>, kept: Option<&QuotaNumber>) -> Decision {
        self.decide_at(request, kept, When::Now(&self.clock))
    }

    #[inline(always)]
    fn decide_at(&self, request: &Request<'_>, kept: Option<&QuotaNumber>, at: When<'_>) -> Decision {
        let hash = self.hash(request.scope, request.key);
        self.table.apply(hash, request.quota, kept, request.op, at)
    }

    fn decide_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<All, StoreError> {
        let mut targets = Few::with_capacity(requests.len());
        for request in requests {
            let Op::Limit(cost) = request.op else {
                return Err(unsupported("all-or-nothing is for `limit` only"));
            };
            if !request.quota.takes(request.op) {
                return Err(unsupported("all-or-nothing is not for leases"));
            }
            let home = self.table.home(self.hash(request.scope, request.key));
            if targets.iter().any(|(known, quota, _)| *known == home && *quota != request.quota) {
                return Err(unsupported("one key under two quotas in one all-or-nothing call"));
            }
            targets.push((home, request.quota, cost));
        }
        self.table.apply_all(&targets, at).map_err(|Crowded| {
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
        // Never the seed or the secrets.
        f.debug_struct("MemoryStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { atomic_all: true }
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.table.prefetch(self.hash(scope, key));
    }

    #[inline]
    fn apply_now(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        Some(Ok(self.decide(request, None)))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        Ok(self.decide(request, None))
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.decide_all_at(requests, self.clock.now())
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        requests.iter().for_each(|request| self.prefetch(request.scope, request.key));
        requests.iter().map(|request| Ok(self.decide(request, None))).collect()
    }

    async fn close(&self) {}
}

#[cfg(feature = "testing")]
impl tidegate_core::Testing for MemoryStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        Ok(self.decide_at(request, None, When::At(at)))
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<All, StoreError> {
        self.decide_all_at(requests, at)
    }

    async fn held_at(&self, at: Timestamp) -> Option<usize> {
        self.table.sweep_all(at);
        Some(self.stats().keys)
    }
}
