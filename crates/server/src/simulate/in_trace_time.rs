//! A store outside of this process, asked in a trace's time.

use std::future::Future;
use std::sync::Arc;

use tidegate::{All, Capabilities, Clock, Decision, ManualClock, Request, Store, StoreError, Testing};
use tokio::runtime::Handle;

use super::leftovers::{Leftovers, in_time};

/// Asks a store at the time that the trace's clock shows, under a prefix of the replay's own.
///
/// It answers where it is asked, and waits there for the store: a trace goes on one line at a time, so nobody else is
/// kept waiting. And to the limiter it is just as the memory store is. A limiter draws the parts of a spread limit anew
/// when it has to ask a second time, because there was no answer at once; so it would draw others than with memory. The
/// prefix is changed here and not in the limiter for the same reason: which part of a sharded limit a key meets goes by
/// the prefix as well.
pub(super) struct InTraceTime<S> {
    store: S,
    clock: ManualClock,
    leftovers: Arc<Leftovers>,
    runtime: Handle,
}

impl<S: Testing> InTraceTime<S> {
    /// Asks `store` on `runtime`. Only from outside of it: whoever asks is kept waiting.
    pub(super) fn new(store: S, clock: ManualClock, leftovers: Arc<Leftovers>, runtime: Handle) -> Self {
        InTraceTime { store, clock, leftovers, runtime }
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }

    async fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let mut used = self.leftovers.used().await;
        used.add(request);
        in_time(self.store.apply_at(&used.moved(request), self.clock.now())).await
    }

    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        let mut used = self.leftovers.used().await;
        requests.iter().for_each(|request| used.add(request));
        let moved: Vec<_> = requests.iter().map(|request| used.moved(request)).collect();
        in_time(self.store.apply_all_at(&moved, self.clock.now())).await
    }
}

impl<S: Testing> Store for InTraceTime<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn apply_now(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        Some(self.wait(self.decide(request)))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.wait(self.decide(request))
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.wait(self.decide_all(requests))
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        // The testing entry takes one at a time.
        requests.iter().map(|request| self.wait(self.decide(request))).collect()
    }

    async fn close(&self) {
        self.wait(self.store.close());
    }
}
