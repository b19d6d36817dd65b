//! Removes the keys that a replay has written to a store that outlives it, at its end or on a signal.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate::store::{DynStore, Op, Request, Scope};
use tidegate::{Clock, Key, OnStoreError, Quota, Store, StoreError, StoreErrorKind, SystemClock};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, MutexGuard};

use crate::store_url::StoreUrl;
use crate::{Failure, print_message};

/// How long a store may take to answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many keys are removed at a time.
const REMOVE_BATCH: usize = 256;

/// The keys that a replay has written, and the store. State at a trace's time has no lifetime, so it stays until it is
/// removed.
pub(super) struct WrittenKeys {
    url: StoreUrl,
    store: Box<dyn DynStore>,
    keys: Mutex<KeysByLimit>,
}

/// The keys by limit.
pub(super) struct KeysByLimit {
    /// The prefix of all keys of this replay and no others.
    prefix: String,
    limits: HashMap<String, LimitKeys>,
}

struct LimitKeys {
    scope: Scope,
    /// With the quota of each: a store need not remove a key that is as good as new under another quota.
    keys: HashMap<Key<'static>, Quota>,
}

impl WrittenKeys {
    pub(super) fn new(url: &StoreUrl, store: impl Store + 'static) -> Self {
        let prefix = format!("simulate-{}-{}", std::process::id(), SystemClock.now().as_micros());
        let keys = Mutex::new(KeysByLimit { prefix, limits: HashMap::new() });
        WrittenKeys { url: url.clone(), store: Box::new(store), keys }
    }

    /// Locks the keys. Every call of the store holds the lock, so that nothing is written during or after the removal.
    pub(super) async fn lock(&self) -> MutexGuard<'_, KeysByLimit> {
        self.keys.lock().await
    }

    /// Removes all keys and closes the store, and returns how many keys they were.
    pub(super) async fn remove_all(&self, keys: &mut KeysByLimit) -> Result<usize, Failure> {
        let removed = self.try_remove_all(keys).await;
        self.store.close().await;
        removed.map_err(|error| {
            let (url, prefix, left, why) = (&self.url, &keys.prefix, keys.len(), self.url.describe_error(&error));
            let advice = url.removal_advice(prefix).unwrap_or_default();
            Failure::Store(format!("{url}: up to {left} keys under {prefix} could not be removed: {why}\n{advice}"))
        })
    }

    async fn try_remove_all(&self, keys: &mut KeysByLimit) -> Result<usize, StoreError> {
        let mut removed = 0;
        for limit in keys.limits.values_mut() {
            let requests: Vec<Request<'_>> = limit.requests(Op::Reset).collect();
            for some in requests.chunks(REMOVE_BATCH) {
                with_store_timeout(async {
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

impl KeysByLimit {
    /// Adds the key of a request before the call: if the store fails, it may still have written it.
    pub(super) fn add(&mut self, request: &Request<'_>) {
        let name = request.scope.limit();
        if !self.limits.contains_key(name) {
            let limit = LimitKeys { scope: Scope::new(&self.prefix, name), keys: HashMap::new() };
            self.limits.insert(name.to_owned(), limit);
        }
        let limit = self.limits.get_mut(name).expect("it was added");
        if !matches!(request.op, Op::Check(_) | Op::Reset) && !limit.keys.contains_key(request.key) {
            limit.keys.insert(request.key.clone().into_owned(), *request.quota);
        }
    }

    /// Puts a request under the prefix of this replay.
    pub(super) fn prefixed<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        Request { scope: &self.limits[request.scope.limit()].scope, ..*request }
    }

    /// Returns how many keys the store may have.
    fn len(&self) -> usize {
        self.limits.values().map(|limit| limit.keys.len()).sum()
    }
}

impl LimitKeys {
    /// Returns a request for each key.
    fn requests(&self, op: Op) -> impl Iterator<Item = Request<'_>> {
        let (scope, on_store_error) = (&self.scope, OnStoreError::Closed);
        self.keys.iter().map(move |(key, quota)| Request { scope, key, quota, op, on_store_error })
    }
}

/// Limits the time of a call of the store.
pub(super) async fn with_store_timeout<T>(
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(STORE_TIMEOUT, answer).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} seconds", STORE_TIMEOUT.as_secs());
        Err(StoreError::new(StoreErrorKind::Timeout, message))
    })
}

/// Removes the keys before a signal ends the program.
#[cfg(unix)]
pub(super) fn remove_on_end_signal(written: &Arc<WrittenKeys>, runtime: &Handle) {
    use tokio::signal::unix::{SignalKind as Kind, signal};

    let _inside = runtime.enter();
    // The exit codes that a shell reports for a program that a signal has ended.
    let ends = [(Kind::hangup(), 129), (Kind::interrupt(), 130), (Kind::quit(), 131), (Kind::terminate(), 143)];
    for (kind, code) in ends.into_iter().filter(|(kind, _)| !is_ignored(kind.as_raw_value())) {
        // Without a handler, the signal ends the program as usual.
        let Ok(mut signal) = signal(kind) else { continue };
        let written = Arc::clone(written);
        runtime.spawn(async move {
            if signal.recv().await.is_some() {
                clean_up_and_exit(&written, code).await;
            }
        });
    }
}

/// Whether the parent process has made the program ignore this signal, as `nohup` does, as far as that is known.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}

/// Removes the keys before Ctrl-C ends the program.
#[cfg(not(unix))]
pub(super) fn remove_on_end_signal(written: &Arc<WrittenKeys>, runtime: &Handle) {
    let written = Arc::clone(written);
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            clean_up_and_exit(&written, 130).await;
        }
    });
}

async fn clean_up_and_exit(written: &WrittenKeys, code: i32) {
    // Locked until the exit, so that nothing more is written.
    let mut keys = written.lock().await;
    match written.remove_all(&mut keys).await {
        Ok(removed) => print_message(&format!("stopped; keys used in the store, and removed again: {removed}")),
        Err(failure) => print_message(&failure.to_string()),
    }
    std::process::exit(code);
}
