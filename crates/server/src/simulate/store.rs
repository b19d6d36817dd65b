//! The store of a replay: memory on the trace's clock, or an external store, called at the trace's time.

use std::future::Future;
use std::sync::Arc;

use tidegate::store::{Capabilities, DynStore, Request, TestableStore};
use tidegate::{Clock, Decision, JointDecision, LimiterBuilder, ManualClock, MemoryStore, Store, StoreError};
use tokio::runtime::{Builder, Handle, Runtime};

use super::cleanup::{self, WrittenKeys, with_store_timeout};
use crate::Failure;
use crate::cli::MemoryCapacity;
use crate::store_url::{OpenStore, StoreUrl};

/// The store of a replay, on the trace's clock.
pub(super) struct ReplayStore {
    store: StoreKind,
    pub(super) clock: ManualClock,
}

enum StoreKind {
    /// The memory of this process.
    Memory(Arc<MemoryStore>),
    /// A store that outlives the replay.
    External(ExternalStore),
}

impl ReplayStore {
    /// Creates a memory store.
    fn memory(capacity: MemoryCapacity) -> Self {
        let clock = ManualClock::default();
        let store = capacity.builder().clock(clock.clone()).seed(0).build();
        ReplayStore { store: StoreKind::Memory(Arc::new(store)), clock }
    }

    /// Opens the store at `url`; the capacity is that of memory.
    pub(super) fn open(url: &StoreUrl, capacity: MemoryCapacity) -> Result<Self, Failure> {
        let clock = ManualClock::default();
        match ExternalStore::open(url, &clock)? {
            Some(external) => Ok(ReplayStore { store: StoreKind::External(external), clock }),
            None => Ok(ReplayStore::memory(capacity)),
        }
    }

    pub(super) fn attach_to(&self, limiter: LimiterBuilder) -> LimiterBuilder {
        match &self.store {
            StoreKind::Memory(store) => limiter.store(Arc::clone(store)),
            StoreKind::External(external) => limiter.bare_store(Arc::clone(&external.store)),
        }
    }

    /// Removes everything that the replay has written, and closes the store.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        match &mut self.store {
            StoreKind::Memory(_) => Ok(()),
            StoreKind::External(external) => external.finish(),
        }
    }

    /// Returns the number of keys, for people, and a warning if the capacity was too small.
    pub(super) fn summary(&self) -> (String, Option<String>) {
        let store = match &self.store {
            StoreKind::Memory(store) => store,
            StoreKind::External(external) => return (external.summary(), None),
        };
        // Keys with a full quota are evicted at some time; now, so that the number is the same in every run.
        store.sweep();
        let stats = store.stats();
        let warning = (stats.forgotten_busy > 0).then(|| {
            format!(
                "warning: there was no room for all keys, and {} of them were forgotten while they were in use: each got its \
                 quota back, so these decisions are not exact. Try again with a larger --max-keys, or where \
                 limits are sliding logs or the like with a larger --max-bytes\n",
                stats.forgotten_busy
            )
        });
        (format!("keys held at the end: {}\n", stats.keys), warning)
    }
}

/// A store that others use as well, and the keys that the replay has written there.
struct ExternalStore {
    store: Arc<dyn DynStore>,
    written: Arc<WrittenKeys>,
    /// How many keys were removed at the end.
    removed: usize,
    runtime: Runtime,
}

impl ExternalStore {
    /// Opens the store; `None` for memory, which needs no runtime.
    fn open(url: &StoreUrl, clock: &ManualClock) -> Result<Option<Self>, Failure> {
        if url.is_memory() {
            return Ok(None);
        }
        // A thread of its own keeps connections alive and handles signals while the trace is read.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Store(format!("{url} cannot be used: {error}")))?;
        let handle = runtime.handle();
        let (store, written) = match runtime.block_on(url.open())? {
            None => return Ok(None),
            Some(OpenStore::Sqlite(store)) => with_trace_time(url, store, clock, handle),
            Some(OpenStore::Redis(store)) => with_trace_time(url, store, clock, handle),
            Some(OpenStore::Postgres(store)) => with_trace_time(url, store, clock, handle),
        };
        cleanup::remove_on_end_signal(&written, handle);
        Ok(Some(ExternalStore { store, written, removed: 0, runtime }))
    }

    /// Removes everything that was written.
    fn finish(&mut self) -> Result<(), Failure> {
        self.removed = self.runtime.block_on(async {
            let mut written = self.written.lock().await;
            self.written.remove_all(&mut written).await
        })?;
        Ok(())
    }

    fn summary(&self) -> String {
        format!("keys used in the store, and removed again: {}\n", self.removed)
    }
}

fn with_trace_time<S>(
    url: &StoreUrl,
    store: S,
    clock: &ManualClock,
    runtime: &Handle,
) -> (Arc<dyn DynStore>, Arc<WrittenKeys>)
where
    S: TestableStore + Clone + 'static,
{
    let written = Arc::new(WrittenKeys::new(url, store.clone()));
    let store = TraceTimeStore::new(store, clock.clone(), Arc::clone(&written), runtime.clone());
    (Arc::new(store), written)
}

/// Calls a store at the time of the trace's clock, under a prefix of the replay's own.
///
/// It blocks for the store, because a replay has only one line at a time. The prefix changes here and not in the limiter: the
/// shard of a key depends on the limiter's prefix.
struct TraceTimeStore<S> {
    store: S,
    clock: ManualClock,
    written: Arc<WrittenKeys>,
    runtime: Handle,
}

impl<S: TestableStore> TraceTimeStore<S> {
    /// Calls `store` on `runtime`, which callers must be outside of, because they block.
    fn new(store: S, clock: ManualClock, written: Arc<WrittenKeys>, runtime: Handle) -> Self {
        TraceTimeStore { store, clock, written, runtime }
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }

    async fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let mut written = self.written.lock().await;
        written.add(request);
        with_store_timeout(self.store.apply_at(&written.prefixed(request), self.clock.now())).await
    }

    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        let mut written = self.written.lock().await;
        requests.iter().for_each(|request| written.add(request));
        let prefixed: Vec<_> = requests.iter().map(|request| written.prefixed(request)).collect();
        with_store_timeout(self.store.apply_all_at(&prefixed, self.clock.now())).await
    }
}

impl<S: TestableStore> Store for TraceTimeStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    /// Callers block until there is an answer.
    fn is_immediate(&self) -> bool {
        true
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        Some(self.wait(self.decide(request)))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.wait(self.decide(request))
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.wait(self.decide_all(requests))
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        // `apply_at` takes one request at a time.
        requests.iter().map(|request| self.wait(self.decide(request))).collect()
    }

    async fn close(&self) {
        self.wait(self.store.close());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::cli::{Cli, CliCommand};
    use clap::Parser;
    use tidegate::sqlite::SqliteStore;
    use tidegate::{Limiter, Quota, Timestamp, seconds};

    fn ready<T>(answer: impl Future<Output = T>) -> T {
        match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("the answer is not ready"),
        }
    }

    /// No subcommand needs this, but a store must have it.
    #[test]
    fn joint_requests_use_the_time_of_the_trace_and_are_removed() {
        let folder = std::env::temp_dir().join(format!("tidegate-in-trace-time-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("store.db");
        let url = format!("sqlite:{}", path.display());
        let cli = Cli::parse_from(["tidegate", "simulate", "--config", "c", "--trace", "-", "--store", &url]);
        let Some(CliCommand::Simulate(simulate)) = cli.command else { panic!("it is that subcommand") };

        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (clock, sqlite) = (ManualClock::default(), SqliteStore::open(&path).unwrap());
        let written = Arc::new(WrittenKeys::new(&simulate.store.unwrap(), sqlite.clone()));
        let store = TraceTimeStore::new(sqlite, clock.clone(), Arc::clone(&written), runtime.handle().clone());
        let [a, b] = [1, 2].map(|rate| Quota::token_bucket(rate, seconds(1)).unwrap());
        let limiter = Limiter::builder().limit("a", a).limit("b", b).store(store).build().unwrap();
        let both = || ready(limiter.limit_all([limiter.limit("a", "u"), limiter.limit("b", "u")])).unwrap();
        let left = |limit: &str| limiter.check(limit, "u").try_now().unwrap().remaining();

        assert!(both().allowed());
        assert!(!both().allowed());
        assert_eq!((left("a"), left("b")), (0, 1));
        clock.set(Timestamp::from_millis(1_000));
        assert!(both().allowed());

        let removed = runtime.block_on(async {
            let mut keys = written.lock().await;
            written.remove_all(&mut keys).await.unwrap()
        });
        let held = runtime.block_on(SqliteStore::open(&path).unwrap().sweep_at(Timestamp::EPOCH));
        assert_eq!((removed, held), (2, Some(0)));
        let _ = std::fs::remove_dir_all(folder);
    }
}
