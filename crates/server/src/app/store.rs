//! `AppStore`: the store behind the app, with its resilience wrappers, breaker state and call statistics.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tidegate::config::Defaults;
use tidegate::resilience::{
    BreakerState, BreakerStore, BulkheadStore, DenialCacheStore, FallbackStore, InstrumentedStore, TimeoutStore,
};
use tidegate::store::{DynStore, Request, TestableStore};
use tidegate::{
    Decision, JointDecision, LimiterBuilder, MemoryStats, MemoryStore, SteadySleeper, Store, StoreError,
    StoreErrorKind, Timestamp, TokioSleeper,
};

use super::config::metric_label;
use super::snapshot;
use super::stats::{StoreCalls, recorder};
use crate::Failure;
use crate::cli::Serve;
use crate::store_url::{OpenStore, StoreUrl};

/// The store behind the app.
pub(crate) enum AppStore {
    Memory(Arc<MemoryStore>),
    External {
        /// The label in metrics.
        name: &'static str,
        store: Arc<dyn DynStore>,
        breaker: Arc<dyn Fn() -> BreakerState + Send + Sync>,
        calls: Arc<StoreCalls>,
    },
}

impl AppStore {
    /// Opens the store. One outside of this process gets a timeout, a breaker and each limit's failure policy.
    pub(crate) async fn open(serve: &Serve, url: &StoreUrl, defaults: &Defaults) -> Result<Self, Failure> {
        Ok(match url.open().await? {
            None => AppStore::Memory(Arc::new(open_memory(serve)?)),
            Some(OpenStore::Sqlite(store)) => with_resilience("sqlite", store, defaults),
            Some(OpenStore::Redis(store)) => with_resilience("redis", store, defaults),
            Some(OpenStore::Postgres(store)) => with_resilience("postgres", store, defaults),
        })
    }

    /// Sets it as the store of a limiter, whose decisions [`Stats`](super::stats::Stats) counts.
    pub(crate) fn attach_to(&self, limiter: LimiterBuilder) -> LimiterBuilder {
        let limiter = limiter.count_decisions(false);
        match self {
            AppStore::Memory(store) => limiter.store(Arc::clone(store)),
            AppStore::External { store, .. } => limiter.store(Arc::clone(store)),
        }
    }

    /// Returns the store with its wrappers.
    pub(crate) fn as_dyn(&self) -> &dyn DynStore {
        match self {
            AppStore::Memory(store) => store,
            AppStore::External { store, .. } => &**store,
        }
    }

    /// Applies one request at a test's time, on the memory store only.
    pub(crate) async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.testing_store()?.apply_at(request, at).await
    }

    /// Applies all requests or none at a test's time, on the memory store only.
    pub(crate) async fn apply_all_at(
        &self,
        requests: &[Request<'_>],
        at: Timestamp,
    ) -> Result<JointDecision, StoreError> {
        self.testing_store()?.apply_all_at(requests, at).await
    }

    fn testing_store(&self) -> Result<&MemoryStore, StoreError> {
        match self {
            AppStore::Memory(store) => Ok(store),
            AppStore::External { .. } => {
                Err(StoreError::new(StoreErrorKind::Unsupported, "at_us is for --store memory only"))
            }
        }
    }

    /// Saves the memory store to a file.
    pub(crate) fn save_snapshot(&self, path: &Path) -> io::Result<u64> {
        match self {
            AppStore::Memory(store) => snapshot::save(path, store),
            AppStore::External { .. } => Ok(0),
        }
    }

    /// Returns the label in metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            AppStore::Memory(_) => "memory",
            AppStore::External { name, .. } => name,
        }
    }

    /// Returns the state of the breaker; `None` for memory, which has none.
    pub(crate) fn breaker(&self) -> Option<BreakerState> {
        match self {
            AppStore::Memory(_) => None,
            AppStore::External { breaker, .. } => Some(breaker()),
        }
    }

    /// Returns the latency and errors of its calls; `None` for memory.
    pub(crate) fn calls(&self) -> Option<&StoreCalls> {
        match self {
            AppStore::Memory(_) => None,
            AppStore::External { calls, .. } => Some(calls),
        }
    }

    /// Returns the statistics of the memory store; `None` for another one.
    pub(crate) fn memory(&self) -> Option<MemoryStats> {
        match self {
            AppStore::Memory(store) => Some(store.stats()),
            AppStore::External { .. } => None,
        }
    }
}

fn open_memory(serve: &Serve) -> Result<MemoryStore, Failure> {
    let builder = serve.capacity.builder();
    match &serve.snapshot {
        Some(path) => snapshot::load(path, builder),
        None => Ok(builder.build()),
    }
}

/// Adds the wrappers of [`tidegate::resilience::Resilience`] in their order.
fn with_resilience<S: Store + 'static>(name: &'static str, store: S, defaults: &Defaults) -> AppStore {
    let timeout = TimeoutStore::new(store, defaults.store_timeout, TokioSleeper);
    let breaker = BreakerStore::new(InstrumentedStore::new(timeout, name), name).clock(TokioSleeper);
    let bulkhead = BulkheadStore::new(breaker, name, defaults.store_timeout, SteadySleeper);
    let denial_cache = DenialCacheStore::new(bulkhead).only_on_failure(true);
    let fallback = FallbackStore::new(denial_cache).label(metric_label);
    let store = Arc::new(fallback.expected_replicas(defaults.expected_replicas).clock(TokioSleeper));
    let observed = Arc::clone(&store);
    AppStore::External {
        name,
        store,
        breaker: Arc::new(move || observed.inner().inner().inner().state()),
        calls: recorder::store_calls(),
    }
}
