//! `InstrumentedStore`: a store's latency and errors, as metrics and spans.

use std::fmt;
use std::future::Future;
use std::slice;
use std::sync::Arc;

use tidegate_core::{Capabilities, Decision, JointDecision, Key, Request, Scope, Store, StoreError};

use crate::clock::{Clock, SteadyClock};
use crate::telemetry::{self, CallSpan};

/// A store that records the latency and errors of its calls, and a span around each call that may wait.
///
/// The [module](super#metrics) lists the metrics. Without the features `metrics` and `tracing` nothing is recorded.
///
/// A call that its caller drops is not recorded. So wrap this around a [`TimeoutStore`](super::TimeoutStore), not the other
/// way round.
pub struct InstrumentedStore<S> {
    store: S,
    name: Box<str>,
    clock: Arc<dyn Clock>,
}

impl<S> InstrumentedStore<S> {
    /// Wraps `store`, which metrics and spans call `name`.
    pub fn new(store: S, name: &str) -> Self {
        telemetry::describe_metrics();
        InstrumentedStore { store, name: name.into(), clock: Arc::new(SteadyClock) }
    }

    /// Sets the clock that measures latency. Defaults to one that cannot be set.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.store
    }

    async fn record<T: StoreResult>(
        &self,
        call: &'static str,
        requests: &[Request<'_>],
        answer: impl Future<Output = T>,
    ) -> T {
        let span = CallSpan::new(&self.name, call, requests);
        let timer = telemetry::start_timer(&*self.clock);
        let answer = span.instrument(answer).await;
        telemetry::record_duration(timer, &*self.clock, &self.name, call);
        answer.errors().for_each(|error| telemetry::record_store_error(&self.name, error));
        span.record(answer.outcome());
        answer
    }
}

/// The result of a store call, whose errors and outcome are recorded.
trait StoreResult {
    fn errors(&self) -> impl Iterator<Item = &StoreError>;

    fn outcome(&self) -> &'static str;
}

impl StoreResult for Result<Decision, StoreError> {
    fn errors(&self) -> impl Iterator<Item = &StoreError> {
        self.as_ref().err().into_iter()
    }

    fn outcome(&self) -> &'static str {
        outcome(self.as_ref().map(Decision::allowed))
    }
}

impl StoreResult for Result<JointDecision, StoreError> {
    fn errors(&self) -> impl Iterator<Item = &StoreError> {
        self.as_ref().err().into_iter()
    }

    fn outcome(&self) -> &'static str {
        outcome(self.as_ref().map(JointDecision::allowed))
    }
}

impl StoreResult for Vec<Result<Decision, StoreError>> {
    fn errors(&self) -> impl Iterator<Item = &StoreError> {
        self.iter().filter_map(|result| result.as_ref().err())
    }

    /// Returns the worst outcome.
    fn outcome(&self) -> &'static str {
        let allowed = self.iter().map(|result| result.as_ref().map(Decision::allowed));
        outcome(allowed.reduce(|one, other| Ok(one? & other?)).unwrap_or(Ok(true)))
    }
}

/// Returns the label of a request's outcome.
fn outcome(allowed: Result<bool, &StoreError>) -> &'static str {
    match allowed {
        Ok(true) => "allowed",
        Ok(false) => "denied",
        Err(_) => "failed",
    }
}

impl<S: fmt::Debug> fmt::Debug for InstrumentedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstrumentedStore")
            .field("store", &self.store)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Store for InstrumentedStore<S> {
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
        let timer = telemetry::start_timer(&*self.clock);
        let answer = self.store.try_apply(request)?;
        telemetry::record_duration(timer, &*self.clock, &self.name, "try_apply");
        answer.errors().for_each(|error| telemetry::record_store_error(&self.name, error));
        Some(answer)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.record("apply", slice::from_ref(request), self.store.apply(request)).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.record("apply_all", requests, self.store.apply_all(requests)).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.record("apply_each", requests, self.store.apply_each(requests)).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(feature = "testing")]
impl<S: tidegate_core::TestableStore> tidegate_core::TestableStore for InstrumentedStore<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        self.record("apply", slice::from_ref(request), self.store.apply_at(request, at)).await
    }

    async fn apply_all_at(
        &self,
        requests: &[Request<'_>],
        at: tidegate_core::Timestamp,
    ) -> Result<JointDecision, StoreError> {
        self.record("apply_all", requests, self.store.apply_all_at(requests, at)).await
    }

    async fn sweep_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        self.store.sweep_at(at).await
    }
}
