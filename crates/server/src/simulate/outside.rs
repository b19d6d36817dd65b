//! A replay on a store that outlives it.

use std::sync::Arc;

use tidegate::{DynStore, ManualClock, Testing};
use tokio::runtime::{Builder, Handle, Runtime};

use super::in_trace_time::InTraceTime;
use super::leftovers::Leftovers;
use super::stop;
use crate::failure::Failure;
use crate::store::{Opened, StoreUrl};

/// A store that others use as well, and what the replay has written there.
pub(crate) struct Outside {
    pub(super) store: Arc<dyn DynStore>,
    leftovers: Arc<Leftovers>,
    /// How many keys were removed in the end.
    removed: usize,
    runtime: Runtime,
}

impl Outside {
    /// Opens the store; none for memory, for which no runtime is needed either.
    pub(super) fn open(url: &StoreUrl, clock: &ManualClock) -> Result<Option<Self>, Failure> {
        if url.is_memory() {
            return Ok(None);
        }
        // A thread of its own, so that connections stay alive and a signal is heard while a trace is waited for.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Store(format!("{url} cannot be used: {error}")))?;
        let handle = runtime.handle();
        let (store, leftovers) = match runtime.block_on(url.open())? {
            None => return Ok(None),
            Some(Opened::Sqlite(store)) => in_trace_time(url, store, clock, handle),
            Some(Opened::Redis(store)) => in_trace_time(url, store, clock, handle),
            Some(Opened::Postgres(store)) => in_trace_time(url, store, clock, handle),
        };
        stop::clean_up_when_stopped(&leftovers, handle);
        Ok(Some(Outside { store, leftovers, removed: 0, runtime }))
    }

    /// Removes all that was written.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.removed = self.runtime.block_on(async {
            let mut used = self.leftovers.used().await;
            self.leftovers.clear(&mut used).await
        })?;
        Ok(())
    }

    pub(super) fn summary(&self) -> String {
        format!("keys used in the store, and removed again: {}\n", self.removed)
    }
}

fn in_trace_time<S>(
    url: &StoreUrl,
    store: S,
    clock: &ManualClock,
    runtime: &Handle,
) -> (Arc<dyn DynStore>, Arc<Leftovers>)
where
    S: Testing + Clone + 'static,
{
    let leftovers = Arc::new(Leftovers::new(url, store.clone()));
    let store = InTraceTime::new(store, clock.clone(), Arc::clone(&leftovers), runtime.clone());
    (Arc::new(store), leftovers)
}
