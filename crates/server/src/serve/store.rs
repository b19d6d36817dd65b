//! The store that is served from.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tidegate::config::Defaults;
use tidegate::resilience::{Breaker, BreakerState, Fallback, Observed, Timeout};
use tidegate::{
    All, Decision, DynStore, LimiterBuilder, MemoryStats, MemoryStore, Request, Store, StoreError, StoreErrorKind,
    Testing, Timestamp, TokioSleeper,
};

use super::served::label;
use super::snapshot;
use super::watch::{Calls, Timed};
use crate::cli::Serve;
use crate::failure::Failure;
use crate::store::Opened;

/// The store that is served from, as far as it can be looked at.
pub(crate) enum Backing {
    Memory(Arc<MemoryStore>),
    Outside {
        /// What metrics call it.
        name: &'static str,
        store: Arc<dyn DynStore>,
        breaker: Arc<dyn Fn() -> BreakerState + Send + Sync>,
        calls: Arc<Calls>,
    },
}

impl Backing {
    /// Opens the store. What can break gets a timeout, a breaker and each limit's failure policy around it.
    pub(crate) async fn open(serve: &Serve, defaults: &Defaults) -> Result<Self, Failure> {
        Ok(match serve.store.open().await? {
            None => Backing::Memory(Arc::new(memory(serve)?)),
            Some(Opened::Sqlite(store)) => guarded("sqlite", store, defaults),
            Some(Opened::Redis(store)) => guarded("redis", store, defaults),
            Some(Opened::Postgres(store)) => guarded("postgres", store, defaults),
        })
    }

    /// Gives it to a limiter.
    pub(crate) fn give(&self, limiter: LimiterBuilder) -> LimiterBuilder {
        match self {
            Backing::Memory(store) => limiter.store(Arc::clone(store)),
            Backing::Outside { store, .. } => limiter.store(Arc::clone(store)),
        }
    }

    /// The store itself, with what is around it.
    pub(crate) fn store(&self) -> &dyn DynStore {
        match self {
            Backing::Memory(store) => store,
            Backing::Outside { store, .. } => &**store,
        }
    }

    /// One request at a time of a test's. Only memory takes the time.
    pub(crate) async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.for_tests()?.apply_at(request, at).await
    }

    /// All requests or none at a time of a test's. Only memory takes the time.
    pub(crate) async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<All, StoreError> {
        self.for_tests()?.apply_all_at(requests, at).await
    }

    fn for_tests(&self) -> Result<&MemoryStore, StoreError> {
        match self {
            Backing::Memory(store) => Ok(store),
            Backing::Outside { .. } => {
                Err(StoreError::new(StoreErrorKind::Unsupported, "at_us is for --store memory only"))
            }
        }
    }

    /// Keeps what memory holds in the file.
    pub(crate) fn save(&self, path: &Path) -> io::Result<u64> {
        match self {
            Backing::Memory(store) => snapshot::save(path, store),
            Backing::Outside { .. } => Ok(0),
        }
    }

    /// What metrics call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Backing::Memory(_) => "memory",
            Backing::Outside { name, .. } => name,
        }
    }

    /// Whether calls pass the breaker; none where there is none.
    pub(crate) fn breaker(&self) -> Option<BreakerState> {
        match self {
            Backing::Memory(_) => None,
            Backing::Outside { breaker, .. } => Some(breaker()),
        }
    }

    /// How long its calls take; none for memory, which is no call away.
    pub(crate) fn calls(&self) -> Option<&Calls> {
        match self {
            Backing::Memory(_) => None,
            Backing::Outside { calls, .. } => Some(calls),
        }
    }

    /// What memory holds, where that is the store.
    pub(crate) fn memory(&self) -> Option<MemoryStats> {
        match self {
            Backing::Memory(store) => Some(store.stats()),
            Backing::Outside { .. } => None,
        }
    }
}

fn memory(serve: &Serve) -> Result<MemoryStore, Failure> {
    let builder = serve.room.builder();
    match &serve.snapshot {
        Some(path) => snapshot::load(path, builder),
        None => Ok(builder.build()),
    }
}

/// The wrappers of [`tidegate::resilience::Resilience`] in their order, but for the one that counts decisions: those are
/// counted by [`Watch`](super::watch::Watch), whichever store answers.
fn guarded<S: Store + 'static>(name: &'static str, store: S, defaults: &Defaults) -> Backing {
    let calls = Arc::new(Calls::default());
    let timeout = Timeout::new(store, defaults.store_timeout, TokioSleeper);
    let timed = Timed::new(Observed::new(timeout, name), Arc::clone(&calls));
    let fallback = Fallback::new(Breaker::new(timed, name).clock(TokioSleeper)).label(label);
    let store = Arc::new(fallback.expected_replicas(defaults.expected_replicas).clock(TokioSleeper));
    let watched = Arc::clone(&store);
    Backing::Outside { name, store, breaker: Arc::new(move || watched.inner().state()), calls }
}
