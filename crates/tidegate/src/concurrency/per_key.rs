//! `PerKey`: a concurrency limit for each key.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use ahash::RandomState;
use tidegate_core::Key;

use super::permit::{HoldTime, PermitSource, PermitTicket};
use super::{Completion, Permit, RejectReason, Rejected};
use crate::clock::{Clock, SystemClock};
use crate::random::draw_secrets;

/// A limit on how many may be in flight at once for each key. Cheap to clone; clones share the limit.
///
/// A key uses memory only while it holds a permit, so there are never more keys than permits.
///
/// ```
/// use tidegate::concurrency::PerKey;
///
/// let uploads = PerKey::new(2);
/// let (first, second) = (uploads.try_acquire("alice").unwrap(), uploads.try_acquire("alice").unwrap());
/// assert!(uploads.try_acquire("alice").is_err());
/// assert!(uploads.try_acquire("bob").is_ok());
/// ```
#[derive(Clone)]
pub struct PerKey {
    keys: Arc<Keys>,
}

struct Keys {
    limit: u32,
    /// Several, so that callers with different keys seldom wait for each other.
    shards: [Mutex<Shard>; SHARDS],
    /// Keyed with secrets, so that clients cannot choose keys that collide.
    hash: RandomState,
    hold_time: HoldTime,
    clock: Arc<dyn Clock>,
}

const SHARDS: usize = 16;

/// By the text of the key, which identifies it.
type Shard = HashMap<Arc<str>, KeyPermits, RandomState>;

/// An empty map with more room than this is shrunk.
const MAX_SPARE_CAPACITY: usize = 1_024;

/// The permits of a key. The key is in its map exactly while there are some.
struct KeyPermits {
    count: u32,
    source: Arc<KeyPermitSource>,
}

/// The source of a key's permits.
struct KeyPermitSource {
    keys: Arc<Keys>,
    shard: usize,
    key: Arc<str>,
}

impl PerKey {
    /// Creates a limit for each key; 0 counts as 1.
    pub fn new(limit: u32) -> Self {
        PerKey::with_clock(limit, SystemClock)
    }

    /// Creates a limit for each key on another clock, for tests and simulations.
    pub fn with_clock(limit: u32, clock: impl Clock + 'static) -> Self {
        let [a, b, c, d] = draw_secrets();
        let hash = RandomState::with_seeds(a, b, c, d);
        let shards = std::array::from_fn(|_| Mutex::new(HashMap::with_hasher(hash.clone())));
        let keys = Keys { limit: limit.max(1), shards, hash, hold_time: HoldTime::default(), clock: Arc::new(clock) };
        PerKey { keys: Arc::new(keys) }
    }

    /// Returns a permit for a key, if there is one.
    pub fn try_acquire<'a>(&self, key: impl Into<Key<'a>>) -> Result<Permit, Rejected> {
        let (key, keys) = (key.into(), &self.keys);
        let key = key.to_text();
        let started = keys.clock.now();
        let number = keys.shard_of(&key);
        let mut shard = keys.lock(number);
        if let Some(permits) = shard.get_mut(&*key) {
            if permits.count >= keys.limit {
                let retry_after = keys.hold_time.retry_after();
                return Err(Rejected { reason: RejectReason::Busy, limit: keys.limit, retry_after, shared: false });
            }
            permits.count += 1;
            let ticket = PermitTicket::new(started, permits.count);
            return Ok(Permit::new(Arc::clone(&permits.source) as Arc<dyn PermitSource>, ticket));
        }
        let key = Arc::<str>::from(key);
        let source = Arc::new(KeyPermitSource { keys: Arc::clone(keys), shard: number, key: Arc::clone(&key) });
        shard.insert(key, KeyPermits { count: 1, source: Arc::clone(&source) });
        Ok(Permit::new(source, PermitTicket::new(started, 1)))
    }

    /// Returns how many are in flight for a key.
    pub fn in_flight<'a>(&self, key: impl Into<Key<'a>>) -> u32 {
        let key = key.into();
        let key = key.to_text();
        self.keys.lock(self.keys.shard_of(&key)).get(&*key).map_or(0, |permits| permits.count)
    }

    /// Returns how many keys have permits in flight.
    pub fn keys(&self) -> usize {
        (0..SHARDS).map(|shard| self.keys.lock(shard).len()).sum()
    }

    /// Returns how many may be in flight for a key.
    pub fn limit(&self) -> u32 {
        self.keys.limit
    }
}

impl Keys {
    fn shard_of(&self, key: &str) -> usize {
        // Not by the bits that the maps use.
        (self.hash.hash_one(key) >> 32) as usize % SHARDS
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl PermitSource for KeyPermitSource {
    fn release(&self, ticket: &PermitTicket, completion: Completion) {
        let KeyPermitSource { keys, shard, key } = self;
        {
            let mut shard = keys.lock(*shard);
            let permits = shard.get_mut(key).expect("a key is present while one of its permits is in flight");
            permits.count -= 1;
            if permits.count == 0 {
                shard.remove(key);
                if shard.is_empty() && shard.capacity() > MAX_SPARE_CAPACITY {
                    shard.shrink_to_fit();
                }
            }
        }
        if completion != Completion::Ignored {
            keys.hold_time.record(ticket.started, keys.clock.now());
        }
    }
}

impl fmt::Debug for PerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerKey").field("limit", &self.limit()).field("keys", &self.keys()).finish_non_exhaustive()
    }
}
