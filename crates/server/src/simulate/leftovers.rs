//! What a replay has written to a store that outlives it, and has to remove again.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use tidegate::{
    Clock, DynStore, Key, OnStoreError, Op, Quota, Request, Scope, Store, StoreError, StoreErrorKind, SystemClock,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::failure::Failure;
use crate::store::StoreUrl;

/// How long a store may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many keys are removed at a time.
const TOGETHER: usize = 256;

/// What has been written, and where. A state that is written in a trace's time has no lifetime, so it stays until it is
/// removed.
pub(super) struct Leftovers {
    url: StoreUrl,
    store: Box<dyn DynStore>,
    used: Mutex<Used>,
}

/// The keys that were used, by limit.
pub(super) struct Used {
    /// What the names of all keys of this replay begin with, and no others.
    prefix: String,
    limits: HashMap<String, UsedLimit>,
}

struct UsedLimit {
    scope: Scope,
    /// With the quota that each was asked under: what is as good as new under another, a store need not remove.
    keys: HashMap<Key<'static>, Quota>,
}

impl Leftovers {
    pub(super) fn new(url: &StoreUrl, store: impl Store + 'static) -> Self {
        let prefix = format!("simulate-{}-{}", std::process::id(), SystemClock.now().as_micros());
        let used = Mutex::new(Used { prefix, limits: HashMap::new() });
        Leftovers { url: url.clone(), store: Box::new(store), used }
    }

    /// The keys that were used. Whoever asks the store holds on to this meanwhile: so nothing is written while, or after,
    /// it is being removed.
    pub(super) async fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().await
    }

    /// Removes everything and closes the store, and says how many keys that were.
    pub(super) async fn clear(&self, used: &mut Used) -> Result<usize, Failure> {
        let removed = self.remove(used).await;
        self.store.close().await;
        removed.map_err(|error| {
            let (url, prefix, left, why) = (&self.url, &used.prefix, used.len(), self.url.in_full(&error));
            let advice = url.how_to_remove(prefix).unwrap_or_default();
            Failure::Store(format!("{url}: up to {left} keys under {prefix} could not be removed: {why}\n{advice}"))
        })
    }

    async fn remove(&self, used: &mut Used) -> Result<usize, StoreError> {
        let mut removed = 0;
        for limit in used.limits.values_mut() {
            let requests: Vec<Request<'_>> = limit.requests(Op::Reset).collect();
            for some in requests.chunks(TOGETHER) {
                in_time(async {
                    self.store.apply_each(some).await.into_iter().try_for_each(|answer| answer.map(drop))
                })
                .await?;
                removed += some.len();
            }
            limit.keys.clear();
        }
        Ok(removed)
    }
}

impl Used {
    /// Takes down what is about to be asked: whether it was written is not known when the store fails.
    pub(super) fn add(&mut self, request: &Request<'_>) {
        let name = request.scope.limit();
        if !self.limits.contains_key(name) {
            let limit = UsedLimit { scope: Scope::new(&self.prefix, name), keys: HashMap::new() };
            self.limits.insert(name.to_owned(), limit);
        }
        let limit = self.limits.get_mut(name).expect("it was added");
        if !matches!(request.op, Op::Check(_) | Op::Reset) && !limit.keys.contains_key(request.key) {
            limit.keys.insert(request.key.clone().into_owned(), *request.quota);
        }
    }

    /// The same request, under the prefix of this replay.
    pub(super) fn moved<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        Request { scope: &self.limits[request.scope.limit()].scope, ..*request }
    }

    /// How many keys there may be in the store.
    fn len(&self) -> usize {
        self.limits.values().map(|limit| limit.keys.len()).sum()
    }
}

impl UsedLimit {
    /// One request for each key.
    fn requests(&self, op: Op) -> impl Iterator<Item = Request<'_>> {
        let (scope, on_store_error) = (&self.scope, OnStoreError::Closed);
        self.keys.iter().map(move |(key, quota)| Request { scope, key, quota, op, on_store_error })
    }
}

/// An answer, or that none came in time.
pub(super) async fn in_time<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} seconds", PATIENCE.as_secs());
        Err(StoreError::new(StoreErrorKind::Timeout, message))
    })
}
