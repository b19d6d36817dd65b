//! `DenialCacheStore`: denials are answered from a cache until a retry can succeed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{
    Algorithm, Capabilities, Cost, Decision, DecisionParts, JointDecision, Key, Op, Quota, Reason, Request, Scope,
    Store, StoreError, Timestamp,
};

use crate::clock::{Clock, SteadyClock};
use crate::keyed_hash::KeyedHash;
use crate::random::draw_secrets;

/// A store that caches each denial until its `retry_after`. Meanwhile it denies the same key under the same quota, at the
/// same cost or more, without calling the store, and with the time that is left.
///
/// So a client that retries in a loop costs the store one call each time its quota is replenished, and no more.
///
/// - **A store that fails** is answered for: a denial that is still valid stays one, whatever the failure policy of its limit.
///   With [`DenialCacheStore::only_on_failure`], the cache does this and nothing else.
/// - **Only `limit`** is answered, and only denials by the quota's rate are cached. `check`, `reserve` and leases always
///   reach the store, and so does [`Store::apply_all`] while the store works.
/// - **Early replenishment is seen late.** A `refund` or `reset` through this store takes effect at once. One in another
///   process, or through another store, takes effect when the cached denial expires.
/// - **Times are measured here.** A denial expires `retry_after` after the request was sent, and its `retry_after` counts
///   from the answer. So it never lasts longer than the store said, and a client that waits as told is never too early. For
///   a larger cost, `retry_after` is the latest possible time. `remaining` does not change.
/// - **Do not combine it with `TwoTierStore`**, outside or inside: that answers denials itself, some
///   of them with a later `retry_after` than needed, and requests whole batches, whose denial says nothing about less.
/// - **Memory** is for about [`DenialCacheStore::max_keys`] keys, about 200 bytes each, allocated at once. When the cache is
///   full, a denial is evicted, and the store is called again for its key.
///
/// ```
/// use tidegate::resilience::DenialCacheStore;
/// use tidegate::{Limiter, MemoryStore, Quota, minutes};
///
/// let store = DenialCacheStore::new(MemoryStore::new()); // or a remote store
/// let limiter = Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).store(store).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DenialCacheStore<S> {
    store: S,
    cache: DenialCache,
    only_on_failure: bool,
    clock: Arc<dyn Clock>,
}

impl<S> DenialCacheStore<S> {
    /// Wraps `store`, with the default settings.
    pub fn new(store: S) -> Self {
        DenialCacheStore {
            store,
            cache: DenialCache::new(10_000),
            only_on_failure: false,
            clock: Arc::new(SteadyClock),
        }
    }

    /// Sets whether the cache answers only when the store fails. Defaults to no.
    #[must_use]
    pub fn only_on_failure(mut self, only_on_failure: bool) -> Self {
        self.only_on_failure = only_on_failure;
        self
    }

    /// Sets for how many keys a denial is cached. Defaults to 10,000; 0 turns the cache off.
    #[must_use]
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.cache = DenialCache::new(keys);
        self
    }

    /// Sets the clock of the cache. Defaults to one that cannot be set. When a clock is set back, denials last longer by as
    /// much.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns how many denials are cached, including expired ones that are not replaced yet.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Answers from the cache, or prepares a call to the store.
    fn begin<'a>(&'a self, request: &'a Request<'a>) -> Result<Decision, PendingCall<'a>> {
        let miss = match request.op {
            Op::Limit(cost) if !self.cache.is_disabled() => {
                let now = self.clock.now();
                match self.cache.find(request, cost, now) {
                    (_, Some(decision)) if !self.only_on_failure => return Ok(decision),
                    (entry, _) => Some((entry, now)),
                }
            }
            _ => None,
        };
        Err(PendingCall { cache: &self.cache, clock: &*self.clock, request, miss })
    }
}

/// A request that is on its way to the store.
struct PendingCall<'a> {
    cache: &'a DenialCache,
    clock: &'a dyn Clock,
    request: &'a Request<'a>,
    /// The entry for a denial, and when the request was sent.
    miss: Option<(EntryId, Timestamp)>,
}

impl PendingCall<'_> {
    /// Caches the answer if it is a denial. Answers from the cache if the store failed.
    fn end(self, result: Result<Decision, StoreError>) -> Result<Decision, StoreError> {
        match &result {
            Ok(decision) if decision.allowed() => remove_after_admission(self.cache, self.request),
            Ok(decision) => self.insert(decision),
            Err(error) => return self.cached_denial(error).map_or(result, Ok),
        }
        result
    }

    fn insert(&self, decision: &Decision) {
        let (Some((entry, sent)), Op::Limit(cost)) = (self.miss, self.request.op) else { return };
        let now = self.clock.now();
        if let Some(denial) = CachedDenial::from_decision(self.request.quota, cost, decision, sent, now) {
            self.cache.insert(entry, denial, now);
        }
    }

    /// Returns the denial that is still valid for a request that the store failed with `error`.
    fn cached_denial(&self, error: &StoreError) -> Option<Decision> {
        match self.request.op {
            Op::Limit(cost) if error.is_retryable() && !self.cache.is_disabled() => {
                self.cache.find(self.request, cost, self.clock.now()).1
            }
            _ => None,
        }
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        // Whatever the result: after an error or a dropped call, the store may have applied it.
        if is_refund(self.request) {
            self.cache.remove(self.request);
        }
    }
}

fn remove_after_admission(cache: &DenialCache, request: &Request<'_>) {
    if let Op::Limit(cost) | Op::Reserve(cost) = request.op {
        cache.remove_outdated(request, cost);
    }
}

/// Returns whether the key of a request is in no other request.
fn is_only_one(request: &Request<'_>, requests: &[Request<'_>]) -> bool {
    requests.iter().filter(|other| other.scope == request.scope && other.key == request.key).count() == 1
}

/// Returns the decision of a request in a joint call that another request's cached denial decides: its own denial, or that
/// nothing is known and nothing was taken.
fn unknown_beside_denial((denial, request): (Option<Decision>, &Request<'_>)) -> Decision {
    denial.unwrap_or_else(|| Decision::admitted_without_store(request.quota.parts().capacity))
}

/// Returns whether a key may have more quota after this request.
fn is_refund(request: &Request<'_>) -> bool {
    matches!(request.op, Op::Refund(_) | Op::Reset)
}

/// A cached denial.
#[derive(Clone, Copy)]
struct CachedDenial {
    quota: Quota,
    cost: u64,
    parts: DecisionParts,
    /// Its `retry_after`, in microseconds.
    retry: u64,
    /// When the answer arrived.
    arrived: Timestamp,
    expires: Timestamp,
}

impl CachedDenial {
    /// Returns the denial to cache for a decision, if any. The request was sent at `sent`, the answer arrived at `arrived`.
    fn from_decision(
        quota: &Quota,
        cost: Cost,
        decision: &Decision,
        sent: Timestamp,
        arrived: Timestamp,
    ) -> Option<Self> {
        let parts = decision.into_parts();
        let retry = parts.retry_after.filter(|_| !parts.allowed && parts.reason == Some(Reason::Rate))?;
        // The store decided between these two times, and `retry_after` counts from then. With expiry measured from the
        // earlier and answers from the later one, the cache neither denies what the store would admit nor promises a time
        // that is too early.
        let expires = Timestamp::from_micros(sent.as_micros().saturating_add(retry));
        (arrived < expires).then_some(CachedDenial { quota: *quota, cost: cost.get(), parts, retry, arrived, expires })
    }

    /// Returns the answer for `cost` under `quota` at `now`, or `None` when the store must decide.
    fn answer(&self, quota: &Quota, cost: Cost, now: Timestamp) -> Option<Decision> {
        let cost = cost.get();
        let applies = self.quota == *quota
            && (self.cost..=u64::from(self.parts.limit)).contains(&cost)
            // After a clock was set back, spans say nothing.
            && (self.arrived..self.expires).contains(&now);
        if !applies {
            return None;
        }
        let passed = now.as_micros() - self.arrived.as_micros();
        let (retry, reset) = (self.retry - passed, self.parts.reset_after.saturating_sub(passed));
        let longer = self.replenished_after(cost - self.cost).and_then(|longer| retry.checked_add(longer));
        let parts = DecisionParts {
            // For a larger cost, the latest possible time. It is never later than the full quota.
            retry_after: Some(longer.unwrap_or(reset).min(reset).max(retry)),
            // A unit may have been replenished since. The next answer of the store tells.
            next_after: Some(self.parts.next_after.and_then(|next| next.checked_sub(passed)).unwrap_or(retry)),
            reset_after: reset,
            ..self.parts
        };
        Some(parts.into())
    }

    /// Returns in how many microseconds that many units are replenished at the latest, where the quota alone tells.
    fn replenished_after(&self, units: u64) -> Option<u64> {
        let parts = self.quota.parts();
        let (rate, period) = (u128::from(parts.rate), parts.period.as_micros());
        let span = match parts.algorithm {
            _ if units == 0 => 0,
            Algorithm::TokenBucket => (u128::from(units) * period).div_ceil(rate),
            Algorithm::FixedWindow => u128::from(units).div_ceil(rate) * period,
            _ => return None,
        };
        u64::try_from(span).ok()
    }

    /// Returns whether the other denial answers every request that this one does.
    fn is_covered_by(&self, other: &CachedDenial) -> bool {
        self.quota == other.quota && self.cost >= other.cost && self.expires <= other.expires
    }
}

/// How many keys share a set of the cache.
const ENTRIES_PER_SET: usize = 4;

/// A set-associative cache of denials: its size is fixed, however many keys there are.
struct DenialCache {
    sets: Box<[Mutex<CacheSet>]>,
    hash: KeyedHash,
}

#[derive(Default)]
struct CacheSet {
    entries: [Option<(u64, CachedDenial)>; ENTRIES_PER_SET],
    /// How many refunds and resets there were for keys of this set.
    refunds: u64,
}

/// A key's hash, and the refund count of its set when the store was called.
#[derive(Clone, Copy)]
struct EntryId {
    hash: u64,
    refunds: u64,
}

impl DenialCache {
    fn new(keys: usize) -> Self {
        let sets = (0..keys.div_ceil(ENTRIES_PER_SET)).map(|_| Mutex::default()).collect();
        DenialCache { sets, hash: KeyedHash::new(draw_secrets()) }
    }

    fn is_disabled(&self) -> bool {
        self.sets.is_empty()
    }

    /// Returns the key's entry, and the denial of a request for `cost` if one is cached.
    fn find(&self, request: &Request<'_>, cost: Cost, now: Timestamp) -> (EntryId, Option<Decision>) {
        let hash = self.hash.hash(request.scope, request.key);
        let set = self.set(hash);
        let denial = set.entries.iter().flatten().find(|(known, _)| *known == hash);
        let decision = denial.and_then(|(_, denial)| denial.answer(request.quota, cost, now));
        (EntryId { hash, refunds: set.refunds }, decision)
    }

    /// Caches a denial, unless there was a refund since the store was called: which of the two came first is unknown. In a
    /// full set, the entry that expires first is evicted.
    fn insert(&self, EntryId { hash, refunds }: EntryId, denial: CachedDenial, now: Timestamp) {
        let mut set = self.set(hash);
        if set.refunds != refunds {
            return;
        }
        let rank = |entry: &Option<(u64, CachedDenial)>| match entry {
            Some((known, _)) if *known == hash => Timestamp::EPOCH,
            Some((_, known)) if known.expires > now => known.expires,
            _ => Timestamp::from_micros(1),
        };
        let Some(entry) = set.entries.iter_mut().min_by_key(|entry| rank(entry)) else { return };
        let stays = match entry {
            Some((known_hash, known)) if *known_hash == hash => known.expires > now && denial.is_covered_by(known),
            Some((_, known)) => known.expires > now && known.expires > denial.expires,
            None => false,
        };
        if !stays {
            *entry = Some((hash, denial));
        }
    }

    /// Removes the denial of a key that got a refund or was reset.
    fn remove(&self, request: &Request<'_>) {
        if self.is_disabled() {
            return;
        }
        let hash = self.hash.hash(request.scope, request.key);
        let mut set = self.set(hash);
        set.refunds += 1;
        for entry in &mut set.entries {
            entry.take_if(|(known, _)| *known == hash);
        }
    }

    /// Removes the denial of a key that was admitted at `cost` where that contradicts the denial: a refund elsewhere has ended
    /// it. Removes it as well after an admission under another quota: from now on the key's usage counts under the new quota,
    /// and may have been replenished under the old one when that is used next.
    fn remove_outdated(&self, request: &Request<'_>, cost: Cost) {
        if self.is_disabled() {
            return;
        }
        let hash = self.hash.hash(request.scope, request.key);
        for entry in &mut self.set(hash).entries {
            entry.take_if(|(known, denial)| {
                *known == hash && (denial.quota != *request.quota || denial.cost <= cost.get())
            });
        }
    }

    /// Returns the number of entries, expired ones included.
    fn len(&self) -> usize {
        self.sets.iter().map(|set| lock(set).entries.iter().flatten().count()).sum()
    }

    fn set(&self, hash: u64) -> MutexGuard<'_, CacheSet> {
        lock(&self.sets[(hash % self.sets.len() as u64) as usize])
    }
}

fn lock(set: &Mutex<CacheSet>) -> MutexGuard<'_, CacheSet> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: fmt::Debug> fmt::Debug for DenialCacheStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max_keys = ENTRIES_PER_SET * self.cache.sets.len();
        f.debug_struct("DenialCacheStore")
            .field("store", &self.store)
            .field("max_keys", &max_keys)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Store for DenialCacheStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn is_immediate(&self) -> bool {
        self.store.is_immediate()
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.store.prefetch(scope, key);
    }

    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        self.store.partition(scope, key)
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        match self.begin(request) {
            Ok(decision) => Some(Ok(decision)),
            Err(pending) => {
                let result = self.store.try_apply(request)?;
                Some(pending.end(result))
            }
        }
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        match self.begin(request) {
            Ok(decision) => Ok(decision),
            Err(pending) => {
                let result = self.store.apply(request).await;
                pending.end(result)
            }
        }
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        let now = self.clock.now();
        let miss = |request: &Request<'_>| match request.op {
            // The denial of a key that is there twice says nothing about one of the two.
            Op::Limit(cost) if !self.cache.is_disabled() && is_only_one(request, requests) => {
                Some((self.cache.find(request, cost, now).0, now))
            }
            _ => None,
        };
        let pending: Vec<_> = requests
            .iter()
            .map(|request| PendingCall { cache: &self.cache, clock: &*self.clock, request, miss: miss(request) })
            .collect();
        let result = self.store.apply_all(requests).await;
        match &result {
            Ok(joint) if joint.allowed() => {
                requests.iter().for_each(|request| remove_after_admission(&self.cache, request));
            }
            Ok(joint) => {
                let denied = pending.iter().zip(joint.decisions()).filter(|(_, decision)| !decision.allowed());
                denied.for_each(|(pending, decision)| pending.insert(decision));
            }
            Err(error) => {
                let denials: Vec<_> = pending.iter().map(|pending| pending.cached_denial(error)).collect();
                if denials.iter().any(Option::is_some) {
                    return Ok(JointDecision::new(
                        denials.into_iter().zip(requests).map(unknown_beside_denial).collect(),
                    ));
                }
            }
        }
        result
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        if requests.iter().any(is_refund) {
            // The store applies them in order: a later request may be admitted because of the refund.
            let _refunds: Vec<_> =
                requests.iter().filter(|request| is_refund(request)).map(|request| self.begin(request)).collect();
            let results = self.store.apply_each(requests).await;
            let decided = requests.iter().zip(&results);
            let allowed = decided.filter(|(_, result)| result.as_ref().is_ok_and(Decision::allowed));
            allowed.for_each(|(request, _)| remove_after_admission(&self.cache, request));
            return results;
        }
        let begun: Vec<_> = requests.iter().map(|request| self.begin(request)).collect();
        let misses = requests.iter().zip(&begun).filter(|(_, begun)| begun.is_err());
        let misses: Vec<_> = misses.map(|(request, _)| *request).collect();
        // Without a miss there is no call.
        let results = if misses.is_empty() { Vec::new() } else { self.store.apply_each(&misses).await };
        let mut results = results.into_iter();
        let answer = |begun: Result<Decision, PendingCall<'_>>| match begun {
            Ok(decision) => Ok(decision),
            Err(pending) => pending.end(results.next().expect("a result for each request")),
        };
        begun.into_iter().map(answer).collect()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

/// Bypasses the cache: a test's time is not this store's.
#[cfg(feature = "testing")]
impl<S: tidegate_core::TestableStore> tidegate_core::TestableStore for DenialCacheStore<S> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.store.apply_at(request, at).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.store.apply_all_at(requests, at).await
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        self.store.sweep_at(at).await
    }
}
