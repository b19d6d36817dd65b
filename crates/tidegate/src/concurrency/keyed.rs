//! A limit for each key.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use ahash::RandomState;
use tidegate_core::Key;

use super::held::Held;
use super::permit::{Source, Ticket};
use super::{Permit, Refused, Why, Work};
use crate::clock::{Clock, SystemClock};
use crate::random::secrets;

/// How many may be in flight at once for each key. Cheap to clone: clones hand out the same permits.
///
/// A key takes memory only while it holds a permit, so there are never more keys than permits.
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
    /// Several, so that those who ask for different keys seldom meet.
    parts: [Mutex<Part>; PARTS],
    /// Keyed with secrets, so that nobody can choose keys that meet in one place.
    hash: RandomState,
    held: Held,
    clock: Arc<dyn Clock>,
}

const PARTS: usize = 16;

/// By the text of the key, which tells keys apart.
type Part = HashMap<Arc<str>, InFlight, RandomState>;

/// A map that was larger than this and is empty gives its room back.
const ROOMY: usize = 1_024;

/// The permits of a key that are out. There are some, or the key is not in the map.
struct InFlight {
    count: u32,
    returns_to: Arc<OfKey>,
}

/// Where the permits of a key go back to.
struct OfKey {
    keys: Arc<Keys>,
    part: usize,
    key: Arc<str>,
}

impl PerKey {
    /// At most `limit` at once for each key; 0 counts as 1.
    pub fn new(limit: u32) -> Self {
        PerKey::on(limit, SystemClock)
    }

    /// The same on another clock, for tests and simulations.
    pub fn on(limit: u32, clock: impl Clock + 'static) -> Self {
        let [a, b, c, d] = secrets();
        let hash = RandomState::with_seeds(a, b, c, d);
        let parts = std::array::from_fn(|_| Mutex::new(HashMap::with_hasher(hash.clone())));
        let keys = Keys { limit: limit.max(1), parts, hash, held: Held::default(), clock: Arc::new(clock) };
        PerKey { keys: Arc::new(keys) }
    }

    /// A permit for a key, if there is one.
    pub fn try_acquire<'a>(&self, key: impl Into<Key<'a>>) -> Result<Permit, Refused> {
        let (key, keys) = (key.into(), &self.keys);
        let key = key.to_text();
        let started = keys.clock.now();
        let number = keys.part_of(&key);
        let mut part = keys.lock(number);
        if let Some(of_key) = part.get_mut(&*key) {
            if of_key.count >= keys.limit {
                let retry_after = keys.held.usual();
                return Err(Refused { why: Why::Busy, limit: keys.limit, retry_after, shared: false });
            }
            of_key.count += 1;
            let ticket = Ticket::new(started, of_key.count);
            return Ok(Permit::new(Arc::clone(&of_key.returns_to) as Arc<dyn Source>, ticket));
        }
        let key = Arc::<str>::from(key);
        let returns_to = Arc::new(OfKey { keys: Arc::clone(keys), part: number, key: Arc::clone(&key) });
        part.insert(key, InFlight { count: 1, returns_to: Arc::clone(&returns_to) });
        Ok(Permit::new(returns_to, Ticket::new(started, 1)))
    }

    /// How many are in flight for a key.
    pub fn in_flight<'a>(&self, key: impl Into<Key<'a>>) -> u32 {
        let key = key.into();
        let key = key.to_text();
        self.keys.lock(self.keys.part_of(&key)).get(&*key).map_or(0, |of_key| of_key.count)
    }

    /// How many keys have something in flight.
    pub fn keys(&self) -> usize {
        (0..PARTS).map(|part| self.keys.lock(part).len()).sum()
    }

    /// How many may be in flight for a key.
    pub fn limit(&self) -> u32 {
        self.keys.limit
    }
}

impl Keys {
    fn part_of(&self, key: &str) -> usize {
        // Not by the bits that the maps look at.
        (self.hash.hash_one(key) >> 32) as usize % PARTS
    }

    fn lock(&self, part: usize) -> MutexGuard<'_, Part> {
        self.parts[part].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Source for OfKey {
    fn take_back(&self, ticket: &Ticket, work: Work) {
        let OfKey { keys, part, key } = self;
        {
            let mut part = keys.lock(*part);
            let of_key = part.get_mut(key).expect("a key is there while one of its permits is out");
            of_key.count -= 1;
            if of_key.count == 0 {
                part.remove(key);
                if part.is_empty() && part.capacity() > ROOMY {
                    part.shrink_to_fit();
                }
            }
        }
        if work != Work::Ignore {
            keys.held.learn(ticket.started, keys.clock.now());
        }
    }
}

impl fmt::Debug for PerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerKey").field("limit", &self.limit()).field("keys", &self.keys()).finish_non_exhaustive()
    }
}
