//! The hands of all keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{Cost, Decision, Key, OnStoreError, Op, Request, Scope, StoreError, Timestamp};
use tokio::sync::watch;

use super::hand::{Hand, Wanted};
use super::rules::Rules;
use crate::clock::Sleeper;
use crate::keyed_hash::KeyedHash;
use crate::random::secrets;

/// Locks, so that keys seldom wait for each other.
const SHARDS: usize = 64;

/// How a refill ended.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// With an answer, which the hand knows.
    Answered,
    /// With what a failure policy within the store says to one request that has this policy.
    Broken(Decision, OnStoreError),
    /// With an error, for requests that have this policy.
    Failed(StoreError, OnStoreError),
}

/// What tells those who wait; gone without a word when the refill was dropped, as at the end of a runtime.
pub(super) type Ends = watch::Receiver<Option<Ended>>;

/// Whose hand it is.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) scope: Scope,
    pub(super) key: Key<'static>,
    pub(super) rules: Rules,
}

impl Owner {
    /// A request about it.
    pub(super) fn asking(&self, op: Op, on_store_error: OnStoreError) -> Request<'_> {
        let Owner { scope, key, rules } = self;
        Request { scope, key, quota: &rules.quota, op, on_store_error }
    }
}

/// What nobody has used, out of its hand.
pub(super) struct Idle {
    pub(super) owner: Arc<Owner>,
    cost: Cost,
    /// When it loses its worth.
    pub(super) until: Timestamp,
}

impl Idle {
    /// Gives it back.
    pub(super) fn refund(&self) -> Request<'_> {
        self.owner.asking(Op::Refund(self.cost), OnStoreError::Closed)
    }
}

pub(super) struct Entry {
    pub(super) owner: Arc<Owner>,
    pub(super) hand: Hand,
    refill: Option<Ends>,
    /// What those want together who wait for the last refill, or have not looked yet what it brought.
    waiting: Arc<AtomicU64>,
}

/// Somebody who waits for a refill, until this is dropped.
pub(super) struct Waiting {
    ends: Ends,
    cost: u64,
    all: Arc<AtomicU64>,
}

impl Waiting {
    /// How it ended; none when it was dropped.
    pub(super) async fn end(mut self) -> Option<Ended> {
        self.ends.wait_for(Option::is_some).await.ok()?.clone()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.fetch_sub(self.cost, Ordering::Relaxed);
    }
}

/// A refill that is to be made.
pub(super) struct Order {
    pub(super) owner: Arc<Owner>,
    pub(super) wanted: Wanted,
    /// Of who wants it.
    pub(super) policy: OnStoreError,
    pub(super) ends: watch::Sender<Option<Ended>>,
}

impl Entry {
    /// Whether this is the hand for that key.
    #[inline]
    fn is_for(&self, request: &Request<'_>) -> bool {
        let Owner { scope, key, .. } = &*self.owner;
        *key == *request.key && scope.is(request.scope)
    }

    /// Whether it is of that quota.
    fn is_under(&self, request: &Request<'_>) -> bool {
        self.owner.rules.quota == *request.quota
    }

    /// Whether it is for that key, and of another quota. What was taken under that is lost: given back it would count by that,
    /// and bring what this one has not.
    fn is_other(&self, request: &Request<'_>) -> bool {
        self.is_for(request) && !self.is_under(request)
    }

    /// Begins a refill, unless one is on its way.
    pub(super) fn order(&mut self, cost: u64, policy: OnStoreError, now: Timestamp) -> Option<Order> {
        if self.on_its_way().is_some() {
            return None;
        }
        let (ends, refill) = watch::channel(None);
        self.refill = Some(refill);
        // Those are about to find nothing, too.
        let others = std::mem::take(&mut self.waiting).load(Ordering::Relaxed);
        let wanted = self.hand.ask(&self.owner.rules, cost, others, now);
        // What is decided in process instead is not the store's to lease, nor to get back.
        let policy = if policy == OnStoreError::Local { OnStoreError::Closed } else { policy };
        Some(Order { owner: Arc::clone(&self.owner), wanted, policy, ends })
    }

    /// Waits for the refill that is on its way, for so much.
    pub(super) fn wait(&mut self, cost: u64) -> Option<Waiting> {
        let ends = self.on_its_way()?;
        self.waiting.fetch_add(cost, Ordering::Relaxed);
        Some(Waiting { ends, cost, all: Arc::clone(&self.waiting) })
    }

    /// The end of the refill that is on its way.
    pub(super) fn on_its_way(&mut self) -> Option<Ends> {
        match &self.refill {
            Some(refill) if self.hand.is_asking() && refill.has_changed().is_ok() => Some(refill.clone()),
            _ => {
                // Were it asking still, somebody has dropped it.
                self.hand.failed();
                self.refill = None;
                None
            }
        }
    }
}

/// Where the hand for a key is, or would be.
pub(super) struct Place<'a> {
    shard: MutexGuard<'a, Shard>,
    hash: u64,
}

impl Place<'_> {
    /// The hand for a request that is about the key.
    #[inline(always)]
    pub(super) fn entry(&mut self, request: &Request<'_>) -> Option<&mut Entry> {
        // Another key of the same hash, which hardly ever is, is not leased.
        self.shard.get_mut(&self.hash).filter(|entry| entry.is_for(request) && entry.is_under(request))
    }
}

/// Hands by the hashes of their keys.
type Shard = HashMap<u64, Entry, BuildHasherDefault<AsItIs>>;

/// The hash of what is a [`KeyedHash`] already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("the hash of a key is a number");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(super) struct Table {
    shards: Box<[Mutex<Shard>]>,
    hash: KeyedHash,
    /// For how many keys there is room in one shard.
    room: usize,
    /// No refill begins any more.
    closed: AtomicBool,
}

impl Table {
    pub(super) fn new(max_keys: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Table {
            shards,
            hash: KeyedHash::new(secrets()),
            room: max_keys.div_ceil(SHARDS),
            closed: AtomicBool::new(false),
        }
    }

    /// Where the hand for a request is, if there is one; nobody else looks there meanwhile. Whoever wants to know the time
    /// looks at the clock afterwards: a thread that has looked before may have waited for long.
    #[inline(always)]
    pub(super) fn place(&self, request: &Request<'_>) -> Place<'_> {
        let hash = self.hash.of(request.scope, request.key);
        // Bits in the middle: the map goes by the highest and the lowest.
        Place { shard: locked(&self.shards[(hash >> 32) as usize % SHARDS]), hash }
    }

    /// Does something with the hand for a request, if there is one.
    pub(super) fn with<T>(&self, request: &Request<'_>, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.place(request).entry(request).map(act)
    }

    /// Does something with the hand that is this owner's. Another that the key may have by now, after another quota, knows
    /// nothing of what this one has asked for.
    pub(super) fn of<T>(&self, owner: &Arc<Owner>, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let Place { mut shard, hash } = self.place(&owner.asking(Op::Reset, OnStoreError::Closed));
        shard.get_mut(&hash).filter(|entry| Arc::ptr_eq(&entry.owner, owner)).map(act)
    }

    /// Drops the hand that is of another quota than the request.
    pub(super) fn drop_other(&self, request: &Request<'_>) {
        let Place { mut shard, hash } = self.place(request);
        if shard.get(&hash).is_some_and(|entry| entry.is_other(request)) {
            shard.remove(&hash);
        }
    }

    /// As [`Table::with`], with an empty hand where there is none for that quota; none when there is no room for one, or it is
    /// closed.
    pub(super) fn with_new<T>(
        &self,
        request: &Request<'_>,
        rules: Rules,
        clock: &dyn Sleeper,
        act: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let Place { mut shard, hash } = self.place(request);
        if self.is_closed() {
            return None;
        }
        let is_other = shard.get(&hash).is_some_and(|entry| entry.is_other(request));
        if is_other || !shard.contains_key(&hash) {
            if !is_other && shard.len() >= self.room {
                return None;
            }
            let owner = Owner { scope: request.scope.clone(), key: request.key.borrow().into_owned(), rules };
            shard.insert(
                hash,
                Entry { owner: Arc::new(owner), hand: Hand::new(clock.now()), refill: None, waiting: Arc::default() },
            );
        }
        shard.get_mut(&hash).filter(|entry| entry.is_for(request)).map(act)
    }

    /// What nobody has used for `idle`, taken out of the hands; those that are not needed are forgotten.
    pub(super) fn idle(&self, idle: Duration, clock: &dyn Sleeper) -> Vec<Idle> {
        let mut idling = Vec::new();
        for shard in &self.shards {
            let mut shard = locked(shard);
            let now = clock.now();
            shard.retain(|_, entry| {
                let units = entry.hand.give_back(&entry.owner.rules, idle, now);
                if let Ok(cost) = Cost::new(units) {
                    idling.push(Idle { owner: Arc::clone(&entry.owner), cost, until: entry.hand.until() });
                }
                entry.on_its_way().is_some() || !entry.hand.is_spare(idle, now)
            });
        }
        idling
    }

    /// Lets no refill begin any more, and says which are on their way.
    pub(super) fn close(&self) -> Vec<Ends> {
        self.closed.store(true, Ordering::Release);
        // Whoever has a lock began before, or looks afterwards.
        let ends = self.shards.iter().flat_map(|shard| {
            let mut shard = locked(shard);
            shard.values_mut().filter_map(Entry::on_its_way).collect::<Vec<_>>()
        });
        ends.collect()
    }

    /// Whether no refill may begin any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// How many keys there are hands for.
    pub(super) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).len()).sum()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
