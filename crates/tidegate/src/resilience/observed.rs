//! Latency and errors of a store's calls.

use std::fmt;
use std::future::Future;
use std::slice;
use std::sync::Arc;

use tidegate_core::{All, Capabilities, Decision, Key, Request, Scope, Store, StoreError};

use super::telemetry::{self, CallSpan};
use crate::clock::{Clock, SteadyClock};

/// A store whose calls are seen: how long each took, which failed, and a span around each that may wait. What is
/// recorded is listed [here](super#metrics); without the features `metrics` and `tracing` it is nothing.
///
/// A call that its caller drops is not recorded, so this belongs around a [`Timeout`](super::Timeout) and not into it.
pub struct Observed<S> {
    store: S,
    name: Box<str>,
    clock: Arc<dyn Clock>,
}

impl<S> Observed<S> {
    /// A store around `store`, which metrics and spans call `name`.
    pub fn new(store: S, name: &str) -> Self {
        telemetry::describe();
        Observed { store, name: name.into(), clock: Arc::new(SteadyClock) }
    }

    /// What latency is measured on: a clock that nobody can set unless said otherwise.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The store around which this one is.
    pub fn inner(&self) -> &S {
        &self.store
    }

    async fn seen<T: Seen>(&self, call: &'static str, requests: &[Request<'_>], work: impl Future<Output = T>) -> T {
        let span = CallSpan::new(&self.name, call, requests);
        let began = telemetry::began(&*self.clock);
        let answer = span.around(work).await;
        telemetry::ended(began, &*self.clock, &self.name, call);
        answer.errors().for_each(|error| telemetry::failed(&self.name, error));
        span.record(answer.outcome());
        answer
    }
}

/// An answer of a store, as it is told.
trait Seen {
    fn errors(&self) -> impl Iterator<Item = &StoreError>;

    fn outcome(&self) -> &'static str;
}

impl Seen for Result<Decision, StoreError> {
    fn errors(&self) -> impl Iterator<Item = &StoreError> {
        self.as_ref().err().into_iter()
    }

    fn outcome(&self) -> &'static str {
        outcome(self.as_ref().map(Decision::allowed))
    }
}

impl Seen for Result<All, StoreError> {
    fn errors(&self) -> impl Iterator<Item = &StoreError> {
        self.as_ref().err().into_iter()
    }

    fn outcome(&self) -> &'static str {
        outcome(self.as_ref().map(All::allowed))
    }
}

impl Seen for Vec<Result<Decision, StoreError>> {
    fn errors(&self) -> impl Iterator<Item = &StoreError> {
        self.iter().filter_map(|result| result.as_ref().err())
    }

    /// The worst of them.
    fn outcome(&self) -> &'static str {
        let allowed = self.iter().map(|result| result.as_ref().map(Decision::allowed));
        outcome(allowed.reduce(|one, other| Ok(one? & other?)).unwrap_or(Ok(true)))
    }
}

/// The name of what came of a request.
pub(super) fn outcome(allowed: Result<bool, &StoreError>) -> &'static str {
    match allowed {
        Ok(true) => "allowed",
        Ok(false) => "denied",
        Err(_) => "failed",
    }
}

impl<S: fmt::Debug> fmt::Debug for Observed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("store", &self.store).field("name", &self.name).finish_non_exhaustive()
    }
}

impl<S: Store> Store for Observed<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn answers_at_once(&self) -> bool {
        self.store.answers_at_once()
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.store.prefetch(scope, key);
    }

    fn apply_now(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        let began = telemetry::began(&*self.clock);
        let answer = self.store.apply_now(request)?;
        telemetry::ended(began, &*self.clock, &self.name, "apply_now");
        answer.errors().for_each(|error| telemetry::failed(&self.name, error));
        Some(answer)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.seen("apply", slice::from_ref(request), self.store.apply(request)).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.seen("apply_all", requests, self.store.apply_all(requests)).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.seen("apply_each", requests, self.store.apply_each(requests)).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(feature = "testing")]
impl<S: tidegate_core::Testing> tidegate_core::Testing for Observed<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        self.seen("apply", slice::from_ref(request), self.store.apply_at(request, at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: tidegate_core::Timestamp) -> Result<All, StoreError> {
        self.seen("apply_all", requests, self.store.apply_all_at(requests, at)).await
    }

    async fn held_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        self.store.held_at(at).await
    }
}
