//! The balances of all keys, in shards, and the refills that requests wait for.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{Cost, Decision, Key, OnStoreError, Op, Request, Scope, StoreError, Timestamp};
use tokio::sync::watch;

use super::balance::{Balance, BatchRules, RefillSize};
use crate::clock::Sleeper;
use crate::keyed_hash::KeyedHash;
use crate::random::draw_secrets;

/// Locks, so that keys seldom wait for each other.
const SHARDS: usize = 64;

/// The result of a refill, for the requests that wait for it.
#[derive(Debug, Clone)]
pub(super) enum RefillResult {
    /// The store answered, and the balance is updated.
    Answered,
    /// A failure policy inside the store answered, for requests with this policy.
    Fallback(Decision, OnStoreError),
    /// The store failed, for requests with this policy.
    Failed(StoreError, OnStoreError),
}

/// Receives the result of a refill. Closed without a result when the refill was dropped, as at the end of a runtime.
pub(super) type RefillReceiver = watch::Receiver<Option<RefillResult>>;

/// A limit's key, and the rules of its quota.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) scope: Scope,
    pub(super) key: Key<'static>,
    pub(super) rules: BatchRules,
}

impl Account {
    pub(super) fn request(&self, op: Op, on_store_error: OnStoreError) -> Request<'_> {
        let Account { scope, key, rules } = self;
        Request { scope, key, quota: &rules.quota, op, on_store_error }
    }
}

/// Idle units that were taken out of a balance.
pub(super) struct IdleUnits {
    pub(super) account: Arc<Account>,
    cost: Cost,
    /// The latest time to send them.
    pub(super) deadline: Timestamp,
}

impl IdleUnits {
    /// Returns the request that returns them to the store.
    pub(super) fn refund(&self) -> Request<'_> {
        self.account.request(Op::Refund(self.cost), OnStoreError::Closed)
    }
}

/// The balance of a key, and the state of its refill.
pub(super) struct KeyEntry {
    pub(super) account: Arc<Account>,
    pub(super) balance: Balance,
    refill: Option<RefillReceiver>,
    /// The sum of the costs that wait for the last refill, or have not tried again since.
    waiting: Arc<AtomicU64>,
}

/// A request that waits for a refill, until this is dropped.
pub(super) struct Waiter {
    receiver: RefillReceiver,
    cost: u64,
    waiting: Arc<AtomicU64>,
}

impl Waiter {
    /// Waits for the result. Returns `None` when the refill was dropped.
    pub(super) async fn result(mut self) -> Option<RefillResult> {
        self.receiver.wait_for(Option::is_some).await.ok()?.clone()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.cost, Ordering::Relaxed);
    }
}

/// A refill to send.
pub(super) struct Refill {
    pub(super) account: Arc<Account>,
    pub(super) size: RefillSize,
    /// The policy of the request that needs it.
    pub(super) policy: OnStoreError,
    pub(super) result: watch::Sender<Option<RefillResult>>,
}

impl KeyEntry {
    #[inline]
    fn has_key_of(&self, request: &Request<'_>) -> bool {
        let Account { scope, key, .. } = &*self.account;
        *key == *request.key && scope.is_same(request.scope)
    }

    fn has_quota_of(&self, request: &Request<'_>) -> bool {
        self.account.rules.quota == *request.quota
    }

    /// Returns whether this is the request's key under another quota. Its units are lost: a return counts under the
    /// request's quota, which has not granted them.
    fn is_stale_for(&self, request: &Request<'_>) -> bool {
        self.has_key_of(request) && !self.has_quota_of(request)
    }

    /// Begins a refill, unless one is pending or there is no room for the cost.
    pub(super) fn begin_refill(&mut self, cost: u64, policy: OnStoreError, now: Timestamp) -> Option<Refill> {
        if self.pending_refill().is_some() || !self.balance.can_refill(&self.account.rules, cost, now) {
            return None;
        }
        let (result, receiver) = watch::channel(None);
        self.refill = Some(receiver);
        // Requests that still wait for the last refill will find nothing left of it.
        let others = std::mem::take(&mut self.waiting).load(Ordering::Relaxed);
        let size = self.balance.begin_refill(&self.account.rules, cost, others, now);
        // A local decision of `FallbackStore` grants no units of the store, so there is nothing to batch or to return.
        let policy = if policy == OnStoreError::Local { OnStoreError::Closed } else { policy };
        Some(Refill { account: Arc::clone(&self.account), size, policy, result })
    }

    /// Waits for the pending refill, to spend that much.
    pub(super) fn wait(&mut self, cost: u64) -> Option<Waiter> {
        let receiver = self.pending_refill()?;
        self.waiting.fetch_add(cost, Ordering::Relaxed);
        Some(Waiter { receiver, cost, waiting: Arc::clone(&self.waiting) })
    }

    /// Returns the receiver of the pending refill.
    pub(super) fn pending_refill(&mut self) -> Option<RefillReceiver> {
        match &self.refill {
            Some(refill) if self.balance.is_refilling() && refill.has_changed().is_ok() => Some(refill.clone()),
            _ => {
                // If the balance still expects it, the refill was dropped.
                self.balance.refill_failed();
                self.refill = None;
                None
            }
        }
    }
}

/// The locked shard of a key.
pub(super) struct ShardGuard<'a> {
    shard: MutexGuard<'a, Shard>,
    hash: u64,
}

impl ShardGuard<'_> {
    /// Returns the entry for a request about the key.
    #[inline]
    pub(super) fn entry(&mut self, request: &Request<'_>) -> Option<&mut KeyEntry> {
        // Another key with the same hash is so rare that it is simply not batched.
        self.shard.get_mut(&self.hash).filter(|entry| entry.has_key_of(request) && entry.has_quota_of(request))
    }
}

/// Entries by the hashes of their keys.
type Shard = HashMap<u64, KeyEntry, BuildHasherDefault<IdentityHasher>>;

/// Passes a [`KeyedHash`] through.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
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

/// The table of all balances of a store.
pub(super) struct BalanceTable {
    shards: Box<[Mutex<Shard>]>,
    hash: KeyedHash,
    /// How many keys one shard may have.
    max_keys_per_shard: usize,
    /// No refill begins any more.
    closed: AtomicBool,
}

impl BalanceTable {
    pub(super) fn new(max_keys: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (hash, closed) = (KeyedHash::new(draw_secrets()), AtomicBool::new(false));
        BalanceTable { shards, hash, max_keys_per_shard: max_keys.div_ceil(SHARDS), closed }
    }

    /// Locks the shard of a request's key. Read the clock after this: a thread may wait long for the lock.
    #[inline]
    pub(super) fn lock(&self, request: &Request<'_>) -> ShardGuard<'_> {
        let hash = self.hash.hash(request.scope, request.key);
        // Bits in the middle: the map uses the highest and the lowest.
        ShardGuard { shard: lock_shard(&self.shards[(hash >> 32) as usize % SHARDS]), hash }
    }

    /// Changes the entry for a request, if there is one.
    pub(super) fn with<T>(&self, request: &Request<'_>, change: impl FnOnce(&mut KeyEntry) -> T) -> Option<T> {
        self.lock(request).entry(request).map(change)
    }

    /// Changes the entry of exactly this account. An entry that replaced it, after a change of the quota, did not send its
    /// refill.
    pub(super) fn with_account<T>(&self, account: &Arc<Account>, change: impl FnOnce(&mut KeyEntry) -> T) -> Option<T> {
        let ShardGuard { mut shard, hash } = self.lock(&account.request(Op::Reset, OnStoreError::Closed));
        shard.get_mut(&hash).filter(|entry| Arc::ptr_eq(&entry.account, account)).map(change)
    }

    /// Removes the entry of the request's key if it has another quota.
    pub(super) fn remove_stale(&self, request: &Request<'_>) {
        let ShardGuard { mut shard, hash } = self.lock(request);
        if shard.get(&hash).is_some_and(|entry| entry.is_stale_for(request)) {
            shard.remove(&hash);
        }
    }

    /// Changes the entry for a request, and creates an empty one if there is none for that quota. Returns `None` when the
    /// table is full or closed.
    pub(super) fn with_or_insert<T>(
        &self,
        request: &Request<'_>,
        rules: BatchRules,
        clock: &dyn Sleeper,
        change: impl FnOnce(&mut KeyEntry) -> T,
    ) -> Option<T> {
        let ShardGuard { mut shard, hash } = self.lock(request);
        if self.is_closed() {
            return None;
        }
        let is_stale = shard.get(&hash).is_some_and(|entry| entry.is_stale_for(request));
        if is_stale || !shard.contains_key(&hash) {
            if !is_stale && shard.len() >= self.max_keys_per_shard {
                return None;
            }
            let account = Account { scope: request.scope.clone(), key: request.key.borrow().into_owned(), rules };
            let (account, balance) = (Arc::new(account), Balance::new(clock.now()));
            shard.insert(hash, KeyEntry { account, balance, refill: None, waiting: Arc::default() });
        }
        shard.get_mut(&hash).filter(|entry| entry.has_key_of(request)).map(change)
    }

    /// Takes out the units that were not used for `idle`, and removes the entries that are not needed.
    pub(super) fn take_idle(&self, idle: Duration, clock: &dyn Sleeper) -> Vec<IdleUnits> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            let mut shard = lock_shard(shard);
            let now = clock.now();
            shard.retain(|_, entry| {
                let units = entry.balance.take_idle(&entry.account.rules, idle, now);
                if let Ok(cost) = Cost::new(units) {
                    let (account, deadline) = (Arc::clone(&entry.account), entry.balance.return_deadline(now));
                    taken.push(IdleUnits { account, cost, deadline });
                }
                entry.pending_refill().is_some() || !entry.balance.is_disposable(idle, now)
            });
        }
        taken
    }

    /// Ends the return of idle units: they have arrived.
    pub(super) fn return_arrived(&self, idle: &IdleUnits) {
        self.with_account(&idle.account, |entry| entry.balance.return_arrived(idle.cost.get()));
    }

    /// Prevents new refills, and returns the pending ones.
    pub(super) fn close(&self) -> Vec<RefillReceiver> {
        self.closed.store(true, Ordering::Release);
        // A thread that has a lock now began its refill before this, or sees the flag.
        let pending = self.shards.iter().flat_map(|shard| {
            let mut shard = lock_shard(shard);
            shard.values_mut().filter_map(KeyEntry::pending_refill).collect::<Vec<_>>()
        });
        pending.collect()
    }

    /// Returns whether no refill may begin.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns how many keys have an entry.
    pub(super) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| lock_shard(shard).len()).sum()
    }
}

fn lock_shard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
